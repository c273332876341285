"""The pods' side of a drain on Kubernetes: which leave, in what order, and what came of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import structlog

from lastcall.core.commands import Drain, Mark
from lastcall.core.events import DrainEnded
from lastcall.drain.base import Post
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.drain_aim import DrainSettings
from lastcall.drain.kubernetes.drain_calls import PodCalls
from lastcall.drain.kubernetes.drain_marks import MarkRun
from lastcall.drain.kubernetes.drain_place import Refusal
from lastcall.drain.kubernetes.drain_reports import Reports
from lastcall.drain.kubernetes.drain_result import rows, still_to_leave
from lastcall.drain.kubernetes.drain_run import DrainRun
from lastcall.drain.kubernetes.events import ObjectRef
from lastcall.drain.kubernetes.mirror import PodMirror
from lastcall.drain.kubernetes.pods import Pod

__all__ = ["DrainSettings", "PodDrain"]

MARKED_SECONDS = 0.6
"""At most so long is it waited until pods that train are marked: a client waits a second for its
answer, which waits for the disk as well."""

LAST_SHOWN_SECONDS = 3600.0
"""So long is a drain that has ended still shown, unless another begins."""

UNMARKS_SECONDS = 5.0
"""How long it may take to take all marks back."""

_UNMARK_AFTER_SECONDS = (0.0, 0.5, 1.0, 1.0)
_UNMARKS_IN_FLIGHT = 8
_ENDED_ORDERS = 64
_NAMED_IN_A_WARNING = 50


class PodDrain:
    """Keeps a node's pods at hand, and moves them away on order.

    Of several orders the newest moves pods; the others mark what trains, and end as they would.

    Args:
        api: the API server.
        node_name: the node.
        own_pod_uid: of the agent's own pod, which it never touches; empty where it runs in none.
        settings: how pods are moved.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        cordoned: returns once the cordon for a notice was tried, and in bounded time; evictions
            wait for it, marks do not.
        refusal: why no pod may be touched: the agent's credentials are another node's. Empty where
            they may, ``None`` while that is not known; nothing is sent before, for a quarter of the
            time that is left.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        node_name: str,
        own_pod_uid: str,
        settings: DrainSettings,
        post: Post,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        cordoned: Callable[[str], Awaitable[None]],
        refusal: Refusal,
    ) -> None:
        self._own_pod_uid = own_pod_uid
        self._settings = settings
        self._post = post
        self._monotonic = monotonic
        self._cordoned = cordoned
        self._refusal = refusal
        self._reports = Reports(post)
        self._mirror = PodMirror(
            api=api,
            node_name=node_name,
            monotonic=monotonic,
            wall=wall,
            changed=self._wake_all,
        )
        self._calls = PodCalls(api, self._mirror, monotonic=monotonic, wall=wall)
        self._runs: dict[str, DrainRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._marks: dict[str, MarkRun] = {}
        self._markings: dict[str, asyncio.Task[None]] = {}
        self._last: Mapping[str, Any] | None = None
        self._last_until = 0.0
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._unmarking: asyncio.Task[None] | None = None
        self._stopped: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Keep the pods fresh until cancelled."""
        await self._mirror.run()

    def drain(self, order: Drain) -> None:
        """Move the node's pods away, or take up what has changed about that.

        Each pod is reported once (:class:`EvictionReported`): as ``evicted`` or ``forced`` when the
        server has accepted that it leaves, as ``gone`` where it left otherwise, as ``failed`` where
        neither had come about in the end; besides, perhaps once before that, as ``blocked``. The
        end is reported once, by half a margin before the deadline (:class:`DrainEnded`):
        ``drained`` only where every pod has really gone.
        """
        if order.id in self._ended:
            return
        self._end_marking(order.id)
        known = self._runs.get(order.id)
        if known is not None:
            known.update(order)
            return
        run = DrainRun(
            order,
            mirror=self._mirror,
            calls=self._calls,
            settings=self._settings,
            own_uid=self._own_pod_uid,
            post=self._post,
            reports=self._reports,
            monotonic=self._monotonic,
            cordoned=self._cordoned,
            refusal=self._refusal,
            leads=self._leads,
        )
        self._last = None
        self._runs[order.id] = run
        task = asyncio.create_task(run.run())
        task.add_done_callback(partial(self._over, order.id, run))
        self._tasks[order.id] = task
        self._hurry()

    def mark(self, command: Mark) -> None:
        """Keep the pods of told processes marked as disrupted, or take up which those are by now.

        Nothing is moved. It ends with :meth:`stop`, or with an order to drain for the same notice,
        which marks them as well; a drain that has ended changes nothing about it.
        """
        known = self._marks.get(command.id)
        if known is not None:
            known.update(command)
            return
        run = MarkRun(
            command,
            mirror=self._mirror,
            calls=self._calls,
            own_uid=self._own_pod_uid,
            refusal=self._refusal,
            monotonic=self._monotonic,
        )
        self._marks[command.id] = run
        task = asyncio.create_task(run.run())
        task.add_done_callback(partial(self._marking_over, command.id, run))
        self._markings[command.id] = task
        self._hurry()

    def stop(self, notice_id: str) -> None:
        """Move and mark no more pods for a notice, and take our marks back from those that stay.

        A pod that another notice wants marked stays so. What was asked for already cannot be taken
        back. Nothing where neither goes on.
        """
        self._ended.pop(notice_id, None)
        is_known = self._end_marking(notice_id)
        task = self._tasks.pop(notice_id, None)
        if task is not None:
            task.cancel()
            self._keep_until_done(task)
            self._forget(notice_id)
        if task is None and not is_known:
            return
        if self._unmarking is not None:
            self._unmarking.cancel()
        self._unmarking = asyncio.create_task(self._unmark())
        self._keep_until_done(self._unmarking)

    async def marked(self, notice_id: str) -> None:
        """Return once the pods whose processes may end are marked as disrupted, or soon.

        A Job then knows that the end of such a pod is no failure of its own.
        """
        found = (self._runs.get(notice_id), self._marks.get(notice_id))
        runs = [run for run in found if run is not None]
        try:
            async with asyncio.timeout(MARKED_SECONDS):
                for run in runs:
                    await run.marked.wait()
        except TimeoutError:
            names = sorted({name for run in runs for name in run.unmarked()})
            self._log.warning(
                "pods_not_marked_in_time",
                notice_id=notice_id,
                pods=names[:_NAMED_IN_A_WARNING],
                count=len(names),
            )

    def pod_of(self, cgroup_or_name: str) -> ObjectRef | None:
        """Return the pod that a control group lies in, or that is named ``NAMESPACE/NAME``.

        Pods that have just gone are still known.
        """
        pod = self._mirror.find(cgroup_or_name)
        return None if pod is None else ObjectRef("Pod", pod.name, pod.namespace, pod.uid)

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of the pods, ready for JSON."""
        age_seconds = self._mirror.age_seconds
        shown: dict[str, Any] = {
            "pods_known": len(self._mirror.pods),
            "pods_age_seconds": None if age_seconds is None else round(age_seconds, 3),
        }
        for name, run in self._runs.items():
            if self._leads(name):
                shown["pods"] = rows(run.outlooks)
                shown["pods_to_leave"] = still_to_leave(run.outlooks)
        if self._last is not None and self._monotonic() < self._last_until:
            shown["last_drain"] = self._last
        return shown

    async def close(self) -> None:
        """Stop all that goes on; what was asked for stays as it is."""
        tasks = [*self._tasks.values(), *self._markings.values(), *self._stopped]
        self._tasks.clear()
        self._runs.clear()
        self._markings.clear()
        self._marks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _over(self, notice_id: str, run: DrainRun, task: asyncio.Task[None]) -> None:
        """Note that an order is over; one that was stopped has been forgotten before."""
        if self._runs.get(notice_id) is not run:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("drain_failed", notice_id=notice_id, exc_info=error)
            self._post(DrainEnded(notice_id, "failed", f"a fault in the agent: {error!r}"))
        elif run.result is not None and self._leads(notice_id):
            self._last = {
                "id": notice_id,
                "outcome": run.result.outcome,
                "detail": run.result.detail,
                "pods": rows(run.outlooks),
            }
            self._last_until = self._monotonic() + LAST_SHOWN_SECONDS
        self._ended[notice_id] = None
        while len(self._ended) > _ENDED_ORDERS:
            self._ended.popitem(last=False)
        del self._tasks[notice_id]
        self._forget(notice_id)

    def _forget(self, notice_id: str) -> None:
        run = self._runs.pop(notice_id)
        run.marked.set()
        self._hurry()
        self._wake_all()

    def _marking_over(self, notice_id: str, run: MarkRun, task: asyncio.Task[None]) -> None:
        """Note that marks are not kept any more; ones that were ended were forgotten before."""
        if self._marks.get(notice_id) is not run:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("marking_failed", notice_id=notice_id, exc_info=error)
        self._end_marking(notice_id)

    def _end_marking(self, notice_id: str) -> bool:
        """Keep no marks for a notice, and return whether any were kept."""
        run, task = self._marks.pop(notice_id, None), self._markings.pop(notice_id, None)
        if run is None or task is None:
            return False
        run.marked.set()
        task.cancel()
        self._keep_until_done(task)
        self._hurry()
        return True

    def _hurry(self) -> None:
        self._mirror.hurry(is_hurried=bool(self._runs or self._marks))

    def _leads(self, notice_id: str) -> bool:
        return bool(self._runs) and notice_id == next(reversed(self._runs))

    def _wake_all(self) -> None:
        for run in self._all_runs():
            run.wake()

    def _all_runs(self) -> list[DrainRun | MarkRun]:
        return [*self._runs.values(), *self._marks.values()]

    def _is_marked_for_nothing(self, pod: Pod) -> bool:
        if not pod.marked_by_us or pod.ends_at is not None or self._refusal() != "":
            return False
        return not any(run.may_end(pod) for run in self._all_runs())

    async def _unmark(self) -> None:
        """Take our marks back, more than once: a call under way may still set one."""
        slots = asyncio.Semaphore(_UNMARKS_IN_FLIGHT)

        async def unmark(pod: Pod) -> None:
            async with slots:
                if self._is_marked_for_nothing(pod):
                    await self._calls.unmark(pod)

        try:
            async with asyncio.timeout(UNMARKS_SECONDS):
                for seconds in _UNMARK_AFTER_SECONDS:
                    await asyncio.sleep(seconds)
                    marked = [
                        pod
                        for pod in self._mirror.pods.values()
                        if self._is_marked_for_nothing(pod)
                    ]
                    await asyncio.gather(*(unmark(pod) for pod in marked))
        except TimeoutError:
            self._log.warning("marks_not_taken_back", seconds=UNMARKS_SECONDS)

    def _keep_until_done(self, task: asyncio.Task[None]) -> None:
        self._stopped.add(task)
        task.add_done_callback(self._stopped.discard)
