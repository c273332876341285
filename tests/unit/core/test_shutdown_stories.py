"""The machine's own shutdown: what is told of it, and when it is let go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.core.commands import Acknowledge, CallOff, Drain, Tell
from lastcall.core.events import AcknowledgeEnded, DrainEnded, FlushFailed, ProcessDied, Started
from lastcall.core.facts import Acknowledged, NoticeEnded
from lastcall.core.model import Action, DeadlineQuality, Kind, Phase, Sighting, Stance
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings
from support.happenings import EVENTS, LOGIND, PREEMPTED, azure, flushed, joined, preempted
from support.story import Story, a_node

WAITS = Settings(acknowledges=frozenset({"shutdown"}))
LET_GO = ("shutdown", "shutdown")


def shutdown(deadline: float | None) -> Sighting:
    return Sighting(
        source="shutdown",
        scope="logind",
        key="shutdown",
        kind=Kind.SHUTDOWN,
        action=Action.STOP,
        code="poweroff",
        deadline=deadline,
        deadline_unix=None if deadline is None else 1.9e9 + deadline,
        acknowledgeable=True,
    )


def going_down(deadline: float | None = 60.0, settings: Settings = WAITS) -> Story:
    """Return the story of a node with two processes that is being shut down."""
    story = a_node(settings)
    story.at(0, joined("s1", rank=1))
    story.at(1, LOGIND.shows(shutdown(deadline)))
    return story


def let_go(story: Story) -> list[tuple[str, str]]:
    return [(said.source, said.key) for said in story.decided.commands(Acknowledge)]


def test_a_shutdown_is_told_at_once_and_the_node_drained() -> None:
    story = going_down()

    told = story.decided.command(Tell).notice
    assert (told.kind, told.source, told.action) == ("shutdown", "shutdown", "stop")
    assert (told.deadline, told.deadline_quality) == (60, DeadlineQuality.PROVIDER)
    assert story.decided.command(Drain).deadline == 60
    assert let_go(story) == []


def test_a_shutdown_that_nothing_holds_back_is_told_with_an_assumed_deadline() -> None:
    told = going_down(None).decided.command(Tell).notice

    assert told.deadline == 6
    assert told.deadline_quality is DeadlineQuality.ASSUMED


def test_the_machine_goes_once_all_is_flushed_and_drained() -> None:
    story = going_down()
    name = story.notice().id
    story.at(5, flushed("s0", name))
    story.at(6, flushed("s1", name))
    assert let_go(story) == []

    story.at(8, DrainEnded(name, "drained"))

    assert let_go(story) == [LET_GO]
    assert story.at(8, AcknowledgeEnded(name, accepted=True)).fact(Acknowledged).accepted


def test_the_machine_goes_at_once_where_there_is_nothing_to_flush() -> None:
    story = Story(WAITS)
    story.at(1, LOGIND.shows(shutdown(60)))

    story.at(1, DrainEnded(story.notice().id, "none"))

    assert let_go(story) == [LET_GO]


@pytest.mark.parametrize("outcome", ["drained", "incomplete", "failed", "none"])
def test_the_machine_goes_however_the_drain_ended(outcome: str) -> None:
    story = going_down()
    name = story.notice().id
    story.at(5, flushed("s0", name), flushed("s1", name))

    story.at(8, DrainEnded(name, outcome))

    assert let_go(story) == [LET_GO]


def test_the_machine_goes_though_flushes_failed() -> None:
    story = going_down()
    name = story.notice().id
    story.at(2, DrainEnded(name, "drained"))
    story.at(5, FlushFailed("s0", name, "no space left"))
    assert let_go(story) == []

    story.at(6, ProcessDied(story.node.clients[story.node.sessions["s1"]].identity))

    assert let_go(story) == [LET_GO]


def test_the_machine_is_held_while_a_flush_may_still_come() -> None:
    story = going_down()
    name = story.notice().id
    story.at(2, flushed("s0", name), DrainEnded(name, "drained"))

    story.at(59)

    assert let_go(story) == []
    story.at(60.5, flushed("s1", name))
    assert let_go(story) == [LET_GO]


def test_an_agent_that_only_watches_lets_the_machine_go_once_all_is_flushed() -> None:
    story = going_down(settings=replace(WAITS, acts=False))
    name = story.notice().id
    story.at(5, flushed("s0", name))
    assert let_go(story) == []

    story.at(6, flushed("s1", name))

    assert let_go(story) == [LET_GO]
    assert story.decided.commands(Drain) == []


def test_a_shutdown_that_drains_nothing_is_let_go_once_all_is_flushed() -> None:
    rule = Rule(source="shutdown", drain=False)
    story = going_down(settings=replace(WAITS, policy=Policy((rule,))))
    name = story.notice().id

    story.at(6, flushed("s0", name), flushed("s1", name))

    assert let_go(story) == [LET_GO]


def test_a_shutdown_that_is_only_shown_is_not_held_up() -> None:
    rule = Rule(source="shutdown", stance=Stance.INFORM)
    story = going_down(settings=replace(WAITS, policy=Policy((rule,))))

    assert let_go(story) == [LET_GO]
    assert story.phase is Phase.SEEN


def test_a_shutdown_that_follows_our_own_word_to_the_provider_is_let_go_too() -> None:
    story = a_node(replace(WAITS, acknowledges=frozenset({"azure", "shutdown"})))
    story.at(0, EVENTS.shows(azure("Preempt", 30, acknowledgeable=True)))
    name = story.notice().id
    story.at(5, flushed("s0", name), DrainEnded(name, "drained"))
    story.at(6, AcknowledgeEnded(name, accepted=True))

    story.at(8, LOGIND.shows(shutdown(68)))

    assert let_go(story) == [("azure", "event-1"), LET_GO]


def test_a_shutdown_is_let_go_once() -> None:
    story = going_down()
    name = story.notice().id
    story.at(5, flushed("s0", name), flushed("s1", name), DrainEnded(name, "drained"))
    story.at(5, AcknowledgeEnded(name, accepted=True))

    story.at(7, Started(), LOGIND.shows(shutdown(60)))
    story.at(100)

    assert let_go(story) == [LET_GO]


def test_a_shutdown_that_is_called_off_lets_training_go_on() -> None:
    story = going_down()

    decided = story.at(5, LOGIND.shows())

    assert decided.commands(CallOff)
    assert decided.fact(NoticeEnded).ending == "withdrawn"
    story.at(20, LOGIND.shows(shutdown(80)))
    assert story.notices()[1].phase is Phase.TOLD


def test_a_metadata_service_that_lags_only_adds_to_the_notice() -> None:
    story = going_down()
    first = story.notice()

    story.at(5, PREEMPTED.shows(preempted()))

    notice = story.notice()
    assert notice.id == first.id
    assert notice.first_seen == 1
    assert [claim.sighting.source for claim in notice.claims] == ["shutdown", "gcp"]
    assert story.decided.commands(Tell)[0].notice.source == "shutdown"
    story.at(6, flushed("s0", notice.id), flushed("s1", notice.id))
    story.at(7, DrainEnded(notice.id, "drained"))
    assert let_go(story) == [LET_GO]
