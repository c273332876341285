"""The calls a drain makes about a pod; what each answer shows of the pod is taken in at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.drain_aim import Aim
from lastcall.drain.kubernetes.drain_past import Do, Step
from lastcall.drain.kubernetes.mirror import PodMirror
from lastcall.drain.kubernetes.pods import MARK_REASON, Pod
from lastcall.drain.kubernetes.reply import Outcome, Reply

UNMARK_SECONDS = 1.0
"""How long it may take to take a mark back."""

DOUBT_AGAIN_SECONDS = 5.0
"""At most so often is the watch distrusted."""


class PodCalls:
    """Carries out steps.

    Args:
        api: the API server.
        mirror: the node's pods.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        mirror: PodMirror,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._api = api
        self._mirror = mirror
        self._monotonic = monotonic
        self._wall = wall
        self._doubt_from = float("-inf")

    async def make(self, step: Step, aim: Aim) -> Reply:
        """Make the call of a step and return the answer."""
        match step.do:
            case Do.MARK:
                return await self._mark(step.pod, aim)
            case Do.EVICT:
                return await self._evict(step, aim)
            case Do.DELETE:
                return await self._delete(step, aim)
            case Do.LOOK:
                return await self._look(step.pod, aim)

    async def unmark(self, pod: Pod) -> None:
        """Take our mark back."""
        message = "lastcall: the notice was withdrawn"
        reply = await self._api.patch_pod_status(
            pod.namespace,
            pod.name,
            pod.uid,
            {"conditions": [self._condition("False", message)]},
            timeout_seconds=UNMARK_SECONDS,
        )
        self._heed(pod, reply)

    async def _mark(self, pod: Pod, aim: Aim) -> Reply:
        message = f"lastcall: the node goes, {aim.kind} notice {aim.id}"
        reply = await self._api.patch_pod_status(
            pod.namespace,
            pod.name,
            pod.uid,
            {"conditions": [self._condition("True", message)]},
            timeout_seconds=aim.call_seconds(self._monotonic()),
        )
        self._heed(pod, reply)
        return reply

    async def _evict(self, step: Step, aim: Aim) -> Reply:
        pod = step.pod
        reply = await self._api.evict_pod(
            pod.namespace,
            pod.name,
            pod.uid,
            grace_seconds=step.grace_seconds,
            timeout_seconds=aim.call_seconds(self._monotonic()),
        )
        if reply.outcome is Outcome.GONE:
            self._mirror.forget(pod.uid)
        return reply

    async def _delete(self, step: Step, aim: Aim) -> Reply:
        """Delete a pod; a Job must have been told first that it did not fail by itself."""
        pod = step.pod
        if pod.disruption is None and pod.ends_at is None:
            marked = await self._mark(pod, aim)
            if marked.outcome in (Outcome.GONE, Outcome.CONFLICT):
                return marked
        now = self._monotonic()
        reply = await self._api.delete_pod(
            pod.namespace,
            pod.name,
            pod.uid,
            # Marking it has taken time.
            grace_seconds=aim.grace_to_send(pod.grace_seconds, now),
            timeout_seconds=aim.call_seconds(now),
        )
        self._heed(pod, reply)
        return reply

    async def _look(self, pod: Pod, aim: Aim) -> Reply:
        seconds = aim.call_seconds(self._monotonic())
        reply = await self._api.get_pod(pod.namespace, pod.name, timeout_seconds=seconds)
        if reply.ok or reply.outcome is Outcome.GONE:
            known = self._mirror.pods.get(pod.uid)
            uid, is_ending = _shown(reply.body)
            was_ending = known is not None and known.ends_at is not None
            is_news = known is not None and (uid != pod.uid or is_ending != was_ending)
            if uid != pod.uid:
                self._mirror.forget(pod.uid)
            self._heed(pod, reply)
            now = self._monotonic()
            if is_news and now >= self._doubt_from:
                self._doubt_from = now + DOUBT_AGAIN_SECONDS
                self._mirror.doubt()
        return reply

    def _heed(self, pod: Pod, reply: Reply) -> None:
        """Take in what an answer shows of the pod."""
        if reply.outcome is Outcome.GONE:
            self._mirror.forget(pod.uid)
        elif reply.ok and _shown(reply.body)[0] == pod.uid:
            self._mirror.take(reply.body)

    def _condition(self, status: str, message: str) -> Mapping[str, object]:
        now = datetime.fromtimestamp(self._wall(), UTC)
        return {
            "type": "DisruptionTarget",
            "status": status,
            "reason": MARK_REASON,
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _shown(body: Mapping[str, object]) -> tuple[object, bool]:
    """Return the UID of a pod object, and whether somebody ends it."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return None, False
    return metadata.get("uid"), "deletionTimestamp" in metadata
