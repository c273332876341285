"""An advice asks for a checkpoint, gives way to the real notice, and ends by itself."""

from __future__ import annotations

import pytest

from lastcall.core.commands import CallOff, Cordon, Drain, Tell
from lastcall.core.facts import NoticeEnded, NoticeSeen, NoticeTold
from lastcall.core.model import DeadlineQuality, Phase, Stance, Urgency
from lastcall.core.policy import Rule
from support.happenings import (
    REBALANCE,
    SPOT,
    flushed,
    rebalance,
    spot,
)
from support.story import a_node, ruled

DAY = 86400.0
HALF_HOUR = 1800.0


def test_a_rebalance_asks_for_a_checkpoint_and_touches_the_node_in_no_other_way() -> None:
    story = a_node()

    decided = story.at(0, REBALANCE.shows(rebalance()))

    shown = decided.command(Tell).notice
    assert (shown.urgency, shown.deadline, shown.flush_until) == (Urgency.SOON, None, None)
    assert shown.deadline_quality is DeadlineQuality.NONE
    assert decided.fact(NoticeSeen).lead_seconds is None
    story.at(10, flushed("s0", shown.id))
    story.at(HALF_HOUR)
    assert story.decided.commands(Cordon) == story.decided.commands(Drain) == []


def test_a_rebalance_expires_and_is_not_told_again_until_it_is_made_anew() -> None:
    story = a_node()
    made = rebalance("2031-03-21T09:00:00Z")
    story.at(0, REBALANCE.shows(made))

    decided = story.at(HALF_HOUR, REBALANCE.shows(made))
    assert decided.fact(NoticeEnded).ending == "expired"
    assert decided.command(CallOff).sessions == ("s0",)
    for second in range(int(HALF_HOUR) + 1, int(DAY), 600):
        assert story.at(second, REBALANCE.shows(made)) == []

    decided = story.at(DAY, REBALANCE.shows(rebalance("2031-03-22T09:00:00Z")))

    assert decided.fact(NoticeTold).notice.id != story.notices()[0].id
    assert decided.command(Tell).sessions == ("s0",)


def test_a_newer_recommendation_takes_the_place_of_one_that_stands() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance("2031-03-21T09:00:00Z")))

    decided = story.at(60, REBALANCE.shows(rebalance("2031-03-21T09:01:00Z")))

    old, new = story.notices()
    assert decided.command(CallOff).id == old.id
    assert decided.command(Tell).notice.id == new.id


@pytest.mark.parametrize("pause_seconds", [0.0, 0.4, 1200.0])
def test_an_interruption_takes_the_place_of_an_advice(pause_seconds: float) -> None:
    story = a_node()
    story.at(10, REBALANCE.shows(rebalance()))
    advice = story.notice().id

    decided = story.at(10 + pause_seconds, SPOT.shows(spot(10 + pause_seconds + 120)))

    real = decided.command(Tell).notice
    assert real.id != advice
    assert real.supersedes == (advice,)
    assert real.urgency is Urgency.NOW
    assert decided.command(CallOff).id == advice
    assert decided.fact(NoticeEnded).ending == "superseded"
    assert {type(command) for command in decided[:2]} == {Tell, CallOff}


def test_a_client_that_flushed_for_the_advice_is_asked_again() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance()))
    story.at(10, flushed("s0", story.notice().id))

    story.at(1200, SPOT.shows(spot(ends_at=1320)))

    real = story.notices()[-1]
    assert [flush.outcome for flush in real.flushes.values()] == [None]


def test_an_advice_during_an_interruption_is_not_told() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(1, REBALANCE.shows(rebalance()))

    assert decided.commands(Tell) == []
    assert story.notices()[-1].phase is Phase.SEEN


def test_a_rule_can_have_an_advice_answered_like_the_end_itself() -> None:
    story = a_node(ruled(Rule(kind="rebalance", stance=Stance.FLUSH, drain=True)))

    decided = story.at(0, REBALANCE.shows(rebalance()))

    assert decided.command(Tell).notice.urgency is Urgency.NOW
    assert decided.command(Tell).notice.deadline == 30
    assert decided.commands(Cordon)
