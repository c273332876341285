"""The agent as a process on a node of a cluster: cordon, drain with training last, give back."""

from __future__ import annotations

import asyncio
import shutil
import signal
from typing import Any

import pytest

from support.kube_api.faults import Fault
from support.kube_api.objects import budget
from support.kube_api.objects import pod as pod_of
from support.kube_node import NODE, KubeNode, kube_node
from support.needs import long
from support.pod_process import process_of_pod
from support.running_agent import LineClient

RANK = {"job": "train", "rank": 0, "world_size": 1}

pytestmark = pytest.mark.root


def pod(name: str, **more: Any) -> dict[str, Any]:
    return pod_of(name, node_name=NODE, **more)


def uid(node: KubeNode, name: str) -> str:
    found = node.pod(name)
    assert found is not None
    return str(found["metadata"]["uid"])


async def test_a_notice_cordons_at_once_and_evicts_training_after_its_flush(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.add("pods", pod("web-0", owner="ReplicaSet"), pod("train-0", owner="Job"))
        node.api.add("pods", pod("proxy-0", owner="DaemonSet"))
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            await rank.receive("welcome")
            await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))

            node.cloud.raise_notice(lead_seconds=120)
            notice = await rank.receive("notice")
            await node.agent.wait(lambda: node.pod("web-0") is None)

            assert node.cordoned
            assert node.annotations["lastcall.dev/cordoned-by"] == "lastcall"
            assert node.annotations["lastcall.dev/notice-id"] == notice["id"]
            assert node.object["metadata"]["labels"]["lastcall.dev/notice"] == "preemption"
            training = node.pod("train-0")
            assert training is not None
            assert "deletionTimestamp" not in training["metadata"]
            assert node.condition(training, "DisruptionTarget")["status"] == "True"
            assert not node.api.asked("POST", "train-0/eviction")

            rank.send(type="flushed", id=notice["id"], path="/ckpt/7", step=7)
            await rank.receive("ok")
            await node.agent.wait(lambda: node.pod("train-0") is None)
            await node.agent.wait(lambda: node.agent.logged("node_drained"))

        assert node.agent.logged("node_drained")[0]["outcome"] == "drained"
        assert node.pods() == {"proxy-0"}
        assert await node.agent.metric('lastcall_evictions_total{outcome="evicted"}') == 2
        assert await node.agent.metric("lastcall_node_cordoned") == 1
        drained = 'lastcall_drains_total{backend="kubernetes",outcome="drained"}'
        assert await node.agent.metric(drained) == 1


async def test_the_cordon_is_the_first_write_after_the_notice(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.add("pods", *(pod(f"web-{number}") for number in range(8)))
        await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))
        await asyncio.sleep(0.2)
        before = len(node.api.log)

        node.cloud.raise_notice()
        await node.agent.wait(lambda: node.agent.logged("node_drained"))

        writes = [one for one in node.api.log[before:] if one.method in ("PATCH", "POST", "DELETE")]
        assert (writes[0].method, writes[0].path) == ("PATCH", f"/api/v1/nodes/{NODE}")
        calls_of_pods = [one for one in writes if "/pods/" in one.path or "/events" in one.path]
        assert len(calls_of_pods) <= 2 * 8 + 4


async def test_a_withdrawn_notice_gives_the_node_back_and_stops_the_drain(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.add("pods", pod("train-0", owner="Job"))
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            await rank.receive("welcome")
            await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))
            node.cloud.raise_notice()
            await rank.receive("notice")
            await node.agent.wait(lambda: node.cordoned)

            node.cloud.withdraw()
            await rank.receive("withdrawn")
            await node.agent.wait(lambda: not node.cordoned)
            await node.agent.wait(lambda: "lastcall.dev/notice-id" not in node.annotations)

            training = node.pod("train-0")
            assert training is not None
            await node.agent.wait(
                lambda: node.condition(node.pod("train-0"), "DisruptionTarget")["status"] == "False"
            )
        assert "lastcall.dev/notice" not in node.object["metadata"]["labels"]
        assert await node.agent.metric("lastcall_node_cordoned") == 0


async def test_an_agent_killed_in_the_middle_carries_on(tmp_path):
    async with kube_node(tmp_path, ends_after_seconds=0.3) as node:
        node.api.add("pods", pod("web-0"), pod("train-0", owner="Job"))
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            await rank.receive("welcome")
            await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))
            node.cloud.raise_notice()
            notice = await rank.receive("notice")
            await node.agent.wait(lambda: node.cordoned)
        await node.agent.end(signal.SIGKILL)
        await node.agent.start(until="agent_started")
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            welcome = await rank.receive("welcome")
            assert [one["id"] for one in welcome["notices"]] == [notice["id"]]
            rank.send(type="flushed", id=notice["id"], path="/ckpt/7", step=7)
            await rank.receive("ok")
            await node.agent.wait(lambda: node.pods() == set())

        node.cloud.withdraw()
        await node.agent.wait(lambda: not node.cordoned)


