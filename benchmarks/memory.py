"""What the agent holds in memory, beside an interpreter that has imported asyncio and aiohttp."""

from __future__ import annotations

import asyncio
import sys

import psutil
from benchmarks.common import Row
from benchmarks.crowd import Crowd
from benchmarks.node import watched

CLIENTS = 64
QUICK_CLIENTS = 8
AIM_MIB = 44.0

BARE = "import asyncio, aiohttp, sys; print(flush=True); sys.stdin.read()"


def measure(*, quick: bool) -> list[Row]:
    """Measure once Prometheus has scraped the agent, as in the field."""
    return asyncio.run(_measure(QUICK_CLIENTS if quick else CLIENTS))


async def _measure(clients: int) -> list[Row]:
    async with watched("aws") as (_, agent):
        await agent.get("/metrics")
        alone = _held(agent.pid)
        async with Crowd.gathered(agent.socket_path, clients):
            await agent.get("/metrics")
            crowded = _held(agent.pid)
    bare = f"`import asyncio, aiohttp`: {_text(await _bare())}"
    return [
        Row(
            f"{present} clients, scraped by Prometheus",
            _text(held),
            bare,
            f"RSS ≤ {AIM_MIB:.0f} MiB",
            held[0] <= AIM_MIB,
        )
        for present, held in ((0, alone), (clients, crowded))
    ]


async def _bare() -> tuple[float, float]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BARE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    held = _held(process.pid)
    await process.communicate(b"")
    return held


def _held(pid: int) -> tuple[float, float]:
    """Return the resident MiB of a process, and its part of them where pages are shared."""
    held = psutil.Process(pid).memory_full_info()
    return held.rss / 2**20, held.pss / 2**20


def _text(held: tuple[float, float]) -> str:
    rss_mib, pss_mib = held
    return f"{rss_mib:.1f} MiB RSS, {pss_mib:.1f} MiB PSS"
