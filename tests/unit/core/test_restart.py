"""The agent's own end and the machine's: what is taken up again, and what is over."""

from __future__ import annotations

from lastcall.core.commands import CallOff, Cordon, Drain, Greet, Tell, Uncordon, WatchProcess
from lastcall.core.events import (
    CheckpointReported,
    CordonEnded,
    DrainEnded,
    Rebooted,
    Restored,
    SourcePolled,
    Started,
    UncordonEnded,
)
from lastcall.core.facts import FlushSettled, NodeDrained, NoticeEnded, WorkLost
from lastcall.core.model import Kind, Node, Phase
from lastcall.core.policy import Rule
from lastcall.core.turn import Settings
from support.happenings import (
    EVENTS,
    REBALANCE,
    SPOT,
    azure,
    died,
    drill,
    flushed,
    joined,
    rebalance,
    spot,
)
from support.story import Story, a_node, ruled


def back(process: str = "process of s0", **more: object) -> object:
    return joined("again", process=process, **more)


# --- the agent's -----------------------------------------------------------------------------


def test_after_a_restart_the_known_processes_are_watched_and_nobody_is_connected() -> None:
    story = a_node()
    story.at(1, SourcePolled("aws", "ok"))

    decided = story.at(10, Started())

    assert decided.command(WatchProcess) == WatchProcess("process of s0", 4242)
    assert story.node.sessions == story.node.sources == {}
    (client,) = story.node.clients.values()
    assert (client.session, client.left_at) == (None, 10)


def test_a_restart_in_the_middle_asks_nobody_for_a_second_flush() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(20, flushed("s0", name))

    decided = story.at(30, Started(), SPOT.shows(spot(ends_at=120)), back(handled=(name,)))
    story.at(200)

    assert decided.commands(Tell) == []
    assert story.decided.fact(FlushSettled).outcome == "in_time"
    assert len(story.notices()) == 1


def test_a_client_that_had_not_flushed_is_told_again_under_the_same_id() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id

    decided = story.at(30, Started(), back())

    assert [shown.id for shown in decided.command(Greet).notices] == [name]
    settled = story.at(40, flushed("again", name)).fact(FlushSettled)
    assert (settled.outcome, settled.flush_seconds) == ("in_time", 40)


def test_a_process_that_died_while_the_agent_was_down_has_missed() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(30, Started(), died("s0"))

    assert decided.fact(FlushSettled).outcome == "missed"


def test_a_drain_that_was_under_way_goes_on_and_ends_once() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    story.at(20, flushed("s0", name))

    decided = story.at(30, Started())
    assert decided.command(Drain).id == name
    assert decided.command(Drain).waiting == frozenset()
    assert decided.commands(Cordon) == []
    story.at(40, DrainEnded(name, "drained"), DrainEnded(name, "drained"))

    assert story.decided.fact(NodeDrained).seconds == 40
    assert story.at(50, Started()).commands(Drain) == []


def test_a_cordon_that_was_not_confirmed_is_asked_for_again() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert story.at(3, Started()).command(Cordon).notice.id == story.notice().id


def test_a_restart_during_an_advice_cordons_nothing() -> None:
    story = a_node(ruled(Rule(kind="rebalance", drain=True)))
    story.at(0, REBALANCE.shows(rebalance()))

    assert story.at(3, Started()).commands(Cordon) == []


def test_a_watching_agent_cordons_and_drains_nothing_after_a_restart() -> None:
    story = a_node(Settings(acts=False))
    story.at(0, SPOT.shows(spot(ends_at=120)))
    story.at(20, flushed("s0", story.notice().id))

    decided = story.at(30, Started())

    assert decided.commands(Cordon) == decided.commands(Drain) == []


def test_a_cordon_that_was_being_lifted_is_lifted_after_the_restart() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(9, SPOT.shows(), SPOT.shows(), SPOT.shows()).commands(Uncordon)

    assert story.at(10, Started()).command(Uncordon).id == name


