"""A GPU's fault on a node of a cluster: reported, acted on where that is wished, and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.kube_api.objects import pod as pod_of
from support.kube_node import NODE, KubeNode, kube_node
from support.nvml import FakeDriver
from support.pod_process import process_of_pod
from support.running_agent import LineClient

RANK = {"job": "train", "rank": 0, "world_size": 1}
QUICK = ("gpu.poll_seconds=0.1", "gpu.kernel_log=")

pytestmark = pytest.mark.root


@pytest.fixture
def driver(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "driver", nvml_library, gpus=2)


def pod(name: str, **more: Any) -> dict[str, Any]:
    return pod_of(name, node_name=NODE, **more)


def uid(node: KubeNode, name: str) -> str:
    found = node.pod(name)
    assert found is not None
    return str(found["metadata"]["uid"])


def gpu_condition(node: KubeNode) -> tuple[str | None, str | None]:
    condition = node.condition(node.object, "GPUHealthy")
    return condition.get("status"), condition.get("reason")


def node_reasons(node: KubeNode) -> list[str]:
    events = node.api.store.all("events")
    return [event["reason"] for event in events if event["involvedObject"]["kind"] == "Node"]


@pytest.mark.long
async def test_a_fault_that_is_only_reported_is_a_condition_and_an_event(
    tmp_path: Path, driver: FakeDriver
) -> None:
    async with kube_node(tmp_path, *QUICK, environment=driver.environment) as node:
        await node.agent.wait(lambda: gpu_condition(node) == ("True", "Healthy"))

        driver.lose(0, xid=79)
        await node.agent.wait(lambda: gpu_condition(node)[0] == "False")
        await node.agent.wait(lambda: "GPUFault" in node_reasons(node))

        assert not node.cordoned
        assert "PreemptionNotice" not in node_reasons(node)


async def test_a_fault_that_is_acted_on_drains_training_last_and_an_operator_gives_the_node_back(
    tmp_path: Path, driver: FakeDriver
) -> None:
    settings = (*QUICK, "gpu.act_on_faults=true")
    async with kube_node(tmp_path, *settings, environment=driver.environment) as node:
        node.api.add("pods", pod("web-0", owner="ReplicaSet"), pod("train-0", owner="Job"))
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            await rank.receive("welcome")
            await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))
            await node.agent.wait(lambda: gpu_condition(node)[0] == "True")

            driver.field(1, 230, 2)
            driver.xid(1, 48)
            notice = await rank.receive("notice")
            await node.agent.wait(lambda: node.pod("web-0") is None)

            assert notice["kind"] == "gpu_fault"
            assert node.cordoned
            assert node.object["metadata"]["labels"]["lastcall.dev/notice"] == "gpu_fault"
            assert node.pod("train-0") is not None

            rank.send(type="flushed", id=notice["id"], path="/ckpt/7", step=7)
            await rank.receive("ok")
            await node.agent.wait(lambda: node.pod("train-0") is None)

        driver.field(1, 230, 0)
        await node.agent.wait_view(lambda view: view["gpu"]["health"] == "degraded")
        async with LineClient.connected(node.agent.socket_path) as operator:
            operator.send(type="gpu", watched=True)
            await operator.receive("ok")
        await node.agent.wait(lambda: not node.cordoned)

        await node.agent.wait(lambda: "NoticeWithdrawn" in node_reasons(node))
        assert node_reasons(node).count("GPUFault") == 1
