"""What a notice costs the agent with 1 to 1024 clients, told, flushed and answered."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.common import Row, cpu_seconds
from benchmarks.crowd import Crowd
from benchmarks.node import agent_alone

from support.running_agent import RunningAgent, request_drill

SIZES = (1, 4, 16, 64, 256, 1024)
REFERENCE = 64
"""The others' cost for each client is shown as a ratio to that at this size."""

LINEAR = 1.5
"""The aim: the cost of one among many clients is at most so many times that of one among 64."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians for one number of clients."""

    clients: int
    told_seconds: float
    cpu_seconds: float

    @property
    def cpu_seconds_each(self) -> float:
        """CPU time for each client."""
        return self.cpu_seconds / self.clients


def measure(*, quick: bool) -> list[Row]:
    """Run drills, which need no provider: all the CPU time is the notice's."""
    sizes, drills = ((1, 64), 3) if quick else (SIZES, 15)
    costs = [asyncio.run(_cost(size, drills)) for size in sizes]
    reference = next(cost for cost in costs if cost.clients == REFERENCE)
    return [_row(cost, reference) for cost in costs]


def _row(cost: Cost, reference: Cost) -> Row:
    ratio = cost.cpu_seconds_each / reference.cpu_seconds_each
    told_ratio = (cost.told_seconds / cost.clients) / (reference.told_seconds / reference.clients)
    larger = cost.clients > reference.clients
    return Row(
        f"clients: {cost.clients}; asked for → last one told; CPU for all of it",
        f"told in {1e3 * cost.told_seconds:.1f} ms; {1e3 * cost.cpu_seconds:.1f} ms CPU",
        f"a client, against one of {REFERENCE}: {told_ratio:.2f} times the wait, "
        f"{ratio:.2f} times the CPU",
        f"CPU ≤ {LINEAR} times" if larger else "",
        ratio <= LINEAR if larger else None,
    )


async def _cost(clients: int, drills: int) -> Cost:
    async with (
        agent_alone() as agent,
        Crowd.gathered(agent.socket_path, clients) as crowd,
    ):
        await _rehearse(agent, crowd)
        samples = [await _rehearse(agent, crowd) for _ in range(drills)]
    told, cpu = zip(*samples, strict=True)
    return Cost(clients, median(told), median(cpu))


async def _rehearse(agent: RunningAgent, crowd: Crowd) -> tuple[float, float]:
    """Return the seconds until all are told, and the agent's CPU time until all is over."""
    used_before, asked_at = cpu_seconds(agent.pid), time.monotonic()
    await request_drill(agent)
    heard = await crowd.hears("notice")
    await crowd.hears("withdrawn")
    return heard.last - asked_at, cpu_seconds(agent.pid) - used_before
