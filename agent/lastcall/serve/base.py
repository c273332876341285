"""What the parts of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lastcall.core.events import Event

Post = Callable[[Event], None]
"""Hands an event to the one queue; never blocks, never raises."""

Clock = Callable[[], float]
"""Returns the present, in seconds on a clock that its name tells."""

Status = Callable[[], Mapping[str, object]]
"""Returns the agent's view as plain data."""
