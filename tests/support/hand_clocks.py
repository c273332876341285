"""A node's two clocks, both set by hand."""

from __future__ import annotations


class HandClocks:
    """Clocks that stand still until they are moved.

    Attributes:
        monotonic_seconds: what the monotonic clock shows.
        wall_seconds: what the wall clock shows.
    """

    def __init__(self, monotonic_seconds: float = 100.0, wall_seconds: float = 1.9e9) -> None:
        """Start at these times."""
        self.monotonic_seconds = monotonic_seconds
        self.wall_seconds = wall_seconds

    def monotonic(self) -> float:
        """Return seconds on the monotonic clock."""
        return self.monotonic_seconds

    def wall(self) -> float:
        """Return Unix seconds on the wall clock."""
        return self.wall_seconds

    def go_on(self, seconds: float) -> None:
        """Let time pass on both."""
        self.monotonic_seconds += seconds
        self.wall_seconds += seconds
