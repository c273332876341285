"""Nodes: read, patched, and their status patched."""

from __future__ import annotations

from support.kube_api.admission import Policy, admit
from support.kube_api.asking import Asking
from support.kube_api.patches import patched
from support.kube_api.statuses import ApiError, invalid, modified, not_found
from support.kube_api.store import Object, Store

ANNOTATION_LIMIT_BYTES = 262144


def get_node(store: Store, asking: Asking) -> Object:
    """Answer a GET."""
    found = store.get("nodes", "", asking.target.name)
    if found is None:
        raise not_found("nodes", asking.target.name)
    return found


def patch_node(store: Store, policies: list[Policy], asking: Asking) -> Object:
    """Answer a PATCH of a node or of its status."""
    old = get_node(store, asking)
    new = patched(old, asking.body, asking.content_type)
    check_version("nodes", old, new)
    if asking.target.subresource == "status":
        new = {**old, "status": new["status"]}
    else:
        new = {**new, "status": old["status"]}
    _tidy(new)
    admit(policies, asking, old, new)
    _validate(asking.target.name, new)
    return new if asking.dry_run else store.put("nodes", new)


def check_version(resource: str, old: Object, new: Object) -> None:
    """Hold the version a patch names against the one that is there.

    Raises:
        ApiError: somebody else has written since.
    """
    found = old["metadata"]["resourceVersion"]
    if new["metadata"].setdefault("resourceVersion", found) != found:
        raise modified(resource, old["metadata"]["name"])


def _tidy(new: Object) -> None:
    """Leave out what the server leaves out when it is empty or false."""
    spec, metadata = new["spec"], new["metadata"]
    if not spec.get("unschedulable", True):
        del spec["unschedulable"]
    if spec.get("taints") == []:
        del spec["taints"]
    for key in ("annotations", "labels"):
        if metadata.get(key) == {}:
            del metadata[key]
    for condition in new["status"].get("conditions", []):
        for key in ("lastHeartbeatTime", "lastTransitionTime"):
            condition.setdefault(key, None)


def _validate(name: str, new: Object) -> None:
    annotations = new["metadata"].get("annotations", {})
    if sum(len(k) + len(v) for k, v in annotations.items()) > ANNOTATION_LIMIT_BYTES:
        message = f"Too long: may not be more than {ANNOTATION_LIMIT_BYTES} bytes"
        field = "metadata.annotations"
        raise invalid("Node", name, field, message, "FieldValueTooLong", times=4)
    for index, taint in enumerate(new["spec"].get("taints", [])):
        if not taint.get("effect"):
            raise _no_effect(name, index, taint)


def _no_effect(name: str, index: int, taint: Object) -> ApiError:
    unknown = [key for key in taint if key not in {"key", "value", "effect", "timeAdded"}]
    headers = {}
    if unknown:
        headers["Warning"] = f'299 - "unknown field \\"spec.taints[{index}].{unknown[0]}\\""'
    field = f"metadata.taints[{index}].effect"
    cause = "FieldValueRequired"
    return invalid("Node", name, field, "Required value", cause, times=2, headers=headers)
