"""The Slurm backend: the node is drained, and jobs are requeued once they have flushed."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from lastcall.core.commands import Drain, Mark
from lastcall.core.events import DrainEnded
from lastcall.core.facts import Fact
from lastcall.core.views import NoticeView
from lastcall.drain.base import Attempt, Post
from lastcall.drain.slurm.calls import SlurmCalls
from lastcall.drain.slurm.jobs import JobMirror
from lastcall.drain.slurm.name import NodeName
from lastcall.drain.slurm.node import Pace, SlurmNode
from lastcall.drain.slurm.plan import Means, Past, State
from lastcall.drain.slurm.result import rows
from lastcall.drain.slurm.run import SlurmRun

MARKED_SECONDS = 0.5
"""At most so long is it waited until jobs that have flushed are requeued.

A client waits a second for the answer that waits for this.
"""

_ENDED_ORDERS = 64


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How a node is drained.

    Attributes:
        node_name: what Slurm calls it; empty to have that found.
        means: what may be done to jobs.
        call_seconds: how long one command may take.
        pace: how often the node is looked at.
    """

    node_name: str = ""
    means: Means = field(default_factory=Means)
    call_seconds: float = 3.0
    pace: Pace = field(default_factory=Pace)


class SlurmDrain:
    """Drains one node of a Slurm cluster.

    Of several orders the newest moves jobs; the others end as they would.

    Args:
        settings: how it is drained.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        environment: the agent's own.
    """

    name = "slurm"

    def __init__(
        self,
        settings: SlurmSettings,
        *,
        post: Post,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._means = settings.means
        self._post = post
        self._monotonic = monotonic
        self._calls = SlurmCalls(settings.call_seconds, environment)
        self._name = NodeName(settings.node_name, self._calls, environment)
        self._node = SlurmNode(
            calls=self._calls,
            name=self._name,
            post=post,
            monotonic=monotonic,
            wall=wall,
            pace=settings.pace,
        )
        self._mirror = JobMirror(self._calls, self._wake_all)
        self._pasts: dict[int, Past] = {}
        self._runs: dict[str, SlurmRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Look at the node now and then, until cancelled."""
        await self._node.run()

    async def cordon(self, notice: NoticeView) -> Attempt:
        """Drain the node, unless somebody else has; see :class:`SlurmNode`."""
        return await self._node.cordon(notice)

    async def uncordon(self, notice_id: str) -> Attempt:
        """Give the node back, where the drain is the one made for this notice."""
        return await self._node.uncordon(notice_id)

    def drain(self, order: Drain) -> None:
        """Requeue the node's jobs, or take up what has changed about that.

        Each job is reported: as ``evicted`` when Slurm has accepted that it is requeued, or as
        ``gone`` where it left otherwise; before that perhaps as ``blocked`` where it stays until
        the end, or ``failed``. The end is reported once, by a second before the deadline.
        """
        if order.id in self._ended:
            return
        known = self._runs.get(order.id)
        if known is not None:
            known.update(order)
            self._mirror.hurry()
            return
        run = SlurmRun(
            order,
            mirror=self._mirror,
            pasts=self._pasts,
            calls=self._calls,
            means=self._means,
            post=self._post,
            monotonic=self._monotonic,
            cordoned=self._node.tried,
            leads=self._leads,
        )
        self._runs[order.id] = run
        task = asyncio.create_task(run.run(), name="slurm-drain")
        task.add_done_callback(partial(self._over, order.id, run))
        self._tasks[order.id] = task
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="slurm-jobs")
        self._mirror.hurry()

    def mark(self, command: Mark) -> None:
        """Mark nothing: no process that ends here counts as failed for it."""
        del command

    def stop(self, notice_id: str) -> None:
        """Requeue no more jobs for a notice; what was asked for already cannot be taken back."""
        self._ended.pop(notice_id, None)
        task = self._tasks.pop(notice_id, None)
        if task is None:
            return
        task.cancel()
        self._keep_until_done(task)
        self._forget(notice_id)

    async def marked(self, notice_id: str) -> None:
        """Return once Slurm has been told to requeue what has flushed, or soon.

        A job whose script ends by itself before that has completed, or failed, for good.
        """
        run = self._runs.get(notice_id)
        if run is None:
            return
        try:
            async with asyncio.timeout(MARKED_SECONDS):
                await run.marked.wait()
        except TimeoutError:
            self._log.warning("jobs_not_requeued_in_time", notice_id=notice_id)

    def note(self, fact: Fact) -> None:
        """Pass nothing on: Slurm keeps records of jobs alone."""
        del fact

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of the node and its jobs."""
        shown: dict[str, Any] = {**self._node.status()}
        for name, run in self._runs.items():
            if self._leads(name):
                left = [one for one in run.outlooks if one.state is not State.GONE]
                shown["jobs"] = rows(run.outlooks)
                shown["jobs_to_leave"] = len(left)
        return shown

    async def close(self) -> None:
        """Stop; what was asked for stays as it is."""
        tasks = [*self._tasks.values(), *self._stopped]
        self._tasks.clear()
        self._runs.clear()
        if self._watching is not None:
            tasks.append(self._watching)
            self._watching = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _over(self, notice_id: str, run: SlurmRun, task: asyncio.Task[None]) -> None:
        """Note that an order is over; one that was stopped has been forgotten before."""
        if self._runs.get(notice_id) is not run:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("drain_failed", notice_id=notice_id, exc_info=error)
            self._post(DrainEnded(notice_id, "failed", f"a fault in the agent: {error!r}"))
        self._ended[notice_id] = None
        while len(self._ended) > _ENDED_ORDERS:
            self._ended.popitem(last=False)
        del self._tasks[notice_id]
        self._forget(notice_id)

    def _forget(self, notice_id: str) -> None:
        self._runs.pop(notice_id).marked.set()
        if self._runs:
            self._wake_all()
            return
        self._pasts.clear()
        self._mirror.forget()
        if self._watching is not None:
            self._watching.cancel()
            self._keep_until_done(self._watching)
            self._watching = None

    def _leads(self, notice_id: str) -> bool:
        return bool(self._runs) and notice_id == next(reversed(self._runs))

    def _wake_all(self) -> None:
        for run in self._runs.values():
            run.wake()

    async def _watch(self) -> None:
        """Keep the jobs fresh for as long as an order holds, whatever happens."""
        while True:
            try:
                await self._mirror.watch(self._name, self._left_seconds)
            except Exception:  # noqa: BLE001 - unseen jobs would be waited for until the end
                self._log.exception("jobs_watch_restarted")
                await asyncio.sleep(1.0)

    def _left_seconds(self) -> float:
        return max((run.left_seconds for run in self._runs.values()), default=1.0)

    def _keep_until_done(self, task: asyncio.Task[None]) -> None:
        self._stopped.add(task)
        task.add_done_callback(self._stopped.discard)
