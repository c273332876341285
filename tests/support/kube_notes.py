"""Facts that become Kubernetes Events, and a stand-in for the API that takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from lastcall.core.facts import (
    ClientCame,
    FlushOverdue,
    FlushSettled,
    NodeDrained,
    NoticeEnded,
    NoticeTold,
    PodMoved,
)
from lastcall.core.model import DeadlineQuality
from lastcall.core.views import NoticeView
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.events import EventText, ObjectRef
from lastcall.drain.kubernetes.notes import EventWriter
from lastcall.drain.kubernetes.reply import Outcome, Reply
from support.agent_socket import view
from support.happenings import UNIX_AT_ZERO

NODE = ObjectRef("Node", "node-a", uid="u-node")
POD = ObjectRef("Pod", "train-0", "training", "u-0")
CGROUP = "/kubepods/podu-0/abc"


def notice(key: str = "aws-preemption-1a2b", **changes: Any) -> NoticeView:
    """Return a notice whose deadline is two minutes after the clocks' zero."""
    fields: dict[str, Any] = {
        "deadline": 120.0,
        "deadline_unix": UNIX_AT_ZERO + 120.0,
        "deadline_quality": DeadlineQuality.PROVIDER,
        "flush_until": 110.0,
    }
    return view(key, **{**fields, **changes})


def told(clients: int = 8, **changes: Any) -> NoticeTold:
    """Return the fact that clients are told."""
    return NoticeTold(notice(**changes), clients)


def settled(rank: int | None = 0, outcome: str = "in_time", **changes: Any) -> FlushSettled:
    """Return the fact that a flush is over."""
    fields: dict[str, Any] = {
        "notice": notice(),
        "client": f"client-{rank}",
        "job": "llama",
        "rank": rank,
        "outcome": outcome,
        "flush_seconds": 20.0,
        "margin_seconds": 12.34,
        "used_ratio": 0.2,
        "step": 1200,
        "path": "/ckpt/1200",
        "cause": "",
        "cgroup": CGROUP,
    }
    return FlushSettled(**{**fields, **changes})


def came(rank: int | None = 0, job: str = "llama") -> ClientCame:
    """Return the fact that a process said hello."""
    return ClientCame(f"client-{rank}", job, rank, 100, returned=False)


def overdue(*ranks: int, **changes: Any) -> FlushOverdue:
    """Return the fact that the deadline is here and these ranks have not flushed."""
    return FlushOverdue(notice(**changes), tuple(f"client-{rank}" for rank in ranks))


def moved(outcome: str = "evicted", pod: str = "training/train-0", **changes: Any) -> PodMoved:
    """Return the fact that a pod was moved."""
    fields: dict[str, Any] = {"detail": "", "uid": "u-0"}
    return PodMoved("aws-preemption-1a2b", pod, outcome, **{**fields, **changes})


def drained(outcome: str = "drained", detail: str = "") -> NodeDrained:
    """Return the fact that the drain is over."""
    return NodeDrained("aws-preemption-1a2b", outcome, 31.25, detail)


def ended(ending: str, **changes: Any) -> NoticeEnded:
    """Return the fact that a notice is over."""
    return NoticeEnded(notice(**changes), ending, {})


def pod_of(name: str) -> ObjectRef | None:
    """Return the pod of a control group's path or of its name."""
    return POD if name in {CGROUP, "training/train-0"} else None


@dataclass
class StandInApi:
    """Takes events as the API server would.

    Attributes:
        replies: what the next calls are answered; after them all is well.
        takes_seconds: how long a call takes.
        calls: what has been asked, and when on the loop's clock.
        most_at_once: the most calls there have been at a time.
    """

    replies: list[Reply] = field(default_factory=list)
    takes_seconds: float = 0.01
    calls: list[tuple[float, ObjectRef, EventText]] = field(default_factory=list)
    most_at_once: int = 0
    _at_once: int = 0

    async def create_event(
        self, about: ObjectRef, text: EventText, *, timeout_seconds: float
    ) -> Reply:
        """Take an event."""
        self.calls.append((asyncio.get_running_loop().time(), about, text))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(min(self.takes_seconds, timeout_seconds))
        finally:
            self._at_once -= 1
        return self.replies.pop(0) if self.replies else Reply(Outcome.OK, 201)

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """What was asked to be written: kind of object, reason and message."""
        return [(about.kind, text.reason, text.message) for _, about, text in self.calls]


def writer_of(
    api: StandInApi | KubeApi,
    *,
    node: Callable[[], ObjectRef] = lambda: NODE,
    pod: Callable[[str], ObjectRef | None] = pod_of,
    refusal: Callable[[], str | None] = lambda: "",
) -> EventWriter:
    """Return a writer whose wall clock goes with the loop's."""

    def wall() -> float:
        return UNIX_AT_ZERO + asyncio.get_running_loop().time()

    return EventWriter(
        api=cast(KubeApi, api),
        instance="lastcall-x",
        node=node,
        pod=pod,
        refusal=refusal,
        wall=wall,
    )


@asynccontextmanager
async def running(writer: EventWriter) -> AsyncIterator[None]:
    """Let a writer write while the block runs."""
    task = asyncio.create_task(writer.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
