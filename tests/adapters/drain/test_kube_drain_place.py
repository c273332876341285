"""Pods of a node that may be another's, against the fake API server."""

from __future__ import annotations

import asyncio
import time

import pytest

from lastcall.core.events import DrainEnded
from lastcall.drain.kubernetes.backend import KubernetesDrain
from lastcall.drain.kubernetes.drain import DrainSettings
from support.kube_api.clients import cluster_of, with_token
from support.kube_api.identities import AGENT_RIGHTS, agent
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import drain_at_work, gpu_pod, group_of

MISPLACED = "this token is bound to node node-b, but node_name is node-a"


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def written(server):
    """Return the calls that change something; reviews are but questions."""
    return [one for one in server.log if one.method != "GET" and "review" not in one.path]


async def test_nothing_is_touched_and_the_drain_has_failed_at_once(server):
    train = gpu_pod("train")
    server.add("pods", train, pod("web", owner="ReplicaSet"))
    async with drain_at_work(server, refusal=lambda: MISPLACED) as work:
        work.drain.drain(work.order(lead=60, waiting=[group_of(train)]))
        ended = await work.ended(0.5)
        work.drain.mark(work.marking(group_of(train)))
        async with asyncio.timeout(0.3):
            await work.drain.marked("n-1")

    assert (ended.outcome, ended.detail) == ("failed", MISPLACED)
    assert work.events == [ended]
    assert written(server) == []


async def test_marks_of_the_other_nodes_agent_are_not_taken_back(server):
    train = gpu_pod("train")
    train["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "LastcallNotice"}
    )
    server.add("pods", train)
    says = [""]
    async with drain_at_work(server, refusal=lambda: says[0]) as work:
        work.drain.drain(work.order(lead=60))
        says[0] = MISPLACED
        work.drain.stop("n-1")
        await asyncio.sleep(0.1)

    assert written(server) == []


async def test_nothing_is_sent_until_it_is_known_whose_node_it_is(server):
    train = gpu_pod("train")
    server.add("pods", train, pod("web", owner="ReplicaSet"))
    known: list[str] = []
    async with drain_at_work(server, refusal=lambda: known[0] if known else None) as work:
        work.drain.drain(work.order(lead=60, training=[group_of(train)]))
        await asyncio.sleep(0.3)
        assert written(server) == []

        known.append("")
        assert (await work.ended()).outcome == "drained"


async def test_a_node_that_turns_out_to_be_anothers_is_left_alone(server):
    server.add("pods", pod("web", owner="ReplicaSet"))
    known: list[str] = []
    async with drain_at_work(server, refusal=lambda: known[0] if known else None) as work:
        work.drain.drain(work.order(lead=60))
        await asyncio.sleep(0.1)
        known.append(MISPLACED)

        assert (await work.ended(0.5)).outcome == "failed"
    assert written(server) == []


async def test_an_answer_that_never_comes_costs_a_quarter_of_the_time(server):
    server.add("pods", pod("web", owner="ReplicaSet"))
    async with drain_at_work(server, refusal=lambda: None) as work:
        order = work.order(lead=2)
        work.drain.drain(order)

        assert (await work.ended()).outcome == "drained"
    (eviction,) = work.evictions("web")
    assert eviction.at - order.began_at == pytest.approx(0.45, abs=0.1)


@pytest.mark.parametrize(("bound_to", "outcome"), [("node-a", "drained"), ("node-b", "failed")])
async def test_whose_node_it_is_is_learned_from_the_token(server, bound_to, outcome):
    server.add("pods", pod("web", owner="ReplicaSet"))
    server.tokens["agent"] = agent(bound_to, AGENT_RIGHTS | {"watch nodes"})
    events = []
    loop = asyncio.get_running_loop()
    backend = KubernetesDrain(
        cluster_of(server, with_token("agent")),
        node_name="node-a",
        boot_id="boot-1",
        own_pod_uid="",
        instance="test",
        taint=False,
        settings=DrainSettings(settling_seconds=0.0),
        post=events.append,
        monotonic=loop.time,
        wall=time.time,
        seen=lambda _: None,
        unseen=lambda _: None,
    )
    running = asyncio.create_task(backend.run())
    async with drain_at_work(server) as orders:
        backend.drain(orders.order(lead=20))
        backend.mark(orders.marking())
        async with asyncio.timeout(5.0):
            while not any(isinstance(event, DrainEnded) for event in events):  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await backend.close()

    (ended,) = (event for event in events if isinstance(event, DrainEnded))
    assert ended.outcome == outcome
    if outcome == "failed":
        assert MISPLACED in ended.detail
        assert written(server) == []
