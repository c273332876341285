"""The queue of events: what comes first, and what goes when it is full."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.drain.kubernetes.events import EventText
from lastcall.drain.kubernetes.notes_queue import Importance, Note, NoteQueue
from support.kube_notes import NODE


def note(name, importance=Importance.POD_MOVED):
    text = EventText(name, "R", "m", "A", is_warning=False, at_unix=0.0, instance="i")
    return Note(NODE, text, importance)


def names(queue):
    taken = []
    while (one := queue.pop()) is not None:
        taken.append(one.text.name)
    return taken


def test_the_most_important_comes_first_and_of_those_the_oldest():
    queue = NoteQueue(limit=9)
    queue.put(note("moved-1"))
    queue.put(note("flushed", Importance.POD_FLUSHED))
    queue.put(note("node-1", Importance.NODE))
    queue.put(note("moved-2"))
    queue.put(note("node-2", Importance.NODE))

    assert names(queue) == ["node-1", "node-2", "flushed", "moved-1", "moved-2"]


def test_a_full_queue_drops_the_oldest_of_the_least_important():
    queue = NoteQueue(limit=3)
    kept = [note("node", Importance.NODE), note("moved-1"), note("moved-2")]

    assert [queue.put(one) for one in kept] == [None, None, None]
    assert queue.put(note("flushed", Importance.POD_FLUSHED)) == kept[1]
    assert len(queue) == 3
    assert names(queue) == ["node", "flushed", "moved-2"]


def test_a_queue_full_of_more_important_ones_drops_the_new_one():
    queue = NoteQueue(limit=1)
    queue.put(note("node", Importance.NODE))

    assert queue.put(note("moved")) == note("moved")
    assert names(queue) == ["node"]


@pytest.mark.looptime
async def test_all_who_wait_are_told_when_a_note_is_there():
    queue = NoteQueue(limit=2)
    waiting = [asyncio.create_task(queue.filled()) for _ in range(2)]
    await asyncio.sleep(1.0)
    assert not any(one.done() for one in waiting)

    queue.put(note("a"))

    await asyncio.gather(*waiting)
    assert names(queue) == ["a"]


@pytest.mark.looptime
async def test_after_all_was_dropped_whoever_waits_waits_on():
    queue = NoteQueue(limit=2)
    queue.put(note("a"))
    queue.clear()
    waiting = asyncio.create_task(queue.filled())
    await asyncio.sleep(1.0)

    assert not waiting.done()
    queue.put(note("b"))
    await waiting
