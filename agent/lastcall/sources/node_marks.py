"""What stands on a Kubernetes node object: its taints, labels, annotations and conditions.

The object is taken as it comes. What cannot be read is left out and said, and hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

OWN_KEYS = "lastcall.dev/"
OWN_CONDITIONS = ("InterruptionNotice", "GPUHealthy")

_MESSAGE_LIMIT = 4096


class Place(StrEnum):
    """Where on the node object a mark stands."""

    TAINT = "taint"
    LABEL = "label"
    ANNOTATION = "annotation"
    CONDITION = "condition"


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that stands on the node object.

    Attributes:
        key: its key; a condition's type.
        value: its value; a condition's message, with single spaces.
        status: a condition's status: ``True``, ``False`` or ``Unknown``; empty elsewhere.
        since: when it was put there or last changed its status, where the object says so.
    """

    place: Place
    key: str
    value: str = ""
    status: str = ""
    since: str = ""

    @property
    def ours(self) -> bool:
        """Whether this program put it there."""
        if self.place is Place.CONDITION:
            return self.key in OWN_CONDITIONS
        return self.key.startswith(OWN_KEYS)


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks at one moment.

    Attributes:
        marks: those that others put there.
        troubles: what could not be read; if there is any, what is absent may stand after all.
    """

    marks: tuple[Mark, ...]
    troubles: tuple[str, ...]


def read_marks(node: object) -> Marks:
    """Return what stands on a decoded node object.

    Raises:
        ValueError: it is no node.
    """
    body = node if isinstance(node, Mapping) else {}
    metadata = body.get("metadata")
    if (
        body.get("kind", "Node") != "Node"
        or not isinstance(metadata, Mapping)
        or not isinstance(metadata.get("name"), str)
    ):
        raise ValueError("no node object with a name")
    troubles: list[str] = []
    marks = [
        *_texts(Place.LABEL, metadata.get("labels"), troubles),
        *_texts(Place.ANNOTATION, metadata.get("annotations"), troubles),
        *_taints(_part(body, "spec", "taints", troubles), troubles),
        *_conditions(_part(body, "status", "conditions", troubles), troubles),
    ]
    return Marks(tuple(mark for mark in marks if not mark.ours), tuple(troubles))


def _part(body: Mapping[str, object], part: str, field: str, troubles: list[str]) -> object:
    whole = body.get(part)
    if isinstance(whole, Mapping):
        return whole.get(field)
    if whole is not None:
        troubles.append(f"the {part} is no object")
    return None


def _texts(place: Place, entries: object, troubles: list[str]) -> Iterator[Mark]:
    if not isinstance(entries, Mapping):
        if entries is not None:
            troubles.append(f"{place}s are no object")
        return
    for key, value in entries.items():
        if isinstance(key, str) and isinstance(value, str):
            yield Mark(place, key, value)
        else:
            troubles.append(f"a {place} is no text")


def _taints(entries: object, troubles: list[str]) -> Iterator[Mark]:
    for entry in _objects("taint", entries, troubles):
        key, value = entry.get("key"), entry.get("value")
        if isinstance(key, str) and isinstance(value, str | None):
            yield Mark(Place.TAINT, key, value or "", since=_text(entry.get("timeAdded")))
        else:
            troubles.append("a taint has no key or an odd value")


def _conditions(entries: object, troubles: list[str]) -> Iterator[Mark]:
    for entry in _objects("condition", entries, troubles):
        key, status = entry.get("type"), entry.get("status")
        if isinstance(key, str) and isinstance(status, str):
            message = " ".join(_text(entry.get("message"))[:_MESSAGE_LIMIT].split())
            since = _text(entry.get("lastTransitionTime"))
            yield Mark(Place.CONDITION, key, message, status, since)
        else:
            troubles.append("a condition has no type or no status")


def _objects(name: str, entries: object, troubles: list[str]) -> Iterator[Mapping[str, object]]:
    if not isinstance(entries, list):
        if entries is not None:
            troubles.append(f"{name}s are no list")
        return
    for entry in entries:
        if isinstance(entry, Mapping):
            yield entry
        else:
            troubles.append(f"a {name} is no object")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
