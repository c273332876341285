"""A provider's clock, as the ``Date`` headers of its answers show it."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

DRIFT = 50e-6
"""Seconds by which two clocks may drift apart each second; crystals and NTP stay below it."""


class ProviderClock:
    """What is known of a provider's clock, told against the node's monotonic clock.

    A header truncates to whole seconds, so one answer only says that the two clocks lie between two
    bounds, about a second apart. Answers that fall on different parts of a second narrow the bounds
    to milliseconds. The node's wall clock has no part in it, so setting that clock moves no
    deadline.
    """

    def __init__(self) -> None:
        self._bounds: tuple[float, float] | None = None
        self._narrowed_at = 0.0

    @property
    def offset_seconds(self) -> float | None:
        """Unix seconds at the provider minus monotonic seconds here; ``None`` while unknown."""
        if self._bounds is None:
            return None
        low, high = self._bounds
        return (low + high) / 2

    @property
    def latest_offset_seconds(self) -> float | None:
        """The same if the provider's clock is as far on as it may be: no deadline is too late."""
        return None if self._bounds is None else self._bounds[1]

    def learn(self, date: str | None, asked_at: float, answered_at: float) -> None:
        """Take in one answer's header; one that is missing or no date changes nothing.

        Args:
            date: the header.
            asked_at: the monotonic time at which the request went out.
            answered_at: the monotonic time at which the answer was there.
        """
        stated_unix = None if date is None else _date_unix(date)
        if stated_unix is None:
            return
        low, high = stated_unix - answered_at, stated_unix + 1.0 - asked_at
        if self._bounds is not None:
            drifted = DRIFT * max(0.0, answered_at - self._narrowed_at)
            low_before, high_before = self._bounds
            narrowed = max(low, low_before - drifted), min(high, high_before + drifted)
            # Bounds that exclude each other: one of the clocks was set, so what was known is void.
            if narrowed[0] <= narrowed[1]:
                low, high = narrowed
        self._bounds = (low, high)
        self._narrowed_at = answered_at


def _date_unix(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return zoned.timestamp()
    except (ValueError, OverflowError):
        return None
