"""What an event about a node or a pod says, and the form the API server takes it in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

EVENT_MESSAGE_CHARACTERS = 1024
"""An event's message may have no more (Kubernetes API reference, Event v1)."""

_INSTANCE_CHARACTERS = 128


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A node or a pod that something is said about.

    Attributes:
        kind: ``Node`` or ``Pod``.
        name: its name.
        namespace: of a pod; empty for a node.
        uid: its UID; may be empty.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class EventText:
    """What an event says.

    Attributes:
        name: the event's own name; a second one of that name is a ``CONFLICT``.
        reason: one word in CamelCase.
        message: for people; cut at ``EVENT_MESSAGE_CHARACTERS``.
        action: what is being done, one word in CamelCase.
        is_warning: ``Warning`` rather than ``Normal``.
        at_unix: when, Unix seconds.
        instance: who says it, such as the agent's pod or node.
    """

    name: str
    reason: str
    message: str
    action: str
    is_warning: bool
    at_unix: float
    instance: str


def event_namespace(about: ObjectRef) -> str:
    """Return where an event must stand: with its pod, and in ``default`` for a node."""
    return about.namespace or "default"


def event_body(about: ObjectRef, text: EventText) -> dict[str, object]:
    """Return an event of the core group.

    The kubelet's own credentials may write it too, and every reader of events knows it.
    """
    at = datetime.fromtimestamp(text.at_unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {
        "apiVersion": "v1",
        "kind": about.kind,
        "name": about.name,
        "namespace": about.namespace,
        "uid": about.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": text.name, "namespace": event_namespace(about)},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "reason": text.reason,
        "message": text.message[:EVENT_MESSAGE_CHARACTERS],
        "type": "Warning" if text.is_warning else "Normal",
        "action": text.action,
        "source": {"component": "lastcall", "host": text.instance},
        "reportingComponent": "lastcall.dev/agent",
        "reportingInstance": text.instance[:_INSTANCE_CHARACTERS],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
