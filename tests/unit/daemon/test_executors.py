"""Answers to clients wait for the disk, keep their order, and outlive one that fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from lastcall.core.commands import Acknowledge, Confirm, Cordon
from lastcall.core.events import CordonEnded, Event
from lastcall.daemon.executors import Executors


class Doors:
    """A socket that notes what it answers, and a disk that is done when it is told so."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.waited_for: list[str] = []
        self.acknowledged: list[str] = []
        self.idling = asyncio.Event()
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
        scheduler: Any = SimpleNamespace(
            drain=None, mark=None, marked=self.marked, cordon=self.cordon
        )
        programs: Any = SimpleNamespace(idle=self.idle, working=False)
        sources: Any = SimpleNamespace(acknowledge=self.acknowledge)
        gpus: Any = SimpleNamespace(order=None)
        nothing: Any = None
        self.posted: list[Event] = []
        self.executors = Executors(
            socket=parts,
            drain=scheduler,
            hooks=programs,
            watch=sources,
            gpus=gpus,
            journal=disk,
            metrics=nothing,
            post=self.posted.append,
        )
        self.say = self.executors.table()[Confirm]

    async def marked(self, notice_id: str) -> None:
        self.waited_for.append(notice_id)
        if notice_id == "fault":
            raise RuntimeError(notice_id)

    async def cordon(self, _notice: object) -> None:
        raise RuntimeError("a fault of ours")

    async def idle(self) -> None:
        await self.idling.wait()

    async def acknowledge(self, notice_id: str, _source: str, _key: str) -> None:
        self.acknowledged.append(notice_id)

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


async def test_who_hears_that_all_is_well_may_end_and_that_waits_for_the_scheduler() -> None:
    doors = Doors()
    doors.written.set()

    doors.say(Confirm("s", "flushed", "n1"))
    doors.say(Confirm("s", "checkpoint"))
    await asyncio.sleep(0.01)

    assert doors.waited_for == ["n1"]
    assert doors.answered == ["flushed", "checkpoint"]


async def test_a_fault_of_the_scheduler_keeps_nobody_from_an_answer() -> None:
    doors = Doors()
    doors.written.set()

    doors.say(Confirm("s", "flushed", "fault"))
    await asyncio.sleep(0.01)

    assert doors.answered == ["flushed"]


async def test_a_cordon_that_ends_by_a_fault_of_ours_is_answered_so_that_it_is_tried_again() -> (
    None
):
    doors = Doors()
    notice: Any = SimpleNamespace(id="n1")

    doors.executors.table()[Cordon](Cordon(notice))
    await asyncio.sleep(0.01)

    (answer,) = doors.posted
    assert isinstance(answer, CordonEnded)
    assert (answer.id, answer.cordoned) == ("n1", False)


async def test_the_machine_may_go_only_once_the_sites_own_programs_have_ended() -> None:
    doors = Doors()
    doors.written.set()
    doors.executors.table()[Acknowledge](Acknowledge("n1", "shutdown", "shutdown"))
    await asyncio.sleep(0.01)
    assert doors.acknowledged == []

    doors.idling.set()
    await asyncio.sleep(0.01)

    assert doors.acknowledged == ["n1"]
