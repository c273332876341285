"""The own node: cordoned for a notice, given back, and watched for what others do about it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lastcall.core.events import CordonLifted
from lastcall.core.facts import Fact, NoticeEnded
from lastcall.core.views import NoticeView
from lastcall.drain.base import Attempt, Post
from lastcall.drain.kubernetes.api import CALL_SECONDS, KubeApi
from lastcall.drain.kubernetes.events import ObjectRef
from lastcall.drain.kubernetes.node_belief import Belief
from lastcall.drain.kubernetes.node_change import Change, Plan, change
from lastcall.drain.kubernetes.node_gpus import GpuReport
from lastcall.drain.kubernetes.node_health import Health
from lastcall.drain.kubernetes.node_lifted import Lifted
from lastcall.drain.kubernetes.node_marks import (
    Node,
    Step,
    Wanted,
    cordon_step,
    marks_of,
    uid_of,
    uncordon_step,
    wanted_marks,
)
from lastcall.drain.kubernetes.node_tender import Tender
from lastcall.drain.kubernetes.node_tries import Tries
from lastcall.drain.kubernetes.node_watch import BackOff, OwnNode, Pace
from lastcall.drain.kubernetes.reply import Outcome, Reply
from lastcall.drain.kubernetes.reviews import Right, node_name_of
from lastcall.drain.kubernetes.rights import review

REVIEW_SECONDS = 10.0
"""How long a review of all rights may take."""

LEAST_CALL_SECONDS = 0.25
"""However little time is left, a call has this much."""

_IN_THE_DARK = {Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.UNAUTHORIZED}


class NodeKeeper:
    """Keeps one node of a cluster: its cordon, its marks, and what is known of it.

    A cordon takes one call: the node is watched, and the patch goes out on the version at hand.
    Nothing is raised.

    Args:
        api: the API server.
        node_name: the node, as the cluster knows it.
        boot_id: names this boot of the machine.
        taint: a taint goes beside the cordon.
        rights: what the agent needs to be allowed.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        seen: takes each version of the node object, and the same one when it was read again.
        unseen: takes why the node cannot be seen.
        pace: how often the API server is asked for what.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        node_name: str,
        boot_id: str,
        taint: bool,
        rights: Sequence[Right],
        post: Post,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        seen: Callable[[Mapping[str, Any]], None],
        unseen: Callable[[str], None],
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._boot_id = boot_id
        self._taint = taint
        self._rights = rights
        self._post = post
        self._monotonic = monotonic
        self._wall = wall
        self._seen = seen
        self._unseen = unseen
        self._pace = pace or Pace()
        self._uid = ""
        self._is_identified = False
        self._misplaced = ""
        self._in_flight = 0
        self._is_closed = False
        self._tries = Tries()
        self._lifted = Lifted()
        self._gpus = GpuReport(monotonic)
        self._belief = Belief(boot_id)
        self._health = Health(post)
        self._own = OwnNode(
            api=api,
            name=node_name,
            pace=self._pace,
            monotonic=monotonic,
            came=self._came,
            answered=self._answered,
            gone=self._gone,
            note=self._health.note,
        )
        self._tender = Tender(
            own=self._own,
            wall=wall,
            monotonic=monotonic,
            again_seconds=self._pace.tend_again_seconds,
            note=self._health.note,
            lifted=self._lifted.standing,
            gpus=self._gpus,
        )

    async def run(self) -> None:
        """Keep the node at hand, and the connection warm, until cancelled."""
        await self._learn_identity()
        if self._misplaced:
            # Only another start with another name mends that, so nothing is tried again.
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._own.run())
            tasks.create_task(self._review_rights())

    async def cordon(self, notice: NoticeView) -> Attempt:
        """Make the node unschedulable and write down for what, unless somebody else has.

        It takes two calls' time at most, and a call at most a quarter of the time that is left.

        Args:
            notice: what it is made for.
        """
        with self._tries.under_way(notice.id):
            return await self._attempt(self._cordon(notice))

    async def uncordon(self, notice_id: str) -> Attempt:
        """Make the node schedulable, if the cordon is still ours and made for this notice.

        Done is also what leaves nothing of ours to lift: the cordon became somebody else's, or it
        stands for another notice by now, and is then found anew.

        Args:
            notice_id: what it was made for.
        """
        return await self._attempt(self._uncordon(notice_id))

    async def tried(self, notice_id: str) -> None:
        """Return once the first attempt to cordon the node for a notice is over.

        It is not waited for longer than a second, and not where the node is cordoned
        already or no attempt begins.

        Args:
            notice_id: the notice.
        """
        if self._belief.notice_id is None and not self._misplaced:
            await self._tries.over(notice_id)

    @property
    def refusal(self) -> str | None:
        """Why nothing may be done in the cluster: the agent's credentials are another node's.

        Empty where they are right, or made for no node; ``None`` while that is not known.
        """
        return self._misplaced if self._is_identified else None

    def ref(self) -> ObjectRef:
        """Return how events name the node; its UID is empty until the node has been read."""
        return ObjectRef("Node", self._node_name, uid=self._uid)

    def note(self, fact: Fact) -> None:
        """Take in what has become known: how the GPUs are, the end of a notice."""
        if isinstance(fact, NoticeEnded):
            self._lifted.ended(fact.notice.id)
            self._consider()
        elif (seconds := self._gpus.note(fact)) is not None:
            asyncio.get_running_loop().call_later(seconds, self._consider)

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of the node and of the API server, ready for JSON."""
        age = self._own.age_seconds
        return {
            **self._health.status(),
            "node": self._node_name,
            "node_watched": self._own.is_watched,
            "node_age_seconds": None if age is None else round(age, 1),
        }

    async def close(self) -> None:
        """Stop what goes on in the background; the cordon stays as it is."""
        self._is_closed = True
        await self._tender.close()

    # --- the cordon --------------------------------------------------------------------------

    async def _attempt(self, work: Awaitable[Attempt]) -> Attempt:
        self._in_flight += 1
        try:
            return await work
        finally:
            self._in_flight -= 1
            # What is found must be told after what came of the attempt, which is told next.
            asyncio.get_running_loop().call_soon(self._consider)

    async def _cordon(self, notice: NoticeView) -> Attempt:
        now = self._monotonic()
        left_seconds = None if notice.deadline is None else notice.deadline - now
        seconds = call_seconds(left_seconds)
        over_at = asyncio.get_running_loop().time() + 2 * seconds
        if await self._is_misplaced(seconds):
            return Attempt(done=False, detail=self._misplaced)
        wanted = wanted_marks(
            notice,
            boot_id=self._boot_id,
            taint=self._taint,
            now=now,
            now_unix=self._wall(),
        )
        self._lifted.cordoned(notice.id)
        stands = self._belief.notice_id == notice.id
        changed = await self._change(_cordoning(wanted, stands), seconds, over_at)
        detail = ""
        if wanted.taint and changed.reply.outcome in {Outcome.FORBIDDEN, Outcome.INVALID}:
            # The kubelet's own credentials, for one, may do all but taint (seen on Kubernetes
            # 1.36). A taint is a hint; the cordon is what counts.
            detail = f"without the taint: {self._why(changed.reply)}"
            bare = replace(wanted, taint=False)
            changed = await self._change(_cordoning(bare, stands), seconds, over_at)
        if changed.attempt is None:
            return Attempt(done=False, detail=self._failure("the cordon", changed))
        if not changed.attempt.done:
            return changed.attempt
        self._belief.cordoned(notice.id)
        return replace(changed.attempt, detail=detail)

    async def _uncordon(self, notice_id: str) -> Attempt:
        over_at = asyncio.get_running_loop().time() + 2 * CALL_SECONDS
        if await self._is_misplaced(CALL_SECONDS):
            return Attempt(done=False, detail=self._misplaced)
        self._belief.giving_back(notice_id)
        changed = await self._change(
            lambda node: uncordon_step(node, notice_id), CALL_SECONDS, over_at
        )
        attempt = changed.attempt
        if changed.reply.outcome is Outcome.GONE:
            attempt = Attempt(done=True, detail="the node object is gone")
        if attempt is None:
            return Attempt(done=False, detail=self._failure("the lifting of the cordon", changed))
        self._belief.given_back()
        return attempt

    async def _change(self, plan: Plan, seconds: float, over_at: float) -> Change:
        return await change(self._own, plan, call_seconds=seconds, over_at=over_at)

    # --- what becomes known ------------------------------------------------------------------

    def _came(self, node: Node) -> None:
        self._uid = uid_of(node)
        self._seen(node)
        self._consider()

    def _gone(self) -> None:
        self._unseen("the node object was deleted")

    def _answered(self, reply: Reply) -> None:
        trouble = "" if reply.ok else self._why(reply)
        if reply.outcome is Outcome.GONE and not self._uid:
            # The server answers, but with this name there is nothing to be had of it.
            self._health.useless(trouble)
        else:
            self._health.answered(reply.outcome, trouble)
        if trouble:
            self._unseen(trouble)

    def _consider(self) -> None:
        """Hold what is believed against the node; while an attempt goes on, neither is settled."""
        node = self._own.node
        if node is None or self._in_flight or self._is_closed:
            return
        event = self._belief.judge(node)
        if event is not None:
            self._post(event)
        if isinstance(event, CordonLifted):
            self._lifted.lifted(event.id)
        self._tender.tend()

    def _failure(self, what: str, changed: Change) -> str:
        why = self._why(changed.reply)
        if changed.written is None:
            return why
        refused = f"{what} was not written: {self._why(changed.written)}"
        return refused if changed.written is changed.reply else f"{refused}; then {why}"

    def _why(self, reply: Reply) -> str:
        if reply.outcome is Outcome.GONE and not self._uid:
            return f'there is no node named "{self._node_name}"; set node_name (NODE_NAME)'
        if reply.outcome is Outcome.UNAUTHORIZED:
            return f"the API server refuses the agent's credentials: {reply.cause_text}"
        return reply.cause_text

    # --- who the agent is, and what it may do ------------------------------------------------

    async def _learn_identity(self) -> None:
        back_off = BackOff(self._pace)
        while True:
            reply = await self._identify(CALL_SECONDS)
            if self._is_identified:
                return
            self._answered(reply)
            await asyncio.sleep(back_off.next_seconds(reply.retry_after_seconds))

    async def _is_misplaced(self, seconds: float) -> bool:
        if not self._is_identified:
            await self._identify(seconds)
        return bool(self._misplaced)

    async def _identify(self, seconds: float) -> Reply:
        """Ask for which node the credentials were made; not all of them are made for one."""
        reply = await self._api.who_am_i(timeout_seconds=seconds)
        if reply.outcome in _IN_THE_DARK:
            return reply
        bound = _bound_node(reply)
        if bound and bound != self._node_name and not self._misplaced:
            self._misplaced = (
                f"this token is bound to node {bound}, but node_name is {self._node_name}; "
                "set node_name (NODE_NAME)"
            )
            self._health.useless(self._misplaced)
            self._unseen(self._misplaced)
        self._is_identified = True
        return reply

    async def _review_rights(self) -> None:
        while True:
            findings = await review(
                self._api, self._node_name, self._rights, timeout_seconds=REVIEW_SECONDS
            )
            self._health.reviewed(findings)
            is_open = any(one.allowed is None for one in findings)
            pace = self._pace
            seconds = pace.review_again_seconds if is_open else pace.review_seconds
            await asyncio.sleep(seconds * random.uniform(0.9, 1))  # noqa: S311 — spreads load


def call_seconds(left_seconds: float | None) -> float:
    """Return how long a call for a cordon may take.

    Args:
        left_seconds: until the node goes; ``None`` where that is not known.
    """
    if left_seconds is None:
        return CALL_SECONDS
    return min(CALL_SECONDS, max(LEAST_CALL_SECONDS, left_seconds / 4))


def _cordoning(wanted: Wanted, stands: bool) -> Plan:
    """Return how the node is cordoned, or what its marks say is renewed where ours stands."""

    def plan(node: Node) -> Step:
        if stands and not marks_of(node).is_our_cordon:
            # Whoever lifts it has the last word, also while its marks are being renewed.
            return Step(Attempt(done=False, detail="our cordon stands no more"))
        return cordon_step(node, wanted)

    return plan


def _bound_node(reply: Reply) -> str:
    """Return the node that credentials were made for: a pod's token's, or the kubelet's own."""
    claimed = node_name_of(reply)
    if claimed:
        return claimed
    status = reply.body.get("status")
    user = status.get("userInfo") if isinstance(status, dict) else None
    name = str(user.get("username", "")) if isinstance(user, dict) else ""
    return name.removeprefix("system:node:") if name.startswith("system:node:") else ""
