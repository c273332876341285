"""How long is waited before the next try, the longer the more have failed."""

from __future__ import annotations

from collections.abc import Sequence

AFTER_TROUBLE = (30.0, 60.0, 120.0, 240.0, 480.0, 600.0)
"""Seconds after a driver that is not there, does not answer, or is out of reach."""

AFTER_CRASH = (1.0, 5.0, *AFTER_TROUBLE)
"""Seconds after a probe that ended by itself."""


class Backoff:
    """Counts tries that failed in a row.

    Args:
        seconds: what is waited after the first, the second, …; after the last the same again.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = seconds
        self._failed = 0

    def next(self) -> float:
        """Count one more, and return for how many seconds none is to follow."""
        self._failed += 1
        return self._seconds[min(self._failed, len(self._seconds)) - 1]

    def reset(self) -> None:
        """Take a try for good."""
        self._failed = 0
