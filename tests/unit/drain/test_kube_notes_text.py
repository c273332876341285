"""What Kubernetes Events say, and what they are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.model import Action, DeadlineQuality, Kind, Urgency
from lastcall.drain.kubernetes import notes_text as texts
from lastcall.drain.kubernetes.events import ObjectRef
from support.kube_notes import NODE, POD, drained, ended, moved, notice, settled

AT_120 = 1_700_000_120.0
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def message_of(facts, reason=texts.CHECKPOINT_FLUSHED):
    return texts.flushed(reason, facts).message


# --- notices ---------------------------------------------------------------------------------


def test_a_notice_says_who_announced_what_for_when_and_who_was_told():
    said = texts.told(notice(), 8, AT_120)

    assert said.message == (
        "aws announced preemption (terminate) at 2023-11-14T22:15:20Z: spot instance "
        "interruption; 8 training processes are told to save and stop"
    )
    assert (said.reason, said.is_warning) == ("PreemptionNotice", True)


@pytest.mark.parametrize(
    ("clients", "words"),
    [(0, "; no training process is connected"), (1, "; 1 training process is told to save")],
)
def test_a_notice_says_it_where_few_are_told(clients, words):
    assert words in texts.told(notice(), clients, AT_120).message


def test_an_assumed_deadline_is_said_to_be_expected():
    said = texts.told(notice(deadline_quality=DeadlineQuality.ASSUMED), 1, AT_120)

    assert "(terminate) expected at 2023-11-14T22:15:20Z" in said.message


def test_a_notice_without_deadline_action_or_reason_leaves_them_out():
    said = texts.told(notice(action=Action.UNKNOWN, reason=""), 0, None)

    assert said.message == "aws announced preemption; no training process is connected"


def test_every_source_of_a_notice_is_named():
    said = texts.told(notice(sources=("aws", "shutdown")), 0, None)

    assert said.message.startswith("aws and shutdown announced preemption")


def test_an_advice_is_no_warning_and_asks_for_an_early_checkpoint():
    said = texts.told(notice(kind=Kind.REBALANCE, urgency=Urgency.SOON), 2, None)

    assert (said.reason, said.is_warning) == ("PreemptionNotice", False)
    assert said.message.endswith("2 training processes are asked for an early checkpoint")


@pytest.mark.parametrize("urgency", Urgency)
def test_a_fault_of_a_gpu_has_a_reason_of_its_own_and_is_a_warning(urgency):
    said = texts.told(notice(kind=Kind.GPU_FAULT, urgency=urgency), 2, None)

    assert (said.reason, said.is_warning) == ("GPUFault", True)
    assert "announced GPU fault" in said.message


def test_a_drill_is_marked_everywhere_and_its_notice_is_no_warning():
    drill = notice(drill=True)
    said = [
        texts.told(drill, 2, AT_120),
        texts.moved(moved(), drill, AT_120),
        texts.flushed(texts.CHECKPOINT_MISSED, [settled(outcome="missed", notice=drill)]),
        texts.changed(drill, None, AT_120),
        texts.overdue(drill, {"llama": [0]}),
        texts.drained(drained(), drill),
        texts.withdrawn(ended("withdrawn", drill=True)),
    ]

    assert [one.message for one in said if not one.message.startswith("Drill: ")] == []
    assert said[0].is_warning is False


@pytest.mark.parametrize(
    ("before", "words"),
    [(Kind.GPU_FAULT, "before, it was GPU fault"), (None, "the notice has changed")],
)
def test_a_notice_of_another_kind_says_what_it_was(before, words):
    said = texts.changed(notice(), before, AT_120)

    assert (said.reason, said.is_warning) == ("PreemptionNotice", True)
    assert said.message.startswith("aws announced preemption (terminate) at 2023-11-14T22:15:20Z")
    assert said.message.endswith(f"; {words}")


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("withdrawn", "The preemption announced by aws was withdrawn; the machine stays"),
        ("completed", "The preemption announced by aws is over; the machine stays"),
    ],
)
def test_the_end_of_a_notice_is_said(ending, message):
    said = texts.withdrawn(ended(ending))

    assert (said.reason, said.is_warning, said.message) == ("NoticeWithdrawn", False, message)


# --- pods and the drain ----------------------------------------------------------------------


def test_an_evicted_pod_is_told_why():
    said = texts.moved(moved(), notice(), AT_120)

    assert said.message == (
        "Evicted because aws announced preemption (terminate) at 2023-11-14T22:15:20Z: spot "
        "instance interruption"
    )
    assert (said.reason, said.action, said.is_warning) == ("PreemptionNotice", "Evict", False)


def test_a_pod_deleted_against_its_budget_is_told_so_as_a_warning():
    said = texts.moved(moved("forced", detail="budget web needs 2 healthy pods"), notice(), None)

    assert said.message.startswith("Deleted because aws announced preemption")
    assert said.message.endswith("; budget web needs 2 healthy pods")
    assert (said.action, said.is_warning) == ("Delete", True)


def test_a_pod_is_told_the_notices_id_where_no_more_is_known():
    said = texts.moved(moved(), None, None)

    assert said.message == "Evicted because of notice aws-preemption-1a2b"


def test_a_pod_evicted_for_a_fault_of_a_gpu_is_told_by_that_reason():
    assert texts.moved(moved(), notice(kind=Kind.GPU_FAULT), None).reason == "GPUFault"


def test_a_drain_that_went_well_is_no_warning():
    said = texts.drained(drained(detail="12 pods have left"), notice())

    assert said.message == "Drained after 31.2 s: 12 pods have left"
    assert (said.reason, said.is_warning) == ("NodeDrained", False)


@pytest.mark.parametrize("outcome", ["incomplete", "failed"])
def test_any_other_drain_is_a_warning_that_names_what_stayed(outcome):
    said = texts.drained(drained(outcome, "training/train-0: blocked by budget web"), notice())

    assert said.message == (
        f"The drain ended {outcome} after 31.2 s: training/train-0: blocked by budget web"
    )
    assert said.is_warning is True


# --- flushes ---------------------------------------------------------------------------------


def test_a_flush_in_time_says_step_place_and_margin():
    assert message_of([settled(rank=3)]) == (
        "llama (rank 3) saved step 1200 at /ckpt/1200, 12.3 s before the deadline"
    )


def test_a_late_flush_says_by_how_much():
    late = settled(rank=None, outcome="late", margin_seconds=-2.0)

    assert message_of([late]).endswith(
        "llama saved step 1200 at /ckpt/1200, 2.0 s after the deadline"
    )


def test_the_ranks_of_a_job_are_one_phrase_with_the_worst_margin():
    ranks = [settled(rank, margin_seconds=20.0 - rank) for rank in range(8)]

    assert message_of(ranks) == (
        "llama (8 processes) saved step 1200 at /ckpt/1200, at worst 13.0 s before the deadline"
    )


def test_ranks_that_saved_in_several_places_name_one():
    ranks = [settled(rank, path=f"/ckpt/{rank}", step=rank) for rank in range(3)]

    assert "saved steps 0 to 2 at /ckpt/0 and 2 more, at worst" in message_of(ranks)


def test_each_job_and_each_outcome_has_its_phrase():
    facts = [
        settled(0),
        settled(1, outcome="late", margin_seconds=-1.0),
        settled(2, job="bert"),
    ]

    assert message_of(facts).split("; ") == [
        "llama (rank 0) saved step 1200 at /ckpt/1200, 12.3 s before the deadline",
        "llama (rank 1) saved step 1200 at /ckpt/1200, 1.0 s after the deadline",
        "bert (rank 2) saved step 1200 at /ckpt/1200, 12.3 s before the deadline",
    ]


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("missed", "llama (rank 0) did not save in time: no report"),
        ("failed", "llama (rank 0) could not save: no report"),
        (
            "not_durable",
            "llama (rank 0) saved step 7 at /dev/shm/x, which is lost with the machine: no report",
        ),
    ],
)
def test_a_missed_checkpoint_says_why(outcome, message):
    fact = settled(outcome=outcome, cause="no report", step=7, path="/dev/shm/x")
    said = texts.flushed(texts.CHECKPOINT_MISSED, [fact])

    assert (said.reason, said.message, said.is_warning) == ("CheckpointMissed", message, True)


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"llama": [3]}, "1 process has not saved: llama (rank 3)"),
        (
            {"llama": [7, 0, 1, 2, 9], "bert": [0]},
            "6 processes have not saved: llama (ranks 0-2, 7, 9); bert (rank 0)",
        ),
        ({"llama": [None]}, "1 process has not saved: llama"),
        ({"llama": [None, None]}, "2 processes have not saved: llama (2)"),
        ({"": [None]}, "1 process has not saved: a training process"),
        ({"": [None, None]}, "2 processes have not saved: training processes (2)"),
    ],
)
def test_whoever_has_not_saved_at_the_deadline_is_named(jobs, words):
    said = texts.overdue(notice(), jobs)

    assert (said.reason, said.is_warning) == ("CheckpointMissed", True)
    assert said.message == f"The deadline is here, and {words}"


def test_the_most_frequent_cause_is_named_for_many_ranks():
    causes = ["process died", "disk full", "disk full"]
    ranks = [settled(n, outcome="failed", cause=cause) for n, cause in enumerate(causes)]

    assert message_of(ranks) == "llama (3 processes) could not save: disk full"


def test_a_flush_of_which_little_is_known_says_that_much():
    fact = settled(rank=None, job="", step=None, path=None, margin_seconds=None)

    assert message_of([fact]) == "a training process saved a checkpoint"


# --- form ------------------------------------------------------------------------------------


def test_text_from_outside_becomes_one_line_without_control_characters():
    assert texts.printable("a\n\x1b[31mb\udc80\tc\u202e") == "a [31mb c"


def test_long_text_from_outside_is_cut():
    assert texts.printable("x" * 300) == "x" * 197 + "..."


@given(st.text(alphabet=st.characters(), max_size=3000))
def test_a_message_always_fits(message):
    fitted = texts.fitting(message)

    assert len(fitted.encode()) <= 1024
    assert fitted.isprintable()


def test_a_message_is_cut_between_characters():
    assert texts.fitting("ä" * 1024) == "ä" * 510 + "..."


@given(st.text(alphabet=st.characters(), max_size=400))
def test_a_name_is_valid_whatever_stands_in_the_id(notice_id):
    name = texts.event_name(notice_id, "PreemptionNotice", POD, "evicted")

    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253


def test_a_name_shows_the_notice_and_the_reason():
    name = texts.event_name("Azure_Preempt/A1", "NodeDrained", NODE)

    assert name.startswith("lastcall.azure-preempt-a1.nodedrained.")


def test_a_name_is_the_same_for_the_same_words():
    first, second = (texts.event_name("n", "R", POD, "a", "b") for _ in range(2))

    assert first == second


def test_a_nodes_name_does_not_depend_on_whether_its_uid_is_known():
    unknown = ObjectRef("Node", "node-a")

    assert texts.event_name("n", "R", NODE) == texts.event_name("n", "R", unknown)


@pytest.mark.parametrize(
    "other",
    [
        ("m", "R", POD, "a"),
        ("n", "S", POD, "a"),
        ("n", "R", POD, "b"),
        ("n", "R", ObjectRef("Pod", "train-0", "training", "u-1"), "a"),
        ("n", "R", ObjectRef("Pod", "train-0", "other", "u-0"), "a"),
        ("N", "R", POD, "a"),
        ("n", "R", ObjectRef("Node", "node-b"), "a"),
    ],
)
def test_a_name_is_another_for_anything_else(other):
    assert texts.event_name("n", "R", POD, "a") != texts.event_name(*other)
