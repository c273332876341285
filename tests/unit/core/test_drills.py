"""Rehearsals: like the real thing to the processes, and out of its way."""

from __future__ import annotations

import pytest

from lastcall.core.commands import CallOff, Confirm, Cordon, Drain, Refuse, Tell, Uncordon
from lastcall.core.events import CordonEnded, DrainEnded
from lastcall.core.facts import FlushSettled, NoticeEnded
from lastcall.core.model import Phase
from support.happenings import (
    REBALANCE,
    SCHEDULED,
    SPOT,
    drill,
    flushed,
    joined,
    rebalance,
    scheduled,
    spot,
)
from support.story import Story, a_node


def test_a_drill_is_told_to_all_and_marked_as_one() -> None:
    story = a_node()

    decided = story.at(1, drill(lead_seconds=30))

    shown = decided.command(Tell).notice
    assert (shown.drill, shown.source, shown.kind, shown.action) == (
        True,
        "manual",
        "preemption",
        "terminate",
    )
    assert (shown.deadline, shown.flush_until) == (31, 21)
    assert decided.command(Confirm) == Confirm("operator", "drill", shown.id)
    assert decided.commands(Cordon) == []


def test_a_drill_is_over_once_all_have_flushed_and_training_goes_on() -> None:
    story = a_node()
    story.at(0, joined("s1", rank=1), drill())
    name = story.notice().id
    assert story.at(5, flushed("s0", name)).facts(NoticeEnded) == []

    decided = story.at(6, flushed("s1", name))

    assert decided.command(CallOff).sessions == ("s0", "s1")
    ended = decided.fact(NoticeEnded)
    assert (ended.ending, ended.outcomes) == ("rehearsed", {"in_time": 2})
    assert story.phase is Phase.DONE


def test_a_drill_that_somebody_missed_ends_and_training_goes_on() -> None:
    story = a_node()
    story.at(0, drill(lead_seconds=30))

    decided = story.at(35)

    assert decided.fact(FlushSettled).outcome == "missed"
    assert decided.command(CallOff).sessions == ("s0",)
    assert decided.fact(NoticeEnded).outcomes == {"missed": 1}


def test_a_drill_with_nobody_there_is_over_at_once() -> None:
    story = Story()

    ended = story.at(1, drill()).fact(NoticeEnded)

    assert (ended.ending, ended.outcomes) == ("rehearsed", {})


def test_a_drill_drains_only_when_asked_to_and_gives_the_node_back() -> None:
    story = a_node()
    decided = story.at(0, drill(drain=True))
    name = story.notice().id
    assert decided.command(Cordon).notice.drill is True
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(5, flushed("s0", name)).commands(Drain)

    decided = story.at(9, DrainEnded(name, "drained"))

    assert decided.fact(NoticeEnded).ending == "rehearsed"
    assert decided.command(Uncordon).id == name


@pytest.mark.parametrize("first", ["real", "drill", "advice and drill"])
def test_a_drill_is_refused_while_a_notice_is_open(first: str) -> None:
    story = a_node()
    if first == "real":
        story.at(0, SPOT.shows(spot(ends_at=120)))
    else:
        story.at(0, *([REBALANCE.shows(rebalance())] if "advice" in first else []), drill())
    open_id = story.notices()[-1].id

    decided = story.at(1, drill())

    refusal = decided.command(Refuse)
    assert (refusal.session, refusal.code) == ("operator", "bad_message")
    assert open_id in refusal.message
    assert decided.commands(Tell) == decided.commands(Confirm) == []


def test_a_drill_may_be_held_while_an_advice_or_a_far_event_is_known() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance()), SCHEDULED.shows(scheduled(starts_at=86400)))

    decided = story.at(1, drill())

    assert decided.command(Tell).notice.drill is True
    assert decided.command(Tell).notice.supersedes == ()
    assert story.notices()[0].open


def test_a_drill_may_be_held_after_a_real_notice_is_over() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=20)))
    story.at(30)

    assert story.at(31, drill()).command(Tell).notice.drill is True


def test_a_real_notice_takes_the_place_of_a_drill() -> None:
    story = a_node()
    story.at(0, drill(drain=True))
    rehearsal = story.notice().id
    story.at(1, CordonEnded(rehearsal, cordoned=True))

    decided = story.at(5, SPOT.shows(spot(ends_at=125)))

    assert decided.command(Tell).notice.supersedes == (rehearsal,)
    assert decided.command(CallOff).id == rehearsal
    assert decided.fact(NoticeEnded).ending == "superseded"
    assert decided.commands(Uncordon) == []
    assert decided.fact(FlushSettled).outcome == "withdrawn"


def test_a_drill_is_no_interruption_to_reckon_with() -> None:
    story = a_node()

    story.at(0, drill())

    assert story.node.interruptions == 0


def test_two_drills_in_a_row_have_names_of_their_own() -> None:
    story = a_node()
    for moment in (0, 10):
        story.at(moment, drill())
        story.at(moment + 1, flushed("s0", story.notices()[-1].id))

    assert len(story.notices()) == 2
