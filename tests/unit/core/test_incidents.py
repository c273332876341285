"""Several notices at once: one incident, by the earliest deadline, until the last lets go."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.commands import CallOff, Cordon, Drain, Tell
from lastcall.core.facts import FlushSettled, NoticeEnded, NoticeSeen
from lastcall.core.incidents import KEPT_ENDED
from lastcall.core.model import DeadlineQuality, Phase, Stance
from lastcall.core.policy import Rule
from support.happenings import (
    FILE,
    LOGIND,
    PREEMPTED,
    SCHEDULED,
    SPOT,
    TARGET_STATE,
    announced_by_file,
    flushed,
    joined,
    preempted,
    scheduled,
    shutdown,
    spot,
    terminated,
)
from support.story import Story, a_node, ruled

ENDS = {
    "interruption": (SPOT.shows(spot(ends_at=120)), 120),
    "decision": (TARGET_STATE.shows(terminated()), 60),
    "preemption": (PREEMPTED.shows(preempted()), 30),
    "shutdown": (LOGIND.shows(shutdown()), 5),
    "file": (FILE.shows(announced_by_file()), 30),
}
"""Reports made at the same moment, and the deadline that each would have alone."""


@pytest.mark.parametrize("names", list(itertools.permutations(ENDS, 3)), ids="-".join)
def test_the_earliest_deadline_wins_whether_stated_or_assumed(names: tuple[str, ...]) -> None:
    story = a_node()

    story.at(0, *(ENDS[name][0] for name in names))

    (notice,) = story.notices()
    assert notice.deadline == min(ENDS[name][1] for name in names)
    assert notice.lead.sighting.source == ENDS[names[0]][0].source
    assert len(story.decided.facts(NoticeSeen)) == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(sorted(ENDS)), st.floats(0, 3)), min_size=1, max_size=8))
def test_the_deadline_never_moves_back_while_claims_come_in(
    arrivals: list[tuple[str, float]],
) -> None:
    story = a_node()
    now = 0.0
    lowest = float("inf")
    for name, pause_seconds in arrivals:
        now += pause_seconds
        story.at(now, ENDS[name][0])
        if story.node.open_notices:
            deadline = story.node.open_notices[0].deadline
            assert deadline is not None
            assert deadline <= lowest
            lowest = deadline
        else:
            lowest = float("inf")


def test_a_second_source_with_a_later_time_is_no_news_to_those_who_were_told() -> None:
    story = a_node()
    story.at(0, LOGIND.shows(shutdown()))
    name = story.notice().id
    story.at(1, flushed("s0", name))

    decided = story.at(2, SPOT.shows(spot(ends_at=122)))

    assert decided.commands(Tell) == []
    assert story.notice().deadline == 5


def test_two_notices_are_one_save() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))
    name = story.notice().id
    story.at(1, LOGIND.shows(shutdown()))

    story.at(3, flushed("s0", name))
    story.at(60)

    assert story.decided.fact(FlushSettled).outcome == "in_time"
    assert {tell.notice.id for tell in story.decided.commands(Tell)} == {name}
    assert {order.id for order in story.decided.commands(Drain)} == {name}


def test_an_event_that_comes_due_while_the_node_is_going_is_one_more_reason() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=1000)))
    story.at(50, SPOT.shows(spot(ends_at=400)))

    decided = story.at(100)

    event, incident = story.notices()
    assert (event.ending, event.phase) == ("superseded", Phase.DONE)
    assert [claim.sighting.key for claim in incident.claims] == [
        "instance-action",
        "instance-event-1",
    ]
    assert decided.fact(NoticeEnded).notice.id == event.id
    assert decided.commands(CallOff) == []


def test_an_event_that_was_joined_holds_the_incident_up() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=1000)))
    story.at(50, SPOT.shows(spot(ends_at=400)))
    story.at(100)

    story.at(101, SPOT.shows(), SPOT.shows(), SPOT.shows())
    incident = story.notices()[-1]
    assert incident.open
    assert incident.deadline == 1000
    assert len(story.notices("aws")) == 2

    assert story.at(102, SCHEDULED.shows()).fact(NoticeEnded).ending == "withdrawn"


def test_an_event_that_was_joined_is_not_seen_anew_when_the_incident_is_over() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=1000)))
    story.at(50, SPOT.shows(spot(ends_at=400)))
    story.at(2000)

    for second in range(2001, 2100):
        story.at(second, SCHEDULED.shows(scheduled(starts_at=1000)))

    assert len(story.notices()) == 2
    assert not story.node.open_notices


def test_a_reason_to_drain_that_comes_later_has_the_node_cordoned_too() -> None:
    story = a_node(ruled(Rule(source="file", drain=False)))
    assert story.at(0, FILE.shows(announced_by_file())).commands(Cordon) == []

    decided = story.at(1, SPOT.shows(spot(ends_at=20)))

    assert decided.command(Cordon).notice.id == story.notice().id
    assert isinstance(decided[0], Tell)
    assert decided.command(Drain).began_at == 0


def test_an_end_after_another_is_over_is_a_notice_of_its_own() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))
    story.at(35)

    decided = story.at(40, LOGIND.shows(shutdown()))

    assert decided.command(Tell).notice.source == "shutdown"
    assert len(story.notices()) == 2


def test_a_notice_that_is_only_shown_joins_nothing() -> None:
    story = a_node(ruled(Rule(source="file", stance=Stance.INFORM)))
    story.at(0, SPOT.shows(spot(ends_at=120)))

    story.at(1, FILE.shows(announced_by_file()))

    assert [notice.phase for notice in story.notices()] == [Phase.TOLD, Phase.SEEN]


def test_a_deadline_that_is_stated_later_replaces_the_assumed_one() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=None)))
    assert story.notice().nearest.quality is DeadlineQuality.ASSUMED

    story.at(1, SPOT.shows(spot(ends_at=100)))
    assert story.notice().nearest.quality is DeadlineQuality.PROVIDER
    assert story.notice().deadline == 100
    story.at(2, SPOT.shows(spot(ends_at=None)))

    assert story.notice().deadline == 100


def test_an_id_is_the_same_after_the_journal_was_lost_where_the_time_is_stated() -> None:
    names = set()
    for moment in (0, 7):
        story = Story()
        story.at(moment, SPOT.shows(spot(ends_at=120)))
        names.add(story.notice().id)

    assert len(names) == 1


def test_what_is_over_is_forgotten_in_the_end_unless_it_is_still_listed() -> None:
    story = Story()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=5, key="listed for ever")))
    for number in range(KEPT_ENDED + 20):
        story.at(10 + number, TARGET_STATE.shows(terminated()), TARGET_STATE.shows())
    story.at(100, TARGET_STATE.shows())

    assert len(story.notices()) == KEPT_ENDED + 1
    assert story.notices()[0].lead.sighting.key == "listed for ever"


def test_a_source_that_names_a_thing_twice_names_one() -> None:
    story = Story()

    story.at(0, SPOT.shows(spot(ends_at=120), spot(ends_at=120)), joined("s0"))

    assert len(story.notices()) == 1
