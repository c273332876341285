"""The supervisor and real processes: probes that hang, break down, babble, cannot be ended."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from lastcall.core.gpu.model import Gpu, Look
from lastcall.gpu import child, process, supervisor
from lastcall.gpu.lines import RoundOver
from lastcall.gpu.supervisor import ProbeNews, ProbeSettings, Supervisor, WatchStatus
from support import scripted_probe
from support.frozen import FrozenFolder, frozen_folder

TEMPERATURE = "nvmlDeviceGetTemperature"
LOOK = ["say", {"type": "gpu", "at": 1.0, "gpu": {"uuid": "GPU-0", "index": 0}}]
ROUND = ["say", {"type": "round", "at": 1.0}]
WELL = [LOOK, ROUND, ["wait"]]

Script = list[list[object]]


class Watch:
    """A supervisor, and what it told."""

    def __init__(self, folder: Path, scripts: list[Script], left: WatchStatus | None) -> None:
        self.folder = folder
        (folder / "scripts.json").write_text(json.dumps(scripts))
        self.statuses: list[WatchStatus] = []
        self.news: list[ProbeNews] = []
        self.supervisor = Supervisor(
            # A call is soon too long; the start of a process on a busy machine is not.
            ProbeSettings(always=True, poll_seconds=30, call_seconds=0.3, environment={}),
            news=self.news.append,
            said=self.statuses.append,
            monotonic=time.monotonic,
            program=(sys.executable, "-S", "-E", scripted_probe.__file__, str(folder)),
            left_behind=left,
        )
        self.running: asyncio.Task[None]

    @property
    def states(self) -> list[str]:
        return [str(status.state) for status in self.statuses]

    @property
    def skips(self) -> list[list[str]]:
        """What each probe so far leaves out."""
        starts = self.folder / "starts"
        lines = starts.read_text().splitlines() if starts.exists() else []
        return [json.loads(line)["skip"] for line in lines]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def watched(
    folder: Path, *scripts: Script, left: WatchStatus | None = None
) -> AsyncIterator[Watch]:
    watch = Watch(folder, list(scripts), left)
    watch.running = asyncio.create_task(watch.supervisor.run())
    try:
        yield watch
    finally:
        await watch.supervisor.close()
        await watch.running


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next probe start soon; how long it waits is tested in loop time."""
    monkeypatch.setattr(supervisor, "AFTER_TROUBLE", (0.01,))
    monkeypatch.setattr(supervisor, "AFTER_CRASH", (0.01,))
    monkeypatch.setattr(child, "PATIENCE_SECONDS", 0.05)


async def test_looks_come_through_and_a_round_can_be_asked_for(tmp_path: Path) -> None:
    async with watched(tmp_path, WELL) as watch:
        await watch.until(lambda: watch.states == ["starting", "watching"])
        assert watch.news == [Look(gpu=Gpu("GPU-0", 0), at=1.0), RoundOver(1.0)]

        watch.supervisor.look()
        await watch.until(lambda: len(watch.news) == 3)


async def test_a_hanging_gpu_is_named_and_the_next_probe_leaves_it_out(tmp_path: Path) -> None:
    hangs: Script = [LOOK, ["call", TEMPERATURE, 1], ["hang"]]

    async with watched(tmp_path, hangs, WELL) as watch:
        await watch.until(lambda: RoundOver(1.0) in watch.news)

        assert watch.skips == [[], ["00000000:01:00.0"]]
        assert watch.states == ["starting", "unresponsive"]
        assert (watch.statuses[-1].gpu, watch.statuses[-1].call) == ("GPU-1", TEMPERATURE)


async def test_one_that_is_killed_in_the_driver_is_said_and_another_started(
    tmp_path: Path,
) -> None:
    crashes: Script = [["call", TEMPERATURE, 1], ["kill", signal.SIGSEGV]]

    async with watched(tmp_path, crashes, WELL) as watch:
        await watch.until(lambda: watch.states == ["starting", "crashed", "watching"])

        assert "killed by SIGSEGV in nvmlDeviceGetTemperature on GPU 1" in watch.statuses[1].detail


