"""How a pod goes: graceful deletion, shortened but never lengthened, and finalizers."""

from __future__ import annotations

import time
from collections.abc import Callable

from support.kube_api.objects import timestamp
from support.kube_api.statuses import other_uid
from support.kube_api.store import Object, Store

OnDeleting = Callable[[Object], None]
"""Told of each pod that is to end; the kubelet's part."""


def check_uid(pod: Object, options: Object) -> None:
    """Hold the pod against the UID that the caller means.

    Raises:
        ApiError: it is another one.
    """
    wanted = options.get("preconditions", {}).get("uid")
    found = pod["metadata"]["uid"]
    if wanted and wanted != found:
        raise other_uid(pod["metadata"]["name"], wanted, found)


def delete(store: Store, pod: Object, options: Object, on_deleting: OnDeleting) -> Object:
    """Begin or speed up a pod's end, and return the pod as it is then."""
    metadata = pod["metadata"]
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = pod["spec"]["terminationGracePeriodSeconds"]
    if grace < 0:
        grace = 1
    if pod["status"]["phase"] in {"Succeeded", "Failed"} or not pod["spec"].get("nodeName"):
        grace = 0
    running = metadata.get("deletionGracePeriodSeconds")
    if running is not None and grace >= running > 0:
        return pod
    if running is None:
        metadata["generation"] += 1
    metadata["deletionGracePeriodSeconds"] = grace
    metadata["deletionTimestamp"] = timestamp(time.time() + grace)
    if grace == 0 and not metadata.get("finalizers"):
        pod = store.put("pods", pod)
        store.remove("pods", metadata["namespace"], metadata["name"])
        return pod
    pod = store.put("pods", pod)
    on_deleting(pod)
    return pod


def mark_disrupted(store: Store, pod: Object, reason: str, message: str, **more: object) -> Object:
    """Set the condition that tells a Job that the pod did not fail by itself."""
    conditions = pod["status"].setdefault("conditions", [])
    if any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions):
        return pod
    conditions[:] = [c for c in conditions if c["type"] != "DisruptionTarget"]
    conditions.append(
        {
            "type": "DisruptionTarget",
            **more,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
            "reason": reason,
            "message": message,
        }
    )
    return store.put("pods", pod)