@pytest.mark.long
async def test_a_cordon_whose_journal_is_lost_is_given_back(tmp_path):
    async with kube_node(tmp_path) as node:
        node.cloud.raise_notice()
        await node.agent.wait(lambda: node.agent.logged("node_cordoned"))
        await node.agent.end(signal.SIGKILL)
        shutil.rmtree(tmp_path / "state")
        node.cloud.withdraw()

        await node.agent.start()

        # It stands until all that may have asked for it has been looked at.
        await node.agent.wait(lambda: not node.cordoned, seconds=25)
        assert "lastcall.dev/cordoned-by" not in node.annotations


@pytest.mark.long
async def test_what_an_admin_cordoned_is_drained_and_never_given_back(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.add("pods", pod("web-0"))
        found = node.object
        node.api.store.put("nodes", {**found, "spec": {**found["spec"], "unschedulable": True}})
        await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))

        node.cloud.raise_notice()
        await node.agent.wait(lambda: node.pod("web-0") is None)
        node.cloud.withdraw()
        await node.agent.wait(lambda: node.agent.logged("notice_ended"))
        await asyncio.sleep(0.3)

        assert node.cordoned
        assert "lastcall.dev/cordoned-by" not in node.annotations


@pytest.mark.parametrize("fault", [Fault.HANGS, long(Fault.CLOSED), long(Fault.STORE_TIMEOUT)])
async def test_an_api_server_in_trouble_delays_no_notice_and_ends_nothing(tmp_path, fault):
    async with kube_node(tmp_path) as node:
        async with LineClient.connected(node.agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            node.api.break_(fault)

            node.cloud.raise_notice(lead_seconds=20)
            notice = await rank.receive("notice", seconds=1.0)
            rank.send(type="flushed", id=notice["id"], path="/ckpt/7", step=7)
            await rank.receive("ok", seconds=2.5)

        assert await node.agent.metric(
            'lastcall_flushes_total{kind="preemption",outcome="in_time"}'
        )
        assert node.agent.process is not None
        assert node.agent.process.returncode is None


async def test_a_blocked_pod_is_named_with_its_budget_and_ended_in_time(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.add("pods", pod("db-0", grace_seconds=1))
        node.api.add("poddisruptionbudgets", budget("db", "db-0"))
        await node.agent.wait(lambda: node.api.asked("GET", "/api/v1/pods"))

        node.cloud.raise_notice(lead_seconds=8)
        await node.agent.wait(lambda: node.agent.logged("pod_moved"), seconds=3)

        blocked = node.agent.logged("pod_moved")[0]
        assert (blocked["pod"], blocked["outcome"]) == ("training/db-0", "blocked")
        assert "db" in blocked["detail"]
        assert await node.agent.metric('lastcall_evictions_total{outcome="blocked"}') == 1
        await node.agent.wait(lambda: node.pod("db-0") is None)
        await node.agent.wait(lambda: node.agent.logged("node_drained"))
        assert await node.agent.metric('lastcall_evictions_total{outcome="forced"}') == 1


async def test_another_controllers_taint_is_an_early_notice_and_its_removal_withdraws_it(tmp_path):
    async with (
        kube_node(tmp_path) as node,
        LineClient.connected(node.agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        await node.agent.wait(lambda: node.agent.logged("backend_answered"))
        plain = node.object
        taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
        node.api.store.put("nodes", {**plain, "spec": {**plain["spec"], "taints": [taint]}})

        notice = await rank.receive("notice")
        assert notice["source"] == "node"

        node.api.store.put("nodes", {**node.object, "spec": plain["spec"]})
        assert (await rank.receive("withdrawn"))["id"] == notice["id"]


@pytest.mark.long
async def test_missing_rights_show_before_any_notice(tmp_path):
    async with kube_node(tmp_path) as node:
        node.api.denied.add("create pods/eviction")
        await node.agent.end(signal.SIGTERM)
        await node.agent.start(until="backend_answered")

        series = 'lastcall_backend_allowed{right="create pods/eviction"}'
        for _ in range(100):
            if await node.agent.metric(series) == 0:
                break
            await asyncio.sleep(0.02)
        assert await node.agent.metric(series) == 0
        assert await node.agent.metric('lastcall_backend_allowed{right="patch nodes"}') == 1


@pytest.mark.long
async def test_an_agent_that_only_watches_writes_nothing(tmp_path):
    async with kube_node(tmp_path, "mode=observe") as node:
        node.api.add("pods", pod("web-0"), pod("train-0", owner="Job"))
        train = process_of_pod(uid(node, "train-0"), node.agent.socket_path, **RANK)
        async with train as rank:
            await rank.receive("welcome")
            node.cloud.raise_notice()
            notice = await rank.receive("notice")
            rank.send(type="flushed", id=notice["id"], path="/ckpt/7", step=7)
            await rank.receive("ok")
            await asyncio.sleep(0.3)

        assert not node.cordoned
        assert node.pods() == {"web-0", "train-0"}
        dry = [one for one in node.api.log if one.query.get("dryRun") == "All"]
        changes = [one for one in node.api.log if one.method in ("PATCH", "DELETE")]
        assert [one for one in changes if one not in dry] == []
