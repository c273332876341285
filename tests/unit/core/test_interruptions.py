"""Spot interruptions and an Auto Scaling group's decisions: told once, by the earliest time."""

from __future__ import annotations

import pytest

from lastcall.core.commands import Advise, CallOff, Cordon, Drain, StopDrain, Tell, Uncordon
from lastcall.core.events import (
    CheckpointReported,
    CordonEnded,
    DrainEnded,
    ProvidersFound,
    Rebooted,
)
from lastcall.core.facts import FlushSettled, NoticeChanged, NoticeEnded, NoticeSeen
from lastcall.core.model import Action, DeadlineQuality, Kind, Phase, Urgency
from support.happenings import (
    EVENTS,
    LOGIND,
    REBALANCE,
    SCHEDULED,
    SPOT,
    TARGET_STATE,
    azure,
    flushed,
    joined,
    scheduled,
    spot,
    terminated,
    unix,
)
from support.story import a_node

DAY = 86400.0


def test_an_interruption_is_told_before_anything_else_is_done() -> None:
    story = a_node()

    decided = story.at(1, SPOT.shows(spot(ends_at=121)))

    assert isinstance(decided[0], Tell)
    assert decided.command(Tell).sessions == ("s0",)
    shown = decided.command(Tell).notice
    assert (shown.source, shown.kind, shown.action) == ("aws", "preemption", "terminate")
    assert (shown.urgency, shown.deadline_quality) == (Urgency.NOW, DeadlineQuality.PROVIDER)
    assert (shown.deadline, shown.deadline_unix, shown.flush_until) == (121, unix(121), 111)
    assert decided.fact(NoticeSeen).lead_seconds == 120
    assert decided.command(Cordon).notice.id == shown.id


def test_a_time_that_moves_is_the_same_notice_and_no_second_flush() -> None:
    story = a_node()
    story.at(1, SPOT.shows(spot(ends_at=121)))
    name = story.notice().id

    decided = story.at(10, SPOT.shows(spot(ends_at=122.5)))

    assert decided.command(Tell).notice.id == name
    assert decided.command(Tell).notice.deadline == 122.5
    assert decided.fact(NoticeChanged).notice.id == name
    assert story.at(20, SPOT.shows(spot(ends_at=123.4))) == []
    assert story.notice().deadline == 122.5
    story.at(30, flushed("s0", name))
    assert story.at(40, SPOT.shows(spot(ends_at=100))).commands(Tell) == []
    assert story.notice().deadline == 100


def test_a_time_in_the_past_is_told_at_once_with_nothing_left() -> None:
    story = a_node()

    decided = story.at(100, SPOT.shows(spot(ends_at=90)))

    assert decided.fact(NoticeSeen).lead_seconds == 0
    shown = decided.command(Tell).notice
    assert (shown.deadline, shown.flush_until) == (90, 90)
    assert isinstance(decided[0], Tell)
    assert story.phase is Phase.DRAINING
    story.at(104.9)
    assert story.phase is Phase.DRAINING
    story.at(105)
    assert story.notice().ending == "passed"


@pytest.mark.parametrize(
    ("lead_seconds", "flush_seconds"), [(120, 110), (30, 20), (39, 29), (12, 8), (3, 2), (0, 0)]
)
def test_a_shorter_lead_is_shared_between_flush_and_drain(
    lead_seconds: float, flush_seconds: float
) -> None:
    story = a_node()

    decided = story.at(100, SPOT.shows(spot(ends_at=100 + lead_seconds)))

    assert decided.fact(NoticeSeen).lead_seconds == lead_seconds
    assert decided.command(Tell).notice.flush_until == pytest.approx(100 + flush_seconds)


def test_the_drain_is_ordered_after_telling_and_cordoning_and_knows_its_times() -> None:
    story = a_node()

    decided = story.at(0, SPOT.shows(spot(ends_at=120)))

    kinds = [type(command) for command in decided if isinstance(command, (Tell, Cordon, Drain))]
    assert kinds == [Tell, Cordon, Drain]
    order = decided.command(Drain)
    assert (order.id, order.kind) == (story.notice().id, "preemption")
    assert (order.began_at, order.flush_until, order.deadline) == (0, 110, 120)