async def test_what_the_driver_answered_at_the_start_is_not_called_a_crash(
    tmp_path: Path,
) -> None:
    line = {"type": "failed", "call": "nvmlInitWithFlags", "code": 18, "text": "mismatch"}

    async with watched(tmp_path, [["say", line], ["exit", 3]], WELL) as watch:
        await watch.until(lambda: watch.states == ["starting", "driver_changed", "watching"])


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([["flood"]], "printed without end"),
        ([["close"], ["hang"]], "closed its output"),
        ([["exit", 7]], "ended with exit code 7"),
    ],
)
async def test_a_broken_probe_is_ended_and_another_started(
    tmp_path: Path, script: Script, why: str
) -> None:
    async with watched(tmp_path, script, WELL) as watch:
        await watch.until(lambda: watch.states == ["starting", "crashed", "watching"])

        assert why in watch.statuses[1].detail


async def test_lines_that_make_no_sense_harm_nothing(tmp_path: Path) -> None:
    nonsense: Script = [["say", "Segmentation fault"], ["say", {"type": "gpu"}], ["say", "[" * 99]]

    async with watched(tmp_path, nonsense + WELL) as watch:
        await watch.until(lambda: watch.states == ["starting", "watching"])


async def test_letting_go_ends_the_process_before_it_is_said(tmp_path: Path) -> None:
    async with watched(tmp_path, WELL) as watch:
        await watch.until(lambda: "watching" in watch.states)
        pid = watch.supervisor._run._child.pid
        watch.supervisor.release()
        await watch.until(lambda: watch.states[-1] == "released")

        assert not psutil.pid_exists(pid)


class TestUninterruptible:
    """A probe that no signal ends, since the kernel holds it in a write that is not done."""

    @pytest.fixture
    def frozen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrozenFolder]:
        monkeypatch.setattr(supervisor, "TERM_SECONDS", 0.05)
        monkeypatch.setattr(supervisor, "KILL_SECONDS", 0.1)
        monkeypatch.setattr(supervisor, "CLOSE_SECONDS", 0.1)
        monkeypatch.setattr(supervisor, "LEFT_BEHIND_SECONDS", 0.02)
        with frozen_folder(tmp_path) as folder:
            yield folder

    @pytest.fixture
    def stuck_script(self, frozen: FrozenFolder) -> Script:
        return [LOOK, ["call", TEMPERATURE, 1], ["write", str(frozen.path / "file")]]

    async def test_it_is_left_behind_and_another_started_once_it_is_gone(
        self, tmp_path: Path, frozen: FrozenFolder, stuck_script: Script
    ) -> None:
        async with watched(tmp_path, stuck_script, WELL) as watch:
            await watch.until(lambda: watch.states == ["starting", "unresponsive", "unresponsive"])
            pid = watch.statuses[-1].pid
            assert process.is_uninterruptible(Path("/proc"), pid)
            assert (watch.statuses[-1].gpu, watch.statuses[-1].call) == ("GPU-1", TEMPERATURE)

            await asyncio.sleep(0.1)
            assert len(watch.skips) == 1

            frozen.thaw()
            await watch.until(lambda: RoundOver(1.0) in watch.news)
            assert watch.skips == [[], ["00000000:01:00.0"]]
            assert not psutil.pid_exists(pid)

    def test_the_agent_ends_and_the_next_one_neither_repeats_nor_forgets_it(
        self, tmp_path: Path, frozen: FrozenFolder, stuck_script: Script
    ) -> None:
        said: list[WatchStatus] = []

        async def first_agent() -> None:
            async with watched(tmp_path, stuck_script) as watch:
                await watch.until(lambda: watch.statuses and watch.statuses[-1].pid)
                said.append(watch.statuses[-1])

        async def next_agent() -> None:
            async with watched(tmp_path, stuck_script, WELL, left=said[0]) as watch:
                await asyncio.sleep(0.1)
                assert watch.statuses == said
                assert len(watch.skips) == 1

                frozen.thaw()
                await watch.until(lambda: watch.states == ["unresponsive", "watching"])

        asyncio.run(first_agent())
        gc.collect()
        assert process.is_uninterruptible(Path("/proc"), said[0].pid)
        asyncio.run(next_agent())
