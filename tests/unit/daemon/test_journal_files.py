"""When the runtime lets the journal begin a new file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lastcall.core.events import CheckpointReported, Event
from lastcall.core.machine import Machine
from lastcall.core.model import Node
from lastcall.core.turn import Settings
from lastcall.daemon.runtime import Runtime
from support.happenings import REBALANCE, SPOT, joined, rebalance, spot


class Record:
    """Counts how often it may begin a new file."""

    def __init__(self) -> None:
        self.chances = 0

    def append(self, event: Event, at: float) -> None:
        """Keep nothing."""

    def rotate_if_large(self, snapshot: Callable[[], Event], at: float) -> None:
        """Count."""
        self.chances += 1


class Anything(dict[Any, Any]):
    """Carries out any command by doing nothing."""

    def __missing__(self, _: object) -> Callable[[object], None]:
        return lambda _: None


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("stands", "chances"),
    [
        pytest.param(REBALANCE.shows(rebalance("now")), 1, id="an advice may stand for weeks"),
        pytest.param(SPOT.shows(spot(ends_at=1e6)), 0, id="while a flush is under way it waits"),
    ],
)
async def test_a_new_file_begins_unless_a_flush_is_under_way(stands: Event, chances: int) -> None:
    record = Record()
    runtime = Runtime(Machine(Settings()), Node(), record)
    runtime.connect(Anything())
    consumer = asyncio.create_task(runtime.run())
    for event in (joined("s0"), stands):
        runtime.post(event)
    await asyncio.sleep(1)
    record.chances = 0

    runtime.post(CheckpointReported(session="s0", step=1))
    await asyncio.sleep(1)

    assert record.chances == chances
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
