"""Events to lines of the journal and back: one JSON object a line, each complete in itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from lastcall.core import events
from lastcall.core.events import Event

VERSION = 1
"""The form of the lines that this version writes; it reads this and no later one."""


def _event_types() -> dict[str, type[Event]]:
    return {
        name: value
        for name, value in vars(events).items()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }


EVENT_TYPES: Mapping[str, type[Event]] = _event_types()
"""Every event, by the name that stands in a line."""

_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as it was recorded.

    Attributes:
        boot: the machine's boot that it happened in.
        at: when, in seconds on that boot's monotonic clock.
        at_unix: the same on the wall clock, which may have been wrong.
    """

    boot: str
    at: float
    at_unix: float
    event: Event


class _Line(msgspec.Struct, frozen=True):
    v: int
    boot: str
    at: float
    at_unix: float
    event: str
    fields: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)


def encode_line(entry: Entry) -> bytes:
    """Return an entry as a line.

    Raises:
        ValueError: a text in it holds half a character.
    """
    return (
        msgspec.json.encode(
            {
                "v": VERSION,
                "boot": entry.boot,
                "at": entry.at,
                "at_unix": entry.at_unix,
                "event": type(entry.event).__name__,
                "fields": entry.event,
            }
        )
        + b"\n"
    )


def decode_line(line: bytes) -> Entry | None:
    """Return the entry of a line; ``None`` where it is broken, foreign or of a later version."""
    try:
        head = _LINE.decode(line)
        if not 1 <= head.v <= VERSION or not math.isfinite(head.at + head.at_unix):
            return None
        decoder = _DECODERS.get(head.event)
        if decoder is None:
            return None
        return Entry(head.boot, head.at, head.at_unix, decoder.decode(head.fields))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_lines(content: bytes) -> tuple[list[Entry], int]:
    """Return the entries of a journal in their order, and how many lines could not be read.

    A line that stands twice is one event: it was written again because the disk had not confirmed
    it the first time.
    """
    entries: list[Entry] = []
    skipped = 0
    seen: set[bytes] = set()
    for line in content.split(b"\n"):
        if not line.strip() or line in seen:
            continue
        seen.add(line)
        entry = decode_line(line)
        if entry is None:
            skipped += 1
        else:
            entries.append(entry)
    return entries, skipped
