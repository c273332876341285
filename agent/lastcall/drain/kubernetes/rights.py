"""Whether the agent may do what a drain on Kubernetes will ask of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lastcall.drain.kubernetes.api import CALL_SECONDS, KubeApi, PatchType
from lastcall.drain.kubernetes.node_marks import Wanted, cordon_step
from lastcall.drain.kubernetes.reply import Outcome, Reply
from lastcall.drain.kubernetes.reviews import Right, is_allowed

DRY_RUN = "dry run: patch nodes"
"""What the admission dry run is called among the rights."""

CALLS_IN_FLIGHT = 4
"""Reviews at a time: few enough to disturb nobody, when a whole fleet starts at once."""

WATCH_NODE = Right("watch", "nodes")
"""The one right that a drain can do without: the node is read often instead."""

_LIST_PODS = Right("list", "pods")

_POD_READS = (Right("get", "pods"), _LIST_PODS, Right("watch", "pods"))

_CORDON = cordon_step(
    {},
    Wanted(
        notice_id="dry-run",
        kind="manual",
        boot_id="dry-run",
        deadline="1970-01-01T00:00:00Z",
        taint=False,
    ),
).patch
"""The real cordon's own patch: an admission policy may look at any part of it."""


@dataclass(frozen=True, slots=True)
class RightFinding:
    """What became known about one right.

    Attributes:
        right: its name, as ``str()`` of a :class:`Right` gives it, or :data:`DRY_RUN`.
        allowed: ``None`` where it could not be found out.
        detail: empty where allowed; else why not, one line with the server's own words.
    """

    right: str
    allowed: bool | None
    detail: str = ""


def needed(*, method: str, force: str, watches_node: bool = True) -> tuple[Right, ...]:
    """Return the rights that a drain needs, in the order of their use.

    Args:
        method: ``evict``, or ``delete`` for a drain that has no right to evict.
        force: which pods that a budget still protects are deleted in the end: ``all``,
            ``training`` or ``none``.
        watches_node: the own node is watched for what other controllers say about it.
    """
    node = [Right("get", "nodes"), WATCH_NODE, Right("patch", "nodes")]
    if not watches_node:
        node.remove(WATCH_NODE)
    removal = []
    if method == "evict":
        removal.append(Right("create", "pods", subresource="eviction"))
    if method == "delete" or force != "none":
        removal.append(Right("delete", "pods"))
    return (
        *node,
        Right("patch", "nodes", subresource="status"),
        *_POD_READS,
        # Needed even where nothing is deleted: a trainer that exits by itself needs the mark too.
        Right("patch", "pods", subresource="status"),
        *removal,
        Right("create", "events"),
    )


async def review(
    api: KubeApi, node_name: str, rights: Sequence[Right], *, timeout_seconds: float
) -> tuple[RightFinding, ...]:
    """Find out which rights are granted, and whether admission lets the cordon pass.

    Reviews of access see no admission policies (seen on Kubernetes 1.36), so the cordon's own patch
    is sent too, as a dry run: it changes nothing. Raises nothing.

    Args:
        api: the API server.
        node_name: the agent's own node.
        rights: what to ask for.
        timeout_seconds: for all of it.

    Returns:
        One finding a right, in their order, and the dry run's last.
    """
    questions = _Questions(api, node_name, timeout_seconds)
    rehearsed, *reviewed = await asyncio.gather(
        questions.rehearse(), *(questions.review(right) for right in rights)
    )
    if any(one.right == str(_LIST_PODS) and one.allowed is False for one in reviewed):
        reviewed = await _doubted(questions, reviewed)
    return (*reviewed, rehearsed)


async def _doubted(questions: _Questions, reviewed: Iterable[RightFinding]) -> list[RightFinding]:
    """Return the findings, put right for an identity that may read the pods of its node alone.

    Such is the kubelet's. A review names no field selector, so it denies the reading of pods even
    where a list of the own node's pods is allowed (seen on Kubernetes 1.36).
    """
    reads = {str(right) for right in _POD_READS}
    may_read_own = await questions.may_list_own_pods()
    return [
        RightFinding(one.right, allowed=True) if may_read_own and one.right in reads else one
        for one in reviewed
    ]


class _Questions:
    """The questions of one review, which share its time."""

    def __init__(self, api: KubeApi, node_name: str, timeout_seconds: float) -> None:
        self._api = api
        self._node_name = node_name
        self._loop = asyncio.get_running_loop()
        self._timeout_seconds = timeout_seconds
        self._over_at = self._loop.time() + timeout_seconds
        self._turns = asyncio.Semaphore(CALLS_IN_FLIGHT)

    async def review(self, right: Right) -> RightFinding:
        """Ask whether a right is granted."""
        # The kubelet may read its own node and no other, so the node is named.
        asked = replace(right, name=self._node_name) if right.resource == "nodes" else right
        async with self._turns:
            seconds = self._call_seconds()
            if seconds <= 0:
                return self._late(str(right))
            reply = await self._api.review_access(asked, timeout_seconds=seconds)
        allowed = is_allowed(reply)
        return RightFinding(str(right), allowed, "" if allowed else _why(reply))

    async def rehearse(self) -> RightFinding:
        """Send the cordon's patch as a dry run."""
        async with self._turns:
            seconds = self._call_seconds()
            if seconds <= 0:
                return self._late(DRY_RUN)
            reply = await self._api.patch_node(
                self._node_name,
                _CORDON or {},
                PatchType.MERGE,
                dry_run=True,
                timeout_seconds=seconds,
            )
        if reply.ok:
            return RightFinding(DRY_RUN, allowed=True)
        # A policy that names no reason of its own is answered with 422 (seen on Kubernetes 1.36).
        denied = reply.outcome in {Outcome.FORBIDDEN, Outcome.INVALID}
        return RightFinding(DRY_RUN, False if denied else None, _line(reply.cause_text))

    async def may_list_own_pods(self) -> bool:
        """Try it: reading changes nothing."""
        seconds = self._call_seconds()
        if seconds <= 0:
            return False
        listed = await self._api.list_pods(
            self._node_name, from_cache=True, timeout_seconds=seconds
        )
        return listed.reply.ok

    def _call_seconds(self) -> float:
        # Rounded, since it is said when the time runs out.
        return round(min(CALL_SECONDS, self._over_at - self._loop.time()), 1)

    def _late(self, right: str) -> RightFinding:
        return RightFinding(right, None, f"not asked within {self._timeout_seconds:g} s")


def _why(review: Reply) -> str:
    if not review.ok:
        return _line(review.cause_text)
    status = review.body.get("status")
    if not isinstance(status, dict) or "allowed" not in status:
        return "the review says neither yes nor no"
    said = (status.get("reason"), status.get("evaluationError"))
    texts = [text for text in said if isinstance(text, str) and text]
    return _line("; ".join(texts)) or "no role grants it"


def _line(text: str) -> str:
    return " ".join(text.split())
