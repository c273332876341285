"""One queue brings the events, one consumer handles them and has the commands carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from lastcall.core.commands import Command
from lastcall.core.events import Event, Restored, Tick
from lastcall.core.machine import Machine
from lastcall.core.model import Node, Stance

Executor = Callable[[Any], object]
"""Carries out one type of command: at once, or by starting a task of its own."""

EVENTS_PER_ROUND = 64
"""Events handled before the loop goes on to whatever else is due."""


class Record(Protocol):
    """Where events are kept for a restart."""

    def append(self, event: Event, at: float) -> None:
        """Keep an event; never blocks, never raises."""
        ...

    def rotate_if_large(self, snapshot: Callable[[], Event], at: float) -> None:
        """Begin a new file with all that is known, where the old one has grown large."""
        ...


class Runtime:
    """Holds the node's state; the only place that calls the machine."""

    def __init__(self, machine: Machine, node: Node, record: Record) -> None:
        self.node = node
        self._machine = machine
        self._record = record
        self._executors: Mapping[type[Command], Executor] = {}
        self._queue: asyncio.Queue[tuple[Event, float]] = asyncio.Queue()
        self._timer: asyncio.TimerHandle | None = None
        self._due_at: float | None = None
        self._handled_at: float | None = None
        self._log = structlog.get_logger()

    def connect(self, executors: Mapping[type[Command], Executor]) -> None:
        """Say who carries out which command, before ``run``."""
        self._executors = executors

    def post(self, event: Event) -> None:
        """Queue an event, stamped once with the moment it came; never blocks, never raises."""
        self._queue.put_nowait((event, asyncio.get_running_loop().time()))

    @property
    def stuck_seconds(self) -> float:
        """For how long the oldest waiting event has not been handled."""
        if self._queue.empty() or self._handled_at is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._handled_at

    @property
    def handled_at(self) -> float | None:
        """When an event was last handled, in loop time."""
        return self._handled_at

    async def run(self) -> None:
        """Handle events until cancelled."""
        try:
            while True:
                self._take(*await self._queue.get())
                for _ in range(min(self._queue.qsize(), EVENTS_PER_ROUND)):
                    self._take(*self._queue.get_nowait())
                # A queue that is never empty must not keep the sockets and timers waiting.
                await asyncio.sleep(0)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _take(self, event: Event, at: float) -> None:
        """Handle an event, and before it whatever fell due before it came.

        The journal then holds each step as what it was, and a replay decides the same.
        """
        while self._due_at is not None and self._due_at <= at:
            self._handle(Tick(), self._due_at)
        self._handle(event, at)

    def _handle(self, event: Event, at: float) -> None:
        before, self._due_at = self.node, None
        try:
            self.node, commands = self._machine.handle(before, event, at)
        except Exception:  # noqa: BLE001 — see below
            # A fault of ours in one event must not keep the next notice from the clients.
            self._log.exception("event_not_handled", type=type(event).__name__)
            return
        for command in commands:
            self._execute(command)
        if event.journaled and self.node is not before:
            self._record.append(event, at)
            if all(notice.stance is not Stance.FLUSH for notice in self.node.open_notices):
                self._record.rotate_if_large(lambda: Restored(self.node), at)
        self._handled_at = asyncio.get_running_loop().time()
        self._set_timer(at)

    def _execute(self, command: Command) -> None:
        try:
            self._executors[type(command)](command)
        except Exception:  # noqa: BLE001 — see below
            # One adapter's fault must not keep the others from theirs.
            self._log.exception("command_not_executed", type=type(command).__name__)

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_at = self._machine.wake_at(self.node, now)
        if self._due_at is not None:
            loop = asyncio.get_running_loop()
            # The loop may call a little early by its clock's resolution: that tick does nothing,
            # and the timer is set again.
            self._timer = loop.call_at(self._due_at, self.post, Tick())
