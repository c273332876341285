"""One order being carried out, from when it is given until it is over or taken back."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from lastcall.core.commands import Drain
from lastcall.core.events import DrainEnded
from lastcall.drain.base import Post
from lastcall.drain.kubernetes.drain_aim import DrainSettings, aim_of
from lastcall.drain.kubernetes.drain_calls import PodCalls
from lastcall.drain.kubernetes.drain_outlook import Outlook, View, needs_mark, outlook
from lastcall.drain.kubernetes.drain_past import NOTHING, Do, Past, Step, learn
from lastcall.drain.kubernetes.drain_place import Refusal, known
from lastcall.drain.kubernetes.drain_reports import Reports
from lastcall.drain.kubernetes.drain_result import Result, Tally, left_behind, result_of
from lastcall.drain.kubernetes.mirror import PodMirror
from lastcall.drain.kubernetes.plan import Plan, plan
from lastcall.drain.kubernetes.pods import Pod

MARKS_IN_FLIGHT = 8
"""So many pods are marked at a time, beside those that are asked to leave."""

CORDON_SECONDS = 6.0
"""At most so long do evictions wait for the cordon; who makes it ends sooner as a rule."""

WAITING_SHARE = 1 / 4
"""The most of the time left that they wait for it; before that, likewise, everything waits until it
is known whether the pods may be touched."""

REMEMBERED_SECONDS = 10.0
"""So long has a process of a pod that bears our mark time to come back to an agent that was started
anew; a client tries every two seconds."""

REST_SECONDS = 0.01
"""At least this lies between two plans."""

_REST_SHARE = 5


@dataclass(slots=True)
class Lane:
    """Pods with a call due, and how many calls are made at a time."""

    limit: int
    uids: deque[str] = field(default_factory=deque)
    working: int = 0


class DrainRun:
    """Carries out one order.

    Args:
        order: what is to be done.
        mirror: the node's pods.
        calls: how a step is carried out.
        settings: how pods are moved.
        own_uid: of the agent's own pod.
        post: takes how the drain has ended.
        reports: takes what becomes of the pods.
        monotonic: the clock of deadlines, seconds.
        cordoned: returns once the cordon for a notice was tried.
        refusal: why no pod may be touched.
        leads: whether this order is the one that moves pods; of several, one does.

    Attributes:
        marked: set while every pod in which a process may be told to end, and is known, is marked
            or cannot be.
        outlooks: where each pod stood when it was last planned.
        result: how the drain has ended; ``None`` while it goes on.
    """

    def __init__(
        self,
        order: Drain,
        *,
        mirror: PodMirror,
        calls: PodCalls,
        settings: DrainSettings,
        own_uid: str,
        post: Post,
        reports: Reports,
        monotonic: Callable[[], float],
        cordoned: Callable[[str], Awaitable[None]],
        refusal: Refusal,
        leads: Callable[[str], bool],
    ) -> None:
        self.marked = asyncio.Event()
        self.outlooks: tuple[Outlook, ...] = ()
        self.result: Result | None = None
        self._aim = aim_of(order)
        self._mirror = mirror
        self._calls = calls
        self._settings = settings
        self._own_uid = own_uid
        self._post = post
        self._reports = reports
        self._monotonic = monotonic
        self._cordoned = cordoned
        self._refusal = refusal
        self._leads = leads
        self._may_touch = False
        self._is_cordoned = False
        self._settled_at = float("-inf")
        self._remembered_until = monotonic() + REMEMBERED_SECONDS
        self._seen: set[str] = set()
        self._remembered: set[str] = set()
        self._pasts: dict[str, Past] = {}
        self._earlier: dict[str, Pod] = {}
        self._tally = Tally()
        self._busy: set[str] = set()
        self._marks = Lane(MARKS_IN_FLIGHT)
        self._moves = Lane(settings.calls_in_flight)
        self._woken = asyncio.Event()
        self._rest_seconds = REST_SECONDS
        self._log = structlog.get_logger()

    def update(self, order: Drain) -> None:
        """Take up what has changed about the order."""
        self._aim = aim_of(order)
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
                while not self._refusal() and not (found := self._plan()).is_over:
                    for lane in (self._marks, self._moves):
                        children |= self._start(lane, tasks)
                    children = {child for child in children if not child.done()}
                    await self._pause(found.look_at)
            finally:
                for child in children:
                    child.cancel()
        self.marked.set()
        self.result = result = self._conclude()
        self._post(DrainEnded(self._aim.id, result.outcome, result.detail))

    def unmarked(self) -> list[str]:
        """Return the pods that a mark is still to be set on."""
        return [pod.full_name for pod in self._unmarked(self._view())]

    def may_end(self, pod: Pod) -> bool:
        """Whether processes in a pod may be told to end."""
        return self._view().may_end(pod)

    def _conclude(self) -> Result:
        """Report what has not left, and return how the drain has ended."""
        refusal = self._refusal()
        if refusal:
            return Result("failed", refusal)
        if self._leads(self._aim.id):
            for news in left_behind(self.outlooks, self._pasts):
                self._reports.say(self._aim.id, news)
        return result_of(
            self.outlooks,
            self._tally,
            is_listed=self._mirror.is_listed,
            list_trouble=self._mirror.trouble,
        )

    def _plan(self) -> Plan:
        """Return what is to be done now; report what is new, and queue the calls."""
        began_at = self._monotonic()
        self._remember()
        view = self._view()
        for uid, pod in view.pods.items():
            if view.class_of(pod).leaves:
                self._earlier[uid] = pod
        found = plan(view, self._pasts)
        for news in found.news:
            self._pasts[news.pod.uid] = self._past(news.pod.uid).saying(news.outcome)
            self._reports.say(self._aim.id, news)
        self.outlooks = found.outlooks
        self._queue(found.steps)
        self._note_marks(view)
        took_seconds = self._monotonic() - began_at
        self._rest_seconds = max(REST_SECONDS, took_seconds * _REST_SHARE)
        return found

    def _remember(self) -> None:
        """Note which pods bear our mark when they are first seen."""
        for uid, pod in self._mirror.pods.items():
            if uid not in self._seen:
                self._seen.add(uid)
                if pod.marked_by_us:
                    self._remembered.add(uid)

    def _view(self) -> View:
        return View(
            aim=self._aim,
            settings=self._settings,
            own_uid=self._own_uid,
            pods=self._mirror.pods,
            now=self._monotonic(),
            is_cordoned=self._is_cordoned,
            is_listed=self._mirror.is_listed,
            earlier=self._earlier,
            settled_at=self._settled_at,
            remembered=self._remembered,
            remembered_until=self._remembered_until,
        )

    def _queue(self, steps: tuple[Step, ...]) -> None:
        free = [step for step in steps if step.pod.uid not in self._busy]
        self._marks.uids = deque(s.pod.uid for s in free if s.do is Do.MARK)
        self._moves.uids = deque(s.pod.uid for s in free if s.do is not Do.MARK)

    def _unmarked(self, view: View) -> list[Pod]:
        return [
            pod
            for uid, pod in view.pods.items()
            if needs_mark(pod, view)
            and not (self._past(uid).mark_refused or self._past(uid).is_gone)
        ]

    def _note_marks(self, view: View) -> None:
        """Note whether every pod is marked that must be; those that cannot be do not count."""
        if self._mirror.is_listed and not self._unmarked(view):
            self.marked.set()
        else:
            self.marked.clear()

    def _start(self, lane: Lane, tasks: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        """Put as many to work on a lane's calls as it may have."""
        started = min(lane.limit - lane.working, len(lane.uids)) if self._may(lane) else 0
        return {tasks.create_task(self._work(lane)) for _ in range(started)}

    async def _work(self, lane: Lane) -> None:
        """Make the calls of a lane, one after the other, until none is due."""
        lane.working += 1
        try:
            while lane.uids and self._may(lane):
                step = self._step(lane.uids.popleft())
                is_here = step is not None and (step.do is Do.MARK) == (lane is self._marks)
                if step is not None and is_here:
                    await self._carry_out(step)
        finally:
            lane.working -= 1

    def _may(self, lane: Lane) -> bool:
        """Whether a lane's calls are this order's to make, by now."""
        return self._may_touch and (lane is self._marks or self._leads(self._aim.id))

    def _step(self, uid: str) -> Step | None:
        """Return what is due for a pod by now, which may be nothing any more."""
        pod = self._mirror.pods.get(uid)
        if pod is None or uid in self._busy:
            return None
        return outlook(pod, self._past(uid), self._view()).step

    async def _carry_out(self, step: Step) -> None:
        uid = step.pod.uid
        self._busy.add(uid)
        try:
            reply = await self._calls.make(step, self._aim)
        finally:
            self._busy.discard(uid)
        pod_class = self._view().class_of(step.pod)
        lesson = learn(
            self._past(uid),
            step,
            reply,
            aim=self._aim,
            may_force=self._settings.forces(pod_class),
            now=self._monotonic(),
            spread=random.random(),  # noqa: S311 — spreads load, guards nothing
        )
        self._pasts[uid] = lesson.past
        if lesson.news is not None:
            self._reports.say(self._aim.id, lesson.news)
        if step.do in (Do.EVICT, Do.DELETE):
            self._tally = self._tally.counting(reply)
        self.wake()

    async def _await_cordon(self) -> None:
        """Wait until the node is known to be ours, and then until its cordon was tried.

        Nothing that befalls either keeps the pods here.
        """
        await known(self._refusal, self._waiting_seconds())
        self._may_touch = True
        self.wake()
        seconds = min(CORDON_SECONDS, self._waiting_seconds())
        trying = asyncio.ensure_future(self._cordoned(self._aim.id))
        try:
            await asyncio.wait({trying}, timeout=seconds)
        finally:
            trying.cancel()
        error = trying.exception() if trying.done() and not trying.cancelled() else None
        if error is not None or not trying.done():
            self._log.warning("drained_without_cordon", notice_id=self._aim.id, exc_info=error)
        self._is_cordoned = True
        self._settled_at = self._aim.settled_at(self._monotonic(), self._settings.settling_seconds)
        self.wake()

    def _waiting_seconds(self) -> float:
        return max(0.0, self._aim.left(self._monotonic()) * WAITING_SHARE)

    async def _pause(self, look_at: float) -> None:
        """Wait until something has changed or is due; plans do not follow at each other's heels."""
        earliest_at = self._monotonic() + self._rest_seconds
        try:
            async with asyncio.timeout(max(0.0, look_at - self._monotonic())):
                await self._woken.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(max(0.0, earliest_at - self._monotonic()))
        self._woken.clear()

    def _past(self, uid: str) -> Past:
        return self._pasts.get(uid, NOTHING)
