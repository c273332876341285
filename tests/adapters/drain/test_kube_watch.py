"""Watches, and every way they end."""

from __future__ import annotations

import asyncio
import json

import pytest

from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.reply import Outcome
from lastcall.drain.kubernetes.transport import Request, Transport
from lastcall.drain.kubernetes.watch import Watch
from support.kube_api.clients import client_of, cluster_of, with_token, with_token_file
from support.kube_api.faults import Fault
from support.kube_api.identities import ADMIN, NOBODY
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.raw_http import http_answer, raw_server


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"), node("node-b"))
        server.add("pods", pod("p-0"), pod("far", node_name="node-b"))
        yield server


@pytest.fixture
async def api(server):
    async with client_of(server) as api:
        yield api


async def events_of(watch):
    return [(event.type, event.object["metadata"].get("name")) async for event in watch]


async def first(number, watch):
    """Return the first so many events, and leave the watch."""
    events = []
    async for event in watch:
        events.append((event.type, event.object["metadata"].get("name")))
        if len(events) == number:
            break
    return events


async def test_a_watch_tells_what_happens_after_the_list(server, api):
    listed = await api.list_pods("node-a")
    async with api.watch_pods("node-a", listed.resource_version, watch_seconds=1) as watch:
        server.add("pods", pod("p-1"), pod("far-2", node_name="node-b"))
        server.store.remove("pods", "training", "p-0")
        events = await events_of(watch)

    assert events == [("ADDED", "p-1"), ("DELETED", "p-0"), ("BOOKMARK", None)]
    assert watch.end.outcome is Outcome.OK
    assert watch.resource_version == str(server.store.version)


async def test_an_eviction_is_seen_marked_first_then_ending_then_gone(server, api):
    listed = await api.list_pods("node-a")
    uid = listed.items[0]["metadata"]["uid"]
    async with api.watch_pods("node-a", listed.resource_version) as watch:
        await api.evict_pod("training", "p-0", uid)
        types = [type_ for type_, _ in await first(4, watch)]

    assert types == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_a_node_is_watched_alone(server, api):
    version = str(server.store.version)
    async with api.watch_node("node-a", version) as watch:
        server.add("nodes", node("node-c"), {**node("node-a"), "spec": {"unschedulable": True}})
        events = await first(1, watch)

    assert events == [("MODIFIED", "node-a")]
    assert server.log[-1].query["allowWatchBookmarks"] == "true"
    assert "timeout" not in server.log[-1].query


async def test_bookmarks_move_the_place_to_start_again_from(server, api):
    server.bookmark_seconds = 0.05
    version = str(server.store.version)
    async with api.watch_pods("node-a", version, watch_seconds=5) as watch:
        server.add("nodes", node("node-c"))
        async for event in watch:
            if event.type == "BOOKMARK":
                break

    assert int(watch.resource_version) > int(version)
    assert watch.end is None


@pytest.mark.parametrize("status", [200, 410])
async def test_a_place_too_long_ago_is_a_result(server, api, status):
    server.old_watch_status = status
    server.store.compact()
    async with api.watch_pods("node-a", "1") as watch:
        events = await events_of(watch)

    assert events == []
    assert (watch.end.outcome, watch.end.status) == (Outcome.EXPIRED, 410)


async def test_a_watch_without_the_right_is_a_result(server):
    server.tokens["nobody"] = NOBODY
    nobody = with_token("nobody")
    async with client_of(server, nobody) as api, api.watch_pods("node-a", "1") as watch:
        assert await events_of(watch) == []

    assert watch.end.outcome is Outcome.FORBIDDEN


async def test_a_watch_renews_a_refused_token(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    credentials = with_token_file(path)
    await credentials.current()
    server.tokens = {"t-2": ADMIN}
    async with client_of(server, credentials) as api:
        path.write_text("t-2")
        async with api.watch_pods("node-a", "0", watch_seconds=0) as watch:
            assert ("ADDED", "p-0") in await events_of(watch)


async def test_a_watch_without_a_token_is_a_result(server, tmp_path):
    missing = with_token_file(tmp_path / "none")
    async with client_of(server, missing) as api, api.watch_pods("node-a", "1") as watch:
        assert await events_of(watch) == []

    assert watch.end.outcome is Outcome.UNAUTHORIZED


async def test_a_watch_that_is_broken_off_is_a_result(server, api):
    async with api.watch_pods("node-a", "0") as watch:
        async for _ in watch:
            server.end_watches()

    assert watch.end.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("fault", [Fault.CLOSED, Fault.STORE_TIMEOUT, Fault.THROTTLED])
async def test_a_watch_that_does_not_start_is_a_result(server, api, fault):
    server.break_(fault)
    async with api.watch_pods("node-a", "1") as watch:
        assert await events_of(watch) == []

    assert not watch.end.ok


def watch_of(transport: Transport, **limits: float) -> Watch:
    limits = {"open_timeout_seconds": 2.0, "total_seconds": 5.0, "silence_seconds": 5.0} | limits
    query = {"watch": "true"}
    request = Request("GET", "/api/v1/pods", query)
    return Watch(transport, request, resource_version="1", **limits)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"silence_seconds": 0.1}, "nothing came for 0.1 s"),
        ({"total_seconds": 0.1}, "outlived its time"),
    ],
)
async def test_a_watch_that_has_died_in_silence_is_noticed(server, limits, said):
    transport = Transport(cluster_of(server))
    async with watch_of(transport, **limits) as watch:
        await events_of(watch)
    await transport.close()

    assert watch.end.outcome is Outcome.UNKNOWN
    assert said in watch.end.message


async def test_a_watch_that_is_never_answered_is_noticed(server):
    server.break_(Fault.HANGS)
    transport = Transport(cluster_of(server))
    async with watch_of(transport, open_timeout_seconds=0.1) as watch:
        assert await events_of(watch) == []
    await transport.close()

    assert "did not start in time" in watch.end.message


@pytest.mark.parametrize(
    "line", [b"no json", b"[]", b"{}", b'{"type": "ADDED", "object": 7}', b"\xff", b"[" * 5000]
)
async def test_a_line_that_makes_no_sense_ends_the_watch(line):
    good = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "p"}}}).encode()
    async with (
        raw_server(lambda _: http_answer(good + b"\n" + line + b"\n")) as raw,
        KubeApi(Cluster(raw.url)) as api,
        api.watch_pods("node-a", "1") as watch,
    ):
        events = await events_of(watch)

    assert events == [("ADDED", "p")]
    assert "no watch event" in watch.end.message


async def test_an_error_in_the_stream_is_told_as_any_other():
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is gone"}}
    text = json.dumps(error).encode() + b"\n"
    async with (
        raw_server(lambda _: http_answer(text)) as raw,
        KubeApi(Cluster(raw.url)) as api,
        api.watch_pods("node-a", "1") as watch,
    ):
        await events_of(watch)

    assert (watch.end.outcome, watch.end.message) == (Outcome.UNKNOWN, "etcd is gone")


async def test_a_watch_can_be_left_at_any_time(server, api):
    async def follow() -> None:
        async with api.watch_pods("node-a", "0") as watch:
            await events_of(watch)

    task = asyncio.create_task(follow())
    await server.has_been_asked("GET")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await api.get_node("node-a")).ok
