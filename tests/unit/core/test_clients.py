"""Training processes: who is told, who is expected to flush, and what a lost connection means."""

from __future__ import annotations

import pytest

from lastcall.core.clients import AWAY_LIMIT, AWAY_SECONDS, JOBS_LIMIT
from lastcall.core.commands import CallOff, Confirm, Drain, Greet, Refuse, Tell
from lastcall.core.events import (
    Acked,
    AllTold,
    Beat,
    CheckpointReported,
    Intended,
    Progressed,
    ResumeReported,
)
from lastcall.core.facts import (
    AllClientsTold,
    CheckpointSeen,
    ClientCame,
    ClientWent,
    FlushSettled,
    JobResumed,
    NoticeTold,
)
from lastcall.core.model import Client, Flush, Phase
from support.happenings import (
    SCHEDULED,
    SPOT,
    died,
    flushed,
    joined,
    left,
    lost,
    scheduled,
    spot,
)
from support.story import Story, a_node


def client(story: Story) -> Client:
    (known,) = story.node.clients.values()
    return known


def flush(story: Story) -> Flush:
    (known,) = story.notice().flushes.values()
    return known


# --- hello -----------------------------------------------------------------------------------


def test_a_hello_is_answered_though_nothing_is_open() -> None:
    story = Story()

    decided = story.at(1, joined("s0", rank=3))

    assert decided.command(Greet) == Greet("s0", ())
    came = decided.fact(ClientCame)
    assert (came.job, came.rank, came.pid, came.returned) == ("llama", 3, 4242, False)


@pytest.mark.parametrize("late_by_seconds", [1, 115], ids=["while told", "while draining"])
def test_a_client_that_comes_late_is_told_in_the_greeting(late_by_seconds: float) -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(late_by_seconds, joined("late", rank=1))

    (shown,) = decided.command(Greet).notices
    assert shown.id == story.notice().id
    assert shown.deadline == 120
    assert [one.told_at for one in story.notice().flushes.values()] == [0, late_by_seconds]


def test_a_client_is_not_greeted_with_what_is_not_told_or_is_over() -> None:
    story = Story()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=86400)), SPOT.shows(spot(ends_at=10)))
    story.at(20)

    assert story.at(21, joined("s0")).command(Greet).notices == ()


def test_of_a_client_that_had_dealt_with_the_notice_nothing_is_expected() -> None:
    story = Story()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id

    story.at(10, joined("s0", handled=("another", name)))
    story.at(11, Acked("s0", name, 5), Intended("s0", name, "save"), Progressed("s0", name))
    story.at(130)

    assert story.notice().flushes == {}
    assert story.decided.facts(FlushSettled) == []


def test_a_client_that_had_dealt_with_the_notice_may_still_report() -> None:
    story = Story()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(10, joined("s0", handled=(name,)))

    decided = story.at(11, flushed("s0", name))

    assert decided.fact(FlushSettled).outcome == "in_time"
    assert decided.fact(FlushSettled).flush_seconds is None
    assert decided.commands(Confirm)


def test_an_unknown_id_among_the_handled_does_no_harm() -> None:
    story = Story()
    story.at(0, joined("s0", handled=("long-gone",)))

    assert story.at(1, SPOT.shows(spot(ends_at=121))).command(Tell).sessions == ("s0",)


# --- a connection that is lost ---------------------------------------------------------------


def test_a_reconnect_is_recognised_and_keeps_when_it_was_told() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    story.at(5, lost("s0"))

    decided = story.at(9, joined("again", process="process of s0"))

    assert decided.fact(ClientCame).returned is True
    assert len(decided.command(Greet).notices) == 1
    assert client(story).joined_at == 0
    assert flush(story).told_at == 0
    decided = story.at(30, flushed("again", story.notice().id))
    assert decided.fact(FlushSettled).flush_seconds == 30


