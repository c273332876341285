"""What a review of the agent's rights finds, against the fake API server."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.drain.kubernetes.reviews import Right
from lastcall.drain.kubernetes.rights import (
    CALLS_IN_FLIGHT,
    DRY_RUN,
    RightFinding,
    needed,
    review,
)
from support.kube_api.admission import PINNED_TO_NODE, Policy
from support.kube_api.clients import client_of, with_token
from support.kube_api.faults import Fault
from support.kube_api.identities import AGENT_RIGHTS, NOBODY, agent, kubelet
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api

ALL = needed(method="evict", force="all")


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"), node("node-b"))
        server.add("pods", pod("p-0"))
        server.tokens |= {
            "agent": agent("node-a", AGENT_RIGHTS | {"watch nodes"}),
            "elsewhere": agent("node-b", AGENT_RIGHTS | {"watch nodes"}),
            "kubelet": kubelet("node-a"),
            "nobody": NOBODY,
        }
        yield server


async def reviewed(server, token="agent", rights=ALL, timeout_seconds=5.0):
    async with client_of(server, with_token(token)) as api:
        found = await review(api, "node-a", rights, timeout_seconds=timeout_seconds)
    assert [one.right for one in found] == [*map(str, rights), DRY_RUN]
    return {one.right: one for one in found}


def missing(found):
    return {right for right, one in found.items() if one.allowed is False}


async def test_an_agent_with_all_its_rights_lacks_nothing(server):
    server.policies += PINNED_TO_NODE

    found = await reviewed(server)

    assert set(found.values()) == {RightFinding(right, allowed=True) for right in found}


async def test_a_missing_right_is_named_with_the_reason(server):
    server.denied.add("create pods/eviction")

    found = await reviewed(server)

    assert missing(found) == {"create pods/eviction"}
    assert found["create pods/eviction"].detail == "no role grants it"


async def test_an_identity_with_no_rights_lacks_them_all(server):
    found = await reviewed(server, "nobody")

    assert missing(found) == set(found)
    assert 'User "nobody" cannot patch resource "nodes"' in found[DRY_RUN].detail


async def test_a_right_to_patch_that_admission_takes_away_is_found_by_the_dry_run(server):
    server.policies += PINNED_TO_NODE

    found = await reviewed(server, "elsewhere")

    assert missing(found) == {DRY_RUN}
    assert "agent on node-b may not change node node-a" in found[DRY_RUN].detail


async def test_a_policy_that_answers_with_422_is_a_denial_too(server):
    server.policies.append(Policy("no", lambda *_: "no changes on Fridays", reason=""))

    found = await reviewed(server)

    assert missing(found) == {DRY_RUN}
    assert "no changes on Fridays" in found[DRY_RUN].detail


async def test_the_dry_run_is_what_the_cordon_does_and_changes_nothing(server):
    before = server.store.get("nodes", "", "node-a")

    await reviewed(server)

    (sent,) = server.asked("PATCH")
    assert sent.query["dryRun"] == "All"
    assert sent.body["spec"] == {"unschedulable": True}
    assert set(sent.body["metadata"]["annotations"]) == {
        f"lastcall.dev/{name}" for name in ("cordoned-by", "notice-id", "boot-id", "deadline")
    }
    assert "lastcall.dev/notice" in sent.body["metadata"]["labels"]
    assert server.store.get("nodes", "", "node-a") == before


async def test_the_own_node_is_named_where_nodes_are_asked_about(server):
    await reviewed(server, rights=[Right("patch", "nodes"), Right("list", "pods")])

    asked = [one.body["spec"]["resourceAttributes"] for one in server.asked("POST")]
    assert sorted(asked, key=str) == [
        {"verb": "list", "resource": "pods"},
        {"verb": "patch", "resource": "nodes", "name": "node-a"},
    ]


async def test_the_kubelet_may_read_the_pods_of_its_node_whatever_a_review_says(
    server, monkeypatch
):
    answer = server.cluster.answer

    def without_a_selector(asking):
        body = answer(asking)
        wanted = body.get("spec", {}).get("resourceAttributes", {})
        is_read = wanted.get("resource") == "pods" and wanted["verb"] in {"get", "list", "watch"}
        return {**body, "status": {"allowed": False}} if is_read else body

    monkeypatch.setattr(server.cluster, "answer", without_a_selector)
    found = await reviewed(server, "kubelet")

    assert missing(found) == set()


async def test_an_agent_that_may_list_but_not_watch_is_told_so(server):
    server.denied.add("watch pods")

    assert missing(await reviewed(server)) == {"watch pods"}


async def test_a_node_that_does_not_exist_leaves_the_dry_run_open(server):
    server.store.remove("nodes", "", "node-a")

    found = await reviewed(server)

    assert found[DRY_RUN] == RightFinding(DRY_RUN, None, 'nodes "node-a" not found')


async def test_credentials_that_are_refused_tell_nothing_about_rights(server):
    found = await reviewed(server, "a-token-nobody-gave-out")

    assert {(one.allowed, one.detail) for one in found.values()} == {(None, "Unauthorized")}


async def test_an_anonymous_agent_is_told_that_it_may_not_even_ask(server):
    found = await reviewed(server, "")

    assert found["get pods"].allowed is None
    assert 'User "system:anonymous"' in found["get pods"].detail
    assert missing(found) == {DRY_RUN}


async def test_a_server_that_is_down_leaves_all_open_with_the_reason():
    async with fake_kube_api() as server:
        pass

    found = await reviewed(server)

    assert {one.allowed for one in found.values()} == {None}
    assert all("Connection refused" in one.detail for one in found.values())


async def test_a_server_that_hangs_costs_no_more_than_the_time_there_is(server):
    server.break_(Fault.HANGS)
    loop = asyncio.get_running_loop()
    started = loop.time()

    found = await reviewed(server, timeout_seconds=0.3)

    assert loop.time() - started < 1.5
    details = {one.detail for one in found.values()}
    assert {one.allowed for one in found.values()} == {None}
    assert "not asked within 0.3 s" in details
    assert any("no answer within 0.3 s" in detail for detail in details)
    assert len(server.log) == CALLS_IN_FLIGHT


@pytest.mark.parametrize("status", [None, [], "yes", {}, {"allowed": "perhaps"}])
async def test_a_review_that_is_garbled_leaves_the_right_open(server, monkeypatch, status):
    answer = server.cluster.answer

    def garbled(asking):
        body = answer(asking)
        return {**body, "status": status} if "accessreviews" in asking.target.resource else body

    monkeypatch.setattr(server.cluster, "answer", garbled)
    found = await reviewed(server, rights=[Right("patch", "nodes")])

    assert found["patch nodes"].allowed is None
    assert found["patch nodes"].detail
