"""A node to measure: a simulated metadata service, and the real agent as a process beside it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from lastcall.simulate import load
from lastcall.simulate.base import Metadata, RequestLog, Seen
from lastcall.simulate.server import serve
from support.running_agent import START_SECONDS, RunningAgent

RECENT_ANSWERS = 1000


class TimedLog(RequestLog):
    """Notes when requests came and when their answers were ready, on the monotonic clock.

    Attributes:
        first_at: when the first request came; ``None`` before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_at: float | None = None
        self._answered: deque[tuple[float, Seen]] = deque(maxlen=RECENT_ANSWERS)

    def arrive(self, seen: Seen) -> None:
        """Note a request that came in."""
        self.first_at = self.first_at or time.monotonic()
        super().arrive(seen)

    def leave(self, seen: Seen) -> None:
        """Note an answer, just before its bytes are sent."""
        super().leave(seen)
        self._answered.append((time.monotonic(), seen))

    def answered_after(self, moment: float, path: str) -> float:
        """Return when a path was first answered with a value after a moment."""
        return next(
            at
            for at, seen in self._answered
            if at >= moment and seen.path == path and seen.status == 200
        )


@dataclass(frozen=True, slots=True)
class Service:
    """A provider's metadata service, simulated in this process."""

    metadata: Metadata
    url: str
    log: TimedLog = field(default_factory=TimedLog)

    def agent(self, folder: Path, *settings: str) -> RunningAgent:
        """Return an agent that watches this service, not yet started."""
        provider = self.metadata.provider
        return RunningAgent(
            folder,
            f"notices.provider={provider}",
            f"notices.{provider}.endpoint={self.url}",
            *settings,
        )


@asynccontextmanager
async def service(provider: str) -> AsyncIterator[Service]:
    """Serve a provider's metadata while the block runs."""
    metadata = load(provider)()
    metadata.log = log = TimedLog()
    async with serve(metadata) as url:
        yield Service(metadata, url, log)


@asynccontextmanager
async def agent_alone() -> AsyncIterator[RunningAgent]:
    """Run an agent that watches no provider."""
    with TemporaryDirectory() as folder:
        async with RunningAgent(Path(folder), "notices.provider=none") as agent:
            await _serves_pages(agent)
            yield agent


async def _serves_pages(agent: RunningAgent) -> None:
    """Wait until the agent's pages are served: without a provider it is settled sooner."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(OSError):
                await agent.get("/healthz")
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watched(provider: str, *settings: str) -> AsyncIterator[tuple[Service, RunningAgent]]:
    """Run a service and an agent that watches it."""
    with TemporaryDirectory() as folder:
        async with (
            service(provider) as provided,
            provided.agent(Path(folder), *settings) as agent,
        ):
            await _serves_pages(agent)
            yield provided, agent
