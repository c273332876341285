"""A drain of ours is known by its reason; anybody else's is left alone."""

from __future__ import annotations

import pytest

from lastcall.core.model import Kind
from lastcall.drain.slurm.reason import is_kept_by_others, notice_of, reason_for
from lastcall.drain.slurm.text import NodeState
from support.kept_node import notice_at

OURS = "lastcall: preemption n-1 2030-01-01T00:00:00Z"


def state(flags: str, reason: str = "") -> NodeState:
    return NodeState(frozenset(flags.split("+")), reason)


def test_a_reason_names_the_notice_and_when_the_node_goes():
    stated = notice_at("n-1", Kind.MAINTENANCE, 150.0, deadline_unix=1893456000.0)
    reckoned = notice_at("n-1", Kind.PREEMPTION, 150.0)
    open_end = notice_at("n-1", Kind.PREEMPTION, None)

    at = {"now": 100.0, "now_unix": 1893456000.0}
    assert reason_for(stated, **at) == "lastcall: maintenance n-1 2030-01-01T00:00:00Z"
    assert reason_for(reckoned, **at) == "lastcall: preemption n-1 2030-01-01T00:00:50Z"
    assert reason_for(open_end, **at) == "lastcall: preemption n-1"


@pytest.mark.parametrize(
    ("flags", "reason", "notice_id"),
    [
        ("IDLE+DRAIN", OURS, "n-1"),
        ("DOWN+DRAIN", OURS, "n-1"),
        ("IDLE+DRAIN", "lastcall: preemption n-1", "n-1"),
        ("DOWN", OURS, None),
        ("IDLE", OURS, None),
        ("IDLE+DRAIN", "bad fan", None),
        ("IDLE+DRAIN", f"see {OURS}", None),
        ("IDLE+DRAIN", "lastcall: broken", None),
        ("IDLE+DRAIN", "lastcall: by hand, disk broken", None),
        ("IDLE+DRAIN", f"{OURS} and a bad fan", None),
        ("IDLE+DRAIN", "", None),
    ],
)
def test_a_drain_is_ours_by_the_whole_of_its_reason(flags, reason, notice_id):
    assert notice_of(state(flags, reason)) == notice_id


@pytest.mark.parametrize(
    ("flags", "reason", "expected"),
    [
        ("IDLE", "", False),
        ("IDLE+DRAIN", OURS, False),
        ("IDLE+DRAIN", "bad fan", True),
        ("IDLE+DRAIN", "", True),
        ("DOWN", "bad disk", True),
        ("DOWN", "Not responding", False),
        ("DOWN", "", False),
        ("DOWN", OURS, False),
        ("DOWN+DRAIN", "bad disk", True),
    ],
)
def test_what_others_keep_jobs_off_is_told_from_what_slurm_has_merely_lost(flags, reason, expected):
    assert is_kept_by_others(state(flags, reason)) is expected
