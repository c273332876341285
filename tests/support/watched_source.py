"""Runs a source in a test, keeps what it reports, and stands in for its metadata service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

from lastcall.core.events import Event, IdentityLearned, SourcePolled, SourceReported
from lastcall.core.model import Sighting
from lastcall.sources.base import Source
from lastcall.sources.http import Answer

WALL_AT_START = 1_900_000_000.0


class LoopClock:
    """Clocks that both follow the event loop's, so that loop time governs them."""

    def monotonic(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return Unix seconds that pass as the loop's time does."""
        return WALL_AT_START + self.monotonic()


class Recorder:
    """Takes a source's events, and wakes whoever waits for one."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self.events.append(event)
        self._news.set()

    async def until(self, holds: Callable[[], object], timeout_seconds: float = 5.0) -> None:
        """Wait until something holds after an event, for a bounded time."""
        async with asyncio.timeout(timeout_seconds):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def polled(self, scope: str, count: int) -> None:
        """Wait for so many further looks at a scope."""
        goal = len(self.polls(scope)) + count
        await self.until(lambda: len(self.polls(scope)) >= goal)

    def polls(self, scope: str) -> list[SourcePolled]:
        """Return all looks at a scope."""
        return [one for one in self.events if isinstance(one, SourcePolled) and one.scope == scope]

    def results(self, scope: str) -> list[str]:
        """Return how all looks at a scope went."""
        return [poll.result for poll in self.polls(scope)]

    def reports(self, scope: str) -> list[SourceReported]:
        """Return all reports on a scope."""
        return [
            one for one in self.events if isinstance(one, SourceReported) and one.scope == scope
        ]

    def standing(self, scope: str) -> tuple[Sighting, ...]:
        """Return what stood in a scope when it was last reported; nothing before that."""
        reports = self.reports(scope)
        return reports[-1].sightings if reports else ()

    @property
    def identity(self) -> dict[str, str]:
        """What was learned of the machine."""
        learned = (one for one in self.events if isinstance(one, IdentityLearned))
        return {name: value for event in learned for name, value in event.facts}


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that no event of a source announces, for five seconds at most."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.002)


@asynccontextmanager
async def watching(source: Source) -> AsyncIterator[None]:
    """Run a source while the block runs; a fault that ends it early ends the test."""
    task = asyncio.create_task(source.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass(frozen=True)
class Asked:
    """One request as a source made it; ``at`` is the loop's time."""

    at: float
    method: str
    path: str
    params: Mapping[str, str]
    timeout_seconds: float
    json: object = None


Respond = Callable[[Asked], Awaitable[Answer]]


@dataclass
class StandIn:
    """Answers in place of a source's ``MetadataClient``, with no socket behind it.

    Attributes:
        respond: gives the answer to a request, or raises a ``MetadataError``.
        asked: all requests so far.
        open: how many wait for their answer, by path.
        peak_open: how many of one path waited at the same time at most.
    """

    respond: Respond
    skew_seconds: float | None = None
    asked: list[Asked] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    peak_open: int = 0

    async def __aenter__(self) -> Self:
        """Have nothing to open."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have nothing to close."""

    def deadline(self, unix: float) -> float:
        """Return the loop's time of a wall time."""
        return unix - WALL_AT_START

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: object = None,
        timeout_seconds: float = 2.0,
    ) -> Answer:
        """Answer as ``respond`` says."""
        assert headers
        now = asyncio.get_running_loop().time()
        asked = Asked(now, method, path, params or {}, timeout_seconds, json)
        self.asked.append(asked)
        self.open[path] = self.open.get(path, 0) + 1
        self.peak_open = max(self.peak_open, self.open[path])
        try:
            return await self.respond(asked)
        finally:
            self.open[path] -= 1

    def of(self, path: str) -> list[Asked]:
        """Return the requests for one path."""
        return [asked for asked in self.asked if asked.path == path]
