"""What the documents of Azure's metadata service say: the scheduled events, the machine itself.

Fields are as in Microsoft's documentation, Azure Virtual Machines: Scheduled Events for Linux, and
Azure Instance Metadata Service. One broken entry, or one broken field of an entry, never hides the
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from lastcall.core.model import Action, Kind

STARTED = "Started"

_MEANINGS = {
    "Preempt": (Kind.PREEMPTION, Action.TERMINATE),
    "Terminate": (Kind.TERMINATION, Action.TERMINATE),
    "Reboot": (Kind.MAINTENANCE, Action.REBOOT),
    "Redeploy": (Kind.MAINTENANCE, Action.REDEPLOY),
    "Freeze": (Kind.MAINTENANCE, Action.FREEZE),
}
"""In the order of their urgency."""

# A type that came after this was written is shown and never acted upon.
_UNKNOWN = (Kind.MAINTENANCE, Action.NONE)

_FACTS = {
    "name": "instance_name",
    "vmId": "instance_id",
    "vmSize": "instance_type",
    "vmScaleSetName": "scale_set",
    "location": "region",
    "zone": "zone",
}

_LIFECYCLES = {"Spot": "spot", "Low": "spot", "Regular": "on-demand"}

_SHOWN_LIMIT = 60


class _Body(msgspec.Struct, frozen=True, rename="pascal"):
    """A document as it is sent. Its incarnation is left aside: the entries say what stands."""

    events: list[Any]


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    """An entry as it is sent; only what no event can be without is strict."""

    event_id: str
    event_type: str
    resources: list[str]
    event_status: Any = ""
    not_before: Any = None
    description: Any = ""
    event_source: Any = ""


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """One event, of this machine or of its neighbours.

    Attributes:
        resources: the machines that it befalls.
        not_before_unix: the earliest moment of it; ``None`` where none is stated or readable.
        started: it is already under way.
        reason: what the platform says of it.
    """

    id: str
    type: str
    resources: tuple[str, ...]
    not_before_unix: float | None
    started: bool
    reason: str

    @property
    def kind(self) -> Kind:
        """What is about to happen."""
        return _MEANINGS.get(self.type, _UNKNOWN)[0]

    @property
    def action(self) -> Action:
        """What it does to the machine."""
        return _MEANINGS.get(self.type, _UNKNOWN)[1]

    @property
    def ends_work(self) -> bool:
        """Whether what runs on the machine does not survive it."""
        return self.action not in (Action.FREEZE, Action.NONE)

    def befalls(self, machine: str) -> bool:
        """Whether a machine is among its resources; case does not count."""
        return machine.casefold() in (resource.casefold() for resource in self.resources)

    @property
    def shared(self) -> bool:
        """Whether it befalls more machines than one."""
        return len({resource.casefold() for resource in self.resources}) != 1


@dataclass(frozen=True, slots=True)
class Document:
    """All events at one moment.

    Attributes:
        events: the most urgent first, else as they came.
        troubles: what could not be read.
        whole: every entry was readable, so that what is absent is gone.
    """

    events: tuple[ScheduledEvent, ...]
    troubles: tuple[str, ...]
    whole: bool


def read_document(body: object) -> Document:
    """Return what a decoded document says.

    Raises:
        ValueError: it is no such document.
    """
    try:
        entries = msgspec.convert(body, _Body).events
    except msgspec.ValidationError as error:
        raise ValueError(f"no document of scheduled events: {error}") from None
    events: list[ScheduledEvent] = []
    troubles: list[str] = []
    whole = True
    for raw in entries:
        try:
            entry = msgspec.convert(raw, _Entry)
        except msgspec.ValidationError as error:
            troubles.append(f"event left out: {error}")
            whole = False
            continue
        not_before_unix, trouble = _not_before(entry.not_before)
        if trouble:
            troubles.append(f"event {_shown(entry.event_id)}: {trouble}")
        events.append(
            ScheduledEvent(
                id=entry.event_id,
                type=entry.event_type,
                resources=tuple(entry.resources),
                not_before_unix=not_before_unix,
                started=entry.event_status == STARTED,
                reason=_reason(entry),
            )
        )
    urgency = list(_MEANINGS)
    events.sort(key=lambda event: urgency.index(event.type) if event.type in urgency else 99)
    return Document(tuple(events), tuple(troubles), whole)


def read_machine(body: object) -> dict[str, str]:
    """Return what the decoded document on this machine says of it.

    Its name is the one that stands among an event's resources. The host's name (``computerName``)
    is another one: in a scale set ``p_10`` has the host name ``p00000a``.

    Raises:
        ValueError: it names no machine.
    """
    compute = body if isinstance(body, dict) else {}
    # All values are texts, and an empty one stands for none.
    facts = {fact: compute.get(field) for field, fact in _FACTS.items()}
    known = {fact: value for fact, value in facts.items() if value and isinstance(value, str)}
    if "instance_name" not in known:
        raise ValueError("no machine with a name")
    lifecycle = _LIFECYCLES.get(str(compute.get("priority")))
    return known | ({"lifecycle": lifecycle} if lifecycle else {})


def _not_before(value: object) -> tuple[float | None, str]:
    """Return the time in Unix seconds, and what is wrong with it.

    The service sends RFC 1123 and, once the event has started, an empty text; Microsoft's mock
    server sends ISO 8601.
    """
    if value is None or value == "":
        return None, ""
    text = str(value)
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return zoned.timestamp(), ""
        except (ValueError, OverflowError):
            continue
    return None, f"no time: NotBefore {_shown(text)}"


def _reason(entry: _Entry) -> str:
    described = entry.description if isinstance(entry.description, str) else ""
    asked_by_user = entry.event_source == "User"
    by = "a user asked for it" if asked_by_user else "Azure announced it"
    return described or f"{entry.event_type}: {by}"


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_LIMIT]
