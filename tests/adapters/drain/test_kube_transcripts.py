"""The fake API server against every exchange that was recorded from a real one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from yarl import URL

from support.kube_api.identities import NOBODY, agent, kubelet
from support.kube_api.objects import pod
from support.kube_api.server import ADMIN_TOKEN, FakeKubeApi, fake_kube_api
from support.kube_api.states import STEPS, bring_about
from support.kube_api.transcripts import (
    HEADERS_THAT_MATTER,
    Transcript,
    lasting,
    read_transcripts,
    sent,
)

TRANSCRIPTS = read_transcripts()

NOT_REPLAYED = {
    "kcm-job-podfailurepolicy": "a summary of the Job controller's decisions; no exchange is in it",
    "kcm-noexecute-timing": "a summary of the taint manager's timing; no exchange is in it",
}
"""Recordings without an exchange, each with the reason."""

IN_PART = {"discovery-v1", "selfsubjectrulesreview", "pods-watch-by-node", "pods-watch-too-old"}
"""Replayed below by tests of their own: long lists in any order, and streams."""

WHOLE = [name for name in TRANSCRIPTS if name not in NOT_REPLAYED and name not in IN_PART]

CALLERS = {
    "admin": ADMIN_TOKEN,
    "user without rights": "nobody-token",
    "anonymous": "",
    "client-cert node-a": "kubelet-token",
    "service account token bound to pod agent-a on node-a": "agent-token",
}
REFUSED = {"node-cordon-401", "token-after-its-pod-is-deleted-401"}


def test_every_recording_is_replayed_or_left_out_for_a_reason():
    assert len(TRANSCRIPTS) == 137
    assert len(WHOLE) + len(IN_PART) + len(NOT_REPLAYED) == 137
    assert all(not TRANSCRIPTS[name].method for name in NOT_REPLAYED)


def cluster_before(recorded: Transcript, server: FakeKubeApi) -> None:
    server.tokens |= {
        "nobody-token": NOBODY,
        "kubelet-token": kubelet(),
        "agent-token": agent(),
    }
    bring_about(server, recorded, TRANSCRIPTS)
    if recorded.name in REFUSED:
        del server.tokens["agent-token"]


async def send(
    server: FakeKubeApi,
    method: str,
    path: str,
    *,
    body: Any = None,
    content_type: str | None = None,
    accept: str | None = None,
    token: str = ADMIN_TOKEN,
) -> tuple[int, dict[str, str], Any]:
    headers = {"Accept": accept or "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if content_type:
        headers["Content-Type"] = content_type
    data = None if body is None else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, URL(server.url + path, encoded=True), data=data, headers=headers
        ) as response,
    ):
        text = await response.text()
        found = {h: response.headers[h] for h in HEADERS_THAT_MATTER if h in response.headers}
    try:
        return response.status, found, json.loads(text)
    except ValueError:
        return response.status, found, text


async def replay(recorded: Transcript, server: FakeKubeApi) -> tuple[int, dict[str, str], Any]:
    for method, path, content_type, body in STEPS.get(recorded.name, []):
        await send(server, method, path, body=body, content_type=content_type)
    return await send(
        server,
        recorded.method,
        recorded.path,
        body=sent(recorded),
        content_type=recorded.request.get("content_type"),
        accept=recorded.request.get("accept"),
        token=CALLERS[recorded.caller],
    )


@pytest.mark.parametrize("name", WHOLE)
async def test_the_fake_answers_as_the_real_server_did(name):
    recorded = TRANSCRIPTS[name]
    acts = name in {"kcm-node-after-cordon", "kcm-pod-after-noexecute-taint"}
    async with fake_kube_api(ends_after_seconds=None, with_controllers=acts) as server:
        cluster_before(recorded, server)
        status, headers, body = await replay(recorded, server)

    assert status == recorded.response["status"]
    assert headers == {
        name: value
        for name, value in recorded.response["headers"].items()
        if name in HEADERS_THAT_MATTER
    }
    assert without_suffix(name, lasting(body)) == without_suffix(
        name, lasting(recorded.response["body"])
    )


def without_suffix(name: str, body: Any) -> Any:
    """Leave out the end of a generated name, which is made up anew each time."""
    if name != "event-generate-name":
        return body
    prefix, _, suffix = body["metadata"]["name"].rpartition(".")
    assert len(suffix) == 5
    return {**body, "metadata": {**body["metadata"], "name": prefix}}


async def test_a_patch_that_changes_nothing_keeps_the_version():
    recorded = TRANSCRIPTS["node-cordon-again-noop"]
    async with fake_kube_api() as server:
        cluster_before(recorded, server)
        before = server.store.get("nodes", "", "node-a")
        _, _, body = await replay(recorded, server)

    assert before is not None
    assert body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_what_the_core_group_holds_is_described_alike():
    recorded = TRANSCRIPTS["discovery-v1"]
    async with fake_kube_api() as server:
        status, headers, body = await replay(recorded, server)

    real = {entry["name"]: lasting(entry) for entry in recorded.response["body"]["resources"]}
    assert (status, headers) == (200, {"Content-Type": "application/json"})
    assert body.keys() == recorded.response["body"].keys()
    assert len(body["resources"]) == 6
    for entry in body["resources"]:
        assert lasting(entry) == real[entry["name"]]


async def test_an_agent_is_told_the_same_rights():
    recorded = TRANSCRIPTS["selfsubjectrulesreview"]
    async with fake_kube_api() as server:
        cluster_before(recorded, server)
        status, _, body = await replay(recorded, server)

    assert status == recorded.response["status"]
    assert rights_in(body) == rights_in(recorded.response["body"])
    assert {**body, "status": None} == {**recorded.response["body"], "status": None}


def rights_in(review: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def summary(event: dict[str, Any]) -> tuple[Any, ...]:
    metadata, status = event["object"]["metadata"], event["object"]["status"]
    conditions = status.get("conditions", [])
    return (
        event["type"],
        metadata.get("name"),
        status.get("phase"),
        metadata.get("deletionGracePeriodSeconds"),
        [c["reason"] for c in conditions if c["type"] == "DisruptionTarget"],
    )


async def test_an_eviction_is_watched_as_the_same_sequence_of_changes():
    recorded = TRANSCRIPTS["pods-watch-by-node"]
    async with fake_kube_api(ends_after_seconds=0.01) as server:
        cluster_before(recorded, server)
        server.add("pods", pod("free-2"), pod("far-0", node_name="node-b"))
        path = recorded.path.replace("timeoutSeconds=4", "timeoutSeconds=0.5")
        watching = asyncio.create_task(send(server, "GET", path))
        await server.has_been_asked("GET")
        # As the recording was made: created, running, evicted, and ended by the kubelet.
        pending = pod("w-1", phase="Pending", grace_seconds=1)
        running = pod("w-1", grace_seconds=1)
        server.add("pods", pending)
        running["metadata"] = pending["metadata"]
        server.add("pods", running)
        method, path, content_type, body = STEPS["pod-after-evict"][0]
        body = {"metadata": {"name": "w-1", "namespace": "training"}}
        path = path.replace("free-0", "w-1")
        await send(server, method, path, body=body, content_type=content_type)
        status, headers, text = await watching

    events = [json.loads(line) for line in text.splitlines()]
    real = [
        (e["type"], e["name"], e["phase"], e["grace"], e["disruptionTarget"])
        for e in recorded.response["events_summary"]
    ]
    assert (status, headers) == (200, {"Content-Type": "application/json"})
    assert [summary(e) for e in events if e["type"] != "BOOKMARK"] == [
        line for line in real if line[0] != "BOOKMARK"
    ]
    assert lasting(events[-1]) == lasting(recorded.response["last_events_full"][-1])
    deleted = recorded.response["last_events_full"][0]
    assert lasting(events[-2]) == lasting(deleted)


async def test_a_watch_from_a_version_that_is_still_remembered_tells_all_since():
    recorded = TRANSCRIPTS["pods-watch-too-old"]
    async with fake_kube_api() as server:
        pending = pod("free-2", phase="Pending")
        server.add("pods", pending)
        server.add("pods", {**pod("free-2"), "metadata": pending["metadata"]})
        path = recorded.path.replace("...&", "/api/v1/pods?timeoutSeconds=0&")
        status, _, text = await send(server, "GET", path)

    real = json.loads(recorded.response["body"].splitlines()[0])
    first, second = (json.loads(line) for line in text.splitlines()[:2])
    assert status == recorded.response["status"]
    assert lasting(first) == lasting(real)
    assert second["type"] == "MODIFIED"
