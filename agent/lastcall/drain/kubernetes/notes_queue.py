"""The events that wait to be written: so many at most, the most important first."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from lastcall.drain.kubernetes.events import EventText, ObjectRef


class Importance(IntEnum):
    """What is written first, and dropped last."""

    POD_MOVED = 0
    POD_FLUSHED = 1
    NODE = 2


@dataclass(frozen=True, slots=True)
class Note:
    """An event that is to be written.

    Attributes:
        about: the node or the pod.
        text: what is said.
        importance: see :class:`Importance`.
    """

    about: ObjectRef
    text: EventText
    importance: Importance


class NoteQueue:
    """Holds notes until somebody takes them; within one importance the oldest comes first.

    Args:
        limit: how many are held. Beyond it the oldest of the least important goes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[Importance, deque[Note]] = {
            importance: deque() for importance in sorted(Importance, reverse=True)
        }
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return sum(len(notes) for notes in self._waiting.values())

    def put(self, note: Note) -> Note | None:
        """Take a note in, and return the one that is dropped for it."""
        self._waiting[note.importance].append(note)
        self._filled.set()
        return self._drop() if len(self) > self._limit else None

    def pop(self) -> Note | None:
        """Hand out the next note; ``None`` where none waits."""
        for notes in self._waiting.values():
            if notes:
                return notes.popleft()
        return None

    async def filled(self) -> None:
        """Return once a note waits."""
        while not len(self):
            self._filled.clear()
            await self._filled.wait()

    def clear(self) -> None:
        """Drop all that waits."""
        for notes in self._waiting.values():
            notes.clear()

    def _drop(self) -> Note:
        least = next(notes for notes in reversed(self._waiting.values()) if notes)
        return least.popleft()
