"""The own node in Slurm: drained for a notice, given back, and watched for what others do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lastcall.core.events import BackendChecked
from lastcall.core.views import NoticeView
from lastcall.drain.base import Attempt, Post
from lastcall.drain.slurm.belief import Belief
from lastcall.drain.slurm.calls import SlurmCalls, SlurmError, UnknownNodeError
from lastcall.drain.slurm.name import NodeName
from lastcall.drain.slurm.reason import is_kept_by_others, notice_of, reason_for

LEAST_CALL_SECONDS = 0.25
"""However little time is left, a call has this much."""

BEGIN_SECONDS = 0.25
"""How long it is waited for that a cordon is begun."""

_TRIES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the node is looked at.

    Attributes:
        kept_seconds: while our drain stands, or the controller does not answer.
        idle_seconds: otherwise; the controller serves many nodes.
    """

    kept_seconds: float = 10.0
    idle_seconds: float = 120.0


class SlurmNode:
    """Keeps one node of a cluster. Nothing is raised.

    Args:
        calls: how Slurm is told and asked.
        name: what the node is called there.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        pace: how often it is looked at.
    """

    def __init__(
        self,
        *,
        calls: SlurmCalls,
        name: NodeName,
        post: Post,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self._calls = calls
        self._name = name
        self._post = post
        self._monotonic = monotonic
        self._wall = wall
        self._pace = pace or Pace()
        self._belief = Belief()
        self._tries: dict[str, _Try] = {}
        self._in_flight = 0
        self._changes = 0
        self._woken = asyncio.Event()
        self._up: bool | None = None
        self._trouble = ""

    async def run(self) -> None:
        """Look at the node again and again, until cancelled."""
        while True:
            self._woken.clear()
            await self.look()
            is_kept = self._belief.notice_id is not None or not self._up
            seconds = self._pace.kept_seconds if is_kept else self._pace.idle_seconds
            with suppress(TimeoutError):
                # The nodes of a cluster start together, and are not to ask together ever after.
                async with asyncio.timeout(seconds * random.uniform(0.9, 1)):  # noqa: S311 — spreads load
                    await self._woken.wait()

    async def look(self) -> None:
        """Hold what is believed against the node; not while it is being changed."""
        changes = self._changes
        try:
            state = await self._calls.node(await self._name.get())
        except SlurmError as error:
            self._answered(error)
            return
        self._answered(None)
        is_old = self._in_flight or changes != self._changes
        event = None if is_old else self._belief.judge(state)
        if event is not None:
            self._post(event)

    async def cordon(self, notice: NoticeView) -> Attempt:
        """Drain the node and say for what, unless somebody else keeps jobs off it.

        Jobs that run there run on. Each call takes a quarter of the time that is left at most.

        Args:
            notice: what it is done for.
        """
        one = self._try_for(notice.id)
        one.begun.set()
        try:
            return await self._attempt(self._cordon(notice))
        finally:
            one.ended.set()

    async def uncordon(self, notice_id: str) -> Attempt:
        """Give the node back, if the drain is still ours and made for this notice.

        Done is also what leaves nothing of ours to lift.

        Args:
            notice_id: what it was made for.
        """
        return await self._attempt(self._uncordon(notice_id))

    async def tried(self, notice_id: str) -> None:
        """Return once the first attempt to cordon the node for a notice is over.

        It is not waited for where the node is drained already or no attempt begins.

        Args:
            notice_id: the notice.
        """
        if self._belief.notice_id is not None:
            return
        one = self._try_for(notice_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await one.begun.wait()
        if one.begun.is_set():
            await one.ended.wait()

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of the node and of the controller, ready for JSON."""
        api = {None: "unknown", True: "up", False: "down"}[self._up]
        return {"api": api, "detail": self._trouble, "node": self._name.known}

    async def _attempt(self, work: Awaitable[Attempt]) -> Attempt:
        self._in_flight += 1
        try:
            return await work
        except SlurmError as error:
            return Attempt(done=False, detail=str(error))
        finally:
            self._in_flight -= 1
            self._changes += 1
            self._woken.set()

    async def _cordon(self, notice: NoticeView) -> Attempt:
        name = await self._name.get()
        state = await self._calls.node(name, self._seconds(notice))
        stands_for = notice_of(state)
        if stands_for == notice.id:
            self._belief.cordoned(notice.id)
            return Attempt(done=True)
        if is_kept_by_others(state):
            return Attempt(
                done=False, detail=f'the node is {state} already: "{state.reason}"', foreign=True
            )
        reason = reason_for(notice, now=self._monotonic(), now_unix=self._wall())
        await self._calls.drain_node(name, reason, self._seconds(notice))
        self._belief.cordoned(notice.id)
        return Attempt(done=True)

    async def _uncordon(self, notice_id: str) -> Attempt:
        name = await self._name.get()
        state = await self._calls.node(name)
        if notice_of(state) != notice_id:
            self._belief.given_back()
            return Attempt(done=True, detail=f"no drain of ours for it stands: {state}")
        await self._calls.undrain_node(name, is_down=state.is_down)
        self._belief.given_back()
        return Attempt(done=True)

    def _seconds(self, notice: NoticeView) -> float | None:
        if notice.deadline is None:
            return None
        return max(LEAST_CALL_SECONDS, (notice.deadline - self._monotonic()) / 4)

    def _try_for(self, notice_id: str) -> _Try:
        if notice_id not in self._tries:
            self._tries[notice_id] = _Try()
            while len(self._tries) > _TRIES_KEPT:
                del self._tries[next(iter(self._tries))]
        return self._tries[notice_id]

    def _answered(self, error: SlurmError | None) -> None:
        self._up = error is None or isinstance(error, UnknownNodeError)
        self._trouble = "" if error is None else str(error)
        self._post(BackendChecked(self._up, self._trouble))


class _Try:
    """The first attempt to cordon the node for a notice."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
