"""Answers to clients wait for the disk, keep their order, and outlive one that fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from lastcall.core.commands import Confirm
from lastcall.daemon.executors import Executors


class Doors:
    """A socket that notes what it answers, and a disk that is done when it is told so."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.written = asyncio.Event()
        parts: Any = SimpleNamespace(
            tell=None,
            call_off=None,
            greet=None,
            refuse=None,
            advise=None,
            watch_process=None,
            confirm=self.confirm,
        )
        disk: Any = SimpleNamespace(durable=self.durable)
        nothing: Any = None
        self.executors = Executors(
            socket=parts, drain=nothing, watch=nothing, journal=disk, metrics=nothing, post=print
        )
        self.say = self.executors.table()[Confirm]

    def confirm(self, command: Confirm) -> None:
        if command.re == "fault":
            raise RuntimeError(command.re)
        self.answered.append(command.re)

    async def durable(self, _seconds: float) -> bool:
        await self.written.wait()
        return True


async def test_answers_wait_for_the_disk_and_keep_their_order() -> None:
    doors = Doors()
    doors.say(Confirm("s", "flushed"))
    await asyncio.sleep(0)
    doors.say(Confirm("s", "failed"))
    await asyncio.sleep(0)
    assert doors.answered == []

    doors.written.set()
    await asyncio.sleep(0.01)

    assert doors.answered == ["flushed", "failed"]


async def test_an_answer_that_cannot_be_given_does_not_hold_up_the_next() -> None:
    doors = Doors()
    doors.written.set()
    doors.say(Confirm("s", "fault"))
    await asyncio.sleep(0.01)

    doors.say(Confirm("s", "flushed"))
    await asyncio.sleep(0.01)

    assert doors.answered == ["flushed"]
