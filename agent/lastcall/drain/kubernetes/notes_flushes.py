"""Flushes that are over, gathered so that sixty-four ranks make one event and not sixty-four."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from lastcall.core.facts import FlushSettled
from lastcall.drain.kubernetes.events import ObjectRef

Release = Callable[[ObjectRef, str, list[FlushSettled]], None]
"""Takes the node or the pod, the reason and the flushes of one event."""

_Key = tuple[str, str, str, str, str]


@dataclass(slots=True)
class _Batch:
    """The flushes of one event to be."""

    about: ObjectRef
    reason: str
    timer: asyncio.TimerHandle
    facts: list[FlushSettled] = field(default_factory=list)


class FlushGathering:
    """Gathers flushes by notice, object and reason. Belongs to the running loop.

    Args:
        release: takes what has been gathered, when it is time.
    """

    def __init__(self, release: Release) -> None:
        self._release_to = release
        self._batches: dict[_Key, _Batch] = {}

    def add(self, about: ObjectRef, reason: str, fact: FlushSettled, due: float) -> None:
        """Gather a flush; the first of a batch says when that is due, on the loop's clock."""
        key = (fact.notice.id, reason, about.kind, about.namespace, about.name)
        if key not in self._batches:
            timer = asyncio.get_running_loop().call_at(due, self._release, key)
            self._batches[key] = _Batch(about, reason, timer)
        self._batches[key].facts.append(fact)

    def hasten(self, notice_id: str, due: float) -> None:
        """Let what is gathered for a notice be due at a moment, unless it is due before."""
        loop = asyncio.get_running_loop()
        for key, batch in self._batches.items():
            if key[0] == notice_id and batch.timer.when() > due:
                batch.timer.cancel()
                batch.timer = loop.call_at(due, self._release, key)

    def release(self, notice_id: str | None = None) -> None:
        """Release at once what is gathered for a notice, or for all of them."""
        for key in [key for key in self._batches if notice_id in {None, key[0]}]:
            self._release(key)

    def _release(self, key: _Key) -> None:
        batch = self._batches.pop(key)
        batch.timer.cancel()
        self._release_to(batch.about, batch.reason, batch.facts)
