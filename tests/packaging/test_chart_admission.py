"""The admission policies hold the agent to its own node, and to what it may change there."""

from __future__ import annotations

import copy
import json

import pytest

from support.helm import CHART, render
from support.helm_admission import NODE_NAME, Request, compiled, denial, policies
from support.kube_api.objects import node, pod

AGENT = "system:serviceaccount:lastcall:lastcall"
ON_NODE_A = {NODE_NAME: ["node-a"], "authentication.kubernetes.io/pod-name": ["lastcall-x"]}
OWN_TAINT = {"key": "lastcall.dev/notice", "value": "preemption", "effect": "NoSchedule"}
OTHER_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
TRANSCRIPTS = CHART.parents[1] / "tests/transcripts/kubernetes"


@pytest.fixture(scope="module")
def chart():
    return render()


@pytest.fixture(scope="module")
def in_force(chart):
    return policies(chart)


@pytest.fixture
def old_node():
    found = node("node-a", ready=True, taints=[OTHER_TAINT])
    found["metadata"]["annotations"] = {"node.alpha.kubernetes.io/ttl": "0"}
    found["spec"] |= {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
    found["status"] |= {"capacity": {"cpu": "8"}, "images": [{"names": ["x:1"], "sizeBytes": 1}]}
    return found


@pytest.fixture
def updating(in_force, old_node):
    """Ask the policies about an update of node-a that sets the values at these places."""

    def ask(changes, *, old=None, resource="nodes", user=AGENT, extra=ON_NODE_A):
        old = old or old_node
        return denial(in_force, Request("UPDATE", resource, user, extra, put(old, changes), old))

    return ask


def put(found, changes):
    """Return a copy in which values stand at places; ``None`` takes one away."""
    new = copy.deepcopy(found)
    for place, value in changes.items():
        *way, last = place
        below = new
        for key in way:
            below = below[key] if isinstance(below, list) else below.setdefault(key, {})
        if value is None:
            del below[last]
        else:
            below[last] = copy.deepcopy(value)
    return new


def condition(kind, status="True"):
    return {
        "type": kind,
        "status": status,
        "reason": "Preemption",
        "message": "notice 1",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


CORDON = {
    ("spec", "unschedulable"): True,
    ("metadata", "annotations", "lastcall.dev/cordoned-by"): "lastcall",
    ("metadata", "annotations", "lastcall.dev/notice-id"): "aws-1",
    ("metadata", "annotations", "lastcall.dev/boot-id"): "b",
    ("metadata", "annotations", "lastcall.dev/deadline"): "2026-01-01T00:02:00Z",
    ("metadata", "labels", "lastcall.dev/notice"): "preemption",
}
UNCORDON = dict.fromkeys(CORDON)
READY = ("status", "conditions", 0)


# --- what there is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("enabled", "kubernetes", "made"),
    [
        ("auto", "1.29.9", 0),
        ("auto", "1.30.0", 3),
        ("auto", "v1.30.1-eks-0", 3),
        (True, "1.29.9", 3),
        (False, "1.36.0", 0),
    ],
)
def test_policies_are_made_where_the_cluster_knows_them(enabled, kubernetes, made):
    rendered = render({"admissionPolicy": {"enabled": enabled}}, kubernetes=kubernetes)

    assert len(rendered.all("ValidatingAdmissionPolicy")) == made
    assert len(rendered.all("ValidatingAdmissionPolicyBinding")) == made


def test_every_policy_is_in_force_and_denies_where_it_cannot_decide(chart, in_force):
    assert len(in_force) == len(chart.all("ValidatingAdmissionPolicy")) == 3
    for policy in in_force:
        assert policy.spec["failurePolicy"] == "Fail"
        # Without a reason a denial is answered with 422, as if the request made no sense.
        assert {one["reason"] for one in policy.spec["validations"]} == {"Forbidden"}


def test_every_right_that_a_policy_can_hold_is_held(in_force):
    rules = [rule for one in in_force for rule in one.spec["matchConstraints"]["resourceRules"]]
    held = {(rule["operations"][0], resource) for rule in rules for resource in rule["resources"]}

    # An eviction names no node (seen on Kubernetes 1.36), so no policy can hold it.
    assert held == {
        ("UPDATE", "nodes"),
        ("UPDATE", "nodes/status"),
        ("UPDATE", "pods/status"),
        ("DELETE", "pods"),
    }
    assert all(rule["apiGroups"] == [""] and rule["apiVersions"] == ["v1"] for rule in rules)


def test_every_expression_is_good_cel(in_force):
    expressions = [one for policy in in_force for one in policy.expressions()]

    assert len(expressions) > 30
    for expression in expressions:
        compiled(expression)


# --- whose requests ----------------------------------------------------------------------------


def test_nobody_else_is_asked_about(updating):
    steal = {("metadata", "labels", "pool"): "mine"}

    assert updating(steal) is not None
    for user in (
        "admin",
        "system:serviceaccount:lastcall:other",
        "system:serviceaccount:x:lastcall",
    ):
        assert updating(steal, user=user, extra=None) is None


@pytest.mark.parametrize(
    "extra", [None, {}, {"other": ["node-a"]}], ids=["nothing", "none", "other"]
)
def test_a_token_that_names_no_node_may_change_nothing(updating, in_force, extra):
    said = "the agent's token names no node, so it may change nothing"

    assert updating(CORDON, extra=extra) == said
    unplaced = pod("p-0", node_name="")
    for operation, resource in (("DELETE", "pods"), ("UPDATE", "pods/status")):
        new = unplaced if operation == "UPDATE" else None
        asked = Request(operation, resource, AGENT, extra, new, unplaced)
        assert denial(in_force, asked) == said


def test_a_claim_that_is_empty_denies_as_well(updating):
    assert updating(CORDON, extra={NODE_NAME: []}) is not None


@pytest.mark.parametrize("resource", ["nodes", "nodes/status"])
def test_another_node_cannot_be_changed(updating, resource):
    changes = {("status", "conditions"): [condition("InterruptionNotice")]}
    said = updating(changes, old=node("node-b"), resource=resource)
    assert said == "the agent on node-a may not change node node-b"


# --- what of the own node ----------------------------------------------------------------------


def test_the_own_node_can_be_cordoned_with_the_reason_and_given_back(updating, old_node):
    cordoned = put(old_node, CORDON)

    assert updating(CORDON) is None
    assert updating(UNCORDON, old=cordoned) is None


def test_the_own_taint_can_be_put_and_taken_beside_those_of_others(updating, old_node):
    tainted = {("spec", "taints"): [OTHER_TAINT, OWN_TAINT]}

    assert updating(CORDON | tainted) is None
    assert updating({("spec", "taints"): [OTHER_TAINT]}, old=put(old_node, tainted)) is None
    # The server may order the list as it likes.
    assert updating({("spec", "taints"): [OWN_TAINT, OTHER_TAINT]}) is None


def test_the_first_label_annotation_and_taint_of_a_node_may_be_the_agent_s(updating):
    bare = node("node-a")
    del bare["metadata"]["labels"]

    assert updating(CORDON | {("spec", "taints"): [OWN_TAINT]}, old=bare) is None


@pytest.mark.parametrize("kind", ["InterruptionNotice", "GPUHealthy"])
def test_the_own_conditions_can_be_set_and_changed(updating, old_node, kind):
    ready = old_node["status"]["conditions"][0]
    added = {("status", "conditions"): [ready, condition(kind)]}
    turned = {("status", "conditions"): [condition(kind, "False"), ready]}

    assert updating(added, resource="nodes/status") is None
    assert updating(turned, old=put(old_node, added), resource="nodes/status") is None


def test_the_first_condition_of_a_node_may_be_the_agent_s(updating):
    changes = {("status", "conditions"): [condition("InterruptionNotice")]}
    assert updating(changes, old=node("node-a"), resource="nodes/status") is None


LABEL = "of a node's labels the agent may change lastcall.dev/notice alone"
ANNOTATION = "of a node's annotations the agent may change those of lastcall.dev alone"
OWNER = "the agent may not change a node's finalizers or owners"
SPEC = "of a node's spec the agent may change unschedulable and its own taint alone"
TAINT = "of a node's taints the agent may change lastcall.dev/notice:NoSchedule alone"
STATUS = "of a node's status the agent may change its own conditions alone"
CONDITION = "of a node's conditions the agent may change InterruptionNotice and GPUHealthy alone"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({("metadata", "labels", "pool"): "mine"}, LABEL),
        ({("metadata", "labels", "lastcall.dev/other"): "x"}, LABEL),
        ({("metadata", "labels", "kubernetes.io/hostname"): "node-b"}, LABEL),
        ({("metadata", "labels", "kubernetes.io/hostname"): None}, LABEL),
        ({("metadata", "labels"): None}, LABEL),
        ({("metadata", "annotations", "other"): "x"}, ANNOTATION),
        ({("metadata", "annotations", "xlastcall.dev/a"): "x"}, ANNOTATION),
        ({("metadata", "annotations", "node.alpha.kubernetes.io/ttl"): "9"}, ANNOTATION),
        ({("metadata", "annotations"): None}, ANNOTATION),
        ({("metadata", "finalizers"): ["x/y"]}, OWNER),
        ({("metadata", "ownerReferences"): [{"kind": "Pod", "name": "x"}]}, OWNER),
        ({("spec", "providerID"): "aws:///x"}, SPEC),
        ({("spec", "podCIDR"): "0.0.0.0/0"}, SPEC),
        ({("spec", "podCIDRs"): None}, SPEC),
        ({("spec", "taints"): [OTHER_TAINT, {**OWN_TAINT, "effect": "NoExecute"}]}, TAINT),
        ({("spec", "taints"): [OTHER_TAINT, {**OWN_TAINT, "key": "x"}]}, TAINT),
        ({("spec", "taints"): [OWN_TAINT]}, TAINT),
        ({("spec", "taints"): None}, TAINT),
        ({("spec", "taints"): [{**OTHER_TAINT, "effect": "PreferNoSchedule"}]}, TAINT),
        ({("status", "capacity"): {"cpu": "800"}}, STATUS),
        ({("status", "images"): None}, STATUS),
        ({("status", "addresses"): [{"type": "InternalIP", "address": "10.0.0.9"}]}, STATUS),
        ({(*READY, "status"): "False"}, CONDITION),
        ({("status", "conditions"): None}, CONDITION),
        ({("status", "conditions"): [condition("DiskPressure")]}, CONDITION),
    ],
    ids=lambda value: "/".join(map(str, next(iter(value)))) if isinstance(value, dict) else "",
)
def test_nothing_else_of_the_own_node_can_be_changed_beside_the_cordon(updating, changes, said):
    assert updating(CORDON | changes) == said
    # Labels, annotations and owners can be written through the status, too.
    assert updating(changes, resource="nodes/status") == said


