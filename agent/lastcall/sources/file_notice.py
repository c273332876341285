"""What the content of a notice file says: JSON, flat YAML, a time alone, or nothing at all."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from lastcall.sources.announcement import Announcement, read_fields
from lastcall.sources.flat_yaml import read_flat_yaml
from lastcall.sources.stated_time import unix_time


def read_content(content: bytes) -> Announcement:
    """Return what a file says; that it is there is a notice whatever it holds.

    A content that cannot be read is an announcement of nothing but its trouble.
    """
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        return Announcement(trouble="the content is no UTF-8 text")
    if not text:
        return Announcement()
    if text.startswith("{"):
        return _from_json(text)
    ends_unix = unix_time(text.strip("\"'"))
    return _from_yaml(text) if ends_unix is None else Announcement(ends_unix=ends_unix)


def _from_json(text: str) -> Announcement:
    try:
        return read_fields(msgspec.json.decode(text, type=dict[str, object]))
    except (msgspec.DecodeError, RecursionError):
        return Announcement(trouble="the content begins as JSON and is none")


def _from_yaml(text: str) -> Announcement:
    fields, unread = read_flat_yaml(text)
    read = read_fields(fields)
    return replace(read, trouble="; ".join(filter(None, (read.trouble, unread))))
