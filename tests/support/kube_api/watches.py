"""Watches: one JSON object a line, bookmarks in between, a clean end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from support.kube_api.statuses import expired
from support.kube_api.store import Object, Store

Selects = Callable[[Object], bool]

BOOKMARKS: dict[str, Object] = {
    "pods": {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": None}, "status": {}},
    "nodes": {"kind": "Node", "apiVersion": "v1", "spec": {}, "status": {}},
}


async def watch_lines(
    store: Store,
    resource: str,
    selects: Selects,
    *,
    since: str,
    bookmarks: bool,
    over_seconds: float,
    bookmark_seconds: float,
) -> AsyncIterator[bytes]:
    """Yield the lines of a watch.

    Args:
        store: what is watched.
        resource: ``pods`` or ``nodes``.
        selects: which objects are seen.
        since: a version; empty or ``0`` to be told of all objects first.
        bookmarks: say now and then how far it is.
        over_seconds: after this long it ends.
        bookmark_seconds: how often a bookmark comes.
    """
    loop = asyncio.get_running_loop()
    over_at = loop.time() + over_seconds
    if since in {"", "0"}:
        seen = store.version
        for content in store.all(resource):
            if selects(content):
                yield line("ADDED", content)
    else:
        seen = int(since)
        if seen < store.compacted_version:
            message = f"too old resource version: {seen} ({store.compacted_version})"
            yield line("ERROR", expired(message).body)
            return
    while True:
        for change in [c for c in store.changes if c.version > seen]:
            if change.resource == resource and selects(change.object):
                yield line(change.type, change.object)
        seen = max(seen, store.version)
        left_seconds = over_at - loop.time()
        try:
            async with asyncio.timeout(max(0.0, min(left_seconds, bookmark_seconds))):
                await store.wait_for_change(seen)
        except TimeoutError:
            if bookmarks:
                yield line("BOOKMARK", _bookmark(resource, seen))
            if loop.time() >= over_at:
                return


def line(type_: str, content: Object) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": type_, "object": content}).encode() + b"\n"


def _bookmark(resource: str, version: int) -> Object:
    return {**BOOKMARKS[resource], "metadata": {"resourceVersion": str(version)}}
