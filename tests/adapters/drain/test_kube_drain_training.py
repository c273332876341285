"""Training pods leaving a node, against the fake API server."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from support.kube_api.faults import Fault
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import drain_at_work, gpu_pod, group_of


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def owned(name, **more):
    return pod(name, **{"owner": "ReplicaSet"} | more)


# --- training --------------------------------------------------------------------------------


async def test_training_is_marked_at_once_and_leaves_after_its_flush(server):
    train = owned("train", owner="Job")
    server.add("pods", train, owned("web"))
    async with drain_at_work(server) as work:
        began = asyncio.get_running_loop().time()
        work.drain.drain(work.order(lead=20, waiting=[group_of(train)], began_at=began))
        await work.drain.marked("n-1")
        assert work.mark_of("train") == "True"

        await work.until(lambda: work.find("web") is None)
        await asyncio.sleep(0.1)
        assert work.evictions("train") == []

        work.drain.drain(work.order(lead=20, training=[group_of(train)], began_at=began))
        assert (await work.ended()).outcome == "drained"

    (mark,) = server.asked("PATCH", "/pods/train/status")
    assert mark.at < work.evictions("train")[0].at
    (condition,) = mark.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["reason"] == "LastcallNotice"
    assert "n-1" in condition["message"]
    assert condition["lastTransitionTime"].endswith("Z")
    assert mark.body["metadata"]["uid"] == train["metadata"]["uid"]
    assert len(server.asked("POST", "/pods/train")) == 1


async def test_a_flush_that_is_never_over_is_waited_for_until_its_time_is_up(server):
    train = owned("train", owner="Job", grace_seconds=1)
    server.add("pods", train)
    async with drain_at_work(server) as work:
        order = work.order(lead=2.4, waiting=[group_of(train)])
        work.drain.drain(order)
        await work.ended()

    (eviction,) = work.evictions("train")
    assert eviction.at >= order.flush_until - 0.01
    assert work.endings[0].outcome == "drained"


async def test_training_that_nobody_told_goes_at_its_last_moment(server):
    server.add("pods", gpu_pod("train", grace_seconds=1))
    async with drain_at_work(server) as work:
        order = work.order(lead=2.2)
        work.drain.drain(order)
        await work.ended()

    (eviction,) = work.evictions("train")
    assert eviction.at == pytest.approx(order.deadline - 0.22 - 1, abs=0.2)
    assert server.asked("PATCH", "/pods/train/status")[0].at < eviction.at


async def test_marks_are_not_waited_for_longer_than_a_client_waits(server):
    server.add("pods", gpu_pod("train"))
    async with drain_at_work(server) as work:
        loop = asyncio.get_running_loop()
        hang = server.break_(Fault.HANGS, "PATCH")
        work.drain.drain(work.order(lead=60))
        began = loop.time()
        with capture_logs() as log:
            await work.drain.marked("n-1")
        assert 0.5 < loop.time() - began < 0.9
        assert (log[0]["event"], log[0]["pods"]) == ("pods_not_marked_in_time", ["training/train"])
        hang.times = 0
        work.drain.stop("n-1")


async def test_marks_that_are_denied_are_not_waited_for(server):
    server.denied.add("patch pods/status")
    server.add("pods", gpu_pod("train"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60))
        async with asyncio.timeout(0.8):
            await work.drain.marked("n-1")
        work.drain.stop("n-1")


async def test_nothing_is_waited_for_where_nothing_is_to_be_marked(server):
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work, asyncio.timeout(0.5):
        await work.drain.marked("unknown")
        work.drain.drain(work.order())
        await work.drain.marked("n-1")


async def test_a_mark_that_is_taken_back_is_set_again(server):
    train = gpu_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=600))
        await work.until(lambda: work.mark_of("train") == "True")
        # As if the mark had been set long ago.
        work.drain._runs["n-1"]._pasts.clear()
        found = work.find("train")
        for condition in found["status"]["conditions"]:
            if condition["type"] == "DisruptionTarget":
                condition["status"] = "False"
        server.add("pods", found)

        await work.until(lambda: len(server.asked("PATCH", "/pods/train/status")) == 2)
        await work.until(lambda: work.mark_of("train") == "True")
        work.drain.stop("n-1")
