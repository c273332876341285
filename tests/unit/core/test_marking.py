"""Who was told to save and stop may end; the scheduler knows, whether or not it moves them."""

from __future__ import annotations

from lastcall.core.commands import Drain, Mark, StopDrain
from lastcall.core.events import DrainEnded, Rebooted, Started
from lastcall.core.policy import Rule
from lastcall.core.turn import Settings
from support.happenings import REBALANCE, SPOT, drill, joined, rebalance, spot
from support.story import a_node, ruled

OURS, THEIRS = "/group of process of s0", "/group of process of s1"


def test_where_nothing_is_moved_the_processes_are_marked_all_the_same() -> None:
    story = a_node(ruled(Rule(source="aws", drain=False)))

    decided = story.at(0, SPOT.shows(spot(ends_at=120)))

    assert decided.commands(Drain) == []
    mark = decided.command(Mark)
    assert (mark.id, mark.kind, mark.training) == (story.notice().id, "preemption", {OURS})


def test_who_comes_after_the_drain_is_over_is_marked_too() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    ended = story.at(5, DrainEnded(name, "drained"))
    assert ended.command(Mark).training == {OURS}
    assert ended.commands(StopDrain) == []

    assert story.at(6, joined("s1", rank=1)).command(Mark).training == {OURS, THEIRS}


def test_the_mark_stands_after_the_deadline_for_as_long_as_the_notice_is_reported() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(5, DrainEnded(name, "drained"))
    assert story.at(200).commands(StopDrain) == []

    decided = story.at(201, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert decided.command(StopDrain).id == name


def test_a_withdrawal_takes_the_mark_back() -> None:
    story = a_node(ruled(Rule(source="aws", drain=False)))
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(1, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert decided.command(StopDrain).id == story.notice().id


def test_an_advice_and_a_drill_mark_nobody() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance()))
    story.at(1, drill())

    assert story.decided.commands(Mark) == []


def test_an_agent_that_only_watches_marks_nobody() -> None:
    story = a_node(Settings(acts=False))

    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert story.decided.commands(Mark) == []


def test_the_mark_is_ordered_anew_after_a_restart_and_not_after_a_reboot() -> None:
    story = a_node(ruled(Rule(source="aws", drain=False)))
    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert story.at(3, Started()).command(Mark).training == {OURS}
    assert story.at(4, Rebooted()).commands(Mark) == []
