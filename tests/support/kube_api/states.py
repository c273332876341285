"""The state of the cluster before each recorded exchange."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from support.kube_api.admission import EVICTION_BY_NODE, PINNED_TO_NODE, WITHOUT_REASON
from support.kube_api.faults import Fault
from support.kube_api.objects import budget, node, pod
from support.kube_api.patches import MERGE, STRATEGIC, patched
from support.kube_api.server import FakeKubeApi
from support.kube_api.store import Object
from support.kube_api.targets import Target, target_of
from support.kube_api.transcripts import Transcript

Step = tuple[str, str, str, Object | None]
"""A request that comes before: verb, path, content type, body."""

NOT_READY = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
OURS = {"key": "lastcall.example/preempted", "value": "aws-spot", "effect": "NoSchedule"}
EVENT_ID = "lastcall.example/event-id"

# What an answer's node was before, as a merge patch to the answer.
NODES: dict[str, Object] = {
    "node-cordon-strategic": {"spec": {"unschedulable": None}, "metadata": {"annotations": None}},
    "node-cordon-dryrun": {"spec": {"unschedulable": None}},
    "node-uncordon-json-patch-guarded": {
        "spec": {"unschedulable": True},
        "metadata": {"annotations": {EVENT_ID: "evt-0001"}},
    },
    "node-taint-add-strategic": {"spec": {"taints": NOT_READY}},
    "node-taint-same-key-other-effect-strategic": {"spec": {"taints": [OURS]}},
    "node-taint-merge-patch-replaces-list": {"spec": {"taints": [OURS]}},
    "node-condition-patch-status": {"status": {"conditions": None}},
    "kubelet-identity-own-node-cordon": {"spec": {"unschedulable": True}},
    "kubelet-identity-own-node-annotate": {
        "metadata": {"labels": {"lastcall.example/state": None}}
    },
    "kubelet-identity-own-condition": {"status": {"conditions": []}},
    "vap-own-node-cordon-ok": {"spec": {"unschedulable": None}},
    "kcm-noexecute-taint-guarded-by-rv": {"spec": {"taints": None}},
    "kcm-node-after-cordon": {"spec": {"unschedulable": None, "taints": None}},
}

BUDGETS: dict[str, list[Object]] = {
    "db-0": [budget("db", "db-0")],
    "new-0": [budget("new", "new-0", observed=False)],
    "sync-0": [budget("sync", "sync-0", sync_failure='found no controllers for pod "sync-0"')],
    "unr-0": [budget("unr", "unr-0", healthy=0)],
    "unr-1": [budget("unr", "unr-1", healthy=0, always_allow_unready=True)],
    "two-0": [budget("one", "two-0", allowed=1), budget("two", "two-0", allowed=1)],
    "ok-0": [budget("ok", "ok-0", allowed=1)],
    "pend-0": [budget("pend", "pend-0")],
    "fin-0": [budget("fin", "fin-0")],
    "bare-0": [budget("bare-max", "bare-0", healthy=2)],
    "bmin-0": [budget("bare-min", "bmin-0")],
    "rs-57g76": [budget("rs-pdb", "rs-57g76", allowed=1, healthy=2)],
    "rs-mt47t": [budget("rs-pdb", "rs-mt47t")],
    "ne-3": [budget("ne", "bmin")],
}

PODS: dict[str, dict[str, Any]] = {
    "unr-0": {"ready": False},
    "unr-1": {"ready": False},
    "pend-0": {"phase": "Pending"},
    "fin-0": {"phase": "Succeeded"},
    "stuck-0": {"finalizers": ["example.com/hold"]},
    "ds-0": {"owner": "DaemonSet"},
    "far-0": {"node_name": "node-b"},
    "far-1": {"node_name": "node-b"},
    "far-2": {"node_name": "node-b"},
}

GONE = {"evict-404", "pod-delete-404"}


def _evict(name: str, grace_seconds: int | None = None) -> Step:
    body: Object = {"metadata": {"name": name, "namespace": "training"}}
    if grace_seconds is not None:
        body["deleteOptions"] = {"gracePeriodSeconds": grace_seconds}
    path = f"/api/v1/namespaces/training/pods/{name}/eviction"
    return "POST", path, "application/json", body


def _patch(path: str, body: Object, content_type: str = STRATEGIC) -> Step:
    return "PATCH", path, content_type, body


_DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionNotice",
    "message": "lastcall",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_OWN_STATUS = "/api/v1/namespaces/training/pods/own-0/status"

STEPS: dict[str, list[Step]] = {
    "evict-already-terminating": [_evict("free-0")],
    "evict-terminating-shorter-grace": [_evict("free-0")],
    "evict-terminating-longer-grace": [_evict("free-0", 5)],
    "pod-after-evict": [_evict("free-0")],
    "pod-after-shorter-grace": [_evict("free-0"), _evict("free-0", 5)],
    "pod-after-longer-grace": [_evict("free-0", 5), _evict("free-0", 300)],
    "pod-get-404": [_evict("free-1", 0)],
    "pod-finalizer-after-grace0": [_evict("stuck-0", 0)],
    "pdb-after-evict": [_evict("ok-0")],
    "vap-own-node-pod-delete-ok": [_patch(_OWN_STATUS, {"status": {"conditions": [_DISRUPTED]}})],
    "kcm-node-after-cordon": [_patch("/api/v1/nodes/node-a", {"spec": {"unschedulable": True}})],
    "kcm-pod-after-noexecute-taint": [
        _patch("/api/v1/nodes/node-a", {"spec": {"taints": [{**OURS, "effect": "NoExecute"}]}})
    ],
}


def bring_about(server: FakeKubeApi, recorded: Transcript, others: dict[str, Transcript]) -> None:
    """Put the cluster into the state before an exchange, but for the steps of :data:`STEPS`."""
    path = recorded.path.partition("?")[0]
    target = target_of(path) or Target("", "")
    _nodes(server, recorded)
    if recorded.name in SPECIAL:
        SPECIAL[recorded.name](server, recorded)
    elif target.resource == "pods" and target.name and recorded.name not in GONE:
        _pod(server, recorded, target)
    if recorded.name.startswith("vap-"):
        server.policies += PINNED_TO_NODE
    if "namespace-terminating" in recorded.name or "terminating-namespace" in recorded.name:
        server.terminating.add("leaving")
    if recorded.name.startswith("etcd-frozen-") and recorded.name != "etcd-frozen-patch-no-timeout":
        server.break_(Fault.STORE_TIMEOUT, "PATCH")
        server.break_(Fault.STORE_TIMEOUT, "GET", "/nodes/")
        server.break_(Fault.STORE_TIMEOUT, "POST", "/eviction")
    if recorded.name in {"event-duplicate-409", "event-count-patch"}:
        first = others["event-core-v1-node-ok"].request["body"]
        metadata = {**first["metadata"], "uid": _uid(), "creationTimestamp": _TIME}
        defaults = {"eventTime": None, "reportingComponent": "", "reportingInstance": ""}
        server.add("events", {**first, **defaults, "metadata": metadata})


def _nodes(server: FakeKubeApi, recorded: Transcript) -> None:
    body = recorded.response.get("body")
    server.add("nodes", node("node-b"))
    if isinstance(body, dict) and body.get("kind") == "Node":
        before = patched(body, NODES.get(recorded.name, {}), MERGE)
        sent = recorded.request.get("body")
        version = sent.get("metadata", {}).get("resourceVersion") if isinstance(sent, dict) else ""
        if version:
            server.store.version = int(version) - 1
        del before["metadata"]["resourceVersion"]
        server.add("nodes", before)
    else:
        server.add("nodes", node("node-a"))


def _pod(server: FakeKubeApi, recorded: Transcript, target: Target) -> None:
    settings = PODS.get(target.name, {})
    server.add("pods", pod(target.name, namespace=target.namespace, **settings))
    server.add("poddisruptionbudgets", *copy.deepcopy(BUDGETS.get(target.name, [])))
    if recorded.name == "vap-eviction-object-has-no-node":
        server.policies.append(EVICTION_BY_NODE)


def _listed(server: FakeKubeApi, recorded: Transcript) -> None:
    for item in recorded.response["body"]["items"]:
        server.add("pods", {"kind": "Pod", "apiVersion": "v1", **copy.deepcopy(item)})
    server.add("pods", pod("far-0", node_name="node-b"))


def _one_more_page(server: FakeKubeApi, recorded: Transcript) -> None:
    _listed(server, recorded)
    server.add("pods", pod("free-2"))


def _as_answered(server: FakeKubeApi, recorded: Transcript) -> None:
    """For what controllers alone can bring about, the state is the recorded one."""
    target = target_of(recorded.path.partition("?")[0])
    assert target is not None
    server.add(target.resource, copy.deepcopy(recorded.response["body"]))


def _before_its_condition(server: FakeKubeApi, recorded: Transcript) -> None:
    before = copy.deepcopy(recorded.response["body"])
    conditions = before["status"]["conditions"]
    conditions[:] = [c for c in conditions if c["type"] != "DisruptionTarget"]
    server.add("pods", before)


def _unwanted(server: FakeKubeApi, recorded: Transcript) -> None:
    del recorded
    server.policies.append(WITHOUT_REASON)


def _throttled(server: FakeKubeApi, recorded: Transcript) -> None:
    del recorded
    server.break_(Fault.THROTTLED)


def _unavailable(server: FakeKubeApi, recorded: Transcript) -> None:
    del recorded
    server.break_(Fault.STORE_UNAVAILABLE)


def _tainted(server: FakeKubeApi, recorded: Transcript) -> None:
    del recorded
    labels = {"app": "bmin", "topology.kubernetes.io/zone": "zone-a"}
    server.add("pods", pod("ne-3", grace_seconds=45, labels=labels))
    server.add("poddisruptionbudgets", *copy.deepcopy(BUDGETS["ne-3"]))


def _spent(server: FakeKubeApi, recorded: Transcript) -> None:
    del recorded
    server.add("pods", pod("ok-0"))
    server.add("poddisruptionbudgets", *copy.deepcopy(BUDGETS["ok-0"]))


SPECIAL: dict[str, Callable[[FakeKubeApi, Transcript], None]] = {
    "pods-list-by-node": _listed,
    "pods-list-rv0": _listed,
    "pods-list-by-node-limit2": _one_more_page,
    "etcd-frozen-list-rv0": _listed,
    "kubelet-identity-list-own-pods": _listed,
    "kcm-pdb-status-healthy": _as_answered,
    "kcm-pod-after-noexecute-taint": _tainted,
    "pdb-after-evict": _spent,
    "pod-status-disruptiontarget-patch": _before_its_condition,
    "vap-own-node-pod-status-ok": _before_its_condition,
    "vap-denied-dryrun": _unwanted,
    "vap-denied-without-reason": _unwanted,
    "throttled-429": _throttled,
    "etcd-frozen-patch-no-timeout": _unavailable,
}

_TIME = "2026-01-01T00:00:00Z"


def _uid() -> str:
    return str(node("any")["metadata"]["uid"])
