"""The arithmetic of what time is left."""

from __future__ import annotations

RESERVE_SHARE = 1 / 3
"""The most of a lead time that is kept back for the drain and the commit."""


def flush_until(deadline: float, told_at: float, reserve_seconds: float) -> float:
    """Return when a flush should be over, so that a reserve is left before the deadline.

    A short lead time is shared out: the reserve never takes more than a third of it.
    """
    lead_seconds = max(0.0, deadline - told_at)
    return deadline - min(reserve_seconds, lead_seconds * RESERVE_SHARE)


def left(until: float, now: float) -> float:
    """Return the seconds that are left, never negative."""
    return max(0.0, until - now)
