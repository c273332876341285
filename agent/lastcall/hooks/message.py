"""What a program is told of a notice: once in its environment, once as JSON on standard input."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lastcall.core.deadlines import left
from lastcall.core.views import NoticeView

PREFIX = "LASTCALL_"

TEXT_CHARACTERS = 1024
"""What a program is told of a text from outside; an environment has room for so much only."""

Value = str | float | int | bool | None
Fields = dict[str, Value | Mapping[str, int]]


def fields_of(hook: str, notice: NoticeView, *, node_name: str, now: float, wall: float) -> Fields:
    """Return what is told of a notice, whatever has happened to it.

    Args:
        hook: such as ``on_notice``.
        notice: as it stands.
        node_name: the node's.
        now: on the monotonic clock, seconds.
        wall: Unix seconds.
    """
    deadline_unix, remaining_seconds = notice.deadline_unix, None
    if notice.deadline is not None:
        remaining_seconds = round(left(notice.deadline, now), 3)
        if deadline_unix is None:
            deadline_unix = round(wall + notice.deadline - now, 3)
    return {
        "event": hook,
        "notice_id": notice.id,
        "kind": notice.kind.value,
        "source": notice.source,
        "action": notice.action.value,
        "urgency": notice.urgency.value,
        "drill": notice.drill,
        "drain": notice.drains,
        "deadline_unix": deadline_unix,
        "deadline_quality": notice.deadline_quality.value,
        "remaining_seconds": remaining_seconds,
        "node": node_name,
        "reason": plain(notice.reason),
    }


def plain(text: str) -> str:
    """Return a text from outside that any environment can hold, on one line."""
    short = text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…"
    return "".join(letter if letter.isprintable() else " " for letter in short)


def as_variables(fields: Fields) -> dict[str, str]:
    """Return the fields as environment variables; what is not known is an empty one."""
    variables = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            for part, number in value.items():
                variables[f"{PREFIX}{name}_{part}".upper()] = str(number)
        else:
            variables[f"{PREFIX}{name}".upper()] = _text(value)
    return variables


def as_json(fields: Fields) -> bytes:
    """Return the fields as one JSON object on one line."""
    return json.dumps(fields).encode() + b"\n"


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
