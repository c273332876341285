"""The watch over the GPUs: the real probe and binding on a fake driver, judged and made known."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lastcall.core.commands import WatchGpus
from lastcall.core.events import (
    Event,
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuXidCounted,
    SourceReported,
)
from lastcall.core.facts import NoticeTold
from lastcall.core.gpu.model import Gpu, GpuRecord, GpuWatch, Health, WatchState
from lastcall.core.gpu.rules import Rules
from lastcall.core.model import Node
from lastcall.gpu import watch as watches
from lastcall.gpu.supervisor import ProbeSettings
from lastcall.gpu.watch import WatchSettings
from support.happenings import SPOT, joined, spot
from support.nvml import FakeDriver
from support.story import Story

E = TypeVar("E", bound=Event)
FIRST = FakeDriver.uuid(0)


class Watching:
    """A watch that runs, what it posted, and the log of the kernel that it reads."""

    def __init__(self, folder: Path, driver: FakeDriver, **settings: object) -> None:
        self.posted: list[Event] = []
        self.kernel_log = folder / "kmsg"
        os.mkfifo(self.kernel_log)
        probe = ProbeSettings(
            always=True,
            poll_seconds=0.1,
            call_seconds=1.0,
            environment={**os.environ, **driver.environment},
        )
        chosen = {"rules": Rules(), "acts_on_faults": True, "kernel_log": self.kernel_log}
        self.watch = watches.GpuWatcher(
            WatchSettings(**{**chosen, "probe": probe, **settings}),  # type: ignore[arg-type]
            self.posted.append,
            asyncio.get_running_loop().time,
        )

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.posted if isinstance(event, kind)]

    def health(self, uuid: str = FIRST) -> Health | None:
        judged = [event for event in self.all(GpuJudged) if event.gpu.uuid == uuid]
        return judged[-1].verdict.health if judged else None

    def state(self) -> WatchState | None:
        changes = self.all(GpuWatchChanged)
        return changes[-1].state if changes else None

    async def until(self, holds: Callable[[], object], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - what it waits for is not ours to signal
                await asyncio.sleep(0.01)

    def kernel_says(self, xid: int, gpu: int = 0, text: str = "something broke") -> None:
        address = FakeDriver.pci(gpu)[4:-2].lower()
        with self.kernel_log.open("w", encoding="ascii") as log:
            log.write(f"4,1,1000,-;NVRM: Xid (PCI:{address}): {xid}, pid=1, name=x, {text}\n")


@contextlib.asynccontextmanager
async def watching(
    folder: Path, driver: FakeDriver, before: Node | None = None, **settings: object
) -> AsyncIterator[Watching]:
    one = Watching(folder, driver, **settings)
    running = asyncio.create_task(one.watch.run(before or Node()))
    try:
        yield one
    finally:
        await one.watch.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def driver(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "driver", nvml_library, gpus=2)


async def test_what_nvml_and_the_kernel_both_report_is_counted_once_and_decided_once(
    tmp_path: Path, driver: FakeDriver
) -> None:
    driver.unsupport(0, 230)
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.health() is Health.HEALTHY)

        driver.xid(0, 48)
        one.kernel_says(48)
        await one.until(lambda: one.health() is Health.FAULTY)
        one.kernel_says(48, text="and again")
        await one.until(lambda: sum(each.count for each in one.all(GpuXidCounted)) == 2)

        reports = [event for event in one.all(SourceReported) if event.sightings]

    assert len(reports) == 1
    assert {(each.gpu, each.xid) for each in one.all(GpuXidCounted)} == {(FIRST, 48)}


async def test_an_error_in_the_kernels_log_after_which_calls_hang_ends_all_calls(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.health() is Health.HEALTHY)
        driver.hang("nvmlDeviceGetTemperature", gpu=0)

        one.kernel_says(119, text="Timeout waiting for RPC from GSP")
        await one.until(lambda: one.health() is Health.FAULTY, 0.5)
        await one.until(lambda: one.state() is WatchState.UNRESPONSIVE)
        calls = driver.calls_in_all()
        await asyncio.sleep(0.3)

        assert driver.calls_in_all() == calls


@pytest.mark.parametrize("witness", ["driver", "kernel"])
async def test_no_call_begins_after_the_error_that_ends_them(
    tmp_path: Path, driver: FakeDriver, witness: str
) -> None:
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.health() is Health.HEALTHY)

        if witness == "driver":
            driver.xid(0, 119)
        else:
            one.kernel_says(119)
        await one.until(lambda: one.all(GpuXidCounted))
        rounds = driver.calls("nvmlDeviceGetUtilizationRates", 0)
        await one.until(lambda: one.state() is WatchState.UNRESPONSIVE)
        await asyncio.sleep(0.3)

        # The round that was under way may end.
        assert driver.calls("nvmlDeviceGetUtilizationRates", 0) - rounds <= 1


async def test_while_a_flush_goes_on_errors_of_ended_processes_say_nothing(
    tmp_path: Path, driver: FakeDriver
) -> None:
    story = Story()
    story.at(0, joined("s0"))
    told = story.at(1, SPOT.shows(spot(ends_at=1e9))).fact(NoticeTold)
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.health() is Health.HEALTHY)
        one.watch.note(told)

        driver.xid(0, 45, count=5)
        driver.xid(0, 43, count=5)
        await one.until(lambda: {each.xid for each in one.all(GpuXidCounted)} == {43, 45})
        await one.until(lambda: sum(each.count for each in one.all(GpuXidCounted)) == 10)

    assert {each.verdict.health for each in one.all(GpuJudged)} <= {Health.HEALTHY, Health.UNKNOWN}
    assert all(not event.sightings for event in one.all(SourceReported))


async def test_who_holds_a_gpu_for_a_while_is_named(tmp_path: Path, driver: FakeDriver) -> None:
    driver.processes(0, [os.getpid()])
    async with watching(tmp_path, driver, holder_seconds=0.05) as one:
        await one.until(lambda: one.all(GpuHoldersSeen))
        driver.processes(0, [])
        driver.xid(0, 13)  # has the probe look at all of it
        await one.until(lambda: len(one.all(GpuHoldersSeen)) == 2)
        driver.processes(0, [os.getpid()])
        driver.xid(0, 31)
        await one.until(lambda: len(one.all(GpuHoldersSeen)) == 3)
        one.watch.order(WatchGpus(watched=False))
        await one.until(lambda: len(one.all(GpuHoldersSeen)) == 4)

    ((holder,), nobody, _, let_go) = (event.holders for event in one.all(GpuHoldersSeen))
    assert (holder.pid, holder.gpus, nobody, let_go) == (os.getpid(), (FIRST,), (), ())


async def test_faults_that_are_not_acted_on_are_no_sightings_and_earlier_ones_end(
    tmp_path: Path, driver: FakeDriver
) -> None:
    driver.field(0, 230, 1)
    async with watching(tmp_path, driver, acts_on_faults=False) as one:
        await one.until(lambda: one.health() is Health.FAULTY)

    assert one.all(SourceReported) == [SourceReported("gpu", "health", ())]


async def test_a_watch_that_is_off_asks_nobody_and_holds_nothing_against_anybody(
    tmp_path: Path, driver: FakeDriver
) -> None:
    before = Node(gpus={FIRST: GpuRecord(gpu=Gpu(FIRST, 0))})
    async with watching(tmp_path, driver, before, enabled=False) as one:
        await one.until(lambda: one.state() is WatchState.OFF)

    assert driver.calls_in_all() == 0
    assert one.all(SourceReported) == [SourceReported("gpu", "health", ())]
    assert one.all(GpuGone) == [GpuGone(FIRST)]


async def test_gpus_that_were_let_go_before_a_restart_are_left_alone(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver, Node(gpus_released_until=1e9)) as one:
        await one.until(lambda: one.state() is WatchState.RELEASED)
        assert driver.calls_in_all() == 0

        one.watch.order(WatchGpus(watched=True, repaired=True))

        await one.until(lambda: one.health() is Health.HEALTHY)


async def test_a_restart_says_nothing_that_was_said(tmp_path: Path, driver: FakeDriver) -> None:
    driver.field(0, 230, 1)
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.health() is Health.FAULTY)
        await one.until(lambda: one.health(FakeDriver.uuid(1)) is Health.HEALTHY)
    known = {
        each.gpu.uuid: GpuRecord(gpu=each.gpu, verdict=each.verdict) for each in one.all(GpuJudged)
    }
    (tmp_path / "kmsg").unlink()

    async with watching(tmp_path, driver, Node(gpus=known)) as again:
        await again.until(lambda: again.state() is WatchState.WATCHING)
        await asyncio.sleep(0.3)

    of_the_fault = [event for event in again.all(GpuJudged) if event.gpu.uuid == FIRST]
    assert of_the_fault == []
    before = [event.sightings for event in one.all(SourceReported) if event.sightings]
    after = [event.sightings for event in again.all(SourceReported)]
    assert [each.identity for (each,) in after] == [each.identity for (each,) in before]


async def test_the_kernels_log_is_read_from_the_boot_and_what_was_known_is_no_news(
    tmp_path: Path, driver: FakeDriver
) -> None:
    for gpu in (0, 1):
        driver.unsupport(gpu, 230)
    log = tmp_path / "log"
    log.write_text(
        "".join(
            f"4,{gpu},1000,-;NVRM: Xid (PCI:{FakeDriver.pci(gpu)[4:-2]}): 48, pid=1, name=x, DBE\n"
            for gpu in (0, 1)
        )
    )
    before = Node(gpu_xids={f"{FIRST}/48": 5.0})

    async with watching(tmp_path, driver, before, kernel_log=log) as one:
        await one.until(lambda: one.health(FakeDriver.uuid(1)) is Health.DEGRADED)
        await one.until(lambda: one.health() is Health.HEALTHY)

    assert one.all(GpuXidCounted) == []
    assert one.watch.kernel_log == "read"


async def test_what_the_kernel_said_before_a_repair_is_mended(
    tmp_path: Path, driver: FakeDriver
) -> None:
    driver.unsupport(0, 230)
    log = tmp_path / "log"
    log.write_text(f"4,1,1000,-;NVRM: Xid (PCI:{FakeDriver.pci(0)[4:-2]}): 48, pid=1, DBE\n")

    async with watching(tmp_path, driver, Node(gpus_repaired_at=9.0), kernel_log=log) as one:
        await one.until(lambda: one.state() is WatchState.WATCHING)
        await asyncio.sleep(0.3)

    assert one.health() is Health.HEALTHY


async def test_whether_the_drivers_own_word_is_heard_is_known(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with watching(tmp_path, driver) as one:
        await one.until(lambda: one.watch.event_stream_up)

        driver.fail("nvmlEventSetWait_v2", 999)
        driver.xid(0, 13)  # ends the wait that is under way

        await one.until(lambda: one.watch.event_stream_up is False)
    assert one.health() is Health.HEALTHY


def test_a_probe_that_an_earlier_agent_left_behind_is_remembered() -> None:
    stuck = GpuWatch(state=WatchState.UNRESPONSIVE, gpu=FIRST, call="nvmlInit", pid=4711)

    left = watches.left_behind(Node(gpu_watch=stuck))

    assert left is not None
    assert (left.pid, left.gpu, left.call) == (4711, FIRST, "nvmlInit")
    assert watches.left_behind(Node()) is None
    assert watches.left_behind(Node(gpus={"": GpuRecord(gpu=Gpu(""))})) is None