def test_an_event_canceled_while_the_agent_was_down_gives_the_node_back() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Reboot", 800)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    decided = story.at(60, Started(), back(), EVENTS.shows())

    assert decided.command(CallOff).sessions == ("again",)
    assert decided.command(Uncordon).id == name


def test_what_an_earlier_journal_knew_is_taken_up_whole() -> None:
    story = a_node()
    story.at(0, CheckpointReported(session="s0", step=7), SPOT.shows(spot(ends_at=120)))

    resumed = Story()
    resumed.at(1, Restored(story.node))

    assert resumed.node == story.node


# --- the machine's ---------------------------------------------------------------------------


def test_a_reboot_ends_what_was_open_and_says_what_had_come_of_it() -> None:
    story = a_node()
    story.at(0, joined("s1", rank=1), SPOT.shows(spot(ends_at=120)))
    story.at(9, flushed("s0", story.notice().id))

    decided = story.at(5, Rebooted())

    ended = decided.fact(NoticeEnded)
    assert (ended.ending, ended.outcomes) == ("rebooted", {"in_time": 1, "missed": 1})
    missed = decided.fact(FlushSettled)
    assert (missed.rank, missed.cause) == (1, "the machine went down first")
    assert decided.commands(CallOff) == decided.commands(Tell) == []
    assert story.phase is Phase.DONE
    assert story.node.clients == story.node.sessions == {}


def test_a_reboot_keeps_what_was_learned_of_the_jobs_but_not_the_old_clock() -> None:
    story = a_node()
    story.at(10, CheckpointReported(session="s0", step=7, durable_seconds=9.0))
    story.at(20, SPOT.shows(spot(ends_at=140)))

    story.at(3, Rebooted())

    assert story.node.jobs["llama"].durable_seconds == (9.0,)
    assert story.node.jobs["llama"].last_at is None
    assert story.node.interruptions == 0


def test_work_that_a_machine_took_down_with_it_is_counted_from_its_last_checkpoint() -> None:
    story = a_node()
    story.at(10, CheckpointReported(session="s0", step=7, durable_seconds=9.0))
    story.at(20, SPOT.shows(spot(ends_at=140)))

    decided = story.at(3, Rebooted())

    assert decided.fact(WorkLost).seconds == 130


def test_a_state_without_time_or_name_that_still_holds_after_a_reboot_is_a_new_notice() -> None:
    story = a_node()
    story.at(0, EVENTS.shows(azure("Preempt", None)))
    story.at(3, Rebooted(), joined("s1"))

    decided = story.at(4, EVENTS.shows(azure("Preempt", None)))

    assert decided.command(Tell).sessions == ("s1",)


def test_a_notice_that_was_over_before_the_reboot_stays_over() -> None:
    story = a_node()
    made = rebalance()
    story.at(0, REBALANCE.shows(made))
    story.at(1800)

    decided = story.at(3, Rebooted(), joined("s1"), REBALANCE.shows(made))

    assert decided.facts(NoticeEnded) == []
    assert decided.commands(Tell) == []


def test_a_drill_does_not_survive_a_reboot() -> None:
    story = a_node()
    story.at(0, drill(drain=True))
    story.at(1, CordonEnded(story.notice().id, cordoned=True))

    decided = story.at(2, Rebooted())

    assert decided.fact(NoticeEnded).notice.kind is Kind.PREEMPTION
    assert decided.commands(Uncordon)


def test_the_cordon_of_before_a_reboot_is_given_back_once() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    story.at(5, Rebooted())
    story.at(6, SPOT.shows(spot(ends_at=120)), UncordonEnded(name, uncordoned=True))
    story.at(600, SPOT.shows())

    assert len(story.decided.commands(Uncordon)) == 1


def test_a_first_start_knows_nothing_and_does_nothing() -> None:
    story = Story()

    assert story.at(1, Started()) == []
    assert story.node == Node(observed_since=1)
