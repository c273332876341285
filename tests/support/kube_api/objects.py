"""Nodes, pods and disruption budgets as the API server shows them, with all their defaults."""

from __future__ import annotations

import time
import uuid
from typing import Any

from support.kube_api.store import Object

NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
ZONE = {"topology.kubernetes.io/zone": "zone-a"}


def timestamp(unix: float | None = None) -> str:
    """Return a time as the server writes it."""
    at = time.time() if unix is None else unix
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def node(name: str, *, ready: bool = False, taints: list[Object] | None = None) -> Object:
    """Return a node; one that is ``ready`` has the kubelet's condition."""
    status: Object = {}
    if ready:
        now = timestamp()
        status["conditions"] = [
            {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
                "reason": "KubeletReady",
            }
        ]
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(),
            "labels": {"kubernetes.io/hostname": name, **ZONE},
        },
        "spec": {"taints": taints} if taints else {},
        "status": status
        | {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(NODE_INFO, ""),
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "training",
    node_name: str = "node-a",
    phase: str = "Running",
    ready: bool = True,
    grace_seconds: int = 30,
    owner: str = "",
    **metadata: Any,
) -> Object:
    """Return a pod.

    Args:
        name: of the pod.
        namespace: of the pod.
        node_name: where it runs.
        phase: of its life.
        ready: it has the condition, and it is true.
        grace_seconds: its own time to end.
        owner: the kind of its controller, such as ``DaemonSet``; empty for none.
        metadata: more of it, such as ``finalizers`` or ``labels``.
    """
    status: Object = {"phase": phase}
    if phase != "Pending":
        status |= {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                }
            ],
            "startTime": "2026-01-01T00:00:00Z",
        }
    owners: Object = {}
    if owner:
        owners["ownerReferences"] = [
            {
                "apiVersion": "batch/v1" if owner == "Job" else "apps/v1",
                "kind": owner,
                "name": name.rsplit("-", 1)[0],
                "uid": "22222222-2222-2222-2222-222222222222",
                "controller": True,
            }
        ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "generation": 1,
            "creationTimestamp": timestamp(),
            "labels": {"app": name, **ZONE},
            **owners,
            **metadata,
        },
        "spec": _pod_spec(node_name, grace_seconds),
        "status": status | {"qosClass": "BestEffort"},
    }


def _pod_spec(node_name: str, grace_seconds: int) -> Object:
    return {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/train:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": grace_seconds,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "automountServiceAccountToken": False,
        "nodeName": node_name,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def budget(
    name: str,
    app: str,
    *,
    namespace: str = "training",
    allowed: int = 0,
    healthy: int = 1,
    desired: int = 1,
    observed: bool = True,
    sync_failure: str = "",
    always_allow_unready: bool = False,
) -> Object:
    """Return a disruption budget over the pods whose label ``app`` has a value.

    Args:
        name: of the budget.
        app: the label's value.
        namespace: of the budget and the pods.
        allowed: how many disruptions it allows now.
        healthy: pods that are healthy now.
        desired: pods it wants healthy.
        observed: its controller has looked at it.
        sync_failure: why its controller could not make sense of it; empty where it could.
        always_allow_unready: its policy for pods that are not ready.
    """
    spec: Object = {"minAvailable": desired, "selector": {"matchLabels": {"app": app}}}
    if always_allow_unready:
        spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    condition: Object = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": 1,
        "lastTransitionTime": timestamp(),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    if sync_failure:
        condition |= {"reason": "SyncFailed", "message": sync_failure}
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "generation": 1,
            "creationTimestamp": timestamp(),
        },
        "spec": spec,
        "status": {
            "observedGeneration": 1 if observed else 0,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": healthy,
            "conditions": [condition],
        },
    }
