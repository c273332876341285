"""What Azure says, and what becomes of it; and when it is told that we are done."""

from __future__ import annotations

import pytest

from lastcall.core.commands import Acknowledge, CallOff, Cordon, Drain, Tell, Uncordon
from lastcall.core.events import (
    AcknowledgeEnded,
    CordonEnded,
    DrainEnded,
    FlushFailed,
    Intended,
    Started,
)
from lastcall.core.facts import Acknowledged, FlushSettled, NoticeEnded, NoticeSeen
from lastcall.core.model import Phase, Stance
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings
from support.happenings import EVENTS, azure, drill, flushed, joined
from support.story import Story, a_node, ruled

DONE = Settings(acknowledges=frozenset({"azure"}))


# --- what is told ----------------------------------------------------------------------------


def test_a_freeze_is_shown_and_a_preemption_after_it_is_told() -> None:
    story = a_node()
    freeze = azure("Freeze", 600, key="f")
    decided = story.at(0, EVENTS.shows(freeze))
    assert decided.commands(Tell) == decided.commands(Cordon) == []

    decided = story.at(300, EVENTS.shows(freeze, azure("Preempt", 330, key="p")))

    assert decided.command(Tell).notice.kind == "preemption"
    assert story.notices()[0].phase is Phase.SEEN


def test_of_a_freeze_and_a_preemption_at_once_the_preemption_is_told() -> None:
    story = a_node()

    decided = story.at(0, EVENTS.shows(azure("Freeze", 9, "f"), azure("Preempt", 30, "p")))

    assert decided.command(Tell).notice.kind == "preemption"
    assert decided.command(Tell).notice.deadline == 30


def test_a_rule_can_ask_for_a_checkpoint_before_a_freeze() -> None:
    story = a_node(ruled(Rule(source="azure", code="Freeze", stance=Stance.ADVISE)))

    decided = story.at(0, EVENTS.shows(azure("Freeze", 600)))

    assert decided.command(Tell).notice.urgency == "soon"
    assert decided.commands(Cordon) == []


def test_a_failed_host_is_told_at_once_with_no_lead() -> None:
    story = a_node()

    decided = story.at(50, EVENTS.shows(azure("Reboot", None, deadline=50.0)))

    assert decided.fact(NoticeSeen).lead_seconds == 0
    assert decided.command(Tell).notice.deadline == 50
    assert decided.commands(Drain)


def test_a_type_that_nobody_knows_is_shown_and_not_acted_upon() -> None:
    story = a_node()

    decided = story.at(0, EVENTS.shows(azure("SomethingNew", 60)))

    assert decided.fact(NoticeSeen).notice.action == "none"
    story.at(10_000)
    assert story.decided.commands(Tell) == story.decided.commands(Drain) == []


def test_the_stated_time_is_what_the_drain_has() -> None:
    story = a_node()

    shown = story.at(0, EVENTS.shows(azure("Preempt", 28))).command(Drain)

    assert (shown.deadline, shown.flush_until) == (28, pytest.approx(28 - 28 / 3))


def test_an_event_that_starts_and_then_names_no_time_keeps_its_deadline() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Reboot", 800, cancellable=True)))

    decided = story.at(800, EVENTS.shows(azure("Reboot", None, cancellable=False)))

    assert story.notice().deadline == 800
    assert decided.commands(Tell)[-1].notice.cancellable is False


def test_an_event_that_turns_into_a_worse_one_is_answered_as_that() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Freeze", 600)))

    decided = story.at(60, EVENTS.shows(azure("Redeploy", 600)))

    assert decided.command(Tell).notice.action == "redeploy"
    assert decided.commands(Cordon)


def test_an_event_that_turns_into_a_freeze_lets_the_node_go_on() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Reboot", 600)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    decided = story.at(60, EVENTS.shows(azure("Freeze", 600)))

    assert decided.command(Tell).notice.urgency == "soon"
    assert decided.command(Uncordon).id == name
    assert story.at(5000, EVENTS.shows()).fact(NoticeEnded).ending == "withdrawn"


def test_a_preemption_that_is_taken_back_lets_training_go_on() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Preempt", 30)))
    name = story.notice().id

    decided = story.at(5, EVENTS.shows())

    assert decided.command(CallOff).sessions == ("s0",)
    assert decided.fact(FlushSettled).outcome == "withdrawn"
    assert story.at(6, flushed("s0", name)).facts(FlushSettled) == []
    assert story.phase is Phase.WITHDRAWN


# --- when we are done ------------------------------------------------------------------------