# --- pods --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "denied"), [("node-a", False), ("node-b", True), ("", True)])
def test_only_pods_of_the_own_node_can_be_deleted(in_force, where, denied):
    found = pod("p-0", node_name=where)
    if not where:
        del found["spec"]["nodeName"]

    said = denial(in_force, Request("DELETE", "pods", AGENT, ON_NODE_A, None, found))

    expected = "the agent on node-a may not delete a pod that is elsewhere"
    assert said == (expected if denied else None)


def marking(in_force, changes, **how):
    old = pod("p-0", **how)
    (ready,) = old["status"]["conditions"]
    marked = {("status", "conditions"): [condition("DisruptionTarget"), ready]}
    new = put(old, marked | changes)
    return denial(in_force, Request("UPDATE", "pods/status", AGENT, ON_NODE_A, new, old))


def test_a_pod_of_the_own_node_can_be_marked_as_disrupted(in_force):
    assert marking(in_force, {}) is None


def test_a_pod_elsewhere_cannot(in_force):
    said = marking(in_force, {}, node_name="node-b")
    assert said == "the agent on node-a may not change a pod that is elsewhere"


METADATA = "the agent may not change a pod's labels, annotations or finalizers"
POD_STATUS = "of a pod's status the agent may change the condition DisruptionTarget alone"
POD_CONDITION = "of a pod's conditions the agent may change DisruptionTarget alone"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({("metadata", "labels", "app"): "other"}, METADATA),
        ({("metadata", "annotations"): {"a": "b"}}, METADATA),
        ({("metadata", "finalizers"): ["x/y"]}, METADATA),
        ({("status", "phase"): "Succeeded"}, POD_STATUS),
        ({("status", "podIP"): "10.0.0.9"}, POD_STATUS),
        ({("status", "startTime"): None}, POD_STATUS),
        ({("status", "conditions", 1, "status"): "False"}, POD_CONDITION),
        ({("status", "conditions", 1): None}, POD_CONDITION),
    ],
    ids=lambda value: "/".join(map(str, next(iter(value)))) if isinstance(value, dict) else "",
)
def test_nothing_else_of_a_pod_can_be_changed(in_force, changes, said):
    assert marking(in_force, changes) == said


# --- what a real server was seen to be asked ---------------------------------------------------


@pytest.mark.parametrize(
    ("recording", "resource", "of_node"),
    [
        ("kcm-node-after-cordon", "nodes", "node-a"),
        ("kcm-node-after-cordon", "nodes/status", "node-a"),
        ("vap-own-node-cordon-ok", "nodes", "node-a"),
        ("vap-own-node-pod-status-ok", "pods/status", "node-a"),
    ],
)
def test_an_object_as_a_real_server_writes_it_can_be_written_again(
    in_force, recording, resource, of_node
):
    content = json.loads((TRANSCRIPTS / f"{recording}.json").read_text(encoding="utf-8"))
    found = content["response"]["body"]
    extra = {NODE_NAME: [of_node]}

    asked = Request("UPDATE", resource, AGENT, extra, copy.deepcopy(found), found)

    assert denial(in_force, asked) is None
