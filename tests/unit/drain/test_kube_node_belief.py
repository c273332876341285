"""What a version of the node tells that was not known: a cordon found, or one that was lifted."""

from __future__ import annotations

from typing import Any

import pytest

from lastcall.core.events import CordonFound, CordonLifted, CordonMissing
from lastcall.drain.kubernetes.node_belief import Belief
from lastcall.drain.kubernetes.node_marks import Wanted, cordon_step
from support.kube_api.objects import node
from support.kube_api.patches import MERGE, patched

PLAIN = node("node-a")


def ours(name: str = "n-1", boot: str = "boot-1") -> Any:
    step = cordon_step(PLAIN, Wanted(name, "preemption", boot, "", taint=False))
    return patched(PLAIN, step.patch, MERGE)


def with_annotation(found: Any, key: str, text: str | None) -> Any:
    return patched(found, {"metadata": {"annotations": {f"lastcall.dev/{key}": text}}}, MERGE)


def schedulable(found: Any) -> Any:
    return patched(found, {"spec": {"unschedulable": None}}, MERGE)


@pytest.fixture
def belief():
    return Belief("boot-1")


@pytest.fixture
def believing(belief):
    belief.judge(PLAIN)
    belief.cordoned("n-1")
    assert belief.judge(ours()) is None
    return belief


@pytest.mark.parametrize(
    ("boot", "said"), [("boot-1", "made in this boot"), ("boot-0", "made before this boot")]
)
def test_a_cordon_of_ours_that_nobody_knows_of_is_found_once(belief, boot, said):
    assert belief.judge(ours(boot=boot)) == CordonFound("n-1", said)
    assert belief.judge(ours(boot=boot)) is None


def test_a_cordon_of_our_own_is_not_found(believing):
    assert believing.judge(ours()) is None


@pytest.mark.parametrize("first", [PLAIN, {**PLAIN, "spec": {"unschedulable": True}}])
def test_that_nothing_of_ours_is_there_is_said_at_the_first_look_alone(belief, first):
    assert isinstance(belief.judge(first), CordonMissing)
    assert belief.judge(first) is None
    assert belief.judge({**PLAIN, "spec": {"unschedulable": True}}) is None


def test_a_cordon_that_somebody_lifted_is_told_once(believing):
    assert believing.judge(schedulable(ours())) == CordonLifted("n-1")
    assert believing.judge(schedulable(ours())) is None
    assert believing.judge(PLAIN) is None


@pytest.mark.parametrize("owner", [None, "alice"])
def test_a_cordon_that_is_no_longer_ours_counts_as_lifted(believing, owner):
    taken = with_annotation(ours(), "cordoned-by", owner)

    assert believing.judge(taken) == CordonLifted("n-1")
    assert believing.judge(taken) is None


def test_one_that_was_lifted_while_nobody_looked_is_told_all_the_same(belief):
    assert belief.judge(schedulable(ours())) == CordonLifted("n-1")


def test_a_cordon_that_went_with_its_node_object_was_lifted_by_nobody(believing):
    assert believing.judge(node("node-a")) == CordonMissing("the node object was made anew")
    assert believing.judge(node("node-a")) is None


def test_whether_lifting_it_was_heard_or_not_it_was_us(believing):
    believing.giving_back("n-1")

    assert believing.judge(PLAIN) is None


def test_one_given_back_is_not_missed(believing):
    believing.giving_back("n-1")
    believing.given_back()

    assert believing.judge(PLAIN) is None


def test_one_that_stands_for_another_notice_is_found_after_the_first_was_given_back(believing):
    believing.giving_back("n-1")
    believing.given_back()

    assert believing.judge(ours("n-2")) == CordonFound("n-2", "made in this boot")


def test_one_made_again_after_it_was_lifted_can_be_lifted_again(believing):
    believing.judge(schedulable(ours()))
    believing.cordoned("n-1")
    believing.judge(ours())

    assert believing.judge(schedulable(ours())) == CordonLifted("n-1")
