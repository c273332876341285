"""Answers that hang on no object of the cluster, and the few kinds that are only stored."""

from __future__ import annotations

import uuid

from support.kube_api.asking import Asking
from support.kube_api.objects import timestamp
from support.kube_api.statuses import not_found
from support.kube_api.store import Object, Store

VERSION: Object = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}


def get_stored(store: Store, asking: Asking) -> Object:
    """Answer the GET of anything."""
    target = asking.target
    found = store.get(target.resource, target.namespace, target.name)
    if found is None:
        raise not_found(target.resource, target.name)
    return found


def create_policy(store: Store, asking: Asking) -> Object:
    """Answer the POST of a ValidatingAdmissionPolicy: it is stored, with its defaults."""
    body = asking.body
    constraints = body["spec"]["matchConstraints"]
    rules = [{**rule, "scope": "*"} for rule in constraints["resourceRules"]]
    filled = {
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": rules,
        "matchPolicy": "Equivalent",
    }
    metadata = {
        **body["metadata"],
        "uid": str(uuid.uuid4()),
        "generation": 1,
        "creationTimestamp": timestamp(),
    }
    new = {
        **body,
        "metadata": metadata,
        "spec": {**body["spec"], "matchConstraints": filled},
        "status": {},
    }
    return store.put(asking.target.resource, new)


def request_token(asking: Asking) -> Object:
    """Answer a TokenRequest."""
    spec = asking.body["spec"]
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": asking.target.name,
            "namespace": asking.target.namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(),
        },
        "spec": {"audiences": ["https://lab.example"], **spec},
        "status": {"token": "a-token", "expirationTimestamp": timestamp()},
    }


def discovery() -> Object:
    """Answer what the core group holds, as far as a drain cares."""
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    kinds = (
        ("events", "event", "Event", True, verbs, "ev"),
        ("nodes", "node", "Node", False, verbs, "no"),
        ("nodes/status", "", "Node", False, ["get", "patch", "update"], ""),
        ("pods", "pod", "Pod", True, verbs, "po"),
        ("pods/eviction", "", "Eviction", True, ["create"], ""),
        ("pods/status", "", "Pod", True, ["get", "patch", "update"], ""),
    )
    resources: list[Object] = []
    for name, singular, kind, namespaced, allowed, short in kinds:
        entry: Object = {
            "name": name,
            "singularName": singular,
            "namespaced": namespaced,
            "kind": kind,
            "verbs": allowed,
        }
        if name == "pods/eviction":
            entry |= {"group": "policy", "version": "v1"}
        if name == "pods":
            entry["categories"] = ["all"]
        if short:
            entry |= {"shortNames": [short], "storageVersionHash": "AAAAAAAAAAA="}
        resources.append(entry)
    return {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
