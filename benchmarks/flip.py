"""From a change of Google's ``preempted`` to eight ranks told: the question is left open."""

from __future__ import annotations

import asyncio
import time

from benchmarks.common import Row, quantile, spread
from benchmarks.crowd import Crowd
from benchmarks.node import Service, watched

from lastcall.simulate.gcp import GcpMetadata
from support.running_agent import RunningAgent

CLIENTS = 8
AIM_SECONDS = 0.005
OPEN_QUESTIONS = 2
"""The agent waits for a change of ``preempted`` and of ``maintenance-event``."""


def measure(*, quick: bool) -> list[Row]:
    """Flip and flip back; the agent asks again a second after an answer, so each takes two."""
    return asyncio.run(_measure(3 if quick else 30))


async def _measure(notices: int) -> list[Row]:
    async with (
        watched("gcp") as (service, agent),
        Crowd.gathered(agent.socket_path, CLIENTS) as crowd,
    ):
        seconds = [await _rehearse(service, agent, crowd) for _ in range(notices)]
    return [
        Row(
            f"`preempted` turns `TRUE` → last of {CLIENTS} clients told",
            spread(seconds),
            aim=f"p50 ≤ {1e3 * AIM_SECONDS:.0f} ms",
            met=quantile(seconds, 0.5) <= AIM_SECONDS,
        )
    ]


async def _rehearse(service: Service, agent: RunningAgent, crowd: Crowd) -> float:
    """Return the seconds from the flip until all are told."""
    metadata = service.metadata
    assert isinstance(metadata, GcpMetadata)
    await agent.wait(lambda: metadata.waiting == OPEN_QUESTIONS)
    flipped_at = time.monotonic()
    metadata.raise_notice()
    heard = await crowd.hears("notice")
    metadata.withdraw()
    await crowd.hears("withdrawn")
    return heard.last - flipped_at
