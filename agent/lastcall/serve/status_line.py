"""The agent's view as one line: what does not fit is left out by the item, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lastcall.wire.codec import encode_object
from lastcall.wire.messages import AGENT_LINE_LIMIT

_SPARE_BYTES = 256
"""Room for the counts of what was left out."""

_GPU_LISTS = ("gpus", "unregistered")
"""Lists that stand under ``gpu`` and can be long as well."""


def status_line(status: Mapping[str, Any], limit_bytes: int = AGENT_LINE_LIMIT) -> bytes:
    """Return the view as a line of at most so many bytes, the newline included.

    Where the whole does not fit, ``left_out`` says how many items of which list are not shown.
    """
    whole = {"type": "status", **status}
    line = encode_object(whole)
    if len(line) <= limit_bytes:
        return line
    lists = {name: items for name, items in whole.items() if isinstance(items, list)}
    rest = {name: value for name, value in whole.items() if name not in lists}
    gpu = rest.get("gpu", {})
    of_gpus = {name: gpu[name] for name in _GPU_LISTS if name in gpu}
    if of_gpus:
        rest["gpu"] = gpu | {name: [] for name in of_gpus}
        lists |= of_gpus
    room = _Room(limit_bytes - len(encode_object(rest)) - _SPARE_BYTES)
    notices = lists.pop("notices", [])
    shown = room.fill("notices", ({**notice, "flushes": []} for notice in notices))
    for bare, notice in zip(shown, notices, strict=False):
        bare["flushes"] = room.fill("flushes", notice.get("flushes", []))
    # The list of clients is the longest, and what matters of them stands in the flushes.
    by_size = sorted(lists, key=lambda name: len(lists[name]))
    filled = {name: room.fill(name, lists[name]) for name in by_size}
    if of_gpus:
        rest["gpu"] |= {name: filled.pop(name) for name in of_gpus}
    return encode_object({**rest, "notices": shown, **filled, "left_out": room.left_out})


class _Room:
    """Takes items for as long as they fit; after the first of a list that does not, none of it."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self.left_out: dict[str, int] = {}

    def fill(self, name: str, items: Iterable[Any]) -> list[Any]:
        taken = []
        for item in items:
            size_bytes = len(encode_object({"": item}))
            if name in self.left_out or size_bytes > self._room_bytes:
                self.left_out[name] = self.left_out.get(name, 0) + 1
            else:
                self._room_bytes -= size_bytes
                taken.append(item)
        return taken
