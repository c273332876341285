"""The supervisor in loop time: when probes run, when they are ended, and what is said of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lastcall.core.gpu.model import Look, NodeLook, WatchState, XidSeen
from lastcall.gpu import process, watch_status
from lastcall.gpu.course import Course, Hanging
from lastcall.gpu.lines import RoundOver
from lastcall.gpu.supervisor import ProbeNews, ProbeSettings, Supervisor, WatchStatus
from lastcall.gpu.trail import Step
from support.fake_probes import FakeChild, FakeProbes, Mood, pci

pytestmark = pytest.mark.looptime

TEMPERATURE = "nvmlDeviceGetTemperature"


class Told:
    """What the supervisor told, and when."""

    def __init__(
        self,
        supervisor: Supervisor,
        probes: FakeProbes,
        statuses: list[WatchStatus],
        news: list[ProbeNews],
    ) -> None:
        self.supervisor = supervisor
        self.probes = probes
        self.statuses = statuses
        self.news = news
        self.running: asyncio.Task[None]

    @property
    def states(self) -> list[str]:
        return [str(status.state) for status in self.statuses]

    @property
    def starts(self) -> list[int]:
        return [round(child.started_at) for child in self.probes.started]


@asynccontextmanager
async def watched(
    *moods: Mood,
    settings: ProbeSettings | None = None,
    left_behind: WatchStatus | None = None,
    released: bool = False,
) -> AsyncIterator[Told]:
    probes = FakeProbes(*moods)
    news: list[ProbeNews] = []
    statuses: list[WatchStatus] = []
    supervisor = Supervisor(
        settings or ProbeSettings(always=True),
        news=news.append,
        said=statuses.append,
        monotonic=asyncio.get_running_loop().time,
        left_behind=left_behind,
        start=probes.start,
    )
    told = Told(supervisor, probes, statuses, news)
    if released:
        supervisor.release()
    told.running = asyncio.create_task(supervisor.run())
    try:
        yield told
    finally:
        await supervisor.close()
        await asyncio.wait([told.running])
    assert told.running.cancelled() or told.running.exception() is None


def well(child: FakeChild) -> None:
    child.live()


def hangs_on(index: int, call: str = TEMPERATURE) -> Mood:
    def mood(child: FakeChild) -> None:
        child.enter(call, index)

    return mood


def cannot_be_ended(child: FakeChild) -> None:
    child.endless = True
    child.enter(TEMPERATURE, 1)


def dies(how: str = "was killed by SIGSEGV") -> Mood:
    def mood(child: FakeChild) -> None:
        child.die(how)

    return mood


def dies_on(index: int) -> Mood:
    def mood(child: FakeChild) -> None:
        child.enter(TEMPERATURE, index)
        child.die("was killed by SIGSEGV")

    return mood


def is_refused(code: int, text: str = "some text") -> Mood:
    def mood(child: FakeChild) -> None:
        child.say("failed", call="nvmlInitWithFlags", code=code, text=text)
        child.die("ended with exit code 3")

    return mood


def counts(driver_count: int, pci_count: int | None) -> Mood:
    def mood(child: FakeChild) -> None:
        child.say("node", at=0.0, driver_count=driver_count, pci_count=pci_count)
        child.round(codes=())

    return mood


def machine(folder: Path) -> ProbeSettings:
    """Return the settings of a machine of its own, without a GPU."""
    places = {name: folder / name for name in ("sysfs", "proc", "dev")}
    for place in places.values():
        place.mkdir()
    return ProbeSettings(**places)


class TestWatching:
    async def test_a_good_round_is_said_once(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(60)

            assert told.states == ["starting", "watching"]
            assert told.starts == [0]

    async def test_what_the_probe_says_of_the_gpus_is_news(self) -> None:
        def says_all(child: FakeChild) -> None:
            child.say("hello", pid=1, driver="550", nvml="12")
            child.say("node", at=1.0, driver_count=1)
            child.round(codes=(0,))
            child.say("xid", at=2.0, uuid="GPU-0", xid=79, count=3)

        async with watched(says_all) as told:
            await asyncio.sleep(1)

            assert [type(news) for news in told.news] == [NodeLook, Look, RoundOver, XidSeen]

    async def test_a_round_can_be_asked_for(self) -> None:
        async with watched(well) as told:
            told.supervisor.look()
            await asyncio.sleep(1)
            told.supervisor.look()

            assert told.probes.last.asked == 1

    async def test_lines_that_make_no_sense_are_logged_once_and_are_no_sign_of_life(self) -> None:
        def babbles(child: FakeChild) -> None:
            child.say("nonsense")
            asyncio.get_running_loop().call_later(1, babbles, child)

        with capture_logs() as log:
            async with watched(babbles) as told:
                await asyncio.sleep(40)

                assert told.states == ["starting", "unresponsive"]
        assert [line["event"] for line in log].count("gpu_probe_not_understood") == 1

    async def test_the_probe_ends_with_the_agent(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(1)

        assert told.probes.last.gone

    async def test_the_probe_ends_when_the_watch_is_cancelled(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(1)
            told.running.cancel()
            await asyncio.wait([told.running])

            assert told.probes.last.gone


class TestNothingToWatch:
    async def test_a_machine_without_a_gpu_gets_no_probe(self, tmp_path: Path) -> None:
        async with watched(well, settings=machine(tmp_path)) as told:
            await asyncio.sleep(600)

            assert told.states == ["no_gpu"]
            assert told.starts == []

    async def test_a_driver_that_comes_later_is_found(self, tmp_path: Path) -> None:
        async with watched(well, settings=machine(tmp_path)) as told:
            await asyncio.sleep(90)
            (tmp_path / "dev/nvidiactl").touch()
            await asyncio.sleep(40)

            assert told.states == ["no_gpu", "watching"]
            assert told.starts == [120]

    async def test_a_probe_runs_in_any_case_where_the_site_says_so(self, tmp_path: Path) -> None:
        settings = replace(machine(tmp_path), always=True)

        async with watched(well, settings=settings) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "watching"]

    @pytest.mark.parametrize("pci_count", [0, None])
    async def test_a_driver_without_gpus_is_no_failure(self, pci_count: int | None) -> None:
        async with watched(counts(0, pci_count)) as told:
            await asyncio.sleep(100)

            assert told.states == ["starting", "no_gpu"]

    async def test_gpus_on_the_bus_that_the_driver_does_not_have_are_watched_for(self) -> None:
        async with watched(counts(0, 8)) as told:
            await asyncio.sleep(10)

            assert told.states == ["starting", "watching"]


class TestRefused:
    @pytest.mark.parametrize(
        ("code", "state", "why"),
        [
            (12, "no_driver", "libnvidia-ml.so.1, is not to be found"),
            (9, "no_driver", "kernel module is not loaded"),
            (4, "no_driver", "may not be used"),
            (18, "driver_changed", "not of its kernel module's version"),
            (15, "no_driver", "the driver refused"),
        ],
    )
    async def test_what_the_driver_answers_is_said(
        self, code: int, state: str, why: str, tmp_path: Path
    ) -> None:
        settings = machine(tmp_path)
        (tmp_path / "dev/nvidiactl").touch()

        async with watched(is_refused(code), settings=settings) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", state]
            assert why in told.statuses[-1].detail
            assert f"nvmlInitWithFlags: some text ({code})" in told.statuses[-1].detail

    async def test_a_missing_package_is_not_taken_for_a_missing_library(self) -> None:
        text = "the package nvidia-ml-py is not installed (lastcall's extra gpu)"
        async with watched(is_refused(12, text)) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "no_driver"]
            assert told.statuses[-1].detail == watch_status.NO_PACKAGE

    async def test_it_is_said_once_and_tried_again_ever_more_rarely(self) -> None:
        async with watched(is_refused(12)) as told:
            await asyncio.sleep(2200)

            assert told.states == ["starting", "no_driver"]
            assert told.starts == [0, 30, 90, 210, 450, 930, 1530, 2130]

    async def test_a_driver_that_comes_later_is_watched(self, tmp_path: Path) -> None:
        settings = machine(tmp_path)
        (tmp_path / "dev/nvidiactl").touch()

        async with watched(is_refused(9), is_refused(9), well, settings=settings) as told:
            await asyncio.sleep(100)

            assert told.states == ["starting", "no_driver", "watching"]

    @pytest.mark.parametrize("code", [9, 17, 999])
    async def test_a_driver_that_is_not_there_on_a_machine_without_gpus_is_no_gpu(
        self, code: int, tmp_path: Path
    ) -> None:
        settings = replace(machine(tmp_path), always=True)

        async with watched(is_refused(code), settings=settings) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "no_gpu"]

    @pytest.mark.parametrize("code", [17, 999])
    async def test_an_unknown_error_without_a_control_device_is_lost_access(
        self, code: int, tmp_path: Path
    ) -> None:
        settings = machine(tmp_path)
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)

        async with watched(is_refused(code), settings=settings) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "access_lost"]

    async def test_an_unknown_error_with_a_control_device_is_the_drivers(
        self, tmp_path: Path
    ) -> None:
        settings = machine(tmp_path)
        (tmp_path / "dev/nvidiactl").touch()

        async with watched(is_refused(999), settings=settings) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "no_driver"]


class TestAccessLost:
    async def test_all_gpus_out_of_reach_with_a_shut_control_device(self) -> None:
        def loses_access(child: FakeChild) -> None:
            child.say("node", at=0.0, driver_count=2, pci_count=2, control_openable=True)
            child.round()
            child.say("node", at=0.0, driver_count=2, pci_count=2, control_openable=False)
            child.round(codes=(999, 17))

        async with watched(loses_access, well) as told:
            await asyncio.sleep(20)
            assert told.states == ["starting", "watching", "access_lost"]
            assert told.probes.last.gone

            await asyncio.sleep(20)
            assert told.states == ["starting", "watching", "access_lost", "watching"]

    @pytest.mark.parametrize(
        ("codes", "control_openable"),
        [((999, 0), False), ((999, 999), True), ((999, 999), None), ((15, 15), False)],
    )
    async def test_anything_less_is_a_matter_of_the_gpus(
        self, codes: tuple[int, int], control_openable: bool | None
    ) -> None:
        def answers(child: FakeChild) -> None:
            child.say("node", at=0.0, driver_count=2, control_openable=control_openable)
            child.round(codes=codes)

        async with watched(answers) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "watching"]


class TestHanging:
    async def test_a_call_that_does_not_come_back_is_said_once_with_its_gpu(self) -> None:
        async with watched(hangs_on(1), well) as told:
            await asyncio.sleep(40)

            assert told.statuses[1:] == [
                WatchStatus(
                    WatchState.UNRESPONSIVE,
                    "nvmlDeviceGetTemperature on GPU 1 did not come back within 30 seconds",
                    "GPU-1",
                    TEMPERATURE,
                )
            ]
            assert told.probes.last.end_asked_at == pytest.approx(31, abs=1.1)

    async def test_a_call_that_takes_long_is_logged_once(self) -> None:
        with capture_logs() as log:
            async with watched(hangs_on(1)) as told:
                await asyncio.sleep(4)
                assert log == []
                await asyncio.sleep(20)

                assert told.states == ["starting"]
        slow = [line for line in log if line["event"] == "gpu_call_slow"]
        assert [(line["call"], line["gpu"], line["index"]) for line in slow] == [
            (TEMPERATURE, "GPU-1", 1)
        ]

    async def test_slow_calls_that_come_back_are_no_hang(self) -> None:
        def goes_from_call_to_call(child: FakeChild) -> None:
            child.enter(TEMPERATURE, 1)
            asyncio.get_running_loop().call_later(20, goes_from_call_to_call, child)

        async with watched(goes_from_call_to_call) as told:
            await asyncio.sleep(300)

            assert told.states == ["starting"]

    async def test_a_probe_that_says_nothing_is_ended_too(self) -> None:
        async with watched(lambda child: None) as told:
            await asyncio.sleep(34)
            assert told.states == ["starting"]

            await asyncio.sleep(4)
            assert told.states == ["starting", "unresponsive"]
            assert "said nothing for 35 seconds" in told.statuses[-1].detail
            assert told.probes.last.gone

    async def test_the_others_are_watched_while_the_gpu_is_left_out(self) -> None:
        async with watched(hangs_on(1), well) as told:
            await asyncio.sleep(300)

            assert told.probes.last.skip == [pci(1)]
            assert {news.gpu.uuid for news in told.news if isinstance(news, Look)} == {"GPU-0"}
            assert told.states == ["starting", "unresponsive"]
            assert told.statuses[-1].gpu == "GPU-1"

    async def test_the_gpu_is_tried_again_later(self) -> None:
        async with watched(hangs_on(1), well) as told:
            await asyncio.sleep(700)

            assert [child.skip for child in told.probes.started] == [[], [pci(1)], []]
            assert told.starts[2] - told.starts[1] == pytest.approx(600, abs=2)
            assert told.states == ["starting", "unresponsive", "watching"]

    async def test_a_gpu_that_hangs_for_ever_is_not_said_again(self) -> None:
        def hangs_unless_left_out(child: FakeChild) -> None:
            child.live() if child.skip else child.enter(TEMPERATURE, 1)

        async with watched(hangs_unless_left_out) as told:
            await asyncio.sleep(1400)

            assert told.states == ["starting", "unresponsive"]
            assert told.starts == pytest.approx([0, 61, 661, 722, 1322, 1383], abs=5)

    async def test_two_gpus_that_hang_are_both_left_out(self) -> None:
        def hangs(child: FakeChild) -> None:
            left = [index for index in (1, 2) if pci(index) not in child.skip]
            child.enter(TEMPERATURE, left[0]) if left else child.live()

        async with watched(hangs) as told:
            await asyncio.sleep(300)

            assert told.probes.last.skip == [pci(1), pci(2)]
            assert [status.gpu for status in told.statuses] == ["", "GPU-1", "GPU-2"]

    async def test_a_gpu_without_a_known_address_is_left_out_by_its_index(self) -> None:
        def hangs_at_its_handle(child: FakeChild) -> None:
            child.trail = Step("nvmlDeviceGetHandleByIndex", "", 3, "", child.started_at)

        async with watched(hangs_at_its_handle, well) as told:
            await asyncio.sleep(70)

            assert told.probes.last.skip == ["index:3"]

    async def test_a_hang_of_no_gpu_leaves_none_out(self) -> None:
        async with watched(hangs_on(-1, "nvmlInitWithFlags"), well) as told:
            await asyncio.sleep(70)

            assert told.probes.last.skip == []
            assert told.states == ["starting", "unresponsive", "watching"]

    async def test_an_agent_that_stood_still_does_not_blame_the_driver(self) -> None:
        def course() -> Course:
            return Course(call_seconds=30, poll_seconds=5, now=0.0, monotonic=lambda: now)

        step = Step(TEMPERATURE, "GPU-1", 1, pci(1), 0.5)
        now = 100.0
        stood_still = course()
        assert stood_still.check(step, 100.0) is None

        for now in range(101, 130):
            assert not isinstance(stood_still.check(step, now), Hanging)
        for now in range(130, 135):
            found = stood_still.check(step, now)
        assert found == Hanging(step, 30)


class TestLeftBehind:
    async def test_it_is_said_with_its_process_and_no_other_is_started(self) -> None:
        async with watched(cannot_be_ended, well) as told:
            await asyncio.sleep(3600)

            assert told.states == ["starting", "unresponsive", "unresponsive"]
            assert [status.pid for status in told.statuses] == [None, None, 4711]
            assert told.statuses[-1].call == TEMPERATURE
            assert len(told.starts) == 1

    async def test_the_watch_goes_on_without_that_gpu_once_it_is_gone(self) -> None:
        async with watched(cannot_be_ended, well) as told:
            await asyncio.sleep(100)
            told.probes.last.gone = True
            await asyncio.sleep(20)

            assert len(told.starts) == 2
            assert told.probes.last.skip == [pci(1)]
            assert told.statuses[-1].pid is None
            assert told.statuses[-1].gpu == "GPU-1"

    async def test_one_left_by_an_agent_before_is_not_said_otherwise(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = {57}
        monkeypatch.setattr(process, "is_uninterruptible", lambda _proc, pid: pid in held)
        status = WatchStatus(WatchState.UNRESPONSIVE, "as said", "GPU-1", TEMPERATURE, 57)

        async with watched(well, left_behind=status) as told:
            await asyncio.sleep(600)
            assert told.statuses == [status]
            assert told.starts == []

            held.clear()
            await asyncio.sleep(10)
            assert told.states == ["unresponsive", "watching"]

    async def test_one_that_is_gone_by_the_start_is_no_matter(self) -> None:
        no_process = 2**22 + 1
        status = WatchStatus(WatchState.UNRESPONSIVE, "as said", "", "", no_process)

        async with watched(well, left_behind=status) as told:
            await asyncio.sleep(1)

            assert told.states == ["starting", "watching"]


class TestCrashing:
    async def test_it_is_said_how_and_where(self) -> None:
        async with watched(dies_on(1)) as told:
            await asyncio.sleep(0.5)

            assert told.statuses[-1] == WatchStatus(
                WatchState.CRASHED,
                "the probe was killed by SIGSEGV in nvmlDeviceGetTemperature on GPU 1",
                "GPU-1",
                TEMPERATURE,
            )

    async def test_it_is_said_once_and_tried_again_ever_more_rarely(self) -> None:
        async with watched(dies()) as told:
            await asyncio.sleep(2200)

            assert told.states == ["starting", "crashed"]
            assert told.starts == [0, 1, 6, 36, 96, 216, 456, 936, 1536, 2136]

    async def test_ten_minutes_of_good_rounds_make_up_for_it(self) -> None:
        def lives(seconds: float) -> Mood:
            def mood(child: FakeChild) -> None:
                child.live()
                asyncio.get_running_loop().call_later(seconds, child.die, "ended")

            return mood

        async with watched(dies(), dies(), lives(500), lives(700), dies()) as told:
            await asyncio.sleep(1300)

            waits = [0, 1, 5, 500 + 30, 700 + 1]
            assert told.starts[:5] == pytest.approx([sum(waits[: n + 1]) for n in range(5)], abs=2)

    async def test_a_second_crash_on_the_same_gpu_leaves_it_out(self) -> None:
        async with watched(dies_on(1), dies_on(1), well) as told:
            await asyncio.sleep(30)

            assert [child.skip for child in told.probes.started] == [[], [], [pci(1)]]
            assert told.states == ["starting", "crashed"]
            assert told.statuses[-1].gpu == "GPU-1"

    async def test_crashes_on_different_gpus_leave_none_out(self) -> None:
        async with watched(dies_on(1), dies_on(0), well) as told:
            await asyncio.sleep(30)

            assert told.probes.last.skip == []
            assert told.states[-1] == "watching"

    async def test_one_at_fault_is_ended(self) -> None:
        def closes_its_output(child: FakeChild) -> None:
            child.fault = "closed its output and went on"

        async with watched(closes_its_output, well) as told:
            await asyncio.sleep(1.5)
            assert told.statuses[-1].detail == "the probe closed its output and went on"
            assert told.probes.started[0].gone

            await asyncio.sleep(2)
            assert told.states == ["starting", "crashed", "watching"]

    async def test_one_that_cannot_be_started_is_said(self) -> None:
        async def fails(*_: object, **__: object) -> FakeChild:
            raise OSError(12, "Cannot allocate memory")

        async with watched(well) as told:
            told.supervisor._start = fails
            await asyncio.sleep(1)

            assert told.statuses[-1] == WatchStatus(
                WatchState.CRASHED, "the probe cannot be started: Cannot allocate memory"
            )


class TestReleasing:
    async def test_it_is_said_once_the_probe_is_gone(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(10)
            told.supervisor.release()
            await asyncio.sleep(100)

            assert told.probes.last.end_asked_at == pytest.approx(10, abs=0.1)
            assert told.states == ["starting", "watching", "released"]
            assert len(told.starts) == 1

    async def test_a_probe_that_cannot_be_ended_is_not_released(self) -> None:
        async with watched(cannot_be_ended) as told:
            await asyncio.sleep(10)
            told.supervisor.release()
            await asyncio.sleep(100)
            assert told.states == ["starting", "unresponsive"]
            assert told.statuses[-1].pid == 4711

            told.probes.last.gone = True
            await asyncio.sleep(10)
            assert told.states == ["starting", "unresponsive", "released"]

    async def test_what_the_ending_probe_still_says_is_not_heard(self) -> None:
        async with watched(cannot_be_ended) as told:
            await asyncio.sleep(10)
            told.supervisor.release()
            await asyncio.sleep(1)
            told.probes.last.round()

            assert told.news == []
            assert told.states == ["starting"]

    async def test_the_watch_is_taken_up_again_at_once_and_of_all_gpus(self) -> None:
        async with watched(hangs_on(1), well) as told:
            await asyncio.sleep(40)
            told.supervisor.release()
            await asyncio.sleep(1)
            told.supervisor.watch()
            await asyncio.sleep(1)

            assert told.probes.last.skip == []
            assert told.states == ["starting", "unresponsive", "released", "starting", "watching"]

    async def test_one_released_from_the_start_has_no_probe(self) -> None:
        async with watched(well, released=True) as told:
            await asyncio.sleep(100)

            assert told.states == ["released"]
            assert told.starts == []

    async def test_asked_to_watch_it_puts_nothing_off(self) -> None:
        async with watched(is_refused(12)) as told:
            await asyncio.sleep(5)
            told.supervisor.watch()
            await asyncio.sleep(1)

            assert told.starts == [0, 5]

    async def test_asked_to_watch_it_leaves_no_gpu_out(self) -> None:
        async with watched(hangs_on(1), well) as told:
            await asyncio.sleep(100)
            told.supervisor.watch()
            await asyncio.sleep(10)

            assert [child.skip for child in told.probes.started] == [[], [pci(1)], []]
            assert told.states == ["starting", "unresponsive", "watching"]

    async def test_asked_to_watch_what_is_watched_it_starts_nothing_anew(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(10)
            told.supervisor.watch()
            await asyncio.sleep(10)

            assert len(told.starts) == 1


class TestStoppedCalls:
    async def test_the_probe_is_ended_at_once_and_a_fresh_one_waits(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(10)
            told.supervisor.stop_calls("XID 119")
            await asyncio.sleep(25)

            assert told.probes.last.end_asked_at == pytest.approx(10, abs=0.1)
            assert told.statuses[-1] == WatchStatus(
                WatchState.UNRESPONSIVE, "no calls into the driver are made: XID 119"
            )
            assert len(told.starts) == 1

            await asyncio.sleep(10)
            assert told.states == ["starting", "watching", "unresponsive", "watching"]

    async def test_a_driver_that_is_reported_on_and_on_is_left_in_peace(self) -> None:
        async with watched(well) as told:
            await asyncio.sleep(10)
            for _ in range(20):
                told.supervisor.stop_calls("XID 119")
                await asyncio.sleep(20)

            assert told.states == ["starting", "watching", "unresponsive"]
            assert len(told.starts) == 1

    async def test_what_is_reported_before_the_first_probe_keeps_it_from_starting(self) -> None:
        async with watched(well) as told:
            told.supervisor.stop_calls("XID 120")
            await asyncio.sleep(29)
            assert told.states == ["unresponsive"]

            await asyncio.sleep(5)
            assert told.states == ["unresponsive", "watching"]


async def test_closing_does_not_wait_for_a_probe_that_cannot_be_ended() -> None:
    loop = asyncio.get_running_loop()

    async with watched(cannot_be_ended) as told:
        await asyncio.sleep(10)
        began_at = loop.time()
        await told.supervisor.close()

        assert loop.time() - began_at < 1.2
        assert told.statuses[-1].pid == 4711
