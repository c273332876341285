"""A node keeper at work on the fake API server, and everything it says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from lastcall.core.events import BackendChecked, Event
from lastcall.core.model import Action, DeadlineQuality, Kind, Phase, Urgency
from lastcall.core.views import NoticeView
from lastcall.drain.kubernetes.credentials import Credentials
from lastcall.drain.kubernetes.node import NodeKeeper
from lastcall.drain.kubernetes.node_watch import Pace
from lastcall.drain.kubernetes.reviews import Right
from support.kube_api.clients import client_of, with_token
from support.kube_api.identities import AGENT_RIGHTS, agent
from support.kube_api.server import FakeKubeApi

NODE = "node-a"
BOOT = "boot-1"
PREFIX = "lastcall.dev/"

BRISK = Pace(
    warm_seconds=30.0,
    poll_seconds=0.05,
    watch_again_seconds=30.0,
    shortest_back_off_seconds=0.02,
    longest_back_off_seconds=0.1,
    review_seconds=30.0,
    review_again_seconds=0.1,
    tend_again_seconds=0.1,
)
"""The keeper's pace, quick where a test waits for it, and never a reason for a call otherwise."""

E = TypeVar("E", bound=Event)


class KeptNode:
    """A keeper, and what it says.

    Attributes:
        server: what it works on.
        keeper: the keeper.
        events: what it posted.
        seen: versions of the node that it showed.
        unseen: why it could not see the node.
    """

    def __init__(self, server: FakeKubeApi) -> None:
        self.server = server
        self.events: list[Event] = []
        self.seen: list[Any] = []
        self.unseen: list[str] = []
        self.keeper: NodeKeeper

    @property
    def node(self) -> dict[str, Any]:
        """The node as the cluster has it now."""
        found = self.server.store.get("nodes", "", NODE)
        assert found is not None
        return found

    @property
    def cordoned(self) -> bool:
        """Whether the node is unschedulable."""
        return bool(self.node["spec"].get("unschedulable", False))

    @property
    def marks(self) -> dict[str, str]:
        """Our annotations on the node, without their prefix."""
        found = self.node["metadata"].get("annotations", {})
        return {
            key.removeprefix(PREFIX): text for key, text in found.items() if key.startswith(PREFIX)
        }

    @property
    def label(self) -> str:
        """Our label on the node; empty for none."""
        return str(self.node["metadata"].get("labels", {}).get(PREFIX + "notice", ""))

    @property
    def taints(self) -> list[str]:
        """The keys of the node's taints."""
        return [taint["key"] for taint in self.node["spec"].get("taints", [])]

    @property
    def condition(self) -> dict[str, str]:
        """The node's condition that tells of a notice; empty for none."""
        return self._condition("InterruptionNotice")

    @property
    def gpu_condition(self) -> dict[str, str]:
        """The node's condition that tells of its GPUs; empty for none."""
        return self._condition("GPUHealthy")

    @property
    def health(self) -> BackendChecked | None:
        """What was last said of the API server."""
        found = self.of(BackendChecked)
        return found[-1] if found else None

    def _condition(self, kind: str) -> dict[str, str]:
        found = self.node["status"].get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Change the node as somebody else would."""
        node = self.node
        edit(node)
        self.server.store.put("nodes", node)

    async def watched(self) -> None:
        """Return once the keeper watches the node, and a connection is open for its calls."""
        await self.until(lambda: self.keeper.status()["node_watched"])

    async def until(self, holds: Callable[[], object], seconds: float = 5.0) -> None:
        """Return once something holds."""
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def kept_node(
    server: FakeKubeApi,
    *,
    credentials: Credentials | None = None,
    node_name: str = NODE,
    taint: bool = False,
    rights: tuple[Right, ...] = (Right("patch", "nodes"),),
    pace: Pace = BRISK,
    runs: bool = True,
) -> AsyncIterator[KeptNode]:
    """Keep a node while the block runs, with the token ``agent`` unless others are given."""
    server.tokens.setdefault("agent", agent(NODE, AGENT_RIGHTS | {"watch nodes"}))
    kept = KeptNode(server)
    async with client_of(server, credentials or with_token("agent")) as api:
        kept.keeper = keeper = NodeKeeper(
            api=api,
            node_name=node_name,
            boot_id=BOOT,
            taint=taint,
            rights=rights,
            post=kept.events.append,
            monotonic=asyncio.get_running_loop().time,
            wall=time.time,
            seen=kept.seen.append,
            unseen=kept.unseen.append,
            pace=pace,
        )
        task = asyncio.create_task(keeper.run()) if runs else None
        try:
            yield kept
        finally:
            await keeper.close()
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert task.cancelled(), "the keeper ended by itself"


def notice(
    name: str = "n-1",
    *,
    kind: Kind = Kind.PREEMPTION,
    ends_in: float | None = 120.0,
    deadline_unix: float | None = None,
) -> NoticeView:
    """Return a notice whose deadline is some seconds from now."""
    now = asyncio.get_running_loop().time()
    return notice_at(name, kind, None if ends_in is None else now + ends_in, deadline_unix, now)


def notice_at(
    name: str,
    kind: Kind,
    deadline: float | None,
    deadline_unix: float | None = None,
    first_seen: float = 0.0,
) -> NoticeView:
    """Return a notice with a deadline on the monotonic clock."""
    return NoticeView(
        id=name,
        phase=Phase.TOLD,
        kind=kind,
        source="aws",
        sources=("aws",),
        action=Action.TERMINATE,
        urgency=Urgency.NOW,
        first_seen=first_seen,
        deadline=deadline,
        deadline_unix=deadline_unix,
        deadline_quality=DeadlineQuality.PROVIDER,
        flush_until=deadline,
        cancellable=False,
        drill=False,
        reason="",
        supersedes=(),
    )
