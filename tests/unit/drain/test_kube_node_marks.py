"""What our marks on a node say, and the patches that make and remove them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lastcall.core.model import Kind
from lastcall.drain.base import Attempt
from lastcall.drain.kubernetes.node_condition import (
    camel_case,
    find_condition,
    interruption_condition,
    lifted_notice,
    node_condition,
)
from lastcall.drain.kubernetes.node_marks import (
    Wanted,
    cordon_step,
    guarded,
    is_older,
    leftovers_patch,
    lifted_by,
    manager_of_cordon,
    marks_of,
    time_text,
    uncordon_step,
    wanted_marks,
)
from support.kept_node import notice_at
from support.kube_api.objects import node
from support.kube_api.patches import MERGE, patched

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OURS = {"key": "lastcall.dev/notice", "value": "preemption", "effect": "NoSchedule"}
WANTED = Wanted("n-1", "preemption", "boot-1", "2026-01-01T00:02:00Z", taint=False)
TAINTING = Wanted("n-1", "preemption", "boot-1", "2026-01-01T00:02:00Z", taint=True)


def with_patch(before: Any, patch: Any) -> Any:
    """Return the node after a merge patch, as the server applies it."""
    after = patched(before, patch, MERGE)
    if after["spec"].get("taints") == []:
        del after["spec"]["taints"]
    for key in ("annotations", "labels"):
        if after["metadata"].get(key) == {}:
            del after["metadata"][key]
    return after


def cordoned(wanted: Wanted = WANTED, *taints: Any) -> Any:
    before = node("node-a", taints=list(taints))
    return with_patch(before, cordon_step(before, wanted).patch)


def by_hand(name: str = "node-a") -> Any:
    return {**node(name), "spec": {"unschedulable": True}}


# --- the cordon ------------------------------------------------------------------------------


def test_a_cordon_says_whose_it_is_and_what_for():
    after = cordoned()

    assert after["spec"] == {"unschedulable": True}
    assert after["metadata"]["annotations"] == {
        "lastcall.dev/cordoned-by": "lastcall",
        "lastcall.dev/notice-id": "n-1",
        "lastcall.dev/boot-id": "boot-1",
        "lastcall.dev/deadline": "2026-01-01T00:02:00Z",
    }
    assert after["metadata"]["labels"]["lastcall.dev/notice"] == "preemption"
    assert marks_of(after).is_our_cordon


def test_a_taint_goes_beside_those_of_others():
    assert cordoned(TAINTING, NOT_READY)["spec"]["taints"] == [NOT_READY, OURS]


def test_taints_are_left_alone_where_none_is_wanted():
    patch: Any = cordon_step(node("node-a", taints=[NOT_READY]), WANTED).patch

    assert "taints" not in patch["spec"]


def test_a_second_cordon_for_the_same_notice_writes_nothing():
    assert cordon_step(cordoned(TAINTING), TAINTING).patch is None
    assert cordon_step(cordoned(TAINTING), TAINTING).attempt.done


def test_a_taint_that_is_missing_is_added_to_a_cordon_that_stands():
    assert cordon_step(cordoned(WANTED), TAINTING).patch is not None


@pytest.mark.parametrize(
    "changes",
    [{"kind": "maintenance"}, {"deadline": "2026-01-01T00:05:00Z"}, {"boot_id": "boot-2"}],
)
def test_what_the_marks_say_is_renewed_where_the_notice_has_changed(changes):
    before = cordoned(TAINTING, NOT_READY)
    later = replace(TAINTING, **changes)

    after = with_patch(before, cordon_step(before, later).patch)

    assert marks_of(after) == marks_of(cordoned(later))
    assert after["spec"]["taints"] == [NOT_READY, {**OURS, "value": later.kind}]
    assert cordon_step(after, later).patch is None


def test_a_deadline_that_is_not_known_any_more_is_taken_out():
    before = cordoned()

    after = with_patch(before, cordon_step(before, replace(WANTED, deadline="")).patch)

    assert "lastcall.dev/deadline" not in after["metadata"]["annotations"]


def test_a_taint_of_another_kind_is_replaced():
    other = {**OURS, "value": "maintenance"}
    before = cordoned(TAINTING)
    before["spec"]["taints"] = [other, NOT_READY]

    after = with_patch(before, cordon_step(before, TAINTING).patch)

    assert after["spec"]["taints"] == [NOT_READY, OURS]


def test_a_cordon_for_another_notice_takes_the_marks_over():
    before = cordoned(TAINTING, NOT_READY)
    later = Wanted("n-2", "maintenance", "boot-1", "", taint=True)

    after = with_patch(before, cordon_step(before, later).patch)

    marks = marks_of(after)
    assert (marks.notice_id, marks.kind, marks.deadline) == ("n-2", "maintenance", "")
    assert after["spec"]["taints"] == [NOT_READY, {**OURS, "value": "maintenance"}]


@pytest.mark.parametrize(
    "annotations", [{}, {"lastcall.dev/cordoned-by": "alice", "lastcall.dev/notice-id": "n-1"}]
)
def test_a_node_that_somebody_else_cordoned_is_left_alone(annotations):
    before = by_hand()
    before["metadata"]["annotations"] = annotations

    step = cordon_step(before, WANTED)

    assert step.patch is None
    assert (step.attempt.done, step.attempt.foreign) == (False, True)
    assert "cordoned already, by somebody else" in step.attempt.detail


def test_whoever_cordoned_it_is_named_where_the_object_tells():
    before = by_hand()
    before["metadata"]["managedFields"] = [
        {"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    ]

    assert "by kubectl-cordon" in cordon_step(before, WANTED).attempt.detail


def test_marks_without_a_cordon_do_not_keep_the_node_from_being_cordoned():
    before = cordoned()
    del before["spec"]["unschedulable"]

    assert cordon_step(before, WANTED).patch is not None


# --- lifting it ------------------------------------------------------------------------------


def test_lifting_it_leaves_the_node_as_it_was():
    before = node("node-a", taints=[NOT_READY])
    after = with_patch(before, cordon_step(before, TAINTING).patch)

    assert with_patch(after, uncordon_step(after, "n-1").patch) == before


def test_somebody_elses_cordon_is_not_lifted():
    step = uncordon_step(by_hand(), "n-1")

    assert step == type(step)(
        Attempt(done=True, detail="the node stays cordoned: that is no longer ours")
    )


def test_a_cordon_for_another_notice_is_not_lifted():
    step = uncordon_step(cordoned(), "n-0")

    assert (step.patch, step.attempt.done) == (None, True)
    assert "another notice, n-1" in step.attempt.detail


def test_where_it_was_lifted_already_the_marks_go():
    before = cordoned(TAINTING)
    del before["spec"]["unschedulable"]

    step = uncordon_step(before, "n-1")

    assert step.attempt.detail == "somebody had lifted it already"
    assert not marks_of(with_patch(before, step.patch)).is_ours


def test_nothing_is_left_to_lift_on_a_node_without_our_marks():
    step = uncordon_step(node("node-a"), "n-1")

    assert (step.patch, step.attempt) == (None, Attempt(done=True))


def test_leftovers_are_all_that_speaks_of_no_cordon_of_ours():
    taken_over = cordoned(TAINTING, NOT_READY)
    taken_over["metadata"]["annotations"]["lastcall.dev/cordoned-by"] = "alice"

    after = with_patch(taken_over, leftovers_patch(taken_over))

    assert after["spec"] == {"unschedulable": True, "taints": [NOT_READY]}
    assert after["metadata"]["annotations"] == {"lastcall.dev/cordoned-by": "alice"}
    assert "lastcall.dev/notice" not in after["metadata"]["labels"]


@pytest.mark.parametrize("found", [node("node-a"), by_hand(), cordoned(TAINTING)])
def test_a_node_without_leftovers_is_not_written(found):
    assert leftovers_patch(found) is None


# --- guards and versions ---------------------------------------------------------------------


def test_a_guard_names_the_version_that_was_read():
    read = node("node-a")
    read["metadata"]["resourceVersion"] = "7"

    patch: Any = guarded({"metadata": {"labels": {"a": "b"}}, "spec": {}}, read)

    assert patch == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}, "spec": {}}


@pytest.mark.parametrize(
    ("mine", "others", "older"),
    [("9", "10", True), ("10", "9", False), ("9", "9", False), ("x9", "y1", False), ("", "1", 0)],
)
def test_versions_are_compared_as_numbers_and_not_at_all_where_they_are_none(mine, others, older):
    def version(text):
        return {"metadata": {"resourceVersion": text}}

    assert is_older(version(mine), version(others)) == bool(older)


# --- deadlines -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "deadline_unix", "text"),
    [
        (160.0, 1_767_225_720.0, "2026-01-01T00:02:00Z"),
        (160.0, None, "2026-01-01T00:01:00Z"),
        (None, None, ""),
        (160.0, 1e30, ""),
        (160.0, float("nan"), ""),
    ],
)
def test_the_deadline_is_the_providers_word_or_the_clocks(deadline, deadline_unix, text):
    told = notice_at("n-1", Kind.PREEMPTION, deadline, deadline_unix)

    wanted = wanted_marks(told, boot_id="b", taint=False, now=100.0, now_unix=1_767_225_600.0)

    assert wanted == Wanted("n-1", "preemption", "b", text, taint=False)


def test_a_cordon_without_a_deadline_names_none():
    after = cordoned(Wanted("n-1", "manual", "boot-1", "", taint=False))

    assert "lastcall.dev/deadline" not in after["metadata"]["annotations"]


# --- who did it ------------------------------------------------------------------------------


def entry(manager: str, at: str, *, cordon: bool = False, subresource: str = "") -> dict[str, Any]:
    spec = {"f:unschedulable": {}} if cordon else {"f:taints": {}}
    found = {"manager": manager, "time": at, "fieldsV1": {"f:spec": spec}}
    return {**found, "subresource": subresource} if subresource else found


def managed(*entries: dict[str, Any]) -> Any:
    return {"metadata": {"managedFields": list(entries)}}


def test_whoever_holds_the_cordon_now_has_taken_it_over():
    found = managed(entry("lastcall", "2"), entry("alice", "1", cordon=True))

    assert manager_of_cordon(found) == lifted_by(found) == "alice"


def test_else_it_is_perhaps_the_last_one_to_write_since_we_did():
    found = managed(
        entry("lastcall", "2", cordon=True),
        entry("before", "1"),
        entry("kubectl-uncordon", "3"),
        entry("kubectl-edit", "2"),
        entry("kube-controller-manager", "5"),
        entry("kubelet", "6", subresource="status"),
    )

    assert lifted_by(found) == "perhaps kubectl-uncordon"


@pytest.mark.parametrize(
    "found", [{}, managed(), managed(entry("lastcall", "2"), entry("old", "1"))]
)
def test_nobody_is_named_without_a_trace(found):
    assert lifted_by(found) == ""


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"metadata": None, "spec": [], "status": 7},
        {"metadata": {"annotations": [], "labels": "x", "managedFields": {}}},
        {"spec": {"taints": [1, None], "unschedulable": "yes"}, "status": {"conditions": [1, {}]}},
        {"metadata": {"managedFields": [None, {"fieldsV1": 1}]}},
    ],
)
def test_an_object_of_a_strange_shape_carries_no_marks(found):
    assert not marks_of(found).is_ours
    assert not marks_of(found).is_unschedulable
    assert leftovers_patch(found) is None
    assert interruption_condition(found, 0.0) is None
    assert cordon_step(found, TAINTING).patch is not None


# --- conditions ------------------------------------------------------------------------------

AT = 1_767_225_600.0


def standing(found: Any, condition: Any) -> Any:
    return {**found, "status": {"conditions": [{"type": "Ready"}, condition]}}


def test_a_condition_is_written_as_the_server_wants_it():
    assert node_condition("GpuFault", None, "ProbeFailed", "no answer", at_unix=AT) == {
        "type": "GpuFault",
        "status": "Unknown",
        "reason": "ProbeFailed",
        "message": "no answer",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(("status", "since"), [(True, 0), (False, 60)])
def test_a_condition_keeps_since_when_its_status_holds(status, since):
    before = node_condition("GpuFault", True, "Xid79", "", at_unix=AT)

    after = node_condition("GpuFault", status, "Xid79", "", at_unix=AT + 60, before=before)

    assert after["lastHeartbeatTime"] == time_text(AT + 60)
    assert after["lastTransitionTime"] == time_text(AT + since)


def test_the_condition_tells_what_the_cordon_is_for():
    wanted = interruption_condition(cordoned(), AT)

    assert wanted is not None
    assert (wanted["type"], wanted["status"]) == ("InterruptionNotice", "True")
    assert wanted["reason"] == "Preemption"
    assert wanted["message"] == "notice n-1; the node goes at 2026-01-01T00:02:00Z"


def test_a_condition_that_is_right_is_not_written_again():
    found = cordoned()
    found = standing(found, interruption_condition(found, AT))

    assert find_condition(found, "InterruptionNotice") is not None
    assert interruption_condition(found, AT + 60) is None


def test_the_condition_is_taken_back_with_the_cordon():
    found = standing(node("node-a"), interruption_condition(cordoned(), AT))

    wanted = interruption_condition(found, AT + 60)

    assert wanted is not None
    assert (wanted["status"], wanted["reason"]) == ("False", "NoNotice")
    assert interruption_condition(standing(node("node-a"), wanted), AT + 120) is None


def test_the_condition_says_that_a_notice_stands_whose_cordon_was_lifted():
    found = standing(node("node-a"), interruption_condition(cordoned(), AT))

    wanted = interruption_condition(found, AT + 60, "n-1")

    assert wanted is not None
    assert (wanted["status"], wanted["reason"]) == ("False", "CordonLifted")
    assert wanted["message"] == "somebody lifted the cordon; notice n-1 stands"
    after = standing(node("node-a"), wanted)
    assert lifted_notice(after) == "n-1"
    assert interruption_condition(after, AT + 120, "n-1") is None


def test_it_says_no_longer_so_once_the_notice_has_ended():
    lifted = interruption_condition(node("node-a"), AT, "n-1")
    found = standing(node("node-a"), lifted)

    wanted = interruption_condition(found, AT + 60)

    assert wanted is not None
    assert (wanted["status"], wanted["reason"]) == ("False", "NoNotice")
    assert wanted["lastTransitionTime"] == time_text(AT)


def test_a_cordon_made_again_is_what_counts():
    found = standing(cordoned(), interruption_condition(node("node-a"), AT, "n-1"))

    wanted = interruption_condition(found, AT + 60, "n-1")

    assert wanted is not None
    assert wanted["status"] == "True"


@pytest.mark.parametrize(
    "condition",
    [{}, {"reason": "NoNotice", "message": "no notice stands"}, {"reason": "CordonLifted"}],
)
def test_other_conditions_name_no_notice(condition):
    found = standing(node("node-a"), {"type": "InterruptionNotice", **condition})

    assert lifted_notice(found) == ""


def test_a_node_that_never_had_a_notice_gets_no_condition():
    assert interruption_condition(by_hand(), AT) is None


@pytest.mark.parametrize(
    ("kind", "word"), [("preemption", "Preemption"), ("gpu_fault", "GpuFault"), ("", "")]
)
def test_a_kind_becomes_one_word(kind, word):
    assert camel_case(kind) == word
