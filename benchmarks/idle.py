"""What CPU time the agent uses while nothing happens, on each kind of metadata service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from benchmarks.common import ROOT, Row, cpu_seconds
from benchmarks.node import Service, service, watched

from lastcall.simulate.aws import AwsMetadata

PROVIDERS = ("aws", "gcp", "azure")
SETTLE_SECONDS = 3.0
AIM_SECONDS = 5.0

POLLED = {
    "aws": "/latest/meta-data/spot/instance-action",
    "azure": "/metadata/scheduledevents?api-version=2020-07-01",
}
"""What the bare pollers ask for: the first service closes each connection, the other keeps it."""

BESIDE = {"aws": "aws", "gcp": "azure", "azure": "azure"}


def measure(*, quick: bool) -> list[Row]:
    """Let an agent run on each service, and bare pollers beside them."""
    return asyncio.run(_measure(4.0 if quick else 60.0))


async def _measure(seconds: float) -> list[Row]:
    async with AsyncExitStack() as stack:
        pollers = {
            name: await stack.enter_async_context(_bare_poller(name, path))
            for name, path in POLLED.items()
        }
        services: dict[str, Service] = {}
        agents: dict[str, int] = {}
        for name in PROVIDERS:
            services[name], agent = await stack.enter_async_context(watched(name))
            agents[name] = agent.pid
        await asyncio.sleep(SETTLE_SECONDS)

        asked_before = {name: provided.log.count() for name, provided in services.items()}
        pids = (*agents.values(), *pollers.values())
        used_before = {pid: cpu_seconds(pid) for pid in pids}
        await asyncio.sleep(seconds)
        hourly = {pid: 3600 / seconds * (cpu_seconds(pid) - used_before[pid]) for pid in pids}
        asked = {name: services[name].log.count() - asked_before[name] for name in PROVIDERS}
    return [
        _row(
            f"{name}: {asked[name] / seconds:.1f} requests/s, extrapolated from {seconds:.0f} s",
            hourly[agents[name]],
            hourly[pollers[BESIDE[name]]],
        )
        for name in PROVIDERS
    ]


def _row(what: str, agent_seconds: float, bare_seconds: float) -> Row:
    return Row(
        what,
        f"{agent_seconds:.1f} CPU-s/h",
        f"{agent_seconds / bare_seconds:.1f} times a bare poller's {bare_seconds:.1f} CPU-s/h "
        "for 1 request/s",
        f"≤ {AIM_SECONDS:.0f} CPU-s/h",
        agent_seconds <= AIM_SECONDS,
    )


@asynccontextmanager
async def _bare_poller(provider: str, path: str) -> AsyncIterator[int]:
    """Run a bare poller of a service of its own; yields its pid."""
    async with service(provider) as provided:
        if isinstance(provided.metadata, AwsMetadata):
            provided.metadata.tokens_required = False
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.poller", provided.url + path), cwd=ROOT
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            await process.wait()
