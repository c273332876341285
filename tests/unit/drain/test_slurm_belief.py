"""What a look at the node tells that was not known: a drain found, ended by others, or missing."""

from __future__ import annotations

import pytest

from lastcall.core.events import CordonFound, CordonLifted, CordonMissing
from lastcall.drain.slurm.belief import Belief
from lastcall.drain.slurm.text import NodeState

IDLE = NodeState(frozenset({"IDLE"}))
OURS = NodeState(frozenset({"IDLE", "DRAIN"}), "lastcall: preemption n-1 2030-01-01T00:00:00Z")
THEIRS = NodeState(frozenset({"IDLE", "DRAIN"}), "bad fan")


@pytest.fixture
def looked():
    belief = Belief()
    belief.judge(IDLE)
    return belief


@pytest.mark.parametrize("state", [IDLE, THEIRS])
def test_the_first_look_says_that_there_is_nothing_of_ours(state):
    assert isinstance(Belief().judge(state), CordonMissing)


def test_the_first_look_finds_what_an_agent_before_has_left():
    found = Belief().judge(OURS)

    assert isinstance(found, CordonFound)
    assert found.id == "n-1"


@pytest.mark.parametrize("state", [IDLE, THEIRS])
def test_a_later_look_at_nothing_says_nothing(looked, state):
    assert looked.judge(state) is None


def test_a_drain_that_is_known_is_no_news(looked):
    looked.cordoned("n-1")

    assert looked.judge(OURS) is None


def test_a_drain_for_another_notice_is_found(looked):
    looked.cordoned("n-0")

    found = looked.judge(OURS)

    assert isinstance(found, CordonFound)
    assert found.id == "n-1"
    assert looked.judge(OURS) is None


@pytest.mark.parametrize(("state", "by"), [(IDLE, "resumed"), (THEIRS, "bad fan")])
def test_a_drain_that_others_end_is_lifted_once(looked, state, by):
    looked.cordoned("n-1")

    lifted = looked.judge(state)

    assert isinstance(lifted, CordonLifted)
    assert lifted.id == "n-1"
    assert by in lifted.by
    assert looked.judge(state) is None


def test_a_drain_that_we_gave_back_is_nobody_elses_doing(looked):
    looked.cordoned("n-1")
    looked.given_back()

    assert looked.judge(IDLE) is None