def test_a_client_that_is_away_when_the_notice_comes_is_told_at_its_return() -> None:
    story = a_node()
    story.at(1, lost("s0"))

    decided = story.at(2, SPOT.shows(spot(ends_at=122)))
    assert decided.command(Tell).sessions == ()
    assert decided.fact(NoticeTold).clients == 0
    assert flush(story).told_at is None

    story.at(12, joined("again", process="process of s0"))
    assert flush(story).told_at == 12
    assert story.at(22, flushed("again", story.notice().id)).fact(FlushSettled).flush_seconds == 10


def test_a_client_that_is_away_is_expected_until_the_deadline() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)), lost("s0"))

    assert story.at(109).facts(FlushSettled) == []
    assert story.decided.commands(Drain)[-1].waiting == {"/group of process of s0"}
    decided = story.at(125)

    assert decided.fact(FlushSettled).outcome == "missed"
    assert decided.fact(ClientWent).how == "lost"
    assert story.node.clients == {}


def test_a_client_of_whom_nothing_is_expected_is_forgotten_after_a_minute() -> None:
    story = a_node()
    story.at(10, lost("s0"))

    assert story.at(10 + AWAY_SECONDS - 0.1).facts(ClientWent) == []
    assert story.at(10 + AWAY_SECONDS).fact(ClientWent).how == "lost"
    assert story.node.clients == {}


def test_no_more_than_so_many_that_are_away_are_remembered() -> None:
    story = Story()
    for number in range(AWAY_LIMIT + 5):
        story.at(1, joined(f"s{number}", rank=number), lost(f"s{number}"))

    assert len(story.node.clients) == AWAY_LIMIT
    assert len(story.decided.facts(ClientWent)) == AWAY_LIMIT + 5 + 5


def test_a_process_with_two_connections_is_two_clients() -> None:
    story = a_node()

    decided = story.at(1, joined("second", process="process of s0"))
    story.at(2, SPOT.shows(spot(ends_at=120)))

    assert decided.fact(ClientCame).returned is False
    assert set(story.decided.command(Tell).sessions) == {"s0", "second"}


def test_the_same_process_under_another_rank_is_another_client() -> None:
    story = a_node()
    story.at(1, lost("s0"))

    story.at(2, joined("again", process="process of s0", rank=1))

    assert len(story.node.clients) == 2


def test_a_withdrawal_reaches_those_that_came_late_and_not_those_that_are_away() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)), joined("late", rank=1), lost("s0"))

    decided = story.at(5, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert decided.command(CallOff).sessions == ("late",)


# --- the end of a process --------------------------------------------------------------------


def test_death_is_missed_within_the_same_turn_and_the_drain_need_not_wait() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(7, died("s0"))

    assert decided.fact(FlushSettled).outcome == "missed"
    assert decided.fact(ClientWent).how == "died"
    assert decided.commands(Drain)
    assert story.node.clients == story.node.sessions == {}


def test_death_takes_every_client_of_the_process() -> None:
    story = Story()
    story.at(0, joined("a", process="p", rank=0), joined("b", process="p", rank=1), joined("c"))

    story.at(1, died("c"), SPOT.shows(spot(ends_at=120)))

    assert set(story.decided.command(Tell).sessions) == {"a", "b"}


def test_a_farewell_before_the_flush_is_missed_and_after_it_is_not() -> None:
    story = a_node()
    story.at(0, joined("s1", rank=1), SPOT.shows(spot(ends_at=120)))
    name = story.notice().id

    missed = story.at(5, left("s0")).fact(FlushSettled)
    in_time = story.at(6, flushed("s1", name), left("s1")).fact(FlushSettled)

    assert (missed.outcome, missed.cause) == ("missed", "done")
    assert in_time.outcome == "in_time"


def test_a_connection_that_ends_after_its_farewell_is_no_news() -> None:
    story = a_node()
    story.at(1, left("s0"))

    assert story.at(2, lost("s0")) == []


# --- what it says meanwhile ------------------------------------------------------------------


def test_ack_intent_and_progress_are_kept_and_change_no_outcome() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id

    story.at(1, Acked("s0", name, 41))
    assert story.phase is Phase.TOLD
    story.at(2, Intended("s0", name, "finish_inflight", 43))
    story.at(3, Progressed("s0", name, "writing", 10, 100), Progressed("s0", name, bytes=50))

    known = flush(story)
    assert (known.acked_at, known.begun_at, known.step) == (1, 2, 43)
    assert (known.will, known.phase, known.bytes, known.total_bytes) == (
        "finish_inflight",
        "writing",
        50,
        100,
    )
    assert known.outcome is None
    assert story.phase is Phase.FLUSHING


def test_progress_alone_says_that_a_flush_has_begun() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    story.at(4, Progressed("s0", story.notice().id))

    assert flush(story).begun_at == 4
    assert story.phase is Phase.FLUSHING


def test_an_intent_that_is_none_is_refused() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    refusal = story.at(1, Intended("s0", story.notice().id, "explode")).command(Refuse)

    assert refusal.code == "bad_message"
    assert "save, finish_inflight, ignore" in refusal.message


def test_what_comes_after_the_end_changes_nothing() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=20)))
    name = story.notice().id
    story.at(30)
    before = story.node

    story.at(31, Acked("s0", name), Progressed("s0", name), Intended("s0", name, "save"))

    assert story.node is before


