"""What a file or an address announces: the keys of a notice, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import TypeVar

from lastcall.core.model import Action, Kind
from lastcall.sources.stated_time import unix_time

KEYS = ("deadline", "end_time", "lead_seconds", "kind", "action", "instance_status")
"""The keys of which at least one stands in a notice that says anything."""

KINDS = (Kind.PREEMPTION, Kind.TERMINATION, Kind.MAINTENANCE)
"""What a notice may announce by its key ``kind``."""

LONGEST_LEAD_SECONDS = 7 * 86400.0

_WORD_LIMIT = 64
_ID_LIMIT = 128
_REASON_LIMIT = 200

_W = TypeVar("_W", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What was read.

    Attributes:
        kind: ``None`` where it is not named.
        code: the cloud's own word for it.
        identity: names the occurrence; another is another notice.
        ends_unix: when it happens.
        lead_seconds: how long after its appearance it happens, where no time is named.
        trouble: what could not be read; empty where all could.
    """

    kind: Kind | None = None
    action: Action = Action.UNKNOWN
    code: str = ""
    identity: str = ""
    reason: str = ""
    ends_unix: float | None = None
    lead_seconds: float | None = None
    trouble: str = ""


def read_fields(fields: Mapping[str, object], zone: tzinfo = UTC) -> Announcement:
    """Return what the keys of a notice say; those that are not known say nothing.

    Args:
        fields: numbers or texts by key.
        zone: whose time a time is that names no zone.
    """
    troubles: list[str] = []
    ends_unix = _end(fields, zone, troubles)
    lead_seconds = _lead_seconds(fields, troubles)
    if "instance_status" in fields:
        return _mithril(fields, ends_unix, lead_seconds, troubles)
    return Announcement(
        kind=_word(fields, "kind", {kind.value: kind for kind in KINDS}, troubles),
        action=_word(fields, "action", {one.value: one for one in Action}, troubles)
        or Action.UNKNOWN,
        identity=_identity(fields.get("id")),
        reason=one_line(fields.get("reason"), _REASON_LIMIT),
        ends_unix=ends_unix,
        lead_seconds=lead_seconds,
        trouble="; ".join(troubles),
    )


def one_line(value: object, limit: int = _WORD_LIMIT) -> str:
    """Return a text on one line, cut to a length; anything else is empty."""
    if not isinstance(value, str):
        return ""
    printable = "".join(one if one.isprintable() else " " for one in value)
    return " ".join(printable.split())[:limit]


def shown(value: object) -> str:
    """Return a value as it is quoted in what is said about it."""
    return repr(value)[:_WORD_LIMIT]


def _mithril(
    fields: Mapping[str, object],
    ends_unix: float | None,
    lead_seconds: float | None,
    troubles: list[str],
) -> Announcement:
    """Return what Mithril's signal file says.

    It stands for as long as this instance, or another of the same order, is to be stopped or moved,
    and is removed if that is called off. (Mithril documentation, Handling spot interruptions.)
    """
    status, bid = one_line(fields["instance_status"]), one_line(fields.get("bid_status"))
    kind, action, reason = None, Action.UNKNOWN, f"Mithril announces {status or 'no status'}"
    if status == "STATUS_PREEMPTING":
        kind, action = Kind.PREEMPTION, Action.STOP
        reason = "Mithril stops this instance: its spot bid was outbid"
    elif status == "STATUS_RELOCATING":
        kind, action = Kind.MAINTENANCE, Action.REDEPLOY
        reason = "Mithril stops this instance and starts it elsewhere"
    elif "relocating" in bid.lower():
        return Announcement(
            kind=Kind.REBALANCE,
            action=Action.NONE,
            code=bid,
            reason="Mithril moves another instance of this order",
            trouble="; ".join(troubles),
        )
    else:
        troubles.append(f"instance_status {shown(status)} is not known")
    return Announcement(
        kind=kind,
        action=action,
        code=status,
        reason=reason,
        ends_unix=ends_unix,
        lead_seconds=lead_seconds,
        trouble="; ".join(troubles),
    )


def _end(fields: Mapping[str, object], zone: tzinfo, troubles: list[str]) -> float | None:
    for name in ("deadline", "end_time"):
        if name not in fields:
            continue
        unix = unix_time(fields[name], zone)
        if unix is not None:
            return unix
        troubles.append(f"{name} {shown(fields[name])} is no time")
    return None


def _lead_seconds(fields: Mapping[str, object], troubles: list[str]) -> float | None:
    value = fields.get("lead_seconds")
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, str | int | float) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if isinstance(value, bool) or not 0 <= seconds <= LONGEST_LEAD_SECONDS:
        troubles.append(f"lead_seconds {shown(value)} is no number of seconds")
        return None
    return seconds


def _word(
    fields: Mapping[str, object], name: str, known: Mapping[str, _W], troubles: list[str]
) -> _W | None:
    if name not in fields:
        return None
    word = known.get(one_line(fields[name]).lower())
    if word is None:
        troubles.append(f"{name} {shown(fields[name])} is none of {', '.join(known)}")
    return word


def _identity(value: object) -> str:
    """Return a name for the occurrence; what cannot name one in a journal names none."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if len(text) <= _ID_LIMIT and text.isascii() and text.isprintable() else ""
