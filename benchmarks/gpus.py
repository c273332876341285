"""What the watch over eight GPUs costs, and how soon after an error the clients are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from benchmarks.common import Row, cpu_seconds, quantile, spread
from benchmarks.crowd import Crowd

from support.nvml import FakeDriver, build_library
from support.running_agent import RunningAgent

GPUS = 8
CLIENTS = 8
SETTLE_SECONDS = 3.0
AIM_CPU_SECONDS = 25.0
AIM_PROBE_MIB = 20.0
AIM_TOLD_SECONDS = 0.1


def _lose(driver: FakeDriver) -> None:
    driver.lose(3, xid=79)


def _need_reset(driver: FakeDriver) -> None:
    driver.field(3, 230, 1)
    driver.xid(3, 95)


ERRORS: dict[str, Callable[[FakeDriver], None]] = {
    "XID 79, which decides alone": _lose,
    "XID 95, and the recovery action is asked for": _need_reset,
}


def measure(*, quick: bool) -> list[Row]:
    """Watch for a while, then have errors come; each needs an agent of its own."""
    return asyncio.run(_measure(4.0 if quick else 60.0, 2 if quick else 20))


async def _measure(seconds: float, errors: int) -> list[Row]:
    with TemporaryDirectory() as folder:
        library = build_library(Path(folder))
        rows = await _cost(library, seconds)
        for what, break_it in ERRORS.items():
            told = [await _told_after(library, break_it) for _ in range(errors)]
            rows.append(_told_row(what, told))
    return rows


@asynccontextmanager
async def _node(library: Path, *settings: str) -> AsyncIterator[tuple[FakeDriver, RunningAgent]]:
    with TemporaryDirectory() as folder:
        driver = FakeDriver(Path(folder) / "driver", library, gpus=GPUS)
        agent = RunningAgent(
            Path(folder), "notices.provider=none", *settings, environment=driver.environment
        )
        async with agent:
            yield driver, agent


async def _cost(library: Path, seconds: float) -> list[Row]:
    async with AsyncExitStack() as stack:
        _, bare = await stack.enter_async_context(_node(library, "gpu.enabled=false"))
        _, agent = await stack.enter_async_context(_node(library, "gpu.enabled=true"))
        await _all_healthy(agent)
        (probe,) = psutil.Process(agent.pid).children()
        await asyncio.sleep(SETTLE_SECONDS)
        pids = (bare.pid, agent.pid, probe.pid)
        before = [cpu_seconds(pid) for pid in pids]
        await asyncio.sleep(seconds)
        idle, watching, probing = (
            3600 / seconds * (cpu_seconds(pid) - used)
            for pid, used in zip(pids, before, strict=True)
        )
        held_mib = [psutil.Process(pid).memory_full_info().pss / 2**20 for pid in pids]
    in_all = watching - idle + probing
    return [
        Row(
            f"{GPUS} GPUs looked at every 5 s, extrapolated from {seconds:.0f} s",
            f"{in_all:.1f} CPU-s/h: {watching - idle:.1f} in the agent, {probing:.1f} in the probe",
            f"the agent without them {idle:.1f} CPU-s/h; the driver is a fake, whose calls are "
            "nearly free",
            f"≤ {AIM_CPU_SECONDS:.0f} CPU-s/h",
            in_all <= AIM_CPU_SECONDS,
        ),
        Row(
            "memory of the probe",
            f"{held_mib[2]:.1f} MiB PSS",
            f"the agent {held_mib[1]:.1f} MiB with {GPUS} GPUs, {held_mib[0]:.1f} MiB without",
            f"≤ {AIM_PROBE_MIB:.0f} MiB",
            held_mib[2] <= AIM_PROBE_MIB,
        ),
    ]


async def _told_after(library: Path, break_it: Callable[[FakeDriver], None]) -> float:
    """Return the seconds from an error at the driver until all clients are told."""
    settings = ("gpu.enabled=true", "gpu.act_on_faults=true")
    async with (
        _node(library, *settings) as (driver, agent),
        Crowd.gathered(agent.socket_path, CLIENTS) as crowd,
    ):
        await _all_healthy(agent)
        # Not in the moment after a round, in which another one waits a little.
        await asyncio.sleep(0.5)
        broken_at = time.monotonic()
        break_it(driver)
        return (await crowd.hears("notice")).last - broken_at


def _told_row(what: str, told: list[float]) -> Row:
    return Row(
        f"{what} → last of {CLIENTS} clients told",
        spread(told),
        aim=f"p99 ≤ {1e3 * AIM_TOLD_SECONDS:.0f} ms",
        met=quantile(told, 0.99) <= AIM_TOLD_SECONDS,
    )


async def _all_healthy(agent: RunningAgent) -> None:
    await agent.wait_view(
        lambda view: [gpu["health"] for gpu in view["gpu"]["gpus"]] == ["healthy"] * GPUS
    )
