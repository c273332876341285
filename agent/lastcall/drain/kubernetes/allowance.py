"""How often something may be written that could be news again and again. No I/O, no clock."""

from __future__ import annotations


class Allowance:
    """Lets a few through at once after a pause, then one at a time; starts full.

    In no span of time are it more than ``most`` and one for each ``each_seconds`` of it.

    Args:
        most: at once.
        each_seconds: after so long there is one more.
    """

    def __init__(self, most: int, each_seconds: float) -> None:
        self._most = most
        self._each_seconds = each_seconds
        self._left = float(most)
        self._at: float | None = None

    def allows(self, now: float, spare: int = 0) -> bool:
        """Return whether one may be written.

        Args:
            now: seconds, on a clock that never goes back.
            spare: how many must be left after it, for what matters more.
        """
        return self._left_at(now) >= 1 + spare

    def spend(self, now: float) -> None:
        """Take note that one is written."""
        self._left, self._at = max(0.0, self._left_at(now) - 1), now

    def _left_at(self, now: float) -> float:
        gained = 0.0 if self._at is None else (now - self._at) / self._each_seconds
        return min(float(self._most), self._left + gained)
