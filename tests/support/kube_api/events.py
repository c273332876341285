"""Events of the core group and of events.k8s.io: where they may stand and what they must hold."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection

from support.kube_api.asking import Asking
from support.kube_api.objects import timestamp
from support.kube_api.patches import patched
from support.kube_api.statuses import already_exists, invalid, namespace_terminating, not_found
from support.kube_api.store import Object, Store

NOTE_LIMIT_CHARACTERS = 1024


def create_event(store: Store, terminating: Collection[str], asking: Asking) -> Object:
    """Answer a POST."""
    body, namespace = asking.body, asking.target.namespace
    metadata = dict(body["metadata"])
    metadata.setdefault("name", metadata.get("generateName", "") + secrets.token_hex(3)[:5])
    name = metadata["name"]
    if namespace in terminating:
        raise namespace_terminating("events", name, namespace)
    is_new = asking.target.group == "events.k8s.io"
    if is_new:
        _check_new(name, body)
    about = body["regarding" if is_new else "involvedObject"]
    _check_place(name, namespace, about.get("namespace", ""))
    if store.get("events", namespace, name) is not None:
        raise already_exists("events", name)
    metadata |= {
        "namespace": namespace,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": timestamp(),
    }
    defaults = _NEW_DEFAULTS if is_new else _CORE_DEFAULTS
    new = {**defaults, **body, "metadata": metadata}
    return new if asking.dry_run else store.put("events", new)


def patch_event(store: Store, asking: Asking) -> Object:
    """Answer a PATCH."""
    old = store.get("events", asking.target.namespace, asking.target.name)
    if old is None:
        raise not_found("events", asking.target.name)
    return store.put("events", patched(old, asking.body, asking.content_type))


_CORE_DEFAULTS: Object = {"eventTime": None, "reportingComponent": "", "reportingInstance": ""}
_NEW_DEFAULTS: Object = {
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def _check_new(name: str, body: Object) -> None:
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not body.get(field):
            raise invalid("Event", name, field, "Required value", "FieldValueRequired")
    if len(body.get("note", "")) > NOTE_LIMIT_CHARACTERS:
        message = f'Invalid value: "": can have at most {NOTE_LIMIT_CHARACTERS} characters'
        raise invalid("Event", name, "message", message, "FieldValueInvalid")


def _check_place(name: str, namespace: str, about: str) -> None:
    """Something without a namespace is told of in ``default``, all else where it is."""
    if namespace == (about or "default"):
        return
    message = f'Invalid value: "{about}": does not match event.namespace'
    field = "involvedObject.namespace"
    raise invalid("Event", name, field, message, "FieldValueInvalid")
