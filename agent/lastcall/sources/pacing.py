"""When to look next: a steady period, spread over the fleet, and a back-off in times of trouble."""

from __future__ import annotations

import random

SHORTEST_BACK_OFF_SECONDS = 0.2

LONGEST_BACK_OFF_SECONDS = 5.0
"""A service that recovers with a notice out is asked again at least this soon."""

_SPREAD = 0.1


class Pace:
    """The rhythm of one kind of look.

    Args:
        period_seconds: at most this lies between the begins of two looks that go well.
        longest_back_off_seconds: at most this lies between a look that failed and the next.
        chance: where the spread comes from.
    """

    def __init__(
        self,
        period_seconds: float,
        longest_back_off_seconds: float = LONGEST_BACK_OFF_SECONDS,
        chance: random.Random | None = None,
    ) -> None:
        self._period_seconds = period_seconds
        self._longest_back_off_seconds = longest_back_off_seconds
        self._chance = chance or random.Random()  # noqa: S311 — spreads load, guards nothing
        self._failures = 0

    def first(self) -> float:
        """Return the seconds until the first look.

        Nodes that start in the same second must not ask in the same instant.
        """
        return self._chance.uniform(0, min(self._period_seconds, LONGEST_BACK_OFF_SECONDS))

    def after_success(self) -> float:
        """Return the seconds from the begin of a look that went well to the begin of the next."""
        self._failures = 0
        return self._period_seconds * self._chance.uniform(1 - _SPREAD, 1)

    def after_failure(self, retry_after_seconds: float | None = None) -> float:
        """Return the seconds from the end of a look that failed to the begin of the next.

        Args:
            retry_after_seconds: how long the service asks to be left alone; heard as far as the
                longest back-off allows.
        """
        longest = self._longest_back_off_seconds
        shortest = min(SHORTEST_BACK_OFF_SECONDS, self._period_seconds)
        # The exponent is bounded: a service may be down for days.
        step_seconds = min(longest, shortest * 2.0 ** min(self._failures, 16))
        self._failures += 1
        seconds = step_seconds * self._chance.uniform(0.5, 1)
        return min(longest, max(seconds, retry_after_seconds or 0.0))
