"""A known end over time, on a wall clock that may be set."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from lastcall.core.events import SourceReported
from lastcall.core.machine import Machine
from lastcall.core.model import Action, DeadlineQuality, Kind, Node
from lastcall.core.turn import Settings
from lastcall.sources.schedule import LOOK_SECONDS, SCOPE, ScheduleSource
from support.watched_source import WALL_AT_START, LoopClock, Recorder, watching

LEAD_SECONDS = 600.0

pytestmark = pytest.mark.looptime


class SettableClock(LoopClock):
    """A wall clock that can be set while the monotonic one goes on."""

    def __init__(self) -> None:
        self.set_by_seconds = 0.0

    def wall(self) -> float:
        return super().wall() + self.set_by_seconds


class Told:
    """The decision core behind the source, and what it makes of the reports."""

    def __init__(self, seen: Recorder) -> None:
        self._machine = Machine(Settings())
        self._seen = seen
        self._taken = 0
        self._node = Node()

    @property
    def notices(self):
        for event in self._seen.events[self._taken :]:
            if isinstance(event, SourceReported):
                now = asyncio.get_running_loop().time()
                self._node, _ = self._machine.handle(self._node, event, now)
        self._taken = len(self._seen.events)
        return list(self._node.notices.values())

    @property
    def open(self):
        (notice,) = (notice for notice in self.notices if notice.open)
        return notice


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def told(seen) -> Told:
    return Told(seen)


def ending_in(seconds, seen, clock) -> ScheduleSource:
    return ScheduleSource(
        ends_at=datetime.fromtimestamp(WALL_AT_START + seconds, UTC),
        lead_seconds=LEAD_SECONDS,
        post=seen,
        clock=clock,
    )


async def pass_seconds(seconds: float, told: Told) -> None:
    """Let time pass, and have the core take in each report at its time."""
    ends_at = asyncio.get_running_loop().time() + seconds
    while (left := ends_at - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS / 2))
        assert isinstance(told.notices, list)


async def test_an_end_becomes_a_notice_its_lead_time_before_it_comes(seen, clock, told):
    async with watching(ending_in(3600, seen, clock)):
        await asyncio.sleep(3600 - LEAD_SECONDS - 0.01)
        assert seen.standing(SCOPE) == ()
        assert set(seen.results(SCOPE)) == {"ok"}

        await asyncio.sleep(0.02)

    (sighting,) = seen.standing(SCOPE)
    assert (sighting.kind, sighting.action) == (Kind.TERMINATION, Action.TERMINATE)
    assert sighting.deadline == pytest.approx(3600, abs=1e-3)
    assert sighting.deadline_unix == WALL_AT_START + 3600
    assert seen.results(SCOPE)[-1] == "notice"
    assert (told.open.told, told.open.lead.quality) == (True, DeadlineQuality.PROVIDER)


async def test_a_machine_that_starts_within_the_lead_time_is_told_at_once(seen, clock, told):
    async with watching(ending_in(60, seen, clock)):
        await asyncio.sleep(0.01)

        assert told.open.deadline == pytest.approx(60, abs=1e-3)


async def test_an_end_that_is_past_at_the_start_is_said_once_and_ignored(seen, clock):
    async with watching(ending_in(-1, seen, clock)):
        await asyncio.sleep(3600)

    assert seen.reports(SCOPE) == []
    (poll,) = seen.polls(SCOPE)
    assert poll.result == "malformed"
    assert poll.detail == "2030-03-17T17:46:39+00:00 is past: nothing is announced for it"


async def test_an_end_that_has_come_stands_for_as_long_as_the_machine_does(seen, clock, told):
    async with watching(ending_in(60, seen, clock)):
        await pass_seconds(600, told)

    assert len(seen.standing(SCOPE)) == 1
    (notice,) = told.notices
    assert (notice.ending, notice.gone) == ("passed", False)


@pytest.mark.parametrize("set_by", [-40.0, 30.0, 300.0])
async def test_a_deadline_follows_a_wall_clock_that_is_set(seen, clock, told, set_by):
    async with watching(ending_in(500, seen, clock)):
        await pass_seconds(10, told)
        before = told.open
        for count in (1, 2, 3):
            # when the clock is set, again and again
            clock.set_by_seconds = set_by * count / 3
            await pass_seconds(2 * LOOK_SECONDS, told)
            # then the notice is the same, and comes when the clock says so
            assert told.open.id == before.id
            assert told.open.deadline == pytest.approx(500 - clock.set_by_seconds, abs=1e-3)
            assert told.open.lead.sighting.deadline_unix == pytest.approx(
                WALL_AT_START + 500, abs=2
            )
    assert len(told.notices) == 1


async def test_a_wall_clock_that_is_only_corrected_a_little_moves_nothing(seen, clock, told):
    async with watching(ending_in(LEAD_SECONDS + 1, seen, clock)):
        await pass_seconds(2, told)
        before = told.open
        clock.set_by_seconds = -1.5
        await pass_seconds(10, told)

    assert told.open == before


async def test_a_clock_that_was_far_ahead_withdraws_what_it_had_announced(seen, clock, told):
    clock.set_by_seconds = 7200.0
    async with watching(ending_in(7500, seen, clock)):
        await pass_seconds(10, told)
        assert told.open.deadline == pytest.approx(300, abs=1e-3)
        # when it is set right
        clock.set_by_seconds = 0.0
        await pass_seconds(10, told)
        # then the notice is withdrawn
        assert [notice.ending for notice in told.notices] == ["withdrawn"]
        # and comes again in its time
        await pass_seconds(7500 - LEAD_SECONDS, told)
        assert told.open.deadline == pytest.approx(7500, abs=1e-3)


async def test_a_clock_that_is_set_to_before_a_lead_time_ends_is_seen_soon(seen, clock, told):
    async with watching(ending_in(86400, seen, clock)):
        await pass_seconds(60, told)
        clock.set_by_seconds = 86400.0 - 300.0
        await pass_seconds(LOOK_SECONDS, told)

        assert told.open.deadline == pytest.approx(300, abs=1e-3)


async def test_a_clock_that_was_far_behind_and_is_set_past_the_end_announces_nothing(seen, clock):
    clock.set_by_seconds = -1e9
    async with watching(ending_in(-3600, seen, clock)):
        await asyncio.sleep(60)
        clock.set_by_seconds = 0.0
        await asyncio.sleep(60)

    assert seen.standing(SCOPE) == ()
    assert seen.results(SCOPE)[-1] == "malformed"
    assert seen.results(SCOPE).count("malformed") == 1


async def test_an_end_that_was_past_only_by_a_wrong_clock_counts_once_it_is_right(
    seen, clock, told
):
    clock.set_by_seconds = 1e9
    async with watching(ending_in(900, seen, clock)):
        await pass_seconds(10, told)
        clock.set_by_seconds = 0.0
        await pass_seconds(890, told)

        assert told.open.deadline == pytest.approx(900, abs=1e-3)
