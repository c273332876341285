"""What the fake API server remembers: objects, their versions, and every change for watches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Resource, namespace (empty for none), name."""


@dataclass(frozen=True)
class Change:
    """One line of a watch to come."""

    version: int
    type: str
    resource: str
    object: Object


class Store:
    """Objects under one counter of versions."""

    def __init__(self) -> None:
        self.version = 200
        self.compacted_version = 0
        self.changes: list[Change] = []
        self._objects: dict[Key, Object] = {}
        self._changed = asyncio.Event()

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """Return a copy; what is written goes through :meth:`put`."""
        return copy.deepcopy(self._objects.get((resource, namespace, name)))

    def all(self, resource: str) -> Iterator[Object]:
        """Yield copies, by namespace and name."""
        for key in sorted(self._objects):
            if key[0] == resource:
                yield copy.deepcopy(self._objects[key])

    def put(self, resource: str, new: Object) -> Object:
        """Create or replace an object and return it; what changes nothing keeps its version."""
        metadata = new["metadata"]
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        old = self._objects.get(key)
        if old is not None and _without_version(old) == _without_version(new):
            return copy.deepcopy(old)
        self._write(resource, "ADDED" if old is None else "MODIFIED", new)
        self._objects[key] = copy.deepcopy(new)
        return new

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Remove an object, if it is still there."""
        old = self._objects.pop((resource, namespace, name), None)
        if old is not None:
            self._write(resource, "DELETED", old)

    def compact(self) -> None:
        """Forget the past: watches and continuations that start there are too old."""
        self.version += 1
        self.compacted_version = self.version
        self.changes.clear()

    async def wait_for_change(self, version: int) -> None:
        """Return when something has changed since a version."""
        while self.version <= version:
            await self._changed.wait()

    def _write(self, resource: str, type_: str, written: Object) -> None:
        self.version += 1
        written["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append(Change(self.version, type_, resource, copy.deepcopy(written)))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _without_version(content: Object) -> Object:
    return {
        **content,
        "metadata": {k: v for k, v in content["metadata"].items() if k != "resourceVersion"},
    }
