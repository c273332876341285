"""Each call of the client, and each outcome it can have, against the fake API server."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.api import PatchType
from lastcall.drain.kubernetes.events import EventText, ObjectRef
from lastcall.drain.kubernetes.reply import Outcome
from lastcall.drain.kubernetes.reviews import Right, is_allowed, node_name_of
from support.kube_api.admission import PINNED_TO_NODE
from support.kube_api.clients import client_of, with_token
from support.kube_api.faults import Fault
from support.kube_api.identities import NOBODY, agent
from support.kube_api.objects import budget, node, pod
from support.kube_api.server import fake_kube_api

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OURS = {"key": "lastcall.dev/notice", "value": "preemption", "effect": "NoSchedule"}
CORDON = {"spec": {"unschedulable": True}, "metadata": {"annotations": {"lastcall.dev/by": "x"}}}
UNCORDON = [
    {"op": "test", "path": "/metadata/annotations/lastcall.dev~1by", "value": "x"},
    {"op": "remove", "path": "/spec/unschedulable"},
    {"op": "remove", "path": "/metadata/annotations/lastcall.dev~1by"},
]
DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Notice"}]}
EVENT = EventText("node-a.1", "Notice", "m", "Flush", is_warning=True, at_unix=0.0, instance="a")


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=None) as server:
        server.add("nodes", node("node-a", taints=[NOT_READY]), node("node-b"))
        yield server


@pytest.fixture
async def api(server):
    async with client_of(server) as api:
        yield api


def condition(content, type_):
    return next((c for c in content["status"].get("conditions", []) if c["type"] == type_), None)


# --- nodes -----------------------------------------------------------------------------------


async def test_a_node_is_read(api):
    reply = await api.get_node("node-a")

    assert reply.ok
    assert reply.body["metadata"]["name"] == "node-a"


async def test_a_node_that_is_not_there_is_gone(api):
    assert (await api.get_node("node-z")).outcome is Outcome.GONE


async def test_a_node_is_cordoned_and_given_back(server, api):
    cordoned = await api.patch_node("node-a", CORDON, PatchType.STRATEGIC)
    given_back = await api.patch_node("node-a", UNCORDON, PatchType.JSON)
    again = await api.patch_node("node-a", UNCORDON, PatchType.JSON)

    assert cordoned.body["spec"] == {"unschedulable": True, "taints": [NOT_READY]}
    assert given_back.body["spec"] == {"taints": [NOT_READY]}
    assert again.outcome is Outcome.INVALID


async def test_a_dry_run_changes_nothing(server, api):
    reply = await api.patch_node("node-a", CORDON, PatchType.STRATEGIC, dry_run=True)

    assert reply.body["spec"]["unschedulable"] is True
    assert "unschedulable" not in server.store.get("nodes", "", "node-a")["spec"]


async def test_a_taint_written_on_an_old_version_is_a_conflict(server, api):
    version = (await api.get_node("node-a")).body["metadata"]["resourceVersion"]
    taint = {"metadata": {"resourceVersion": version}, "spec": {"taints": [NOT_READY, OURS]}}
    first = await api.patch_node("node-a", taint, PatchType.MERGE)
    second = await api.patch_node("node-a", taint, PatchType.MERGE)

    assert first.body["spec"]["taints"] == [NOT_READY, OURS]
    assert second.outcome is Outcome.CONFLICT


async def test_a_condition_joins_those_that_are_there(server, api):
    health = {"type": "GpuUnhealthy", "status": "True", "reason": "Xid"}
    server.add("nodes", node("node-c", ready=True))

    reply = await api.patch_node_status("node-c", {"conditions": [health]})

    assert {c["type"] for c in reply.body["status"]["conditions"]} == {"Ready", "GpuUnhealthy"}


async def test_a_name_that_needs_quoting_is_quoted(server, api):
    await api.get_node("a/b?c")

    assert server.log[-1].path == "/api/v1/nodes/a/b?c"
    assert server.log[-1].query == {"timeout": "2750ms"}


# --- pods ------------------------------------------------------------------------------------


async def test_pods_are_listed_page_by_page(server, api):
    server.add("pods", *(pod(f"p-{i}") for i in range(5)), pod("far", node_name="node-b"))

    listed = await api.list_pods("node-a", page_size=2)

    assert listed.reply.ok
    assert [p["metadata"]["name"] for p in listed.items] == [f"p-{i}" for i in range(5)]
    assert (listed.pages, listed.resource_version) == (3, str(server.store.version))


async def test_pods_from_the_cache_come_in_one_call_while_the_store_is_stuck(server, api):
    server.add("pods", *(pod(f"p-{i}") for i in range(5)))

    listed = await api.list_pods("node-a", page_size=2, from_cache=True)

    assert len(listed.items) == 5
    assert listed.pages == 1
    assert server.log[-1].query["resourceVersion"] == "0"


async def test_a_list_that_grows_too_old_between_pages_is_expired(server, api, monkeypatch):
    server.add("pods", *(pod(f"p-{i}") for i in range(5)))
    answer = server.cluster.answer

    def answer_and_compact(asking):
        body = answer(asking)
        server.store.compact()
        return body

    monkeypatch.setattr(server.cluster, "answer", answer_and_compact)
    listed = await api.list_pods("node-a", page_size=2)

    assert listed.reply.outcome is Outcome.EXPIRED
    assert listed.items == ()


async def test_a_pod_is_evicted_by_its_uid(server, api):
    server.add("pods", pod("p-0"))
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    evicted = await api.evict_pod("training", "p-0", uid, grace_seconds=7)
    found = (await api.get_pod("training", "p-0")).body

    assert (evicted.outcome, evicted.status) == (Outcome.OK, 201)
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    assert condition(found, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"


async def test_a_pod_reborn_under_its_name_is_left_alone(server, api):
    server.add("pods", pod("p-0"))

    evicted = await api.evict_pod("training", "p-0", "another-uid")
    deleted = await api.delete_pod("training", "p-0", "another-uid")
    marked = await api.patch_pod_status("training", "p-0", "another-uid", DISRUPTED)

    assert {evicted.outcome, deleted.outcome, marked.outcome} == {Outcome.CONFLICT}
    assert "deletionTimestamp" not in server.store.get("pods", "training", "p-0")["metadata"]


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([budget("b", "p-0")], (Outcome.BLOCKED, "needs 1 healthy pods and has 1", None)),
        (
            [budget("b", "p-0", observed=False)],
            (Outcome.BLOCKED, "still being processed", 10.0),
        ),
        ([budget("b", "p-0", sync_failure="no luck")], (Outcome.BLOCKED, "no luck", None)),
        ([budget("b", "p-0"), budget("c", "p-0")], (Outcome.TWO_BUDGETS, "more than one", None)),
        ([budget("b", "p-0", allowed=1)], (Outcome.OK, "", None)),
    ],
)
async def test_a_budget_decides_over_an_eviction(server, api, budgets, expected):
    outcome, said, seconds = expected
    server.add("pods", pod("p-0"))
    server.add("poddisruptionbudgets", *budgets)
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    asked = await api.evict_pod("training", "p-0", uid, dry_run=True)
    reply = await api.evict_pod("training", "p-0", uid)

    assert asked.outcome is reply.outcome is outcome
    assert said in reply.cause_text
    assert reply.retry_after_seconds == seconds


async def test_a_namespace_that_is_leaving_takes_no_eviction_but_a_deletion(server, api):
    server.add("pods", pod("p-0"))
    server.terminating.add("training")
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    assert (await api.evict_pod("training", "p-0", uid)).outcome is Outcome.NAMESPACE_TERMINATING
    assert (await api.delete_pod("training", "p-0", uid)).ok


@pytest.mark.parametrize(("asked", "sent"), [(0, 1), (-5, 1), (20, 20), (None, 30)])
async def test_a_grace_is_never_shorter_than_a_second(server, api, asked, sent):
    server.add("pods", pod("p-0"))
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    reply = await api.delete_pod("training", "p-0", uid, grace_seconds=asked)

    assert reply.body["metadata"]["deletionGracePeriodSeconds"] == sent


async def test_a_deletion_can_be_rehearsed(server, api):
    server.add("pods", pod("p-0"))
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    assert (await api.delete_pod("training", "p-0", uid, dry_run=True)).ok
    assert "deletionTimestamp" not in server.store.get("pods", "training", "p-0")["metadata"]


async def test_a_pod_is_marked_as_disrupted(server, api):
    server.add("pods", pod("p-0"))
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]

    reply = await api.patch_pod_status("training", "p-0", uid, DISRUPTED)

    assert condition(reply.body, "DisruptionTarget")["reason"] == "Notice"
    assert condition(reply.body, "Ready")["status"] == "True"


# --- events and reviews ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "namespace"),
    [
        (ObjectRef("Node", "node-a", uid="u"), "default"),
        (ObjectRef("Pod", "p-0", "training", "u"), "training"),
    ],
)
async def test_an_event_is_written_once(server, api, about, namespace):
    first = await api.create_event(about, EVENT)
    second = await api.create_event(about, EVENT)

    assert first.ok
    assert (second.outcome, second.reason) == (Outcome.CONFLICT, "AlreadyExists")
    assert server.store.get("events", namespace, "node-a.1")["reason"] == "Notice"


async def test_rights_are_asked_for_and_seen_to_be_missing(server):
    server.tokens["agent"] = agent()
    async with client_of(server, with_token("agent")) as api:
        granted = await api.review_access(Right("create", "pods", subresource="eviction"))
        missing = await api.review_access(Right("delete", "nodes"))
        server.denied.add("create pods/eviction")
        taken = await api.review_access(Right("create", "pods", subresource="eviction"))

    assert [is_allowed(r) for r in (granted, missing, taken)] == [True, False, False]


async def test_the_agent_learns_its_node_from_its_token(server, api):
    server.tokens["agent"] = agent("node-a")
    async with client_of(server, with_token("agent")) as bound:
        assert node_name_of(await bound.who_am_i()) == "node-a"
    assert node_name_of(await api.who_am_i()) == ""


async def test_the_servers_version_is_read(api):
    assert (await api.version()).body["gitVersion"] == "v1.36.2"


# --- refusals --------------------------------------------------------------------------------


async def test_a_missing_right_is_forbidden(server):
    server.tokens["nobody"] = NOBODY
    async with client_of(server, with_token("nobody")) as api:
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)

    assert reply.outcome is Outcome.FORBIDDEN
    assert 'User "nobody" cannot patch resource "nodes"' in reply.message


async def test_a_policy_keeps_the_agent_to_its_node(server):
    server.tokens["agent"] = agent("node-a")
    server.policies += PINNED_TO_NODE
    async with client_of(server, with_token("agent")) as api:
        own = await api.patch_node("node-a", CORDON, PatchType.MERGE)
        other = await api.patch_node("node-b", CORDON, PatchType.MERGE, dry_run=True)

    assert own.ok
    assert other.outcome is Outcome.FORBIDDEN
    assert "lastcall-nodes" in other.cause_text


async def test_a_busy_server_is_told_from_a_budget(server, api):
    server.add("pods", pod("p-0"))
    server.break_(Fault.THROTTLED, times=1)

    reply = await api.evict_pod("training", "p-0", "")

    assert (reply.outcome, reply.retry_after_seconds) == (Outcome.THROTTLED, 1.0)


async def test_every_call_has_a_time_limit_on_the_server_too(server, api):
    await api.get_node("node-a", timeout_seconds=1.0)
    await api.patch_node("node-a", CORDON, PatchType.MERGE, timeout_seconds=5.0)
    await api.list_pods("node-a", timeout_seconds=0.5)
    await api.evict_pod("training", "p-0", "u", timeout_seconds=2.5)
    await api.delete_pod("training", "p-0", "u", timeout_seconds=2.5)
    await api.create_event(ObjectRef("Node", "node-a"), EVENT, timeout_seconds=2.5)

    asked = [float(one.query["timeout"].removesuffix("ms")) / 1000 for one in server.log]
    assert asked == pytest.approx([0.9, 4.75, 0.45, 2.25, 2.25, 2.25], abs=0.01)


async def test_nothing_but_what_is_needed_is_sent(server, api):
    await api.get_node("node-a")
    await api.patch_node("node-a", CORDON, PatchType.MERGE)

    read, written = server.log
    assert "Content-Type" not in read.headers
    assert written.headers["Content-Type"] == "application/merge-patch+json"
    assert written.headers["Accept"] == "application/json"
    assert read.connection == written.connection
