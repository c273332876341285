"""One order being carried out on a Slurm node, from when it is given until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from lastcall.core.commands import Drain
from lastcall.core.events import DrainEnded, EvictionReported
from lastcall.drain.base import Post
from lastcall.drain.slurm.calls import SlurmCalls, SlurmError
from lastcall.drain.slurm.jobs import JobMirror
from lastcall.drain.slurm.plan import NOTHING, Do, Means, Outlook, Past, Plan, Step, View
from lastcall.drain.slurm.plan import plan as plan_of
from lastcall.drain.slurm.result import result_of
from lastcall.drain.slurm.text import Job

AGAIN_SECONDS = 2.0
"""How long after a refusal it is tried again to requeue a job."""

CALLS_IN_FLIGHT = 4
"""So many jobs are signalled or requeued at a time."""

LEAST_CALL_SECONDS = 0.25
"""However little time is left, a call has this much."""

CORDON_SHARE = 1 / 4
"""The most of the time left that jobs wait for the cordon to be tried."""


class SlurmRun:
    """Carries out one order.

    Args:
        order: what is to be done.
        mirror: the node's jobs.
        pasts: what was done about them, shared by the orders.
        calls: how Slurm is told.
        means: what may be done.
        post: takes what is to be reported.
        monotonic: the clock of deadlines, seconds.
        cordoned: returns once the cordon for a notice was tried.
        leads: whether this order is the one that moves jobs; of several, one does.

    Attributes:
        marked: set while no job that has flushed waits for us to requeue it.
        outlooks: where each job stood when it was last planned.
    """

    def __init__(
        self,
        order: Drain,
        *,
        mirror: JobMirror,
        pasts: dict[int, Past],
        calls: SlurmCalls,
        means: Means,
        post: Post,
        monotonic: Callable[[], float],
        cordoned: Callable[[str], Awaitable[None]],
        leads: Callable[[str], bool],
    ) -> None:
        self.marked = asyncio.Event()
        self.outlooks: tuple[Outlook, ...] = ()
        self._order = order
        self._mirror = mirror
        self._pasts = pasts
        self._calls = calls
        self._means = means
        self._post = post
        self._monotonic = monotonic
        self._cordoned = cordoned
        self._leads = leads
        self._is_cordoned = False
        self._busy: set[int] = set()
        self._slots = asyncio.Semaphore(CALLS_IN_FLIGHT)
        self._woken = asyncio.Event()
        self._log = structlog.get_logger()

    @property
    def left_seconds(self) -> float:
        """How long a call may take now, at most."""
        return max(LEAST_CALL_SECONDS, self._view().end_at - self._monotonic())

    def update(self, order: Drain) -> None:
        """Take up what has changed about the order."""
        self._order = order
        self.marked.clear()
        self.wake()

    def wake(self) -> None:
        """Plan anew: something has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Carry the order out and report how it ended."""
        async with asyncio.TaskGroup() as tasks:
            children = {tasks.create_task(self._await_cordon())}
            try:
                while not (found := self._plan()).is_over:
                    for step in found.steps if self._leads(self._order.id) else ():
                        if step.job.id not in self._busy:
                            self._busy.add(step.job.id)
                            children.add(tasks.create_task(self._carry_out(step)))
                    children = {child for child in children if not child.done()}
                    await self._pause(found.look_at)
            finally:
                for child in children:
                    child.cancel()
        self.marked.set()
        outcome, detail = result_of(
            found.outlooks,
            self._pasts,
            is_listed=self._mirror.is_listed,
            list_trouble=self._mirror.trouble,
        )
        self._post(DrainEnded(self._order.id, outcome, detail))

    def _plan(self) -> Plan:
        """Return what is to be done now, and report what is new."""
        found = plan_of(self._view(), self._pasts)
        self.outlooks = found.outlooks
        for one in found.outlooks:
            if one.trains:
                self._remember(one.job, has_trained=True)
        is_leading = self._leads(self._order.id)
        for news in found.news if is_leading else ():
            self._report(news.job, news.outcome, news.detail)
        is_blind = self._mirror.has_tried and not self._mirror.is_listed
        if found.owes_nothing or is_blind or not is_leading:
            self.marked.set()
        else:
            self.marked.clear()
        return found

    def _view(self) -> View:
        return View(
            order=self._order,
            means=self._means,
            now=self._monotonic(),
            jobs=self._mirror.jobs,
            earlier=self._mirror.earlier,
            footprints=self._mirror.footprints,
            is_listed=self._mirror.is_listed,
            is_cordoned=self._is_cordoned,
        )

    async def _carry_out(self, step: Step) -> None:
        job = step.job
        try:
            async with self._slots:
                match step.do:
                    case Do.SIGNAL:
                        await self._signal(job)
                    case Do.REQUEUE:
                        await self._calls.requeue(job, self.left_seconds)
                        self._remember(job, is_asked=True, trouble="")
                        self._report(job, "evicted")
                        self._mirror.hurry()
                    case Do.LOOK_BACK:
                        await self._look_back(job)
        except SlurmError as error:
            again_at = self._monotonic() + AGAIN_SECONDS
            self._remember(job, trouble=str(error), again_at=again_at)
            self._report(job, "failed", str(error))
        finally:
            self._busy.discard(job.id)
            self.wake()

    async def _signal(self, job: Job) -> None:
        self._remember(job, is_signalled=True)
        name = self._means.signal
        try:
            await self._calls.signal_script(job, name, self.left_seconds)
        except SlurmError as error:
            self._log.warning("job_not_signalled", job=job.name, signal=name, detail=str(error))
        else:
            self._log.info("job_signalled", job=job.name, signal=name)

    async def _look_back(self, job: Job) -> None:
        was_requeued = await self._calls.requeue_if_preempted(job, self.left_seconds)
        self._remember(job, is_looked_back_at=True, is_asked=was_requeued, trouble="")
        if was_requeued:
            self._report(job, "evicted", "it had ended with 143 after its flush")

    def _remember(self, job: Job, **changes: object) -> None:
        self._pasts[job.id] = replace(self._past(job), **changes)  # type: ignore[arg-type]  # by name

    def _report(self, job: Job, outcome: str, detail: str = "") -> None:
        """Report an outcome of a job, once."""
        said = self._past(job).said
        if outcome not in said:
            self._remember(job, said=said | {outcome})
            self._post(EvictionReported(self._order.id, f"job/{job.name}", outcome, detail))

    def _past(self, job: Job) -> Past:
        return self._pasts.get(job.id, NOTHING)

    async def _await_cordon(self) -> None:
        """Wait until the cordon was tried: what leaves makes room, which others would take."""
        seconds = min(2 * self._calls.call_seconds, self.left_seconds * CORDON_SHARE)
        try:
            async with asyncio.timeout(seconds):
                await self._cordoned(self._order.id)
        except TimeoutError:
            self._log.warning("drained_without_cordon", notice_id=self._order.id)
        self._is_cordoned = True
        self.wake()

    async def _pause(self, look_at: float) -> None:
        """Wait until something has changed or is due."""
        try:
            async with asyncio.timeout(max(0.0, look_at - self._monotonic())):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
