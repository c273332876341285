"""What the values of Google's metadata server mean.

Every form that was seen in documents and in the field is read here, without any I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lastcall.core.model import Action, Kind, Sighting

SOURCE = "gcp"

PREEMPTED = "instance/preempted"
MAINTENANCE_EVENT = "instance/maintenance-event"
UPCOMING_MAINTENANCE = "instance/upcoming-maintenance"

_NONE = "NONE"
_SHOWN_LIMIT = 60
_NOTHING_YET = "no notifications"

_MAINTENANCE_ACTIONS = {
    "MIGRATE_ON_HOST_MAINTENANCE": (Action.MIGRATE, "the VM is about to be migrated live"),
    "TERMINATE_ON_HOST_MAINTENANCE": (Action.TERMINATE, "the VM is stopped for host maintenance"),
}

_WINDOW_FIELDS = {
    "type",
    "can_reschedule",
    "maintenance_status",
    "maintenance_reasons",
    "window_start_time",
    "window_end_time",
    "latest_window_start_time",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands under a key; ``trouble`` says what in it could not be read."""

    sightings: tuple[Sighting, ...] = ()
    trouble: str = ""


def read_value(text: str) -> str:
    """Return a single value, which stands plain or, with ``alt=json``, as a JSON string.

    Raises:
        ValueError: it is empty, or a broken JSON string.
    """
    value = text.strip()
    if value.startswith('"'):
        value = str(json.loads(value)).strip()
    if not value:
        raise ValueError("the value is empty")
    return value


def read_preempted(text: str) -> Reading:
    """Return what ``instance/preempted`` says: ``TRUE`` once Compute Engine takes the VM back.

    The VM is stopped or deleted, as it was created; stopping is the default. The key names no
    time. (Compute Engine documentation, Spot VMs: detecting preemption.)

    Raises:
        ValueError: the value is neither ``TRUE`` nor ``FALSE``.
    """
    value = read_value(text)
    if value == "FALSE":
        return Reading()
    if value != "TRUE":
        raise ValueError(f"neither TRUE nor FALSE: {_shown(value)}")
    return Reading(
        (
            Sighting(
                source=SOURCE,
                scope=PREEMPTED,
                key="preempted",
                kind=Kind.PREEMPTION,
                action=Action.STOP,
                code="preempted",
                reason="Compute Engine is taking this VM back",
            ),
        )
    )


def read_maintenance_event(text: str) -> Reading:
    """Return what ``instance/maintenance-event`` says of the host's maintenance.

    A value that is not known does no harm: it is shown and never acted upon, as an action of
    ``none`` asks for. (Compute Engine documentation, monitor and plan for a host maintenance
    event.)

    Raises:
        ValueError: the value is empty.
    """
    value = read_value(text)
    if value == _NONE:
        return Reading()
    unknown = (Action.NONE, f"the metadata server announces {_shown(value)}")
    action, reason = _MAINTENANCE_ACTIONS.get(value, unknown)
    return Reading(
        (
            Sighting(
                source=SOURCE,
                scope=MAINTENANCE_EVENT,
                # One value after another is a new event, not a change of the first.
                key=value,
                kind=Kind.MAINTENANCE,
                action=action,
                code=value,
                reason=reason,
                cancellable=True,
            ),
        )
    )


def read_upcoming_maintenance(text: str, deadline: Callable[[float], float]) -> Reading:
    """Return what ``instance/upcoming-maintenance`` says of the next maintenance window.

    Accepted are snake case and camel case, the window at the top or one level down, and ``NONE``,
    ``"NONE"`` and an empty object for none. GPU machines are stopped for maintenance, never
    migrated. (Google Cloud documentation, AI Hypercomputer: monitor and manage host events.)

    Args:
        text: the answer's body.
        deadline: turns Unix seconds into seconds on the monotonic clock.

    Raises:
        ValueError: the answer is none of these forms.
    """
    stripped = text.strip()
    if stripped in (_NONE, f'"{_NONE}"'):
        return Reading()
    window = _window(stripped)
    if not window or window.get("maintenance_status") == "COMPLETE":
        return Reading()
    start_unix, trouble = _start(window.get("window_start_time"))
    sighting = Sighting(
        source=SOURCE,
        scope=UPCOMING_MAINTENANCE,
        key="window",
        kind=Kind.MAINTENANCE,
        action=Action.TERMINATE,
        code="upcoming-maintenance",
        deadline=None if start_unix is None else deadline(start_unix),
        deadline_unix=start_unix,
        reason=_reason(window),
        cancellable=True,
    )
    return Reading((sighting,), trouble)


def says_nothing_yet(text: str) -> bool:
    """Whether a body is the server's way to say that no notification has ever reached it.

    It comes with status 503 on machines that have the key and no maintenance, as the Scylla
    project's host checks found.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    error = document.get("error") if isinstance(document, dict) else None
    return isinstance(error, str) and _NOTHING_YET in error.lower()


def facts(key: str, value: str) -> tuple[tuple[str, str], ...]:
    """Return what a key's value says of the machine, as pairs of a name and a text.

    Places and types stand at the end of a path such as ``projects/1/zones/us-central1-a``.
    """
    name = value.rpartition("/")[2]
    known = {
        "instance/name": {"instance_name": name},
        "instance/hostname": {"instance_name": name.partition(".")[0]},
        "instance/id": {"instance_id": name},
        "instance/machine-type": {"instance_type": name},
        "instance/zone": {"zone": name, "region": name.rpartition("-")[0]},
        "instance/scheduling/preemptible": {"lifecycle": "spot" if name == "TRUE" else "on-demand"},
    }
    return tuple(known.get(key, {}).items())


def _window(text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"neither NONE nor JSON: {_shown(text)}") from None
    if isinstance(document, dict) and len(document) == 1:
        inner = next(iter(document.values()))
        document = inner if isinstance(inner, dict) else document
    known = isinstance(document, dict)
    window = {_snake_case(name): document[name] for name in document} if known else {}
    if not known or (window and window.keys().isdisjoint(_WINDOW_FIELDS)):
        raise ValueError(f"no maintenance window: {_shown(text)}")
    return window


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _start(value: object) -> tuple[float | None, str]:
    """Return when a window opens in Unix seconds, and what is wrong with that time."""
    if value is None or value == "":
        return None, ""
    try:
        moment = datetime.fromisoformat(str(value))
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return zoned.timestamp(), ""
    except (ValueError, OverflowError):
        return None, f"no time: window_start_time {_shown(str(value))}"


def _reason(window: Mapping[str, object]) -> str:
    reasons = window.get("maintenance_reasons")
    listed = ", ".join(map(str, reasons)) if isinstance(reasons, list) else ""
    can_move = str(window.get("can_reschedule", "")).lower() == "true"
    return "".join(
        (
            "a maintenance window of the host is scheduled",
            f" ({listed})" if listed else "",
            "; it can be rescheduled" if can_move else "",
        )
    )


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_LIMIT])
