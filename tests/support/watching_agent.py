"""The real agent before simulated metadata services that a test holds in its hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from lastcall.simulate.base import Metadata
from lastcall.simulate.server import serve
from support.running_agent import RunningAgent

_PERIODS = {
    "aws": (
        "poll_seconds",
        "lifecycle_poll_seconds",
        "rebalance_poll_seconds",
        "maintenance_poll_seconds",
    ),
    "gcp": ("wait_seconds", "maintenance_poll_seconds"),
    "azure": ("poll_seconds",),
}


@asynccontextmanager
async def agent_watching(
    folder: Path,
    *services: Metadata,
    poll_seconds: float = 0.1,
    prefix: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[RunningAgent]:
    """Serve metadata, and run an agent that watches all of it.

    Args:
        folder: where the agent's socket and its journal are.
        services: the state of each service, one of a provider.
        poll_seconds: time between two looks at anything; 0.1 or more where Google is watched.
        prefix: as for ``RunningAgent``.
        settings: more of them, each ``table.key=value``.
        environment: as for ``RunningAgent``.
    """
    names = [service.provider for service in services]
    watching = [f"notices.provider={names}"]
    async with AsyncExitStack() as serving:
        for service in services:
            url = await serving.enter_async_context(serve(service))
            table = f"notices.{service.provider}"
            watching.append(f"{table}.endpoint={url}")
            watching += [f"{table}.{name}={poll_seconds}" for name in _PERIODS[service.provider]]
        agent = RunningAgent(folder, *watching, *settings, prefix=prefix, environment=environment)
        await serving.enter_async_context(agent)
        yield agent
