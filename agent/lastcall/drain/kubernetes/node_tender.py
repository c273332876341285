"""Puts right in the background what the node still says of us, and its conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from lastcall.drain.base import Attempt
from lastcall.drain.kubernetes.api import CALL_SECONDS
from lastcall.drain.kubernetes.node_change import change
from lastcall.drain.kubernetes.node_condition import (
    Condition,
    interruption_condition,
    lifted_notice,
)
from lastcall.drain.kubernetes.node_gpus import GpuReport
from lastcall.drain.kubernetes.node_marks import Step, leftovers_patch
from lastcall.drain.kubernetes.node_watch import OwnNode
from lastcall.drain.kubernetes.reply import Reply

ROUNDS = 5
"""What does not come right in so many writes is left alone for a while."""

_Work = Callable[[], Awaitable[Reply]]

_WORDS = {
    "marks": "the marks of a cordon that is over cannot be removed",
    "condition": "the node's condition cannot be set",
    "gpus": "the node's condition of its GPUs cannot be set",
}


class Tender:
    """Removes marks that speak of no cordon, and keeps the conditions true.

    What is wanted of marks and their condition follows from the node as it is, so nothing of it
    needs to be remembered. How its GPUs are does not, and comes last.

    Args:
        own: the node.
        wall: Unix seconds.
        monotonic: seconds.
        again_seconds: after a failure.
        note: takes what cannot be put right, by topic; an empty text once it is.
        lifted: returns the notice that stands though somebody lifted the cordon for it, given the
            one that the condition names.
        gpus: how the node's GPUs are.
    """

    def __init__(
        self,
        *,
        own: OwnNode,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
        again_seconds: float,
        note: Callable[[str, str], None],
        lifted: Callable[[str], str],
        gpus: GpuReport,
    ) -> None:
        self._own = own
        self._wall = wall
        self._monotonic = monotonic
        self._again_seconds = again_seconds
        self._note = note
        self._lifted = lifted
        self._gpus = gpus
        self._not_before: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def tend(self) -> None:
        """Begin, where something is to be done and nothing is being done; returns at once."""
        is_busy = self._task is not None and not self._task.done()
        if not is_busy and self._next() is not None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for _ in range(ROUNDS):
            found = self._next()
            if found is None:
                return
            topic, work = found
            reply = await work()
            if reply.ok:
                self._note(topic, "")
            else:
                self._put_off(topic, reply.cause_text)
        if (found := self._next()) is not None:
            self._put_off(found[0], "another writes something else each time")

    def _next(self) -> tuple[str, _Work] | None:
        node = self._own.node
        if node is None:
            return None
        if leftovers_patch(node) is not None and self._may("marks"):
            return "marks", self._remove_marks
        lifted = self._lifted(lifted_notice(node))
        condition = interruption_condition(node, self._wall(), lifted)
        if condition is not None and self._may("condition"):
            return "condition", partial(self._own.write_condition, condition)
        health = self._gpus.condition(node, self._wall())
        if health is not None and self._may("gpus"):
            return "gpus", partial(self._write_health, health)
        return None

    async def _write_health(self, condition: Condition) -> Reply:
        reply = await self._own.write_condition(condition)
        if reply.ok:
            self._gpus.written()
        return reply

    async def _remove_marks(self) -> Reply:
        over_at = asyncio.get_running_loop().time() + 2 * CALL_SECONDS
        changed = await change(
            self._own,
            lambda node: Step(Attempt(done=True), leftovers_patch(node)),
            call_seconds=CALL_SECONDS,
            over_at=over_at,
        )
        return changed.reply

    def _may(self, topic: str) -> bool:
        return self._monotonic() >= self._not_before.get(topic, 0.0)

    def _put_off(self, topic: str, why: str) -> None:
        self._not_before[topic] = self._monotonic() + self._again_seconds
        self._note(topic, f"{_WORDS[topic]}: {why}")
