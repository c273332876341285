"""Pods: read, listed page by page, evicted, deleted, and their status patched."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection

from support.kube_api import budgets
from support.kube_api.admission import Policy, admit
from support.kube_api.asking import Asking
from support.kube_api.deletion import OnDeleting, check_uid, delete, mark_disrupted
from support.kube_api.nodes import check_version
from support.kube_api.patches import patched
from support.kube_api.statuses import (
    bad_request,
    expired,
    invalid,
    namespace_terminating,
    not_found,
    success,
)
from support.kube_api.store import Object, Store


def get_pod(store: Store, asking: Asking) -> Object:
    """Answer a GET."""
    target = asking.target
    found = store.get("pods", target.namespace, target.name)
    if found is None:
        raise not_found("pods", target.name)
    return found


def list_pods(store: Store, asking: Asking) -> Object:
    """Answer a list; from the cache it comes in one page."""
    query = asking.query
    found = [pod for pod in store.all("pods") if is_selected(pod, asking)]
    version = str(store.version)
    limit = int(query.get("limit", "0"))
    metadata: Object = {}
    if query.get("resourceVersion") != "0" and limit:
        version, start = _continued(store, query.get("continue", ""), version)
        found = [pod for pod in found if _place(pod) >= start]
        if len(found) > limit:
            found, rest = found[:limit], found[limit:]
            metadata = {
                "continue": _token(version, _place(found[-1])),
                "remainingItemCount": len(rest),
            }
            if query.get("fieldSelector"):
                del metadata["remainingItemCount"]
    # Items of a list do not say their kind.
    items = [{k: v for k, v in pod.items() if k not in {"kind", "apiVersion"}} for pod in found]
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": version, **metadata},
        "items": items,
    }


def is_selected(pod: Object, asking: Asking) -> bool:
    """Whether the field selector and the namespace take a pod in."""
    namespace, node = asking.target.namespace, asking.selected_node
    if namespace and pod["metadata"]["namespace"] != namespace:
        return False
    return not node or pod["spec"].get("nodeName") == node


def evict_pod(
    store: Store,
    policies: list[Policy],
    terminating: Collection[str],
    asking: Asking,
    on_deleting: OnDeleting,
) -> Object:
    """Answer an eviction."""
    target, body = asking.target, asking.body
    old = store.get("pods", target.namespace, target.name) or {}
    if target.namespace in terminating:
        raise namespace_terminating("pods", target.name, target.namespace)
    admit(policies, asking, old, body)
    if body["metadata"]["name"] != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = get_pod(store, asking)
    options = body.get("deleteOptions") or {}
    dry_run = asking.dry_run or options.get("dryRun") == ["All"]
    budgets.spend(store, pod, dry_run=dry_run)
    check_uid(pod, options)
    if not dry_run:
        if pod["status"]["phase"] == "Running":
            reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
            pod = mark_disrupted(store, pod, reason, message)
        delete(store, pod, options, on_deleting)
    return success()


def delete_pod(
    store: Store, policies: list[Policy], asking: Asking, on_deleting: OnDeleting
) -> Object:
    """Answer a DELETE."""
    pod = get_pod(store, asking)
    options = asking.body or {}
    check_uid(pod, options)
    admit(policies, asking, pod, {})
    return pod if asking.dry_run else delete(store, pod, options, on_deleting)


def patch_pod_status(store: Store, policies: list[Policy], asking: Asking) -> Object:
    """Answer a PATCH of a pod's status."""
    old = get_pod(store, asking)
    new = patched(old, asking.body, asking.content_type)
    check_version("pods", old, new)
    if new["metadata"]["uid"] != old["metadata"]["uid"]:
        message = f'Invalid value: "{new["metadata"]["uid"]}": field is immutable'
        raise invalid("Pod", asking.target.name, "metadata.uid", message, "FieldValueInvalid")
    for condition in new["status"].get("conditions", []):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    new = {**old, "status": new["status"]}
    admit(policies, asking, old, new)
    return new if asking.dry_run else store.put("pods", new)


def _place(pod: Object) -> str:
    return f"/{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _token(version: str, last: str) -> str:
    content = {"v": "meta.k8s.io/v1", "rv": int(version), "start": f"{last}\0"}
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _continued(store: Store, token: str, version: str) -> tuple[str, str]:
    """Return the version and the place that a page starts with."""
    if not token:
        return version, ""
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        first, start = int(content["rv"]), str(content["start"])
    except (ValueError, KeyError, binascii.Error):
        raise bad_request(
            "invalid continue token: continue key is not valid: "
            "invalid character '\\x81' looking for beginning of value"
        ) from None
    if first < store.compacted_version:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result."
        )
    return str(first), start
