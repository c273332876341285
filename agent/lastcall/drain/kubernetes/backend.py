"""The Kubernetes backend: the node's side, the pods' side and the Events, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from lastcall.core.commands import Drain, Mark
from lastcall.core.facts import Fact
from lastcall.core.views import NoticeView
from lastcall.drain.base import Attempt, Post
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.drain import DrainSettings, PodDrain
from lastcall.drain.kubernetes.node import NodeKeeper
from lastcall.drain.kubernetes.notes import EventWriter
from lastcall.drain.kubernetes.rights import needed


class KubernetesDrain:
    """Cordons and drains one node of a cluster.

    Args:
        cluster: the API server, and who the agent is to it.
        node_name: the node, as the cluster knows it.
        boot_id: names this boot of the machine.
        own_pod_uid: of the pod that the agent runs in and never touches; empty outside of one.
        instance: who is named as the author of Events.
        taint: a taint goes beside the cordon.
        settings: how pods are moved.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        seen: takes each version of the node object.
        unseen: takes why the node cannot be seen.
    """

    name = "kubernetes"

    def __init__(
        self,
        cluster: Cluster,
        *,
        node_name: str,
        boot_id: str,
        own_pod_uid: str,
        instance: str,
        taint: bool,
        settings: DrainSettings,
        post: Post,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        seen: Callable[[Mapping[str, Any]], None],
        unseen: Callable[[str], None],
    ) -> None:
        self._api = KubeApi(cluster)
        self._node = NodeKeeper(
            api=self._api,
            node_name=node_name,
            boot_id=boot_id,
            taint=taint,
            rights=needed(method=settings.method, force=settings.force),
            post=post,
            monotonic=monotonic,
            wall=wall,
            seen=seen,
            unseen=unseen,
        )
        self._pods = PodDrain(
            api=self._api,
            node_name=node_name,
            own_pod_uid=own_pod_uid,
            settings=settings,
            post=post,
            monotonic=monotonic,
            wall=wall,
            cordoned=self._node.tried,
            refusal=lambda: self._node.refusal,
        )
        self._events = EventWriter(
            api=self._api,
            instance=instance,
            node=self._node.ref,
            pod=self._pods.pod_of,
            refusal=lambda: self._node.refusal,
            wall=wall,
        )

    async def run(self) -> None:
        """Keep node and pods at hand and write Events, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._node.run(), name="kubernetes-node")
            tasks.create_task(self._pods.run(), name="kubernetes-pods")
            tasks.create_task(self._events.run(), name="kubernetes-events")

    async def cordon(self, notice: NoticeView) -> Attempt:
        """Make the node unschedulable, unless another has; see :class:`NodeKeeper`."""
        return await self._node.cordon(notice)

    async def uncordon(self, notice_id: str) -> Attempt:
        """Make the node schedulable again, where the cordon is the one made for this notice."""
        return await self._node.uncordon(notice_id)

    def drain(self, order: Drain) -> None:
        """Evict the node's pods, training last; see :class:`PodDrain`."""
        self._pods.drain(order)

    def mark(self, command: Mark) -> None:
        """Mark the pods of told processes as disrupted; see :class:`PodDrain`."""
        self._pods.mark(command)

    def stop(self, notice_id: str) -> None:
        """Evict and mark no more pods for a notice."""
        self._pods.stop(notice_id)

    async def marked(self, notice_id: str) -> None:
        """Return once the training pods are marked as disrupted, or soon."""
        await self._pods.marked(notice_id)

    def note(self, fact: Fact) -> None:
        """Take in what has become known, and have an Event written of it."""
        self._node.note(fact)
        self._events.note(fact)

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of node and pods."""
        return {**self._node.status(), **self._pods.status()}

    async def close(self) -> None:
        """Stop; what was asked for stays as it is."""
        await self._pods.close()
        await self._node.close()
        await self._events.close()
        await self._api.close()
