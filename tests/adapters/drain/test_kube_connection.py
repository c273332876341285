"""Connections that go stale, hang, break or lie; none of it is raised, and all ends in time."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from lastcall.drain.kubernetes.api import KubeApi, PatchType
from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.reply import Outcome
from support.kube_api.clients import client_of
from support.kube_api.faults import Fault
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.raw_http import http_answer, raw_server

CORDON = {"spec": {"unschedulable": True}}


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"))
        yield server


# --- stale connections -----------------------------------------------------------------------


async def test_calls_share_one_warm_connection(server):
    async with client_of(server) as api:
        for _ in range(3):
            await api.get_node("node-a")

    assert {one.connection for one in server.log} == {1}


async def test_a_connection_closed_while_idle_is_replaced_unseen():
    async with fake_kube_api(keepalive_seconds=0.05) as server:
        server.add("nodes", node("node-a"))
        async with client_of(server) as api:
            await api.get_node("node-a")
            await asyncio.sleep(0.2)  # time without a call is what this is about
            reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)

    assert reply.ok
    assert len(server.asked("PATCH")) == 1


async def test_a_connection_idle_for_long_is_not_trusted(server, monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.transport.IDLE_SECONDS", 0.05)
    async with client_of(server) as api:
        await api.get_node("node-a")
        await asyncio.sleep(0.2)  # time without a call is what this is about
        await api.get_node("node-a")

    assert [one.connection for one in server.log] == [1, 2]


async def test_a_connection_that_proves_stale_when_used_is_replaced_unseen(server):
    server.break_(Fault.CLOSED_IF_USED_BEFORE, "PATCH", times=1)
    async with client_of(server) as api:
        await api.get_node("node-a")
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)

    assert reply.ok
    assert [one.connection for one in server.log] == [1, 1, 2]


async def test_an_eviction_too_is_sent_again_on_a_new_connection(server):
    server.add("pods", pod("p-0"))
    uid = server.store.get("pods", "training", "p-0")["metadata"]["uid"]
    server.break_(Fault.CLOSED_IF_USED_BEFORE, "POST", times=1)
    async with client_of(server) as api:
        await api.get_node("node-a")
        reply = await api.evict_pod("training", "p-0", uid)

    assert reply.ok


async def test_several_stale_connections_cost_one_more_try_each(server):
    async with client_of(server) as api:
        await asyncio.gather(*(api.get_node("node-a") for _ in range(5)))
        server.break_(Fault.CLOSED_IF_USED_BEFORE, "PATCH")
        replies = await asyncio.gather(
            *(api.patch_node("node-a", CORDON, PatchType.MERGE) for _ in range(5))
        )

    assert all(reply.ok for reply in replies)
    assert len(server.asked("PATCH")) == 10


async def test_a_server_that_keeps_closing_is_not_asked_for_ever(server):
    server.break_(Fault.CLOSED, "PATCH")
    async with client_of(server) as api:
        await api.get_node("node-a")
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)

    assert reply.outcome is Outcome.UNKNOWN
    assert len(server.asked("PATCH")) == 2


async def test_a_new_connection_that_is_closed_is_unknown_and_not_sent_again(server):
    server.break_(Fault.CLOSED_AFTER_DOING, "PATCH")
    async with client_of(server) as api:
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)
        looked_again = await api.get_node("node-a")

    assert reply.outcome is Outcome.UNKNOWN
    assert "closed with no answer" in reply.message
    assert len(server.asked("PATCH")) == 1
    assert looked_again.body["spec"]["unschedulable"] is True


# --- answers that do not come or make no sense -----------------------------------------------


async def test_a_server_that_hangs_costs_no_more_than_the_time_limit(server):
    server.break_(Fault.HANGS)
    loop = asyncio.get_running_loop()
    async with client_of(server) as api:
        began = loop.time()
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE, timeout_seconds=0.2)
        listed = await api.list_pods("node-a", timeout_seconds=0.2)

    assert reply.outcome is listed.reply.outcome is Outcome.UNKNOWN
    assert reply.message == "PATCH /api/v1/nodes/node-a: no answer within 0.2 s"
    assert loop.time() - began < 2.0


async def test_a_call_that_is_given_up_leaves_nothing_behind(server):
    server.break_(Fault.HANGS, times=1)
    async with client_of(server) as api:
        call = asyncio.create_task(api.get_node("node-a"))
        await server.has_been_asked("GET")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await api.get_node("node-a")).ok


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.STORE_TIMEOUT, "did not complete within the allotted timeout"),
        (Fault.STORE_UNAVAILABLE, "keepalive ping failed"),
        (Fault.CLOSED, "closed with no answer"),
        (Fault.HALF_AN_ANSWER, "breaks off"),
        (Fault.NO_JSON, "no JSON object"),
    ],
)
async def test_trouble_leaves_open_what_was_done(server, fault, said):
    server.break_(fault)
    async with client_of(server) as api:
        reply = await api.patch_node("node-a", CORDON, PatchType.MERGE)

    assert reply.outcome is Outcome.UNKNOWN
    assert said in reply.message


async def test_an_answer_without_end_is_not_read_to_its_end(server, monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.transport.BODY_LIMIT_BYTES", 100)
    async with client_of(server) as api:
        reply = await api.get_node("node-a")

    assert reply.message == "GET /api/v1/nodes/node-a: the answer has no end"


async def test_json_that_calls_itself_plain_text_is_read(server):
    server.break_(Fault.STORE_TIMEOUT)
    async with client_of(server) as api:
        reply = await api.get_node("node-a")

    assert (reply.status, reply.reason) == (504, "Timeout")


async def test_what_is_no_http_is_unknown():
    async with (
        raw_server(lambda _: b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as raw,
        KubeApi(Cluster(raw.url)) as api,
    ):
        reply = await api.version()

    assert reply.outcome is Outcome.UNKNOWN
    assert "no HTTP" in reply.message


async def test_a_redirect_is_not_followed():
    moved = http_answer(b"", "302 Found", "Location: http://127.0.0.1:1/")
    async with raw_server(lambda _: moved) as raw, KubeApi(Cluster(raw.url)) as api:
        reply = await api.version()

    assert (reply.outcome, reply.status) == (Outcome.UNKNOWN, 302)


async def test_a_server_that_is_not_there_is_unknown():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with KubeApi(Cluster(f"http://127.0.0.1:{port}")) as api:
            reply = await api.version()

    assert reply.outcome is Outcome.UNKNOWN
    assert "cannot connect: Connection refused" in reply.message


async def test_no_descriptor_is_left_open(server):
    before = len(os.listdir("/proc/self/fd"))
    server.break_(Fault.CLOSED_IF_USED_BEFORE, "PATCH", times=1)
    async with client_of(server) as api:
        await api.get_node("node-a")
        await api.patch_node("node-a", CORDON, PatchType.MERGE)
    while len(os.listdir("/proc/self/fd")) > before:  # noqa: ASYNC110 - the server closes its end
        await asyncio.sleep(0.01)


# --- addresses -------------------------------------------------------------------------------


async def test_no_proxy_of_the_environment_is_used(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with client_of(server) as api:
        assert (await api.get_node("node-a")).ok


async def test_an_ipv6_address_is_spoken_to():
    async with fake_kube_api(host="::1") as server, client_of(server) as api:
        reply = await api.version()

    assert server.url.startswith("http://[::1]:")
    assert reply.ok


async def test_a_server_below_a_path_is_spoken_to(server):
    async with KubeApi(Cluster(f"{server.url}/k8s/clusters/c-1")) as api:
        await api.version()

    assert server.log[-1].path == "/k8s/clusters/c-1/version"
