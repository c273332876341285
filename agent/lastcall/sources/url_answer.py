"""What an answer's body announces: a time, or a JSON object with the keys of a notice."""

from __future__ import annotations

import re
from datetime import tzinfo

import msgspec

from lastcall.sources.announcement import KEYS, Announcement, read_fields, shown
from lastcall.sources.stated_time import unix_time

_LIKE_A_TIME = re.compile(r"\d[\dTZ:/ .,+-]{5,39}", re.ASCII | re.IGNORECASE)


def read_answer(text: str, zone: tzinfo) -> Announcement:
    """Return what stands at an address.

    Something that can only be a time and cannot be read is a notice all the same, without a time.

    Args:
        text: the answer's body.
        zone: whose time a time is that names no zone.

    Raises:
        ValueError: it is nothing that announces an end, such as the page of a captive portal.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return _from_json(stripped, zone)
    word = stripped.strip("\"'").strip()
    ends_unix = unix_time(word, zone) if _LIKE_A_TIME.fullmatch(word) else None
    if ends_unix is not None:
        return Announcement(ends_unix=ends_unix)
    if _LIKE_A_TIME.fullmatch(word):
        return Announcement(trouble=f"{shown(word)} is no time")
    raise ValueError(f"neither a time nor a notice: {shown(stripped)}" if word else "it is empty")


def _from_json(text: str, zone: tzinfo) -> Announcement:
    try:
        fields = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("it begins as JSON and is none") from None
    if fields.keys().isdisjoint(KEYS):
        raise ValueError(f"none of {', '.join(KEYS)} is in it")
    return read_fields(fields, zone)
