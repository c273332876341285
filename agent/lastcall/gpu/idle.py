"""How much of the last minutes a GPU was idle."""

from __future__ import annotations

from collections import deque

_POINTS = 240


class Idle:
    """The idle share of a moving window, from single looks at the GPU's utilization.

    Between two looks, the mean of both holds. What is kept is how long the GPU had been busy in all
    at a point in time, so that points can be left out where looks are many, and no look is lost.

    Args:
        window_seconds: how far back it goes.
    """

    def __init__(self, window_seconds: float = 600.0) -> None:
        self._window_seconds = window_seconds
        self._step_seconds = window_seconds / _POINTS
        self._points: deque[tuple[float, float]] = deque()
        self._last_ratio = 0.0

    def add(self, at: float, utilization_ratio: float) -> None:
        """Take a look.

        Args:
            at: when, in seconds on the monotonic clock; one that is not after the last is ignored.
            utilization_ratio: how busy the GPU was, from 0 to 1.
        """
        points, ratio = self._points, min(1.0, max(0.0, utilization_ratio))
        if points and at <= points[-1][0]:
            return
        if points and at - points[-1][0] > self._window_seconds:
            points.clear()
        busy_seconds = 0.0
        if points:
            last_at, last_busy_seconds = points[-1]
            busy_seconds = last_busy_seconds + (at - last_at) * (ratio + self._last_ratio) / 2
        if len(points) > 1 and at - points[-2][0] < self._step_seconds:
            points.pop()
        points.append((at, busy_seconds))
        self._last_ratio = ratio
        while len(points) > 2 and points[1][0] <= at - self._window_seconds:
            points.popleft()

    def ratio(self, at: float) -> float | None:
        """Tell the idle share of the window that ends now.

        Args:
            at: now, in seconds on the monotonic clock.

        Returns:
            From 0 to 1; ``None`` before the second look, and where the last is older than the
            window.
        """
        begin = at - self._window_seconds
        if len(self._points) < 2 or self._points[-1][0] <= begin:
            return None
        end_at, end_busy_seconds = self._points[-1]
        begin_at, begin_busy_seconds = self._at(begin)
        busy_ratio = (end_busy_seconds - begin_busy_seconds) / (end_at - begin_at)
        return min(1.0, max(0.0, 1.0 - busy_ratio))

    def _at(self, begin: float) -> tuple[float, float]:
        earlier = self._points[0]
        for later in self._points:
            if later[0] > begin:
                break
            earlier = later
        else:
            return earlier
        if begin <= earlier[0]:
            return earlier
        share = (begin - earlier[0]) / (later[0] - earlier[0])
        return begin, earlier[1] + share * (later[1] - earlier[1])
