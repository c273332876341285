"""The supervisor with the true probe, the true binding and the fake driver."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from lastcall.core.gpu.model import Look, WatchState
from lastcall.gpu import supervisor
from lastcall.gpu.supervisor import ProbeNews, ProbeSettings, Supervisor, WatchStatus
from support.nvml import FakeDriver

TEMPERATURE = "nvmlDeviceGetTemperature"


async def test_a_gpu_that_hangs_keeps_neither_the_other_nor_the_agent_from_being_watched(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "AFTER_TROUBLE", (0.01,))
    driver = FakeDriver(tmp_path / "driver", nvml_library, gpus=2)
    statuses: list[WatchStatus] = []
    news: list[ProbeNews] = []
    watch = Supervisor(
        ProbeSettings(
            always=True,
            poll_seconds=0.4,
            call_seconds=0.6,
            environment={**os.environ, **driver.environment},
        ),
        news=news.append,
        said=statuses.append,
        monotonic=time.monotonic,
    )
    running = asyncio.create_task(watch.run())

    async def until_said(state: WatchState) -> WatchStatus:
        async with asyncio.timeout(20):
            while statuses[-1:] == [] or statuses[-1].state != state:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        return statuses[-1]

    await until_said(WatchState.WATCHING)
    driver.hang(TEMPERATURE, gpu=1)
    hanging = await until_said(WatchState.UNRESPONSIVE)
    assert (hanging.gpu, hanging.call, hanging.pid) == (driver.uuid(1), TEMPERATURE, None)

    news.clear()
    async with asyncio.timeout(20):
        while len(news) < 4:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    assert {one.gpu.uuid for one in news if isinstance(one, Look)} == {driver.uuid(0)}
    assert statuses[-1] == hanging

    driver.release_hang()
    watch.release()
    await until_said(WatchState.RELEASED)
    watch.watch()
    await until_said(WatchState.WATCHING)

    await watch.close()
    await running
    assert [str(status.state) for status in statuses] == [
        "starting",
        "watching",
        "unresponsive",
        "released",
        "starting",
        "watching",
    ]
    assert "pynvml" not in sys.modules
