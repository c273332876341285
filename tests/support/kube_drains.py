"""A drain of pods at work on the fake API server, and everything it says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lastcall.core.commands import Drain, Mark
from lastcall.core.events import DrainEnded, Event, EvictionReported
from lastcall.core.model import Kind
from lastcall.drain.kubernetes.credentials import Credentials
from lastcall.drain.kubernetes.drain import DrainSettings, PodDrain
from support.kube_api.clients import client_of, with_token
from support.kube_api.identities import agent
from support.kube_api.objects import pod
from support.kube_api.server import FakeKubeApi, Logged
from support.kube_api.store import Object

NODE = "node-a"
OWN_UID = "00000000-0000-4000-8000-000000000000"


def gpu_pod(name: str, **more: Any) -> Object:
    """Return a pod of a Job with an accelerator."""
    made = pod(name, **{"owner": "Job"} | more)
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return made


def group_of(made: Object, container: str = "1") -> str:
    """Return the control group of a container of a pod."""
    uid = made["metadata"]["uid"].replace("-", "_")
    return f"/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{container}.scope"


class DrainAtWork:
    """A drain, and what it says.

    Attributes:
        server: what it works on.
        drain: the drain.
        events: what it posted.
    """

    def __init__(self, server: FakeKubeApi) -> None:
        self.server = server
        self.events: list[Event] = []
        self.drain: PodDrain

    @property
    def endings(self) -> list[DrainEnded]:
        """How drains ended."""
        return [event for event in self.events if isinstance(event, DrainEnded)]

    def outcomes(self, name: str) -> list[str]:
        """Return what was reported of a pod."""
        return [
            event.outcome
            for event in self.events
            if isinstance(event, EvictionReported) and event.pod.endswith(f"/{name}")
        ]

    def order(
        self,
        lead: float = 3.0,
        *,
        name: str = "n-1",
        reserve: float = 1.0,
        training: Iterable[str] = (),
        waiting: Iterable[str] = (),
        began_at: float | None = None,
    ) -> Drain:
        """Return an order; training and waiting are control groups."""
        began = asyncio.get_running_loop().time() if began_at is None else began_at
        return Drain(
            id=name,
            kind=Kind.PREEMPTION,
            reason="spot",
            began_at=began,
            flush_until=began + lead - min(reserve, lead / 3),
            deadline=began + lead,
            training=frozenset(training) | frozenset(waiting),
            waiting=frozenset(waiting),
        )

    def marking(self, *training: str, name: str = "n-1") -> Mark:
        """Return a command to keep the pods of some control groups marked."""
        return Mark(name, Kind.PREEMPTION, frozenset(training))

    async def ended(self, seconds: float = 10.0) -> DrainEnded:
        """Return the first ending, once there is one."""
        await self.until(lambda: bool(self.endings), seconds)
        return self.endings[0]

    async def listed(self) -> None:
        """Return once the pods are known."""
        await self.until(lambda: self.drain.status()["pods_age_seconds"] == 0.0)

    async def until(self, holds: Callable[[], bool], seconds: float = 5.0) -> None:
        """Return once something holds."""
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)

    def find(self, name: str, namespace: str = "training") -> Object | None:
        """Return a pod as the cluster has it now."""
        return self.server.store.get("pods", namespace, name)

    def mark_of(self, name: str) -> str:
        """Return whether a pod is marked as disrupted; empty where nobody said."""
        found = self.find(name)
        conditions = found["status"].get("conditions", []) if found else []
        return next((c["status"] for c in conditions if c["type"] == "DisruptionTarget"), "")

    def calls(self, name: str) -> list[Logged]:
        """Return the calls about one pod."""
        part = f"/pods/{name}"
        return [
            one
            for one in self.server.log
            if part in one.path and one.path.endswith((part, "/eviction", "/status"))
        ]

    def evictions(self, name: str = "") -> list[Logged]:
        """Return the evictions that were asked for."""
        return self.server.asked("POST", f"/pods/{name}/eviction" if name else "/eviction")


async def _at_once(_: str) -> None:
    """Be the cordon that has been tried."""


@asynccontextmanager
async def drain_at_work(
    server: FakeKubeApi,
    *,
    settings: DrainSettings | None = None,
    credentials: Credentials | None = None,
    cordoned: Callable[[str], Awaitable[None]] = _at_once,
    refusal: Callable[[], str | None] = lambda: "",
    settling_seconds: float = 0.0,
    is_listed: bool = True,
) -> AsyncIterator[DrainAtWork]:
    """Let a drain keep the node's pods fresh while the block runs; by default they are known."""
    server.tokens.setdefault("agent", agent())
    work = DrainAtWork(server)
    async with client_of(server, credentials or with_token("agent")) as api:
        work.drain = PodDrain(
            api=api,
            node_name=NODE,
            own_pod_uid=OWN_UID,
            settings=replace(settings or DrainSettings(), settling_seconds=settling_seconds),
            post=work.events.append,
            monotonic=asyncio.get_running_loop().time,
            wall=time.time,
            cordoned=cordoned,
            refusal=refusal,
        )
        running = asyncio.create_task(work.drain.run())
        try:
            if is_listed:
                await work.listed()
            yield work
        finally:
            await work.drain.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled(), "the pods were not watched to the end"