def preempted_node(settings: Settings = DONE, **more: object) -> Story:
    """Return a node with two clients that is preempted at 30."""
    story = Story(settings)
    story.at(0, joined("s0", rank=0), joined("s1", rank=1))
    story.at(0, EVENTS.shows(azure("Preempt", 30, **{"acknowledgeable": True, **more})))
    return story


def test_the_event_is_approved_once_all_is_flushed_and_drained() -> None:
    story = preempted_node()
    name = story.notice().id

    assert story.at(5, flushed("s0", name)).commands(Acknowledge) == []
    assert story.at(6, Intended("s1", name, "ignore")).commands(Acknowledge) == []
    decided = story.at(9, DrainEnded(name, "drained"))

    assert decided.command(Acknowledge) == Acknowledge(name, "azure", "event-1")
    decided = story.at(10, AcknowledgeEnded(name, accepted=False, detail="400"))
    assert decided.fact(Acknowledged).accepted is False
    story.at(200, EVENTS.shows(azure("Preempt", 30, acknowledgeable=True)))
    assert len(story.decided.commands(Acknowledge)) == 1


def test_an_approval_that_nobody_heard_the_answer_to_is_sent_again_after_a_restart() -> None:
    story = preempted_node()
    name = story.notice().id
    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, "none"))

    assert story.at(6, Started()).commands(Acknowledge)
    story.at(7, AcknowledgeEnded(name, accepted=True))
    assert story.at(8, Started()).commands(Acknowledge) == []


def test_a_node_with_nothing_to_drain_is_approved_when_all_is_flushed() -> None:
    story = preempted_node()
    name = story.notice().id

    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, "none"))

    assert story.decided.commands(Acknowledge)


def test_the_last_flush_may_come_after_the_drain() -> None:
    story = preempted_node()
    name = story.notice().id
    story.at(5, flushed("s0", name))
    assert story.at(25, DrainEnded(name, "drained")).commands(Acknowledge) == []

    assert story.at(27, flushed("s1", name)).commands(Acknowledge)


@pytest.mark.parametrize("outcome", ["incomplete", "failed"])
def test_a_drain_that_left_pods_behind_approves_nothing(outcome: str) -> None:
    story = preempted_node()
    name = story.notice().id

    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, outcome))
    story.at(40)

    assert story.decided.commands(Acknowledge) == []


def test_a_flush_that_failed_approves_nothing() -> None:
    story = preempted_node()
    name = story.notice().id

    story.at(5, flushed("s0", name), FlushFailed("s1", name, "x"), DrainEnded(name, "drained"))
    story.at(40)

    assert story.decided.commands(Acknowledge) == []


def test_a_flush_that_is_not_durable_approves_nothing() -> None:
    story = preempted_node()
    name = story.notice().id

    story.at(5, flushed("s0", name), flushed("s1", name, durable=False))
    story.at(6, DrainEnded(name, "drained"))

    assert story.decided.commands(Acknowledge) == []


@pytest.mark.parametrize(
    ("settings", "acknowledgeable"),
    [
        pytest.param(Settings(), True, id="not asked for"),
        pytest.param(DONE, False, id="others are concerned too"),
    ],
)
def test_nothing_is_approved_for_others_or_unasked(
    settings: Settings, acknowledgeable: bool
) -> None:
    story = preempted_node(settings, acknowledgeable=acknowledgeable)
    name = story.notice().id

    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, "drained"))

    assert story.decided.commands(Acknowledge) == []


def test_a_drill_approves_nothing() -> None:
    story = Story(DONE)
    story.at(0, joined("s0"), drill(drain=True))
    name = story.notice().id

    story.at(5, flushed("s0", name), DrainEnded(name, "drained"))

    assert story.notice().ending == "rehearsed"
    assert story.decided.commands(Acknowledge) == []


def test_a_watching_agent_approves_nothing() -> None:
    settings = Settings(policy=Policy(), acts=False, acknowledges=frozenset({"azure"}))
    story = preempted_node(settings)
    name = story.notice().id

    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, "drained"))
    story.at(40)

    kinds = {type(command) for command in story.decided}
    assert not kinds & {Acknowledge, Cordon, Drain}
    assert story.notice().ending == "passed"


def test_an_event_that_had_started_and_is_gone_is_over_and_was_not_withdrawn() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Reboot", 800)))
    story.at(801, EVENTS.shows(azure("Reboot", 800, started=True)))

    decided = story.at(802, EVENTS.shows())

    assert decided.fact(NoticeEnded).ending == "completed"
