"""From a notice at the metadata service to the last of 64 clients told."""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.common import Row, quantile, spread
from benchmarks.crowd import Crowd
from benchmarks.node import Service, watched

from support.running_agent import RunningAgent

CLIENTS = 64
POLL_SECONDS = 0.05
AIM_SECONDS = 0.010

INSTANCE_ACTION = "/latest/meta-data/spot/instance-action"


def measure(*, quick: bool) -> list[Row]:
    """Raise and withdraw EC2 Spot interruptions, over and over."""
    return asyncio.run(_measure(20 if quick else 200))


async def _measure(notices: int) -> list[Row]:
    after_flip: list[float] = []
    after_answer: list[float] = []
    async with (
        watched("aws", f"notices.aws.poll_seconds={POLL_SECONDS}") as (service, agent),
        Crowd.gathered(agent.socket_path, CLIENTS) as crowd,
    ):
        for _ in range(notices):
            flip, answer = await _rehearse(service, crowd)
            after_flip.append(flip)
            after_answer.append(answer)
        inside = await _inside(agent)
    return [
        Row(
            f"the service answers with the notice → last of {CLIENTS} clients told",
            spread(after_answer),
            inside,
            f"p99 ≤ {1e3 * AIM_SECONDS:.0f} ms",
            quantile(after_answer, 0.99) <= AIM_SECONDS,
        ),
        Row(
            f"the notice appears → last of {CLIENTS} clients told",
            spread(after_flip),
            f"looks come every {1e3 * POLL_SECONDS:.0f} ms here, every second by default",
        ),
    ]


async def _rehearse(service: Service, crowd: Crowd) -> tuple[float, float]:
    """Return the seconds until all are told, from the notice and from its first answer on."""
    # Not in step with the agent's looks.
    await asyncio.sleep(random.uniform(0, POLL_SECONDS))
    raised_at = time.monotonic()
    service.metadata.raise_notice()
    heard = await crowd.hears("notice")
    answered_at = service.log.answered_after(raised_at, INSTANCE_ACTION)
    service.metadata.withdraw()
    await crowd.hears("withdrawn")
    return heard.last - raised_at, heard.last - answered_at


async def _inside(agent: RunningAgent) -> str:
    """Return what the agent itself measured, from first sight to the last client told."""
    count = await agent.metric("lastcall_signal_seconds_count") or 0
    total = await agent.metric("lastcall_signal_seconds_sum") or 0
    within = await agent.metric('lastcall_signal_seconds_bucket{le="0.0025"}') or 0
    mean = 1e3 * total / count
    return f"`lastcall_signal_seconds`: mean {mean:.2f} ms, {within / count:.0%} within 2.5 ms"
