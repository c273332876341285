"""The pods' side of a drain on Kubernetes: which leave, in what order, and what came of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import structlog

from lastcall.core.commands import Drain
from lastcall.core.events import DrainEnded
from lastcall.drain.base import Post
from lastcall.drain.kube_api import KubeApi
from lastcall.drain.kube_drain_aim import DrainSettings
from lastcall.drain.kube_drain_calls import PodCalls
from lastcall.drain.kube_drain_result import rows, still_to_leave
from lastcall.drain.kube_drain_run import DrainRun
from lastcall.drain.kube_events import ObjectRef
from lastcall.drain.kube_mirror import PodMirror
from lastcall.drain.kube_pods import Pod

__all__ = ["DrainSettings", "PodDrain"]

MARKED_SECONDS = 0.6
"""At most so long is it waited until pods that train are marked: a client waits a second for its
answer, which waits for the disk as well."""

UNMARKS_SECONDS = 5.0
"""How long it may take to take all marks back."""

_UNMARK_AFTER_SECONDS = (0.0, 0.5, 1.0, 1.0)
_UNMARKS_IN_FLIGHT = 8
_ENDED_ORDERS = 64


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
    ) -> None:
        self._own_pod_uid = own_pod_uid
        self._settings = settings
        self._post = post
        self._monotonic = monotonic
        self._cordoned = cordoned
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
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._unmarking: asyncio.Task[None] | None = None
        self._stopped: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Keep the pods fresh until cancelled."""
        await self._mirror.run()

    def drain(self, order: Drain) -> None:
        """Move the node's pods away, or take up what has changed about that.

        Each pod is reported (:class:`EvictionReported`): once as ``evicted`` or ``forced`` when the
        server has accepted that it leaves, or as ``gone`` where it left otherwise; before that
        perhaps once as ``blocked`` or ``failed``. The end is reported once, by half a margin before
        the deadline (:class:`DrainEnded`): ``drained`` only where every pod has really gone.
        """
        if order.id in self._ended:
            return
        if self._unmarking is not None:
            self._unmarking.cancel()
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
            monotonic=self._monotonic,
            cordoned=self._cordoned,
            leads=self._leads,
        )
        self._runs[order.id] = run
        task = asyncio.create_task(run.run())
        task.add_done_callback(partial(self._over, order.id, run))
        self._tasks[order.id] = task
        self._mirror.hurry(is_hurried=True)

    def stop(self, notice_id: str) -> None:
        """Move no more pods for a notice, and take our marks back from those that go on.

        What was asked for already cannot be taken back. Nothing where no such drain goes on.
        """
        self._ended.pop(notice_id, None)
        task = self._tasks.pop(notice_id, None)
        if task is None:
            return
        task.cancel()
        self._keep_until_done(task)
        self._forget(notice_id)
        if not self._runs:
            self._unmarking = asyncio.create_task(self._unmark())
            self._keep_until_done(self._unmarking)

    async def marked(self, notice_id: str) -> None:
        """Return once the pods that train are marked as disrupted, or soon.

        A Job then knows that the end of such a pod is no failure of its own.
        """
        run = self._runs.get(notice_id)
        if run is None:
            return
        try:
            async with asyncio.timeout(MARKED_SECONDS):
                await run.marked.wait()
        except TimeoutError:
            self._log.warning("pods_not_marked_in_time", notice_id=notice_id)

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
        return shown

    async def close(self) -> None:
        """Stop all that goes on; what was asked for stays as it is."""
        tasks = [*self._tasks.values(), *self._stopped]
        self._tasks.clear()
        self._runs.clear()
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
        self._ended[notice_id] = None
        while len(self._ended) > _ENDED_ORDERS:
            self._ended.popitem(last=False)
        del self._tasks[notice_id]
        self._forget(notice_id)

    def _forget(self, notice_id: str) -> None:
        run = self._runs.pop(notice_id)
        run.marked.set()
        self._mirror.hurry(is_hurried=bool(self._runs))
        self._wake_all()

    def _leads(self, notice_id: str) -> bool:
        return bool(self._runs) and notice_id == next(reversed(self._runs))

    def _wake_all(self) -> None:
        for run in self._runs.values():
            run.wake()

    async def _unmark(self) -> None:
        """Take our marks back, more than once: a call under way may still set one."""
        slots = asyncio.Semaphore(_UNMARKS_IN_FLIGHT)

        async def unmark(pod: Pod) -> None:
            async with slots:
                await self._calls.unmark(pod)

        try:
            async with asyncio.timeout(UNMARKS_SECONDS):
                for seconds in _UNMARK_AFTER_SECONDS:
                    await asyncio.sleep(seconds)
                    marked = [
                        pod
                        for pod in self._mirror.pods.values()
                        if pod.marked_by_us and pod.ends_at is None
                    ]
                    await asyncio.gather(*(unmark(pod) for pod in marked))
        except TimeoutError:
            self._log.warning("marks_not_taken_back", seconds=UNMARKS_SECONDS)

    def _keep_until_done(self, task: asyncio.Task[None]) -> None:
        self._stopped.add(task)
        task.add_done_callback(self._stopped.discard)
