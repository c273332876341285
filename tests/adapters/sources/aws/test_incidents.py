"""What the decision core makes of what the source for EC2 reports."""

from __future__ import annotations

import pytest

from lastcall.core.events import SourceReported
from lastcall.core.facts import NoticeEnded, NoticeSeen
from lastcall.core.machine import Machine
from lastcall.core.model import Node
from lastcall.core.turn import Settings
from lastcall.simulate.aws import SpotInterruption
from lastcall.sources.aws_documents import INSTANCE_ACTION, SCHEDULED, TARGET_STATE
from lastcall.sources.base import SystemClock
from support.aws_source import META, cleared, sighted, watched_alone


class Agent:
    """The decision core, fed with reports at even distances."""

    def __init__(self) -> None:
        self.machine = Machine(Settings())
        self.node = Node()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def take(self, reports: list[SourceReported], *, every_seconds: float = 1.0) -> None:
        first_at = SystemClock().monotonic()
        for number, report in enumerate(reports):
            at = first_at + number * every_seconds
            self.node, commands = self.machine.handle(self.node, report, at)
            facts = [getattr(command, "fact", None) for command in commands]
            self.begun += [fact.notice.id for fact in facts if isinstance(fact, NoticeSeen)]
            self.ended += [fact.ending for fact in facts if isinstance(fact, NoticeEnded)]


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_a_target_state_that_stays_is_one_notice_and_the_next_one_another(
    url, seen, metadata, agent
):
    async with watched_alone(url, seen, TARGET_STATE):
        metadata.raise_notice("termination")
        await sighted(seen, TARGET_STATE)
        await seen.polled(TARGET_STATE, 20)
        metadata.withdraw()
        await cleared(seen, TARGET_STATE)
        metadata.raise_notice("termination")
        await sighted(seen, TARGET_STATE)

        agent.take(seen.reports(TARGET_STATE))

    assert len(agent.begun) == 2
    assert agent.ended == ["withdrawn"]


async def test_an_interruption_whose_time_moves_keeps_its_id(url, seen, metadata, agent):
    async with watched_alone(url, seen, INSTANCE_ACTION):
        metadata.raise_notice("terminate", 120.0)
        await sighted(seen, INSTANCE_ACTION)
        metadata.spot = SpotInterruption("terminate", metadata.spot.time + 30)
        await seen.polled(INSTANCE_ACTION, 3)

        agent.take(seen.reports(INSTANCE_ACTION), every_seconds=0.01)

    [notice] = agent.node.open_notices
    assert agent.begun == [notice.id]
    assert notice.lead.sighting.deadline_unix == metadata.spot.time


@pytest.fixture
async def absent_and_standing(url, seen, metadata) -> tuple[SourceReported, SourceReported]:
    """A report without an interruption, and one with it."""
    async with watched_alone(url, seen, INSTANCE_ACTION):
        await seen.polled(INSTANCE_ACTION, 1)
        metadata.raise_notice("terminate", 120.0)
        await sighted(seen, INSTANCE_ACTION)
    return seen.reports(INSTANCE_ACTION)[0], seen.reports(INSTANCE_ACTION)[-1]


@pytest.mark.parametrize(("looks", "ended"), [(1, []), (2, []), (3, ["withdrawn"])])
async def test_an_interruption_is_withdrawn_by_three_absences_in_a_row(
    absent_and_standing, agent, looks, ended
):
    absent, standing = absent_and_standing

    agent.take([standing, *[absent] * looks])

    assert agent.ended == ended


async def test_absences_that_are_not_in_a_row_withdraw_nothing(absent_and_standing, agent):
    absent, standing = absent_and_standing

    agent.take([standing, absent, absent] * 10)

    assert len(agent.begun) == 1
    assert agent.ended == []


async def test_a_time_in_the_past_is_a_notice_with_nothing_left(url, seen, metadata, agent):
    async with watched_alone(url, seen, INSTANCE_ACTION):
        metadata.raise_notice("terminate", -60.0)
        await sighted(seen, INSTANCE_ACTION)

        agent.take(seen.reports(INSTANCE_ACTION)[-1:])

        [notice] = agent.node.open_notices
        assert notice.told
        assert notice.deadline < SystemClock().monotonic()


async def test_an_event_that_stays_listed_for_a_day_is_one_notice(url, seen, metadata, agent):
    metadata.raise_notice("system-reboot", 10.0)
    async with watched_alone(url, seen, SCHEDULED):
        await sighted(seen, SCHEDULED)

        agent.take([seen.reports(SCHEDULED)[-1]] * 1440, every_seconds=60.0)

    assert len(agent.begun) == 1


async def test_an_event_days_away_is_seen_and_not_told(url, seen, metadata, agent):
    metadata.raise_notice("system-reboot", 3 * 86400.0)
    async with watched_alone(url, seen, SCHEDULED):
        await sighted(seen, SCHEDULED)

        agent.take(seen.reports(SCHEDULED)[-1:])

    [notice] = agent.node.open_notices
    assert not notice.told


async def test_a_list_that_was_not_read_whole_proves_no_absence(url, seen, metadata, agent):
    metadata.override(META + SCHEDULED, b"[7]")
    async with watched_alone(url, seen, SCHEDULED):
        await seen.polled(SCHEDULED, 1)
        metadata.overrides.clear()
        metadata.schedule("instance-stop", SystemClock().wall() + 60)
        await sighted(seen, SCHEDULED)

        unreadable, standing = seen.reports(SCHEDULED)[0], seen.reports(SCHEDULED)[-1]
        agent.take([standing, *[unreadable] * 10, standing])

    assert unreadable.sightings == ()
    assert len(agent.begun) == 1
    assert agent.ended == []
