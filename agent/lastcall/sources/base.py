"""What a source is, and the two clocks that it is given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lastcall.core.events import Event

Post = Callable[[Event], None]
"""Hands an event to the one queue; never blocks, never raises."""


class Clock(Protocol):
    """The monotonic clock that deadlines live on, and the wall clock that providers speak of."""

    def monotonic(self) -> float:
        """Return seconds on the event loop's clock."""
        ...

    def wall(self) -> float:
        """Return Unix seconds on the node's clock."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        """Return seconds on the event loop's clock."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return Unix seconds on the node's clock, which may be wrong."""
        return time.time()


class Source(Protocol):
    """One provider's way of saying that the machine is about to go.

    ``run`` goes on until it is cancelled. It reports through events alone and raises nothing else:
    a service that hangs, lies or is gone is a result, never an end.
    """

    @property
    def name(self) -> str:
        """The source's name, as it stands in metrics and notices."""
        ...

    async def run(self) -> None:
        """Watch the provider's service for ever."""
        ...


@runtime_checkable
class Acknowledging(Protocol):
    """A source whose provider can be told that the machine is ready to go."""

    async def acknowledge(self, key: str) -> tuple[bool, str]:
        """Approve the event under ``key``; return whether it was taken, and why not."""
        ...
