"""The systemd backend, with units of the test's own on a real bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from lastcall.bus.system_bus import SystemBus
from lastcall.core.commands import Drain
from lastcall.core.events import BackendChecked, DrainEnded, Event, EvictionReported
from lastcall.core.model import Kind
from lastcall.drain.systemd import backend as systemd
from lastcall.drain.systemd import run as systemd_run
from lastcall.drain.systemd.backend import SystemdDrain
from support.fake_bus import FakeBus, a_bus, hurry
from support.fake_systemd import FakeSystemd, FakeUnit

DENIED = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
TRAIN = "/system.slice/train.service"


class DrainAtWork:
    """A backend, and what it says."""

    def __init__(self, address: str, *units: str, own_group: str = "") -> None:
        self.events: list[Event] = []
        self.drain = SystemdDrain(
            SystemBus(address),
            units=units,
            own_group=own_group,
            post=self.events.append,
            monotonic=asyncio.get_running_loop().time,
        )

    @property
    def checks(self) -> list[BackendChecked]:
        return [event for event in self.events if isinstance(event, BackendChecked)]

    @property
    def moves(self) -> list[tuple[str, str]]:
        """What was reported of units, in order."""
        return [
            (event.pod, event.outcome)
            for event in self.events
            if isinstance(event, EvictionReported)
        ]

    @property
    def endings(self) -> list[DrainEnded]:
        return [event for event in self.events if isinstance(event, DrainEnded)]

    def order(
        self,
        lead: float = 60.0,
        *,
        training: Iterable[str] = (),
        waiting: Iterable[str] = (),
        flush_in: float | None = None,
        name: str = "n-1",
    ) -> Drain:
        now = asyncio.get_running_loop().time()
        flush_seconds = lead * 2 / 3 if flush_in is None else flush_in
        return Drain(
            id=name,
            kind=Kind.PREEMPTION,
            reason="spot",
            began_at=now,
            flush_until=now + flush_seconds,
            deadline=now + lead,
            training=frozenset(training) | frozenset(waiting),
            waiting=frozenset(waiting),
        )

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(8):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)

    async def ended(self) -> DrainEnded:
        await self.until(lambda: self.endings)
        return self.endings[-1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(systemd_run, "STOPPING_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(systemd_run, "IDLE_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(systemd_run, "RETRY_SECONDS", 0.05)


@pytest.fixture
async def daemon() -> AsyncIterator[FakeBus]:
    async with a_bus() as daemon:
        yield daemon


@asynccontextmanager
async def machine(daemon: FakeBus, *units: FakeUnit) -> AsyncIterator[FakeSystemd]:
    fake = FakeSystemd(*units)
    await fake.offer(daemon.address)
    try:
        yield fake
    finally:
        await fake.withdraw()


@asynccontextmanager
async def at_work(
    daemon: FakeBus, *units: str, own_group: str = "", is_up: bool = True
) -> AsyncIterator[DrainAtWork]:
    """Let a backend run while the block runs, which begins once it has looked at its units."""
    work = DrainAtWork(daemon.address, *units, own_group=own_group)
    running = asyncio.create_task(work.drain.run())
    try:
        await work.until(lambda: [check for check in work.checks if check.up is is_up])
        yield work
    finally:
        await work.drain.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled(), "the backend ended early"


# --- what is stopped when --------------------------------------------------------------------


async def test_a_unit_is_stopped_once_its_processes_have_flushed(daemon: FakeBus) -> None:
    train = FakeUnit("train.service", stops_after_seconds=0.02, timeout_seconds=90)
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(waiting=[f"{TRAIN}/rank0", f"{TRAIN}/rank1"]))
        work.drain.drain(work.order(training=[f"{TRAIN}/rank0"], waiting=[f"{TRAIN}/rank1"]))
        await work.until(lambda: work.drain.status()["units"])
        assert work.drain.status()["units"][0]["stops_in_seconds"] > 30
        assert train.told == 0

        work.drain.drain(work.order(training=[f"{TRAIN}/rank0", f"{TRAIN}/rank1"]))

        ending = await work.ended()
    assert ending == DrainEnded("n-1", "drained")
    assert work.moves == [("train.service", "evicted")]
    assert train.told == 1


async def test_units_that_are_due_at_once_are_stopped_in_their_order(daemon: FakeBus) -> None:
    names = ["c.service", "a.service", "b.service"]
    units = [FakeUnit(name, stops_after_seconds=0.05) for name in sorted(names)]
    async with machine(daemon, *units) as fake, at_work(daemon, *names) as work:
        work.drain.drain(work.order(training=[f"/system.slice/{name}" for name in names]))

        await work.ended()

    assert fake.stopped == names
    assert sorted(work.moves) == [(name, "evicted") for name in sorted(names)]


async def test_a_flush_that_is_not_over_is_cut_off_when_its_time_is_up(daemon: FakeBus) -> None:
    train = FakeUnit("train.service", timeout_seconds=90)
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(lead=2.0, flush_in=0.1, waiting=[TRAIN]))

        ending = await work.ended()

    assert ending.outcome == "drained"
    assert work.moves == [("train.service", "forced")]


async def test_a_unit_that_nobody_told_is_stopped_when_its_stop_time_needs_it(
    daemon: FakeBus,
) -> None:
    slow, fast = FakeUnit("slow.service", timeout_seconds=90), FakeUnit("fast.service")
    async with (
        machine(daemon, slow, fast),
        at_work(daemon, "slow.service", "fast.service") as work,
    ):
        work.drain.drain(work.order(lead=30))

        await work.until(lambda: work.moves)

        assert work.moves == [("slow.service", "evicted")]
        assert fast.told == 0


async def test_a_unit_without_a_bound_on_its_stop_time_is_stopped_at_once(daemon: FakeBus) -> None:
    unit = FakeUnit("endless.service", timeout_seconds=None)
    async with machine(daemon, unit), at_work(daemon, "endless.service") as work:
        work.drain.drain(work.order(lead=3600))

        assert (await work.ended()).outcome == "drained"


async def test_a_unit_that_ends_by_itself_is_gone(daemon: FakeBus) -> None:
    train = FakeUnit("train.service")
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(waiting=[TRAIN]))
        await work.until(lambda: work.drain.status()["units"])

        train.ends()

        assert (await work.ended()).outcome == "drained"
    assert work.moves == [("train.service", "gone")]


@pytest.mark.parametrize(
    ("active", "sub"),
    [
        ("activating", "auto-restart"),
        ("inactive", "dead-before-auto-restart"),
        ("failed", "failed-before-auto-restart"),
    ],
)
async def test_a_unit_about_to_be_restarted_is_stopped(
    daemon: FakeBus, active: str, sub: str
) -> None:
    train = FakeUnit("train.service", active=active, sub=sub)
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(training=[TRAIN]))

        assert (await work.ended()).outcome == "drained"
    assert work.moves == [("train.service", "evicted")]


async def test_a_unit_that_does_not_run_is_no_move(daemon: FakeBus) -> None:
    idle = FakeUnit("train.service", active="inactive", sub="dead")
    async with machine(daemon, idle), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order())

        assert await work.ended() == DrainEnded("n-1", "drained")
    assert work.moves == []
    assert idle.told == 0


async def test_a_unit_that_is_started_again_meanwhile_is_stopped_again(daemon: FakeBus) -> None:
    back, other = FakeUnit("back.service"), FakeUnit("other.service")
    async with machine(daemon, back, other), at_work(daemon, "back.service", "other.service") as w:
        told, waits = ["/system.slice/back.service"], ["/system.slice/other.service"]
        w.drain.drain(w.order(training=told, waiting=waits))
        await w.until(lambda: w.moves)

        back.active, back.sub = "active", "running"

        await w.until(lambda: back.told == 2)
        w.drain.drain(w.order(training=told + waits))
        assert (await w.ended()).outcome == "drained"
    assert w.moves == [("back.service", "evicted"), ("other.service", "evicted")]


async def test_a_template_stands_for_its_units(daemon: FakeBus) -> None:
    units = [FakeUnit("train@0.service"), FakeUnit("train@1.service"), FakeUnit("trainer.service")]
    async with machine(daemon, *units), at_work(daemon, "train@.service") as work:
        groups = [f"/system.slice/system-train.slice/{unit.name}" for unit in units[:2]]
        work.drain.drain(work.order(training=groups))

        await work.ended()

    assert sorted(work.moves) == [("train@0.service", "evicted"), ("train@1.service", "evicted")]
    assert units[2].told == 0


async def test_an_alias_is_recognised_by_the_name_that_systemd_uses(daemon: FakeBus) -> None:
    train = FakeUnit("train.service", timeout_seconds=90)
    async with machine(daemon, train) as fake:
        fake.aliases["job.service"] = "train.service"
        async with at_work(daemon, "job.service") as work:
            work.drain.drain(work.order(lead=60, waiting=[TRAIN]))
            await work.until(lambda: work.drain.status()["units"])
            assert train.told == 0

            work.drain.drain(work.order(lead=60, training=[TRAIN]))

            await work.ended()
    assert work.moves == [("train.service", "evicted")]


async def test_the_agent_never_stops_itself(daemon: FakeBus) -> None:
    own = FakeUnit("lastcall.service")
    async with (
        machine(daemon, own),
        at_work(daemon, "lastcall.service", own_group="/system.slice/lastcall.service") as work,
    ):
        assert work.checks[-1].detail == "lastcall.service is the agent's own and left alone"

        work.drain.drain(work.order(lead=1))

        ending = await work.ended()
    assert (ending.outcome, ending.detail) == ("drained", work.checks[-1].detail)
    assert own.told == 0


async def test_without_units_there_is_nothing_to_drain(daemon: FakeBus) -> None:
    async with machine(daemon), at_work(daemon) as work:
        work.drain.drain(work.order())
        work.drain.drain(work.order())

        assert [ending.outcome for ending in work.endings] == ["none"]


async def test_an_order_that_comes_again_after_its_end_is_over(daemon: FakeBus) -> None:
    async with (
        machine(daemon, FakeUnit("a.service", timeout_seconds=90)),
        at_work(daemon, "a.service") as work,
    ):
        work.drain.drain(work.order())
        await work.ended()

        work.drain.drain(work.order())

        assert work.drain._tasks == {}


# --- withdrawn -------------------------------------------------------------------------------


async def test_a_withdrawn_notice_stops_no_more_units(daemon: FakeBus) -> None:
    first = FakeUnit("first.service", stops_after_seconds=None)
    second = FakeUnit("second.service", timeout_seconds=90)
    async with (
        machine(daemon, first, second),
        at_work(daemon, "first.service", "second.service") as work,
    ):
        work.drain.drain(
            work.order(
                lead=1.0,
                flush_in=0.3,
                training=["/system.slice/first.service"],
                waiting=["/system.slice/second.service"],
            )
        )
        await work.until(lambda: first.told)

        with structlog.testing.capture_logs() as logs:
            work.drain.stop("n-1")

        assert [(log["event"], log["units"]) for log in logs] == [
            ("units_stay_stopped", ["first.service"])
        ]
        await work.until(lambda: not work.drain._stopped)
        assert second.told == 0
        assert work.endings == []


async def test_a_unit_that_has_stopped_by_the_time_of_the_withdrawal_is_named_too(
    daemon: FakeBus,
) -> None:
    first, second = FakeUnit("first.service"), FakeUnit("second.service", timeout_seconds=90)
    async with (
        machine(daemon, first, second),
        at_work(daemon, "first.service", "second.service") as work,
    ):
        first_group, second_group = "/system.slice/first.service", "/system.slice/second.service"
        training, waiting = [first_group, second_group], [second_group]
        work.drain.drain(work.order(lead=30, training=training, waiting=waiting))
        await work.until(lambda: work.moves == [("first.service", "evicted")])

        with structlog.testing.capture_logs() as logs:
            work.drain.stop("n-1")

        assert [log["units"] for log in logs] == [["first.service"]]


async def test_a_notice_that_stands_again_is_drained_anew(daemon: FakeBus) -> None:
    train = FakeUnit("train.service")
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(waiting=[TRAIN]))
        work.drain.stop("n-1")
        work.drain.stop("n-1")

        work.drain.drain(work.order(training=[TRAIN]))

        assert (await work.ended()).outcome == "drained"


# --- trouble ---------------------------------------------------------------------------------


async def test_a_unit_that_does_not_stop_is_named_with_its_state(daemon: FakeBus) -> None:
    stuck = FakeUnit("stuck.service", stops_after_seconds=None)
    async with (
        machine(daemon, stuck, FakeUnit("train.service")),
        at_work(daemon, "stuck.service", "train.service") as work,
    ):
        work.drain.drain(work.order(lead=0.5, training=["/system.slice/stuck.service", TRAIN]))

        ending = await work.ended()

    assert ending.outcome == "incomplete"
    assert ending.detail.startswith("stuck.service: deactivating (stop-sigterm), told to stop")
    assert work.moves == [("train.service", "evicted"), ("stuck.service", "failed")]


async def test_a_unit_that_may_not_be_stopped_is_tried_again_and_said(daemon: FakeBus) -> None:
    train = FakeUnit("train.service", refusal=DENIED)
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(lead=0.4, training=[TRAIN]))

        ending = await work.ended()

    assert ending.outcome == "incomplete"
    assert "could not be told to stop: Interactive authentication required." in ending.detail
    assert train.told > 1
    assert work.moves == [("train.service", "failed")]


async def test_a_unit_that_is_not_there_is_said_before_and_after(daemon: FakeBus) -> None:
    async with (
        machine(daemon, FakeUnit("train.service")),
        at_work(daemon, "trian.service", "train.service") as work,
    ):
        assert work.checks[-1].detail == "there is no trian.service"

        work.drain.drain(work.order(training=[TRAIN]))

        assert await work.ended() == DrainEnded("n-1", "drained", "there is no trian.service")


async def test_a_slow_systemd_is_asked_again(
    daemon: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd_run, "SHORTEST_CALL_SECONDS", 0.02)
    monkeypatch.setattr(systemd_run, "CALL_SECONDS", 0.05)
    train = FakeUnit("train.service")
    async with machine(daemon, train) as fake, at_work(daemon, "train.service") as work:
        fake.delay_seconds = 0.2
        work.drain.drain(work.order(training=[TRAIN]))
        await work.until(lambda: len(fake.calls("ListUnitsByNames")) >= 3)

        fake.delay_seconds = 0.0

        assert (await work.ended()).outcome == "drained"


async def test_a_bus_that_is_lost_in_the_middle_fails_the_drain(daemon: FakeBus) -> None:
    train = FakeUnit("train.service", stops_after_seconds=None)
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(lead=0.6, training=[TRAIN]))
        await work.until(lambda: train.told)

        await daemon.stop()

        ending = await work.ended()
        await work.until(lambda: not work.checks[-1].up)
    assert ending.outcome == "failed"
    assert ending.detail.startswith("systemd does not answer: ")
    assert "train.service: active (running), told to stop" in ending.detail or (
        "train.service: deactivating (stop-sigterm), told to stop" in ending.detail
    )
    assert work.moves == [("train.service", "failed")]


async def test_a_bus_that_comes_back_in_time_is_used(daemon: FakeBus) -> None:
    train = FakeUnit("train.service")
    async with machine(daemon, train) as fake, at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(waiting=[TRAIN]))
        await work.until(lambda: work.drain.status()["units"])
        await daemon.stop()
        await work.until(lambda: not work.checks[-1].up)
        work.drain.drain(work.order(training=[TRAIN]))
        await fake.withdraw()

        await daemon.start()
        await fake.offer(daemon.address)

        assert (await work.ended()).outcome == "drained"
        await work.until(lambda: work.checks[-1].up)
    assert work.moves == [("train.service", "evicted")]


async def test_without_a_bus_the_drain_fails_with_the_reason(daemon: FakeBus) -> None:
    await daemon.stop()
    async with at_work(daemon, "train.service", is_up=False) as work:
        assert work.checks[-1].detail.startswith("no system bus: ")

        work.drain.drain(work.order(lead=0.2))

        ending = await work.ended()
    assert ending.outcome == "failed"
    assert "no system bus" in ending.detail


async def test_an_order_whose_time_is_over_is_still_tried_once(daemon: FakeBus) -> None:
    train = FakeUnit("train.service")
    async with machine(daemon, train), at_work(daemon, "train.service") as work:
        work.drain.drain(work.order(lead=-1.0, waiting=[TRAIN]))

        ending = await work.ended()

    assert train.told == 1
    assert ending.outcome in ("drained", "incomplete")


async def test_systemd_is_looked_at_again_and_again(
    daemon: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "CHECK_SECONDS", 0.01)
    async with machine(daemon) as fake, at_work(daemon, "train.service") as work:
        assert work.checks[-1].detail == "there is no train.service"

        fake.units["train.service"] = FakeUnit("train.service")

        await work.until(lambda: work.checks[-1] == BackendChecked(up=True))
        assert work.drain.status() == {
            "units": [{"unit": "train.service", "state": "active (running)"}]
        }


async def test_nothing_keeps_new_work_off(tmp_path: Path) -> None:
    work = DrainAtWork(f"unix:path={tmp_path}/none", "train.service")

    assert await work.drain.uncordon("n-1") is None  # type: ignore[func-returns-value]  # None is it
    assert await work.drain.marked("n-1") is None  # type: ignore[func-returns-value]  # at once
    assert work.events == []
