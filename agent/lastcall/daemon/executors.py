"""Carries out the machine's commands: at once what is quick, in a task of its own what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from lastcall.core.commands import (
    Acknowledge,
    Advise,
    CallOff,
    Command,
    Confirm,
    Cordon,
    Drain,
    Greet,
    Mark,
    Publish,
    Refuse,
    StopDrain,
    Tell,
    Uncordon,
    WatchGpus,
    WatchProcess,
)
from lastcall.core.events import CordonEnded, Event, UncordonEnded
from lastcall.daemon.log import log_fact
from lastcall.daemon.runtime import Executor
from lastcall.daemon.watch import Watch
from lastcall.drain.base import Attempt, DrainBackend
from lastcall.gpu.watch import GpuWatcher
from lastcall.hooks.dispatch import Hooks
from lastcall.record.journal import Journal
from lastcall.record.metrics import Metrics
from lastcall.serve.socket import AgentSocket

CONFIRM_SECONDS = 0.25
"""How long an answer to a client waits for the disk."""

ACKNOWLEDGE_SECONDS = 1.0
"""How long a word to the provider waits for the disk: it cannot be taken back."""

GIVE_BACK_SECONDS = 1.0
"""How long the lifting of our cordon waits for the disk: new work comes at once."""


class Executors:
    """One executor for each type of command."""

    def __init__(
        self,
        *,
        socket: AgentSocket,
        drain: DrainBackend,
        hooks: Hooks,
        watch: Watch,
        gpus: GpuWatcher,
        journal: Journal,
        metrics: Metrics,
        post: Callable[[Event], None],
    ) -> None:
        self._socket = socket
        self._drain = drain
        self._hooks = hooks
        self._watch = watch
        self._gpus = gpus
        self._journal = journal
        self._metrics = metrics
        self._post = post
        self._unconfirmed: list[Confirm] = []
        self._confirming: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    def table(self) -> Mapping[type[Command], Executor]:
        """Return who carries out which command."""
        return {
            Tell: self._socket.tell,
            CallOff: self._socket.call_off,
            Greet: self._socket.greet,
            Refuse: self._socket.refuse,
            Advise: self._socket.advise,
            WatchProcess: self._socket.watch_process,
            WatchGpus: self._gpus.order,
            Publish: self._publish,
            Confirm: self._confirm,
            Cordon: lambda command: self._spawn(self._cordon(command)),
            Uncordon: lambda command: self._spawn(self._uncordon(command)),
            Drain: self._drain.drain,
            Mark: self._drain.mark,
            StopDrain: lambda command: self._drain.stop(command.id),
            Acknowledge: lambda command: self._spawn(self._acknowledge(command)),
        }

    @property
    def working(self) -> bool:
        """Whether something is being carried out that takes its time."""
        return bool(self._tasks) or self._hooks.working

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _publish(self, command: Publish) -> None:
        self._metrics.record(command.fact)
        log_fact(self._log, command.fact)
        self._drain.note(command.fact)
        self._hooks.note(command.fact)
        self._gpus.note(command.fact)

    def _confirm(self, command: Confirm) -> None:
        self._unconfirmed.append(command)
        if self._confirming is None or self._confirming.done():
            self._confirming = self._spawn(self._confirm_all())

    async def _confirm_all(self) -> None:
        """Answer in the order in which it was said, once all of it is on record and may end."""
        while self._unconfirmed:
            said, self._unconfirmed = self._unconfirmed, []
            await self._journal.durable(CONFIRM_SECONDS)
            for notice_id in {command.id for command in said if command.id}:
                await self._await_marks(notice_id)
            for command in said:
                self._socket.confirm(command)

    async def _await_marks(self, notice_id: str) -> None:
        """Wait until processes may end: whoever hears that all is well may end its own at once."""
        try:
            await self._drain.marked(notice_id)
        except Exception:  # noqa: BLE001 - a backend's fault must not keep a client from its answer
            self._log.exception("marks_not_awaited", notice_id=notice_id)

    async def _cordon(self, command: Cordon) -> None:
        try:
            attempt = await self._drain.cordon(command.notice)
        except Exception:  # noqa: BLE001 - unanswered, it would never be tried again
            self._log.exception("cordon_failed", notice_id=command.notice.id)
            attempt = Attempt(done=False, detail="a fault of the agent's own; see the log")
        if attempt is not None:
            self._post(
                CordonEnded(command.notice.id, attempt.done, attempt.detail, attempt.foreign)
            )

    async def _uncordon(self, command: Uncordon) -> None:
        if not await self._journal.durable(GIVE_BACK_SECONDS):
            self._log.warning("given_back_without_record", notice_id=command.id)
        try:
            attempt = await self._drain.uncordon(command.id)
        except Exception:  # noqa: BLE001 - unanswered, it would never be tried again
            self._log.exception("uncordon_failed", notice_id=command.id)
            attempt = Attempt(done=False, detail="a fault of the agent's own; see the log")
        if attempt is not None:
            self._post(UncordonEnded(command.id, attempt.done, attempt.detail))

    async def _acknowledge(self, command: Acknowledge) -> None:
        # The site's own programs are part of the drain: the machine may go with this word.
        await self._hooks.idle()
        if not await self._journal.durable(ACKNOWLEDGE_SECONDS):
            self._log.warning("acknowledged_without_record", notice_id=command.id)
        await self._watch.acknowledge(command.id, command.source, command.key)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("command_failed", exc_info=error)
