"""From the start of the agent's process to its first question at the metadata service."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.common import Row
from benchmarks.node import service

AIM_SECONDS = 0.45
BARE_IMPORTS = "import asyncio, aiohttp"


def measure(*, quick: bool) -> list[Row]:
    """Start agents and bare interpreters in turn."""
    return asyncio.run(_measure(3 if quick else 15))


async def _measure(starts: int) -> list[Row]:
    agents, imports = [], []
    for _ in range(starts):
        agents.append(await _first_question())
        imports.append(await _bare_imports())
    ratio = median(agents) / median(imports)
    return [
        Row(
            "process start → first question at the service",
            f"median {median(agents):.2f} s, best {min(agents):.2f} s of {starts}",
            f"{ratio:.1f} times `python -c '{BARE_IMPORTS}'`: median {median(imports):.2f} s",
            f"median ≤ {AIM_SECONDS} s",
            median(agents) <= AIM_SECONDS,
        )
    ]


async def _first_question() -> float:
    with TemporaryDirectory() as folder:
        async with service("gcp") as provided:
            agent = provided.agent(Path(folder))
            started_at = time.monotonic()
            async with agent:
                await agent.wait(lambda: provided.log.first_at is not None)
        assert provided.log.first_at is not None
        return provided.log.first_at - started_at


async def _bare_imports() -> float:
    started_at = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", BARE_IMPORTS)
    await process.wait()
    return time.monotonic() - started_at
