"""Pods marked for a notice that moves nothing, or nothing any more, so that they may end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import inf

from lastcall.core.commands import Mark
from lastcall.drain.kubernetes.drain_aim import DrainSettings, aim_of_mark
from lastcall.drain.kubernetes.drain_calls import PodCalls
from lastcall.drain.kubernetes.drain_outlook import MARK_STANDS_SECONDS, View, needs_mark
from lastcall.drain.kubernetes.drain_past import NOTHING, Do, Past, Step, learn
from lastcall.drain.kubernetes.drain_place import Refusal, known
from lastcall.drain.kubernetes.mirror import PodMirror
from lastcall.drain.kubernetes.pods import Pod

MARKS_IN_FLIGHT = 8
"""So many pods are marked at a time."""

PLACE_SECONDS = 3.0
"""So long do marks wait until it is known whether the pods may be touched."""

REST_SECONDS = 0.01
"""At least this lies between two looks at the pods."""


class MarkRun:
    """Keeps the pods of told processes marked, until cancelled.

    Args:
        command: which processes those are.
        mirror: the node's pods.
        calls: how a pod is marked.
        own_uid: of the agent's own pod.
        refusal: why no pod may be touched.
        monotonic: the clock, seconds.

    Attributes:
        marked: set while every such pod that is known is marked, or cannot be.
    """

    def __init__(
        self,
        command: Mark,
        *,
        mirror: PodMirror,
        calls: PodCalls,
        own_uid: str,
        refusal: Refusal,
        monotonic: Callable[[], float],
    ) -> None:
        self.marked = asyncio.Event()
        self._aim = aim_of_mark(command)
        self._mirror = mirror
        self._calls = calls
        self._own_uid = own_uid
        self._refusal = refusal
        self._monotonic = monotonic
        self._pasts: dict[str, Past] = {}
        self._busy: set[str] = set()
        self._slots = asyncio.Semaphore(MARKS_IN_FLIGHT)
        self._woken = asyncio.Event()

    def update(self, command: Mark) -> None:
        """Take up what has changed about the command."""
        self._aim = aim_of_mark(command)
        self.marked.clear()
        self.wake()

    def wake(self) -> None:
        """Look at the pods anew: something has changed."""
        self._woken.set()

    def unmarked(self) -> list[str]:
        """Return the pods that a mark is still to be set on."""
        return [pod.full_name for pod in self._missing() if not self._past(pod.uid).mark_refused]

    def may_end(self, pod: Pod) -> bool:
        """Whether processes in a pod were told to end."""
        view = self._view()
        return pod.uid in view.told and view.may_end(pod)

    async def run(self) -> None:
        """Mark the pods, and mark them again before that is taken for stale."""
        await known(self._refusal, PLACE_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            while not self._refusal():
                self._woken.clear()
                now = self._monotonic()
                for pod in self._missing():
                    if pod.uid not in self._busy and now >= self._past(pod.uid).mark_again_at:
                        self._busy.add(pod.uid)
                        tasks.create_task(self._mark(pod))
                self._note_marks()
                await self._pause()
        self.marked.set()

    async def _mark(self, pod: Pod) -> None:
        step = Step(Do.MARK, pod)
        try:
            async with self._slots:
                reply = await self._calls.make(step, self._aim)
        finally:
            self._busy.discard(pod.uid)
        lesson = learn(
            self._past(pod.uid),
            step,
            reply,
            aim=self._aim,
            may_force=False,
            now=self._monotonic(),
            spread=random.random(),  # noqa: S311 — spreads load, guards nothing
        )
        self._pasts[pod.uid] = lesson.past
        self.wake()

    def _note_marks(self) -> None:
        if self._mirror.is_listed and not self.unmarked():
            self.marked.set()
        else:
            self.marked.clear()

    async def _pause(self) -> None:
        """Wait until something has changed or is due."""
        seconds = max(REST_SECONDS, self._next_at() - self._monotonic())
        await asyncio.sleep(REST_SECONDS)
        try:
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _next_at(self) -> float:
        """Return when a mark is due, if nothing changes before."""
        view = self._view()
        times = [
            self._past(pod.uid).mark_again_at
            for pod in self._missing()
            if pod.uid not in self._busy
        ]
        marked = (view.pods[uid] for uid in view.told if not needs_mark(view.pods[uid], view))
        stale = (
            pod.disruption.since + MARK_STANDS_SECONDS
            for pod in marked
            if pod.disruption is not None and pod.marked_by_us
        )
        return min((*times, *stale), default=inf)

    def _missing(self) -> list[Pod]:
        view = self._view()
        return [
            pod
            for uid, pod in view.pods.items()
            if uid in view.told and needs_mark(pod, view) and not self._past(uid).is_gone
        ]

    def _view(self) -> View:
        return View(
            aim=self._aim,
            settings=DrainSettings(),
            own_uid=self._own_uid,
            pods=self._mirror.pods,
            now=self._monotonic(),
        )

    def _past(self, uid: str) -> Past:
        return self._pasts.get(uid, NOTHING)
