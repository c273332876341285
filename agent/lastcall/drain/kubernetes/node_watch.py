"""The own node, kept fresh: read, watched, and read again now and then to see that it can be."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lastcall.drain.kubernetes.api import CALL_SECONDS, WATCH_SECONDS, KubeApi, PatchType
from lastcall.drain.kubernetes.node_marks import Node, guarded, is_older, version_of
from lastcall.drain.kubernetes.reply import Outcome, Reply


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the API server is asked for what.

    Attributes:
        warm_seconds: between two reads beside the watch. Shorter than a connection may be idle and
            still be used, so that the cordon finds one that is open.
        watch_seconds: how long a watch goes on before another takes over.
        poll_seconds: between two reads where the node may not be watched.
        watch_again_seconds: after a watch was forbidden it is tried again.
        shortest_back_off_seconds: after the first failure.
        longest_back_off_seconds: after many.
        review_seconds: between two reviews of the agent's rights.
        review_again_seconds: after a review that left something open.
        tend_again_seconds: after a mark or a condition could not be put right.
    """

    warm_seconds: float = 25.0
    watch_seconds: int = WATCH_SECONDS
    poll_seconds: float = 5.0
    watch_again_seconds: float = 600.0
    shortest_back_off_seconds: float = 0.5
    longest_back_off_seconds: float = 10.0
    review_seconds: float = 600.0
    review_again_seconds: float = 30.0
    tend_again_seconds: float = 30.0


class BackOff:
    """How long to wait after failures in a row; spread, so that a fleet does not return at once.

    Args:
        pace: the shortest and the longest wait.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._failures = 0

    def reset(self) -> None:
        """Take note that it went well."""
        self._failures = 0

    def next_seconds(self, retry_after_seconds: float | None = None) -> float:
        """Return how long to wait after one more failure.

        Args:
            retry_after_seconds: what the server asks for; heard as far as the longest wait.
        """
        longest = self._pace.longest_back_off_seconds
        # The exponent is bounded: a server may be down for days.
        step = min(longest, self._pace.shortest_back_off_seconds * 2.0 ** min(self._failures, 16))
        self._failures += 1
        spread = step * random.uniform(0.5, 1)  # noqa: S311 — spreads load, guards nothing
        return min(longest, max(spread, retry_after_seconds or 0.0))


class OwnNode:
    """The newest version of one node, and the way to read and write it.

    Args:
        api: the API server.
        name: the node.
        pace: how often it is read.
        monotonic: seconds.
        came: called with each version, and with the same one when it was read again.
        answered: called with what came of each read, before ``came``.
        gone: called when the node was deleted.
        note: takes, by topic, what stays amiss; an empty text ends it.

    Attributes:
        node: the newest version; ``None`` while none is known.
        may_watch: the watch has not been forbidden.
        is_watched: changes come by themselves.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        name: str,
        pace: Pace,
        monotonic: Callable[[], float],
        came: Callable[[Node], None],
        answered: Callable[[Reply], None],
        gone: Callable[[], None],
        note: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.node: Node | None = None
        self.may_watch = True
        self.is_watched = False
        self._api = api
        self._pace = pace
        self._monotonic = monotonic
        self._came = came
        self._answered = answered
        self._gone = gone
        self._note = note
        self._known_at: float | None = None
        self._taken = 0

    @property
    def age_seconds(self) -> float | None:
        """How long ago the node was last known to be as it is held here."""
        return None if self._known_at is None else self._monotonic() - self._known_at

    async def run(self) -> None:
        """Keep the node fresh, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._keep_warm())

    async def look(self, timeout_seconds: float = CALL_SECONDS) -> Reply:
        """Read the node."""
        taken = self._taken
        reply = await self._api.get_node(self.name, timeout_seconds=timeout_seconds)
        self._answered(reply)
        if reply.ok:
            # A read that something newer has overtaken is old. One that nothing has is right even
            # if its version is lower: the store was restored from a backup.
            self._take(reply.body, check=taken != self._taken)
        elif reply.outcome is Outcome.GONE and taken == self._taken:
            self._lose()
        return reply

    async def write(
        self, patch: Mapping[str, object], read: Node, timeout_seconds: float = CALL_SECONDS
    ) -> Reply:
        """Change the node by a merge patch; ``CONFLICT`` where it is no longer what was read."""
        reply = await self._api.patch_node(
            self.name, guarded(patch, read), PatchType.MERGE, timeout_seconds=timeout_seconds
        )
        if reply.ok:
            self._take(reply.body, check=True)
        return reply

    async def write_condition(self, condition: Mapping[str, Any]) -> Reply:
        """Set one of the node's conditions."""
        reply = await self._api.patch_node_status(self.name, {"conditions": [condition]})
        if reply.ok:
            self._take(reply.body, check=True)
        return reply

    async def _follow(self) -> None:
        pace, back_off, watch_at = self._pace, BackOff(self._pace), self._monotonic()
        while True:
            began = self._monotonic()
            reply = await self.look()
            if reply.ok and began >= watch_at:
                reply = await self._watch(reply.body)
                watch_at = self._monotonic()
                watch_at += 0.0 if self.may_watch else pace.watch_again_seconds
            if self._monotonic() - began > pace.longest_back_off_seconds:
                back_off.reset()
            if self.may_watch or reply.outcome not in {Outcome.OK, Outcome.FORBIDDEN}:
                await asyncio.sleep(back_off.next_seconds(reply.retry_after_seconds))
            else:
                await asyncio.sleep(pace.poll_seconds)

    async def _watch(self, since: Node) -> Reply:
        """Take in each change, and return why there are no more."""
        seconds = self._pace.watch_seconds
        stream = self._api.watch_node(self.name, version_of(since), watch_seconds=seconds)
        async with stream as watch:
            # Nothing comes while nothing changes, so only a refusal is known at once.
            self._opened(watch.end)
            try:
                async for event in watch:
                    self._event(event.type, event.object)
            finally:
                self.is_watched = False
        return watch.end or Reply(Outcome.UNKNOWN)

    def _opened(self, refusal: Reply | None) -> None:
        self.is_watched = refusal is None
        self.may_watch = refusal is None or refusal.outcome is not Outcome.FORBIDDEN
        if refusal is None:
            self._note("watch", "")
        elif not self.may_watch:
            every = f"read every {self._pace.poll_seconds:g} s instead of watched"
            self._note("watch", f"the node is {every}: {refusal.cause_text}")

    async def _keep_warm(self) -> None:
        while True:
            await asyncio.sleep(self._pace.warm_seconds)
            await self.look()

    def _event(self, type_: str, content: Mapping[str, Any]) -> None:
        if type_ == "BOOKMARK":
            self._known_at = self._monotonic()
        elif type_ != "DELETED":
            self._take(content, check=True)
        elif self.node is None or not is_older(content, self.node):
            self._lose()

    def _take(self, node: Node, *, check: bool) -> None:
        if check and self.node is not None and is_older(node, self.node):
            return
        self.node = node
        self._taken += 1
        self._known_at = self._monotonic()
        self._came(node)

    def _lose(self) -> None:
        was_there, self.node = self.node is not None, None
        self._taken += 1
        if was_there:
            self._gone()
