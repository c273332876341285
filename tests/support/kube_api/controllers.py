"""What acts on the fake cluster besides its callers: a kubelet, and the controllers of nodes."""

from __future__ import annotations

import asyncio

from support.kube_api.deletion import delete, mark_disrupted
from support.kube_api.objects import timestamp
from support.kube_api.store import Object, Store

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class Kubelet:
    """Ends pods that are to end.

    Args:
        store: the cluster.
        ends_after_seconds: how long a pod's processes take; never longer than its grace. ``None``
            for a kubelet that is gone: nothing ever ends.
    """

    def __init__(self, store: Store, ends_after_seconds: float | None) -> None:
        self.ends_after_seconds = ends_after_seconds
        self._store = store
        self._timers: list[asyncio.TimerHandle] = []

    def on_deleting(self, pod: Object) -> None:
        """Take note that a pod is to end."""
        if self.ends_after_seconds is None:
            return
        grace = pod["metadata"]["deletionGracePeriodSeconds"]
        seconds = min(self.ends_after_seconds, grace)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self._end, pod))

    def close(self) -> None:
        """End nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _end(self, pod: Object) -> None:
        metadata = pod["metadata"]
        found = self._store.get("pods", metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            return
        if found["metadata"].get("finalizers"):
            return
        delete(self._store, found, {"gracePeriodSeconds": 0}, lambda _: None)


def control_nodes(store: Store, node: Object, kubelet: Kubelet) -> Object:
    """Do at once what the controllers do after a node was written, and return the node."""
    node = _taint_if_cordoned(store, node)
    for taint in node["spec"].get("taints", []):
        if taint["effect"] == "NoExecute":
            _evict_by_taint(store, node["metadata"]["name"], kubelet)
    return node


def _taint_if_cordoned(store: Store, node: Object) -> Object:
    taints = [t for t in node["spec"].get("taints", []) if t["key"] != UNSCHEDULABLE]
    if node["spec"].get("unschedulable"):
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": timestamp()})
        if any(t["key"] == UNSCHEDULABLE for t in node["spec"].get("taints", [])):
            return node
    elif len(taints) == len(node["spec"].get("taints", [])):
        return node
    spec = {k: v for k, v in node["spec"].items() if k != "taints"}
    return store.put("nodes", {**node, "spec": spec | ({"taints": taints} if taints else {})})


def _evict_by_taint(store: Store, name: str, kubelet: Kubelet) -> None:
    """Delete the node's pods, budgets unasked; none here tolerates the taint."""
    for pod in store.all("pods"):
        if pod["spec"].get("nodeName") != name or "deletionTimestamp" in pod["metadata"]:
            continue
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        marked = mark_disrupted(store, pod, reason, message, observedGeneration=1)
        delete(store, marked, {}, kubelet.on_deleting)
