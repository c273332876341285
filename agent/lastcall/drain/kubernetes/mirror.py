"""The pods of the node, kept fresh: one list, then a watch, so that a drain can start at once.

What is known last is kept while the server does not answer. Versions of a pod are told apart by
their resource version, which is a number that grows (Kubernetes documentation, API concepts).
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lastcall.drain.kubernetes.api import KubeApi, PodList
from lastcall.drain.kubernetes.pods import Pod, pod_uids, read_pod
from lastcall.drain.kubernetes.reply import Outcome, Reply, unknown
from lastcall.drain.kubernetes.watch import WatchEvent

LIST_SECONDS = 10.0
"""How long all pages of a list may take."""

HURRIED_LIST_SECONDS = 3.0
"""How long a list may take at first while a drain goes on."""

LONGEST_REST_SECONDS = 30.0
"""At most so long it is waited between two tries."""

HURRIED_REST_SECONDS = 1.0
"""At most so long it is waited while a drain goes on."""

QUIET_SECONDS = 75.0
"""A watch that has said nothing for longer is begun anew when a drain starts: about every minute a
bookmark comes (Kubernetes documentation, API concepts)."""

HURRIED_QUIET_SECONDS = 5.0
"""While a drain goes on, a watch that has said nothing for this long is begun anew: what it has
missed comes then, and where it has missed nothing that costs one call."""

STEADY_SECONDS = 1.0
"""A watch that has held this long counts as one that went well."""

GONE_PODS = 1024
"""So many pods that have gone are still known by name."""

_SHORTEST_REST_SECONDS = 0.25
_FAILURES_UNTIL_LIST = 5
_HURRIED_FAILURES_UNTIL_LIST = 2


class PodMirror:
    """Knows the pods of a node.

    Args:
        api: the API server.
        node_name: the node.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        changed: told after each change; must not block.

    Attributes:
        is_listed: the pods have been listed at least once.
        trouble: why they are not known, or not as they are now; empty where they are.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        node_name: str,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.is_listed = False
        self.trouble = ""
        self._api = api
        self._node_name = node_name
        self._monotonic = monotonic
        self._wall = wall
        self._changed = changed
        self._pods: dict[str, Pod] = {}
        self._gone: OrderedDict[str, Pod] = OrderedDict()
        self._version = ""
        self._lists_next = True
        self._is_followed = False
        self._is_listing = False
        self._heard_at = monotonic()
        self._failures = 0
        self._is_hurried = False
        self._woken = asyncio.Event()
        self._patience: asyncio.Timeout | None = None

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The node's pods, by UID."""
        return self._pods

    @property
    def age_seconds(self) -> float | None:
        """How old what is known is: 0 while it is watched, ``None`` while nothing is known."""
        if not self.is_listed:
            return None
        return 0.0 if self._is_followed else max(0.0, self._monotonic() - self._heard_at)

    def find(self, cgroup_or_name: str) -> Pod | None:
        """Return a pod by a control group in it, or by ``NAMESPACE/NAME``.

        Pods that have gone are found too, unless another is there under the name.
        """
        if cgroup_or_name.startswith("/"):
            return self._find_by_uid(pod_uids(cgroup_or_name))
        for pod in (*self._pods.values(), *reversed(self._gone.values())):
            if pod.full_name == cgroup_or_name:
                return pod
        return None

    def hurry(self, *, is_hurried: bool) -> None:
        """Try harder, or no longer, to know the pods as they are now."""
        self._is_hurried = is_hurried
        if not is_hurried:
            if self._is_followed:
                self._be_patient()
            return
        self._woken.set()
        is_quiet = self._monotonic() - self._heard_at > QUIET_SECONDS
        if self._is_listing or (self._is_followed and is_quiet):
            self._break_off()
        elif self._is_followed:
            self._be_patient()

    def doubt(self) -> None:
        """Begin anew with a list: the server knows better than what the watch has shown."""
        self._lists_next = True
        self._break_off()

    def take(self, content: Mapping[str, Any]) -> None:
        """Take in a pod as an answer to another call shows it, if the pod is known."""
        uid = _uid(content)
        if uid in self._pods:
            self._put(content)
            self._changed()

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        if self._drop(uid):
            self._changed()

    async def run(self) -> None:
        """Keep the pods fresh until cancelled."""
        while True:
            if self._lists_next:
                reply = await self._list()
                if not reply.ok:
                    await self._rest(reply)
                    continue
            began_at = self._monotonic()
            end = await self._follow()
            await self._after(end, self._monotonic() - began_at)

    async def _list(self) -> Reply:
        """List the pods; every other try takes what the server has in memory."""
        seconds = LIST_SECONDS
        if self._is_hurried:
            seconds = min(seconds, HURRIED_LIST_SECONDS * (self._failures // 2 + 1))
        from_cache = self._failures % 2 == 1
        self._is_listing = not self._is_hurried
        try:
            async with asyncio.timeout(None) as self._patience:
                listed = await self._api.list_pods(
                    self._node_name,
                    from_cache=from_cache,
                    timeout_seconds=seconds,
                )
        except TimeoutError:
            return unknown("the list was broken off for a faster one")
        finally:
            self._patience = None
            self._is_listing = False
        if listed.reply.ok:
            self._take_list(listed, is_sure=not from_cache)
        return listed.reply

    def _take_list(self, listed: PodList, *, is_sure: bool) -> None:
        version = listed.resource_version
        newest = int(version) if version.isdecimal() and not is_sure else None
        self._replace(listed.items, newest)
        self._version, self._lists_next = version, False
        self._heard()
        self.is_listed = True
        self._changed()

    async def _follow(self) -> Reply | None:
        """Take in changes until the watch ends, and return how; ``None`` if it was broken off."""
        try:
            async with (
                asyncio.timeout(None) as self._patience,
                self._api.watch_pods(self._node_name, self._version) as watch,
            ):
                self._is_followed = watch.end is None
                if self._is_followed:
                    self._heard()
                    self._be_patient()
                async for event in watch:
                    self._heard()
                    self._be_patient()
                    self._on(event)
                    self._version = watch.resource_version
        except TimeoutError:
            return None
        finally:
            self._patience = None
            self._is_followed = False
        return watch.end

    async def _after(self, end: Reply | None, lasted_seconds: float) -> None:
        """Decide how to go on after a watch."""
        if end is None:
            return
        is_clean = end.outcome in (Outcome.OK, Outcome.EXPIRED)
        if end.outcome is Outcome.EXPIRED:
            self._lists_next = True
        if lasted_seconds >= STEADY_SECONDS:
            self._failures = 0
        if is_clean and self._failures == 0:
            # One that ends at once again and again must not keep the server busy.
            self._failures = 0 if lasted_seconds >= STEADY_SECONDS else 1
            return
        if end.outcome in (Outcome.FORBIDDEN, Outcome.INVALID, Outcome.GONE):
            # A list is what is left to one who may not watch.
            self._lists_next = True
        limit = _HURRIED_FAILURES_UNTIL_LIST if self._is_hurried else _FAILURES_UNTIL_LIST
        if self._failures >= limit:
            self._lists_next = True
        await self._rest(end)

    async def _rest(self, reply: Reply) -> None:
        """Wait before the next try, longer each time."""
        self.trouble = "" if reply.ok else reply.message
        longest = HURRIED_REST_SECONDS if self._is_hurried else LONGEST_REST_SECONDS
        seconds = min(longest, _SHORTEST_REST_SECONDS * 2.0 ** min(self._failures, 16))
        seconds *= random.uniform(0.5, 1.0)  # noqa: S311 — spreads load, guards nothing
        self._failures += 1
        self._woken.clear()
        try:
            async with asyncio.timeout(max(seconds, min(longest, reply.retry_after_seconds or 0))):
                await self._woken.wait()
        except TimeoutError:
            return

    def _heard(self) -> None:
        self._heard_at = self._monotonic()
        self.trouble = ""

    def _be_patient(self) -> None:
        """Wait from now on for what the watch says next."""
        if self._patience is None or self._patience.expired():
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + HURRIED_QUIET_SECONDS if self._is_hurried else None
        self._patience.reschedule(until)

    def _break_off(self) -> None:
        self._woken.set()
        patience, self._patience = self._patience, None
        if patience is not None and not patience.expired():
            patience.reschedule(asyncio.get_running_loop().time())

    def _on(self, event: WatchEvent) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            self._put(event.object)
        elif event.type == "DELETED":
            self._drop(_uid(event.object))
        else:
            return
        self._changed()

    def _replace(self, items: Iterable[Mapping[str, Any]], newest: int | None) -> None:
        """Take in a list: what it lacks has gone.

        Args:
            items: the pods.
            newest: the version that the list is of, where it may be older than what is known.
        """
        listed = set()
        for content in items:
            self._put(content, is_sure=newest is None)
            listed.add(_uid(content))
        for uid, pod in list(self._pods.items()):
            if uid not in listed and (newest is None or pod.version <= newest):
                self._drop(uid)

    def _put(self, content: Mapping[str, Any], *, is_sure: bool = False) -> None:
        """Take in a pod, unless it is another node's, or may be older than what is known."""
        known = self._pods.get(_uid(content))
        pod = read_pod(content, now=self._monotonic(), unix_now=self._wall(), known=known)
        if pod is None or pod.node != self._node_name:
            return
        if not is_sure and known is not None and 0 < pod.version < known.version:
            return
        self._pods[pod.uid] = pod
        self._gone.pop(pod.uid, None)

    def _drop(self, uid: str) -> bool:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        self._gone[uid] = pod
        while len(self._gone) > GONE_PODS:
            self._gone.popitem(last=False)
        return True

    def _find_by_uid(self, uids: Iterable[str]) -> Pod | None:
        for uid in uids:
            pod = self._pods.get(uid) or self._gone.get(uid)
            if pod is not None:
                return pod
            for static in self._pods.values():
                if static.static_uid and static.static_uid == uid:
                    return static
        return None


def _uid(content: Mapping[str, Any]) -> str:
    metadata = content.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""
