"""The agent as a process watches GPUs through the real binding and a fake driver's library."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from lastcall.simulate.aws import AwsMetadata
from support.nvml import FakeDriver
from support.running_agent import LineClient, RunningAgent, view_of
from support.watching_agent import agent_watching

RANK = {"job": "train", "rank": 0, "world_size": 1}
FIRST, SECOND = FakeDriver.uuid(0), FakeDriver.uuid(1)
QUICK = ("gpu.poll_seconds=0.1", "gpu.call_seconds=0.5", "gpu.kernel_log=")


@pytest.fixture
def driver(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "driver", nvml_library, gpus=2)


@contextlib.asynccontextmanager
async def watching(folder: Path, driver: FakeDriver, *settings: str) -> AsyncIterator[RunningAgent]:
    """Run an agent that has seen every GPU."""
    agent = RunningAgent(
        folder, "notices.provider=none", *QUICK, *settings, environment=driver.environment
    )
    async with agent:
        await state(agent, "watching")
        await health(agent, "healthy")
        yield agent


async def state(agent: RunningAgent, word: str) -> None:
    await agent.wait_view(lambda view: (view["gpu"]["watch"] or {}).get("state") == word)


async def health(agent: RunningAgent, word: str) -> None:
    await agent.wait_view(lambda view: view["gpu"]["health"] == word)


async def operate(agent: RunningAgent, *, watched: bool) -> None:
    """Have the GPUs let go or watched again, as the command line does."""
    async with LineClient.connected(agent.socket_path) as operator:
        operator.send(type="gpu", watched=watched)
        await operator.receive("ok")


def probe_of(agent: RunningAgent) -> psutil.Process:
    (probe,) = psutil.Process(agent.pid).children()
    return probe


async def test_each_gpu_is_shown_with_its_health_and_figures(
    tmp_path: Path, driver: FakeDriver
) -> None:
    driver.set(1, "temperature_celsius", 61)

    async with watching(tmp_path, driver) as agent:
        view = await agent.wait_view(lambda view: view["gpu"]["gpus"][1]["figures"])
        up = await agent.metric(f'lastcall_gpu_up{{gpu="{FIRST}"}}')
        hot = await agent.metric(f'lastcall_gpu_temperature_celsius{{gpu="{SECOND}"}}')
        healthy = await agent.metric(f'lastcall_gpu_health{{gpu="{FIRST}",health="healthy"}}')

    assert [gpu["gpu"] for gpu in view["gpu"]["gpus"]] == [FIRST, SECOND]
    assert view["gpu"]["gpus"][1]["figures"]["temperature_celsius"] == 61
    assert (up, hot, healthy) == (1, 61, 1)


async def test_by_default_a_fault_is_reported_and_nobody_is_told(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with (
        watching(tmp_path, driver) as agent,
        LineClient.connected(agent.socket_path, RANK) as client,
    ):
        await client.receive("welcome")
        driver.lose(0, xid=79)

        view = await agent.wait_view(lambda view: view["gpu"]["health"] == "faulty")

        lost, other = view["gpu"]["gpus"]
        assert (lost["health"], lost["recovery"], other["health"]) == (
            "faulty",
            "reboot",
            "healthy",
        )
        assert view["notices"] == []
        assert await agent.metric(f'lastcall_gpu_up{{gpu="{FIRST}"}}') == 0
        assert await agent.metric(f'lastcall_gpu_up{{gpu="{SECOND}"}}') == 1
        assert await agent.metric('lastcall_gpu_losses_total{saved="no"}') == 1
        counted = f'lastcall_gpu_xid_errors_total{{gpu="{FIRST}",xid="79"}}'
        assert await agent.metric(counted) == 1


async def test_with_act_on_faults_a_fault_is_a_notice_and_an_operators_word_ends_it(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with (
        watching(tmp_path, driver, "gpu.act_on_faults=true") as agent,
        LineClient.connected(agent.socket_path, RANK) as client,
    ):
        await client.receive("welcome")
        driver.field(0, 230, 1)
        driver.xid(0, 95)

        notice = await client.receive("notice")
        driver.field(0, 230, 0)
        await health(agent, "degraded")
        await operate(agent, watched=True)
        withdrawn = await client.receive("withdrawn")

    assert (notice["kind"], notice["source"], notice["urgency"]) == ("gpu_fault", "gpu", "now")
    assert 0 < notice["remaining_seconds"] <= 30
    assert withdrawn["id"] == notice["id"]


async def test_a_soft_sign_asks_once_for_a_checkpoint_and_its_use_is_measured(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with (
        watching(tmp_path, driver, "gpu.act_on_faults=true") as agent,
        LineClient.connected(agent.socket_path, RANK) as client,
    ):
        await client.receive("welcome")
        driver.xid(0, 63)

        notice = await client.receive("notice")
        client.send(type="flushed", id=notice["id"], path="/data/a", step=7)
        await client.receive("ok")
        saved = await agent.metric("lastcall_gpu_sign_to_save_seconds_count")
        driver.lose(0)
        fault = await client.receive("notice")
        losses = await agent.metric('lastcall_gpu_losses_total{saved="yes"}')

    assert notice["urgency"] == "soon"
    assert saved == losses == 1
    assert fault["urgency"] == "now"


async def test_a_hang_is_named_and_delays_no_notice(tmp_path: Path, driver: FakeDriver) -> None:
    driver.hang("nvmlDeviceGetTemperature", gpu=1)
    gpus = (*QUICK, "gpu.call_seconds=1")
    provider = AwsMetadata()

    async with agent_watching(
        tmp_path, provider, settings=gpus, environment=driver.environment
    ) as agent:
        async with LineClient.connected(agent.socket_path, RANK) as client:
            await client.receive("welcome")
            await asyncio.sleep(0.5)
            asked_at = time.monotonic()
            provider.raise_notice()
            await client.receive("notice")
            told_seconds = time.monotonic() - asked_at

        view = await agent.wait_view(
            lambda view: (view["gpu"]["watch"] or {}).get("state") == "unresponsive"
        )
        assert (await agent.get("/healthz"))[0] == 200

    watch = view["gpu"]["watch"]
    assert (watch["call"], watch["gpu"]) == ("nvmlDeviceGetTemperature", SECOND)
    assert told_seconds < 1.5
    assert len(agent.logged("gpu_watch")) >= 1


async def test_a_driver_that_crashes_takes_the_probe_along_and_nothing_else(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver) as agent:
        probe = probe_of(agent)
        driver.crash("nvmlDeviceGetPowerUsage")
        await state(agent, "crashed")
        driver.clear("nvmlDeviceGetPowerUsage")

        await state(agent, "watching")

        assert probe_of(agent).pid != probe.pid
        assert (await agent.get("/healthz"))[0] == 200
        troubles = await agent.metric('lastcall_gpu_watch_troubles_total{state="crashed"}')
        assert troubles == 1


@pytest.mark.long
async def test_the_gpus_are_let_go_on_command_and_taken_up_again(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver) as agent:
        probe = probe_of(agent)
        await operate(agent, watched=False)
        await state(agent, "released")
        assert not probe.is_running()
        await operate(agent, watched=True)

        await state(agent, "watching")


@pytest.mark.long
async def test_a_killed_agent_leaves_no_probe_and_its_successor_forgets_no_fault(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver, "gpu.act_on_faults=true") as agent:
        driver.lose(1, xid=79)
        await health(agent, "faulty")
        (first,) = (await view_of(agent))["notices"]
        probe = probe_of(agent)
        await agent.end(signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):
            await asyncio.to_thread(probe.wait, 5)

        await agent.start(until="gpu_watch")
        view = await agent.wait_view(
            lambda view: (view["gpu"]["watch"] or {}).get("state") == "watching"
        )

        assert view["gpu"]["health"] == "faulty"
        assert [notice["id"] for notice in view["notices"]] == [first["id"]]


@pytest.mark.long
async def test_no_driver_is_said_once_and_the_agent_runs_on(tmp_path: Path) -> None:
    agent = RunningAgent(
        tmp_path,
        *("notices.provider=none", "gpu.enabled=true", *QUICK),
        environment={"LD_LIBRARY_PATH": ""},
    )
    async with agent:
        view = await agent.wait_view(
            lambda view: (view["gpu"]["watch"] or {}).get("state") == "no_driver"
        )
        ready, _ = await agent.get("/readyz")

    assert (view["gpu"]["health"], ready) == ("unknown", 200)


async def test_a_machine_without_gpus_starts_no_probe(tmp_path: Path) -> None:
    async with RunningAgent(tmp_path, "notices.provider=none") as agent:
        await state(agent, "no_gpu")

        assert psutil.Process(agent.pid).children() == []
