"""Between messages and events: whose word counts, what is cut, what is computed when sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.estimates import JobAdvice
from lastcall.core.events import (
    Acked,
    Beat,
    CheckpointReported,
    FlushFailed,
    FlushReported,
    Intended,
    Progressed,
    ResumeReported,
)
from lastcall.core.model import DeadlineQuality
from lastcall.serve import translate
from lastcall.serve.peers import Peer, Process
from lastcall.wire import messages
from lastcall.wire.codec import decode, encode
from lastcall.wire.messages import AGENT_MESSAGES, CLIENT_MESSAGES, Hello
from support.agent_socket import view

SEEN = Process(pid=41, start_ticks=777, pidfd=None, dead=False)
UNSEEN = Process(pid=0, start_ticks=None, pidfd=None, dead=False)


def hello(**fields):
    return Hello(protocol=(1, 1), **fields)


def joined(message, peer, command=""):
    return translate.joined(
        message, session="s", identity="i", peer=peer, cgroup="/group", command=command
    )


# --- a client's word -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (messages.Ack("n", 7), Acked("s", "n", 7)),
        (messages.Intent("n", "save", 9), Intended("s", "n", "save", 9)),
        (messages.Progress("n", "writing", 1, 2), Progressed("s", "n", "writing", 1, 2)),
        (
            messages.Flushed("n", "/p", 3, 4, 0.5, 0.75, "dcp", durable=False),
            FlushReported(
                session="s",
                id="n",
                path="/p",
                step=3,
                bytes=4,
                stall_seconds=0.5,
                durable_seconds=0.75,
                format="dcp",
                durable=False,
            ),
        ),
        (messages.Failed("n", "no space"), FlushFailed("s", "n", "no space")),
        (
            messages.Checkpoint(3, "/p", 4, 0.5, 0.75, "dcp"),
            CheckpointReported(
                session="s",
                step=3,
                path="/p",
                bytes=4,
                stall_seconds=0.5,
                durable_seconds=0.75,
                format="dcp",
            ),
        ),
        (
            messages.Resumed(3, 1.5, 2, "/p"),
            ResumeReported(session="s", step=3, saved_unix=1.5, lost_steps=2, path="/p"),
        ),
        (messages.Heartbeat(3, "eval"), Beat("s", 3, "eval")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_message_of_a_client_is_one_event(message, event):
    assert translate.event(message, "s") == event


def test_every_other_message_means_nothing_to_the_machine():
    told = {"ack", "intent", "progress", "flushed", "failed", "checkpoint", "resumed", "heartbeat"}
    others = {"hello": hello(), "bye": messages.Bye(), "drill": messages.DrillRequest()}
    others["status"] = messages.StatusRequest()
    others["gpu"] = messages.GpuRequest(watched=True)

    assert told | others.keys() == CLIENT_MESSAGES.keys()
    assert all(translate.event(message, "s") is None for message in others.values())


def test_the_kernels_pid_goes_before_the_clients():
    message = hello(pid=1)

    assert joined(message, Peer(pid=41, uid=1000)).pid == 41
    assert joined(message, Peer(pid=0, uid=1000)).pid == 1
    assert joined(hello(), Peer(pid=0, uid=1000)).pid is None


def test_a_process_that_can_be_seen_is_recognised_by_pid_and_start():
    named = translate.identity(SEEN, Peer(41, 1000), hello(job="j", rank=3, pid=1))

    assert named == "41:777"


def test_a_process_that_cannot_be_seen_is_recognised_by_what_it_claims():
    peer = Peer(0, 1000)

    assert translate.identity(UNSEEN, peer, hello(job="j", rank=3, pid=1)) == "claimed:1000:j:3:1"
    assert translate.identity(UNSEEN, peer, hello()) == "claimed:1000:unnamed::"


def test_a_stranger_cannot_claim_to_be_a_process_that_the_kernel_names():
    claimed = translate.identity(UNSEEN, Peer(0, 41), hello(job="41:777"))

    assert claimed.startswith("claimed:")


@pytest.mark.parametrize("job", [None, "", "  ", "\n\t", "\u202e"])
def test_a_job_without_a_name_is_called_so(job):
    assert joined(hello(job=job), Peer(41, 0)).job == "unnamed"


def test_texts_of_a_client_are_cut_and_can_steer_nothing():
    event = joined(
        hello(
            job="\x1b[2Jjob\n" + "x" * 500,
            client="lib\r\n" + "y" * 500,
            handled=tuple(f"n-{number}" for number in range(100)),
        ),
        Peer(41, 0),
        command="python\x00train.py " + "z" * 500,
    )

    assert event.job == "[2Jjob" + "x" * 122
    assert event.library == "lib" + "y" * 61
    assert event.command.startswith("pythontrain.py z")
    assert len(event.command) == translate.COMMAND_LENGTH
    assert event.handled == tuple(f"n-{number}" for number in range(36, 100))


@given(st.text(), st.integers(0, 300))
def test_clean_text_is_short_printable_and_can_be_written(text, length):
    cleaned = translate.clean(text, length)

    assert len(cleaned) <= length
    assert len(cleaned.encode().splitlines()) <= 1
    assert "\x1b" not in cleaned
    assert translate.clean(cleaned, length) == cleaned


def test_ordinary_text_stays_as_it_is():
    for text in ("llama-ft", "Größe 2", "模型", "/mnt/a b/step=3"):
        assert translate.clean(text, 100) == text


# --- the agent's word ------------------------------------------------------------------------


def test_what_remains_is_computed_when_the_notice_is_sent():
    shown = view(
        deadline=130.0,
        flush_until=120.0,
        deadline_unix=5000.0,
        deadline_quality=DeadlineQuality.PROVIDER,
    )

    sent = translate.notice(shown, now=100.0, wall=4000.0)

    assert (sent.remaining_seconds, sent.budget_seconds) == (30.0, 20.0)
    assert sent.deadline_unix == 5000.0
    assert sent.deadline_quality == "provider"


def test_what_remains_is_never_negative():
    sent = translate.notice(view(deadline=130.0, flush_until=120.0), now=125.0, wall=0.0)
    assert (sent.remaining_seconds, sent.budget_seconds) == (5.0, 0.0)

    sent = translate.notice(view(deadline=130.0, flush_until=120.0), now=999.0, wall=2000.0)
    assert (sent.remaining_seconds, sent.budget_seconds) == (0.0, 0.0)
    assert sent.deadline_unix == 2000.0 - 869.0


def test_an_assumed_deadline_gets_its_wall_time_from_our_clock():
    sent = translate.notice(view(deadline=130.0, flush_until=120.0), now=100.0, wall=4000.0)

    assert sent.deadline_unix == 4030.0


def test_a_notice_without_a_deadline_has_no_times():
    sent = translate.notice(view(), now=100.0, wall=4000.0)

    assert (sent.deadline_unix, sent.remaining_seconds, sent.budget_seconds) == (None, None, None)


def test_a_sent_notice_is_understood_on_the_other_side_whatever_its_reason():
    shown = view(reason="x\n\x1b\ud800" + "y" * 9000, supersedes=("n-0",), deadline=1.0)

    sent = translate.notice(shown, now=0.0, wall=0.0)

    assert decode(encode(sent), AGENT_MESSAGES) == sent
    assert len(sent.reason) == translate.REASON_LENGTH


def test_advice_is_sent_as_it_was_learned():
    assert translate.advice(JobAdvice(60.0, "tight", 12.0)) == messages.Advice(60.0, "tight", 12.0)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/mnt/shared/step-9", "/mnt/shared/step-9"),
        ("s3://bucket/run/step-9", "s3://bucket/run/step-9"),
        ("https://user:secret@host:8/ck?X-Amz-Signature=s#t", "https://host:8/ck"),
        ("https://host?token=s", "https://host"),
    ],
)
def test_where_a_checkpoint_is_does_not_say_how_to_get_at_it(said: str, shown: str) -> None:
    assert translate.clean_path(said) == shown
