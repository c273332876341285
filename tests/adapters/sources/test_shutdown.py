"""The source of the machine's own shutdown, with a logind of the test's own on a real bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dbus_fast import Variant

from lastcall.bus.system_bus import SystemBus
from lastcall.core.model import Action, Kind, Sighting
from lastcall.sources import shutdown
from lastcall.sources.base import SystemClock
from lastcall.sources.shutdown import ShutdownSource
from support.fake_bus import FakeBus, Returns, a_bus, hurry, properties
from support.fake_logind import MANAGER, PATH, FakeLogind
from support.watched_source import Recorder, until, watching

SCOPE = "logind"
DENIED = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def daemon() -> AsyncIterator[FakeBus]:
    async with a_bus() as daemon:
        yield daemon


@pytest.fixture
async def logind(daemon: FakeBus) -> AsyncIterator[FakeLogind]:
    logind = FakeLogind()
    await logind.offer(daemon.address)
    yield logind
    await logind.withdraw()
    logind.close()


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
def source(daemon: FakeBus, seen: Recorder) -> ShutdownSource:
    return ShutdownSource(SystemBus(daemon.address), seen, SystemClock())


@asynccontextmanager
async def holding(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> AsyncIterator[None]:
    """Run the source while the block runs, which begins once the lock is held."""
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE)[-1:] == ["ok"])
        assert len(logind.held) == 1
        yield


async def announced(seen: Recorder) -> Sighting:
    await seen.until(lambda: seen.standing(SCOPE))
    (sighting,) = seen.standing(SCOPE)
    return sighting


# --- a machine that nobody shuts down --------------------------------------------------------


async def test_a_delay_lock_is_held_and_nothing_stands(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    async with holding(source, seen, logind):
        what, who, why, mode = logind.held[0].terms
        assert (what, who, mode) == ("shutdown", "lastcall", "delay")
        assert why
        assert [report.sightings for report in seen.reports(SCOPE)] == [()]
        assert seen.polls(SCOPE)[-1].detail == ""

    assert logind.held == []


async def test_what_stays_the_same_is_reported_once(
    source: ShutdownSource,
    seen: Recorder,
    logind: FakeLogind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown, "LOOK_SECONDS", 0.01)
    async with holding(source, seen, logind):
        await seen.polled(SCOPE, 3)

    assert len(seen.reports(SCOPE)) == 1
    assert len(logind.locks) == 1


async def test_a_short_delay_is_said_with_its_remedy(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.delay_max_seconds = 5
    async with holding(source, seen, logind):
        assert "at most 5 s; InhibitDelayMaxSec" in seen.polls(SCOPE)[-1].detail


# --- a shutdown ------------------------------------------------------------------------------


async def test_a_shutdown_is_seen_with_the_delay_as_its_deadline(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    clock = SystemClock()
    async with holding(source, seen, logind):
        before, before_unix = clock.monotonic(), clock.wall()

        await logind.shut_down("poweroff")

        sighting = await announced(seen)
        assert (sighting.source, sighting.kind) == ("shutdown", Kind.SHUTDOWN)
        assert (sighting.action, sighting.code) == (Action.STOP, "poweroff")
        assert sighting.deadline is not None
        assert sighting.deadline_unix is not None
        assert 60 <= sighting.deadline - before < 62
        assert 60 <= sighting.deadline_unix - before_unix < 62
        assert sighting.acknowledgeable
        await seen.until(lambda: seen.results(SCOPE)[-1] == "notice")
        assert len(seen.reports(SCOPE)) == 2
        assert len(logind.held) == 1


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("halt", Action.STOP),
        ("reboot", Action.REBOOT),
        ("kexec", Action.REBOOT),
        ("soft-reboot", Action.REBOOT),
        ("factory-reset", Action.UNKNOWN),
    ],
)
async def test_what_follows_the_shutdown_is_told(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind, kind: str, action: Action
) -> None:
    async with holding(source, seen, logind):
        await logind.shut_down(kind)

        sighting = await announced(seen)

    assert (sighting.action, sighting.code) == (action, kind)


async def test_an_older_logind_does_not_say_what_follows(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.has_metadata = False
    async with holding(source, seen, logind):
        await logind.shut_down("reboot")

        sighting = await announced(seen)

    assert (sighting.action, sighting.code) == (Action.STOP, "shutdown")
    assert sighting.deadline is not None


async def test_the_machine_may_go_once_all_is_over(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    async with holding(source, seen, logind):
        await logind.shut_down()
        sighting = await announced(seen)
        assert logind.held

        assert await source.acknowledge(sighting.key) == (True, "")

        assert logind.held == []
        assert seen.standing(SCOPE) == (sighting,)
        assert await source.acknowledge(sighting.key) == (True, "")


async def test_no_lock_is_let_go_while_no_shutdown_is_under_way(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    async with holding(source, seen, logind):
        assert (await source.acknowledge("shutdown"))[0] is False

        assert len(logind.held) == 1


async def test_the_lock_is_let_go_when_its_time_is_up(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.delay_max_seconds = 0.1
    async with holding(source, seen, logind):
        await logind.shut_down()
        await announced(seen)

        await until(lambda: logind.held == [])

        assert len(seen.standing(SCOPE)) == 1


@pytest.mark.parametrize(("delay", "lead"), [(None, 3600.0), (0.0, None)])
async def test_a_delay_without_end_is_given_one_and_none_is_no_deadline(
    source: ShutdownSource,
    seen: Recorder,
    logind: FakeLogind,
    delay: float | None,
    lead: float | None,
) -> None:
    logind.delay_max_seconds = delay
    async with holding(source, seen, logind):
        before = SystemClock().monotonic()
        await logind.shut_down()

        deadline = (await announced(seen)).deadline

    assert (deadline is None) == (lead is None)
    assert deadline is None or lead is None or lead <= deadline - before < lead + 2


async def test_a_shutdown_that_is_called_off_is_withdrawn_and_the_lock_taken_again(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    async with holding(source, seen, logind):
        await logind.shut_down()
        first = await announced(seen)
        await source.acknowledge(first.key)

        await logind.call_off()

        await seen.until(lambda: seen.standing(SCOPE) == ())
        await until(lambda: len(logind.held) == 1)
        await logind.shut_down()
        again = await announced(seen)
        assert again.deadline_unix != first.deadline_unix


async def test_a_delay_that_was_changed_without_a_word_is_noticed(
    source: ShutdownSource,
    seen: Recorder,
    logind: FakeLogind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown, "LOOK_SECONDS", 0.01)
    async with holding(source, seen, logind):
        logind.delay_max_seconds = 150
        await seen.polled(SCOPE, 2)
        before = SystemClock().monotonic()

        await logind.shut_down()

        deadline = (await announced(seen)).deadline
    assert deadline is not None
    assert deadline - before >= 150


# --- signals that were missed, and such as make no sense -------------------------------------


async def test_a_shutdown_that_began_before_us_is_seen_without_a_deadline(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.is_preparing = True
    async with watching(source):
        sighting = await announced(seen)
        await seen.until(lambda: seen.results(SCOPE) == ["notice"])

    assert sighting.deadline is sighting.deadline_unix is None
    assert logind.locks == []


async def test_a_signal_with_another_body_says_nothing(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    async with holding(source, seen, logind):
        await logind.signal(PATH, f"{MANAGER}.PrepareForShutdown", "s", "yes")
        await logind.signal(PATH, f"{MANAGER}.PrepareForSleep", "b", True)
        await logind.signal(
            PATH,
            f"{MANAGER}.PrepareForShutdownWithMetadata",
            "ba{sv}",
            True,
            {"type": Variant("u", 1)},
        )

        sighting = await announced(seen)

    assert sighting.code == "shutdown"
    assert len(seen.reports(SCOPE)) == 2


# --- trouble ---------------------------------------------------------------------------------


async def test_a_refused_lock_is_said_and_a_shutdown_is_heard_all_the_same(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.refusal = DENIED
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE) == ["unauthorized"])
        assert "the delay lock is refused" in seen.polls(SCOPE)[-1].detail

        await logind.shut_down("reboot")

        sighting = await announced(seen)
    assert sighting.action is Action.REBOOT
    assert sighting.deadline is None


async def test_a_lock_that_comes_without_a_descriptor_is_no_lock(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    logind.methods[f"{MANAGER}.Inhibit"] = lambda *_: Returns()
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE) == ["error"])

        assert "no file descriptor" in seen.polls(SCOPE)[-1].detail


async def test_a_slow_logind_is_trouble_and_its_late_lock_is_let_go(
    source: ShutdownSource,
    seen: Recorder,
    logind: FakeLogind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown, "CALL_SECONDS", 0.05)
    inhibit = logind.methods[f"{MANAGER}.Inhibit"]

    async def slowly(*terms: str) -> Returns:
        await asyncio.sleep(0.15)
        lock = inhibit(*terms)
        assert isinstance(lock, Returns)
        return lock

    logind.methods[f"{MANAGER}.Inhibit"] = slowly
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE) == ["timeout"])
        await until(lambda: len(logind.locks) == 1)

        await until(lambda: logind.held == [])


async def test_properties_that_are_none_of_logind_are_malformed(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind
) -> None:
    strange = {"InhibitDelayMaxUSec": Variant("s", "soon")}
    logind.methods["org.freedesktop.DBus.Properties.GetAll"] = lambda _: properties(strange)
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE) == ["malformed"])

    assert seen.reports(SCOPE) == []


async def test_a_restarted_logind_gives_a_new_lock_before_the_old_one_is_let_go(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind, daemon: FakeBus
) -> None:
    async with holding(source, seen, logind):
        await logind.withdraw()
        await seen.until(lambda: seen.results(SCOPE)[-1] == "error")
        assert "logind is not on the system bus" in seen.polls(SCOPE)[-1].detail
        assert len(logind.held) == 1

        await logind.offer(daemon.address)

        await until(lambda: len(logind.locks) == 2)
        await until(lambda: logind.held == [logind.locks[1]])
        await seen.until(lambda: seen.results(SCOPE)[-1] == "ok")


async def test_the_old_lock_stays_held_where_a_restarted_logind_refuses_one(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind, daemon: FakeBus
) -> None:
    async with holding(source, seen, logind):
        await logind.withdraw()
        logind.refusal = DENIED

        await logind.offer(daemon.address)

        await seen.until(lambda: seen.results(SCOPE)[-1] == "unauthorized")
        assert len(logind.held) == 1


async def test_a_bus_that_is_lost_during_a_shutdown_withdraws_nothing(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind, daemon: FakeBus
) -> None:
    async with holding(source, seen, logind):
        await logind.shut_down()
        sighting = await announced(seen)

        await daemon.stop()

        await seen.until(lambda: seen.results(SCOPE)[-1] == "error")
        assert seen.standing(SCOPE) == (sighting,)
        assert len(logind.held) == 1
        await daemon.start()
        await logind.withdraw()
        await logind.offer(daemon.address)
        await seen.until(lambda: seen.results(SCOPE)[-1] == "notice")
        assert seen.standing(SCOPE) == (sighting,)
        assert len(logind.locks) == 1


async def test_without_a_bus_that_is_said_and_looked_for_again(
    source: ShutdownSource, seen: Recorder, logind: FakeLogind, daemon: FakeBus
) -> None:
    await logind.withdraw()
    await daemon.stop()
    async with watching(source):
        await seen.until(lambda: seen.results(SCOPE)[-1:] == ["error"])
        assert seen.polls(SCOPE)[-1].detail.startswith("no system bus: ")

        await daemon.start()
        await logind.offer(daemon.address)

        await seen.until(lambda: seen.results(SCOPE)[-1] == "ok")


async def test_a_bus_that_lets_us_not_in_is_said(tmp_path: Path, seen: Recorder) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"REJECTED EXTERNAL\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(refuse, tmp_path / "s")
    source = ShutdownSource(SystemBus(f"unix:path={tmp_path}/s"), seen, SystemClock())
    async with server, watching(source):
        await seen.until(lambda: seen.results(SCOPE)[-1:] == ["unauthorized"])


async def test_a_fault_of_our_own_does_not_let_the_machine_go(
    source: ShutdownSource,
    seen: Recorder,
    logind: FakeLogind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(source, "_pause", fail)
    with pytest.raises(RuntimeError):
        await source.run()
    monkeypatch.undo()
    assert len(logind.held) == 1

    async with watching(source):
        await seen.polled(SCOPE, 1)
        await until(lambda: len(logind.held) == 1)
    assert logind.held == []