def test_what_trains_is_named_and_may_leave_once_all_of_its_group_have_flushed() -> None:
    story = a_node()
    story.at(0, joined("s1", rank=1), SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    ours, theirs = "/group of process of s0", "/group of process of s1"
    first = story.decided.command(Drain)
    assert first.training == first.waiting == {ours, theirs}

    second = story.at(10, flushed("s0", name)).command(Drain)
    assert (second.training, second.waiting) == ({ours, theirs}, {theirs})
    third = story.at(20, flushed("s1", name)).command(Drain)
    assert (third.training, third.waiting) == ({ours, theirs}, frozenset())
    assert story.at(119).commands(Drain) == []


def test_the_drain_phase_begins_when_the_flushes_are_over_or_their_time_is() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    story.at(109.9)
    assert story.phase is Phase.TOLD
    story.at(110)
    assert story.phase is Phase.DRAINING


def test_a_deadline_that_moves_is_ordered_anew() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    order = story.at(5, SPOT.shows(spot(ends_at=60))).command(Drain)

    assert (order.deadline, order.flush_until, order.began_at) == (60, 50, 0)


def test_a_withdrawal_stops_the_drain_and_the_end_of_a_drain_does_not() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id

    decided = story.at(1, SPOT.shows(), SPOT.shows(), SPOT.shows())
    assert decided.command(StopDrain).id == name

    other = a_node()
    other.at(0, SPOT.shows(spot(ends_at=120)))
    assert other.at(9, DrainEnded(other.notice().id, "drained")).commands(StopDrain) == []
    assert other.at(130).commands(StopDrain) == []


def test_two_looks_that_find_nothing_take_nothing_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    for second in range(1, 100, 3):
        story.at(second, SPOT.shows())
        story.at(second + 1, SPOT.shows())
        story.at(second + 2, SPOT.shows(spot(ends_at=120)))

    assert story.decided.commands(CallOff) == []
    assert len(story.decided.commands(Tell)) == 1
    assert story.notice().open


def test_whoever_waits_may_go_on_when_the_deadline_came_and_the_machine_stayed() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    story.at(9, flushed("s0", story.notice().id))
    story.at(126)
    assert story.notice().ending == "passed"

    decided = story.at(130, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert decided.command(CallOff).sessions == ("s0",)
    assert story.at(131, SPOT.shows()).commands(CallOff) == []


def test_three_looks_that_find_nothing_withdraw() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True), SPOT.shows())
    story.at(2, SPOT.shows())

    decided = story.at(3, SPOT.shows())

    assert isinstance(decided[0], CallOff)
    assert decided.command(CallOff).sessions == ("s0",)
    assert decided.fact(NoticeEnded).ending == "withdrawn"
    assert decided.command(Uncordon).id == name
    assert story.phase is Phase.WITHDRAWN


def test_an_old_notice_after_stop_and_start_is_closed_and_nobody_is_told_again() -> None:
    story = a_node()
    story.at(5000, SPOT.shows(spot(5120, Action.STOP)))

    decided = story.at(20, Rebooted(), joined("s0"), SPOT.shows(spot(5120, Action.STOP)))

    assert decided.fact(NoticeEnded).ending == "rebooted"
    assert decided.commands(Tell) == []
    assert story.at(23, SPOT.shows(), SPOT.shows(), SPOT.shows()).facts(NoticeEnded) == []


def test_the_next_interruption_after_a_restart_is_a_notice_of_its_own() -> None:
    story = a_node()
    story.at(5000, SPOT.shows(spot(5120, Action.STOP)))
    story.at(20, Rebooted(), joined("s1"))

    decided = story.at(9000, SPOT.shows(spot(9120, Action.STOP)))

    assert decided.command(Tell).sessions == ("s1",)
    assert len({notice.id for notice in story.notices()}) == 2


def test_a_hundred_looks_at_terminated_are_one_notice_one_flush_one_drain() -> None:
    story = a_node()

    for second in range(100):
        story.at(second, TARGET_STATE.shows(terminated()))

    assert len(story.decided.facts(NoticeSeen)) == 1
    assert len(story.decided.commands(Tell)) == 1
    assert len(story.decided.commands(Drain)) == 1
    assert len(story.decided.facts(FlushSettled)) == 1
    assert story.notice().deadline == 60


def test_terminated_again_after_it_was_cleared_is_a_new_notice() -> None:
    story = a_node()
    story.at(0, TARGET_STATE.shows(terminated()))
    story.at(10, TARGET_STATE.shows())

    decided = story.at(20, TARGET_STATE.shows(terminated()))

    first, second = story.notices()
    assert (first.ending, second.phase) == ("withdrawn", Phase.TOLD)
    assert decided.command(Tell).notice.id == second.id != first.id


def test_terminated_and_an_interruption_are_one_notice_by_the_earlier_time() -> None:
    story = a_node()
    story.at(0, TARGET_STATE.shows(terminated()))

    assert story.at(1, SPOT.shows(spot(ends_at=121))).commands(Tell) == []
    decided = story.at(2, SPOT.shows(spot(ends_at=50)))

    assert decided.command(Tell).notice.deadline == 50
    assert decided.command(Tell).notice.deadline_quality is DeadlineQuality.PROVIDER
    assert story.notice().deadline == 50


def test_what_another_scope_or_source_does_not_see_takes_nothing_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)), SCHEDULED.shows(scheduled(starts_at=DAY)))

    for second in range(1, 60):
        story.at(second, REBALANCE.shows(), TARGET_STATE.shows(), LOGIND.shows())

    assert [notice.open for notice in story.notices()] == [True, True]
    assert story.decided.commands(CallOff) == []


def test_what_says_more_of_the_end_names_the_notice_whoever_came_first() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id

    decided = story.at(5, SPOT.shows(spot(ends_at=125)))

    shown = decided.command(Tell).notice
    assert (shown.id, shown.kind, shown.deadline) == (name, Kind.PREEMPTION, 125)


def test_another_source_of_the_same_news_does_not_disturb_the_clients() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=30)))

    decided = story.at(5, EVENTS.shows(azure("Preempt", 90)))

    assert decided.commands(Tell) == []
    assert decided.fact(NoticeChanged).notice.sources == ("aws", "azure")


def test_a_job_is_told_what_the_time_that_is_really_left_means_for_its_flush() -> None:
    story = a_node()
    story.at(0, ProvidersFound(("aws",), "configured"))
    story.at(1, CheckpointReported(session="s0", step=7, durable_seconds=50.0))
    assert story.decided.command(Advise).advice.fits == "fits"

    decided = story.at(2, SPOT.shows(spot(ends_at=32)))

    assert decided.command(Advise).advice.fits == "misses"
