"""A node of a fake cluster with the real agent on it, before a metadata service held in hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastcall.simulate import load
from lastcall.simulate.base import Metadata
from support.kube_api.clients import kubeconfig
from support.kube_api.objects import node
from support.kube_api.server import ADMIN_TOKEN, FakeKubeApi
from support.running_agent import RunningAgent
from support.watching_agent import agent_watching

NODE = "test-node"
OWN_POD_UID = "99999999-9999-9999-9999-999999999999"


@dataclass(frozen=True)
class KubeNode:
    """The node, as a test has it.

    Attributes:
        api: the cluster's API server.
        agent: on the node.
        cloud: the metadata service of the node's provider.
    """

    api: FakeKubeApi
    agent: RunningAgent
    cloud: Metadata

    @property
    def object(self) -> dict[str, Any]:
        """The node as the cluster has it now."""
        found = self.api.store.get("nodes", "", NODE)
        assert found is not None
        return found

    @property
    def cordoned(self) -> bool:
        """Whether nothing new is put on it."""
        return bool(self.object["spec"].get("unschedulable"))

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return dict(self.object["metadata"].get("annotations", {}))

    def pod(self, name: str, namespace: str = "training") -> dict[str, Any] | None:
        """Return a pod as the cluster has it now; ``None`` where it is gone."""
        return self.api.store.get("pods", namespace, name)

    def pods(self) -> set[str]:
        """Return the names of the pods that are there."""
        return {one["metadata"]["name"] for one in self.api.store.all("pods")}

    def condition(self, of: dict[str, Any], kind: str) -> dict[str, Any]:
        """Return a condition of a node or a pod; empty where it has none of the type."""
        conditions = of["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})


@asynccontextmanager
async def kube_node(
    folder: Path,
    *settings: str,
    provider: str = "aws",
    environment: Mapping[str, str] | None = None,
    **server: Any,
) -> AsyncIterator[KubeNode]:
    """Run a cluster, a metadata service and the agent while the block runs.

    Args:
        folder: where the agent's socket and its journal are.
        settings: more of the agent's, each ``table.key=value``.
        provider: whose metadata service it is.
        environment: more of the agent's.
        server: as for ``FakeKubeApi``.
    """
    async with FakeKubeApi(**server) as api:
        api.add("nodes", node(NODE, ready=True))
        path = kubeconfig(folder, api.url, {"token": ADMIN_TOKEN})
        cloud = load(provider)()
        async with agent_watching(
            folder,
            cloud,
            settings=(f"drain.kubernetes.kubeconfig={path}", *settings),
            environment={
                "POD_UID": OWN_POD_UID,
                "POD_NAME": "lastcall-x",
                **(environment or {}),
            },
        ) as agent:
            yield KubeNode(api, agent, cloud)