def test_a_heartbeat_says_where_the_loop_stands() -> None:
    story = a_node()

    story.at(5, Beat("s0", 7, "forward"))
    story.at(6, Beat("s0"))

    assert (client(story).step, client(story).section, client(story).heard_at) == (7, None, 6)


def test_a_checkpoint_is_confirmed_and_made_known() -> None:
    story = a_node()

    decided = story.at(
        5, CheckpointReported(session="s0", step=7, path="/ckpt/7", durable_seconds=3.5)
    )

    assert decided.command(Confirm) == Confirm("s0", "checkpoint")
    seen = decided.fact(CheckpointSeen)
    assert (seen.job, seen.step, seen.path, seen.durable_seconds) == ("llama", 7, "/ckpt/7", 3.5)
    assert story.node.jobs["llama"].last_at == 5


def test_no_more_than_so_many_jobs_are_remembered_and_the_oldest_goes_first() -> None:
    story = Story()
    for number in range(JOBS_LIMIT + 3):
        story.at(number, joined(f"s{number}", job=f"job{number}"))
        story.at(number, CheckpointReported(session=f"s{number}", step=1))

    assert len(story.node.jobs) == JOBS_LIMIT
    assert "job2" not in story.node.jobs
    assert "job3" in story.node.jobs


def test_a_job_that_came_back_is_made_known_and_confirmed() -> None:
    story = a_node()

    decided = story.at(5, ResumeReported(session="s0", step=40, lost_steps=3, path="/ckpt/40"))

    assert decided.command(Confirm) == Confirm("s0", "resumed")
    assert decided.fact(JobResumed) == JobResumed("llama", 40, 3, "/ckpt/40")
    assert client(story).step == 40


def test_how_long_telling_took_counts_from_the_first_sight() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    told = story.at(0.004, AllTold(story.notice().id, 1)).fact(AllClientsTold)

    assert (told.clients, told.signal_seconds) == (1, 0.004)


def test_how_long_telling_took_leaves_out_what_was_waited_on_purpose() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=86400)))
    story.at(86400 - 900)

    told = story.at(86400 - 899.5, AllTold(story.notice().id, 1)).fact(AllClientsTold)

    assert told.signal_seconds == 0.5


def test_how_long_telling_took_is_said_once_though_the_notice_is_sent_again() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, AllTold(name, 1))

    assert story.at(10, SPOT.shows(spot(ends_at=130)), AllTold(name, 1)).facts(AllClientsTold) == []
