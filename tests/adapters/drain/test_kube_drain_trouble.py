"""A drain while the API server is in trouble."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.drain.kubernetes import mirror as kube_mirror
from support.kube_api.clients import with_token_file
from support.kube_api.faults import Fault
from support.kube_api.identities import ADMIN, AGENT_RIGHTS, agent
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import drain_at_work


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def owned(name, **more):
    return pod(name, **{"owner": "ReplicaSet"} | more)


# --- when the server is in trouble -----------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault.STORE_TIMEOUT,
        Fault.STORE_UNAVAILABLE,
        Fault.CLOSED,
        Fault.CLOSED_AFTER_DOING,
        Fault.THROTTLED,
        Fault.HALF_AN_ANSWER,
        Fault.NO_JSON,
    ],
)
async def test_an_answer_that_says_nothing_is_no_end(server, fault):
    server.kubelet.ends_after_seconds = 0.3
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        server.break_(fault, "POST", "/eviction", times=1)
        work.drain.drain(work.order(lead=10))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("web") == ["evicted"]


@pytest.mark.parametrize("fault", [Fault.STORE_TIMEOUT, Fault.CLOSED, Fault.THROTTLED])
async def test_pods_that_never_left_are_counted(server, fault):
    server.add("pods", *(owned(f"web-{i}") for i in range(7)))
    async with drain_at_work(server) as work:
        server.break_(fault, "POST", "/eviction")
        server.break_(fault, "PATCH")
        server.break_(fault, "DELETE")
        work.drain.drain(work.order(lead=1.2))
        ended = await work.ended()

        assert ended.outcome == "failed"
        assert {tuple(work.outcomes(f"web-{i}")) for i in range(7)} == {("failed",)}


async def test_a_call_that_hangs_is_given_up_and_made_again(server):
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        server.break_(Fault.HANGS, "POST", "/eviction", times=1)
        work.drain.drain(work.order(lead=4))

        assert (await work.ended()).outcome == "drained"


async def test_a_token_that_is_renewed_in_the_middle_costs_nothing(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    server.tokens["t-1"] = ADMIN
    server.add("pods", *(owned(f"web-{i}") for i in range(10)))
    async with drain_at_work(server, credentials=with_token_file(path)) as work:
        del server.tokens["t-1"]
        server.tokens["t-2"] = ADMIN
        path.write_text("t-2")
        work.drain.drain(work.order(lead=10))

        assert (await work.ended()).outcome == "drained"
        assert {tuple(work.outcomes(f"web-{i}")) for i in range(10)} == {("evicted",)}


async def test_a_token_that_is_refused_for_a_while_is_no_failed_drain(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    server.tokens["t-1"] = ADMIN
    server.add("pods", owned("web"))
    async with drain_at_work(server, credentials=with_token_file(path)) as work:
        del server.tokens["t-1"]
        work.drain.drain(work.order(lead=10))
        await server.has_been_asked("POST", "/eviction", 2)
        server.tokens["t-1"] = ADMIN

        assert (await work.ended()).outcome == "drained"


async def test_without_the_right_to_evict_pods_are_deleted_in_time(server):
    server.denied.add("create pods/eviction")
    server.add("pods", owned("web", grace_seconds=1))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=2))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("web") == ["blocked", "forced"]


async def test_without_any_right_the_drain_has_failed_and_says_why(server):
    server.denied |= {"create pods/eviction", "delete pods", "patch pods/status"}
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=1.5))
        ended = await work.ended()

        assert work.outcomes("web") == ["blocked", "failed"]
    assert ended.outcome == "failed"
    assert "cannot" in ended.detail
    assert "training/web" in ended.detail


async def test_without_the_right_to_list_the_drain_has_failed_and_says_why(server):
    server.tokens["agent"] = agent(rights=AGENT_RIGHTS - {"list pods"})
    async with drain_at_work(server, is_listed=False) as work:
        work.drain.drain(work.order(lead=1))
        ended = await work.ended()

    assert ended.outcome == "failed"
    assert "cannot list" in ended.detail


async def test_a_server_that_comes_back_in_the_middle_is_used(server):
    server.break_(Fault.CLOSED)
    server.add("pods", owned("web"))
    async with drain_at_work(server, is_listed=False) as work:
        await work.until(lambda: work.drain._mirror.trouble != "")
        work.drain.drain(work.order(lead=10))
        await asyncio.sleep(0.3)
        assert work.endings == []
        server.troubles.clear()

        assert (await work.ended()).outcome == "drained"


async def test_a_stuck_store_at_the_notice_is_got_around_by_the_servers_memory(server):
    server.add("pods", owned("web"))
    server.break_(Fault.STORE_TIMEOUT, "GET", times=1)
    async with drain_at_work(server, is_listed=False) as work:
        work.drain.drain(work.order(lead=10))

        assert (await work.ended()).outcome == "drained"


async def test_a_watch_that_breaks_in_the_middle_is_taken_up_again(server):
    server.kubelet.ends_after_seconds = 0.4
    server.add("pods", *(owned(f"web-{i}") for i in range(5)))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=20))
        await server.has_been_asked("POST", "/eviction", 5)
        server.end_watches()
        server.store.compact()

        assert (await work.ended()).outcome == "drained"


async def test_a_watch_that_has_died_in_silence_is_begun_anew(server, monkeypatch):
    server.kubelet.ends_after_seconds = 0.2
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        monkeypatch.setattr(kube_mirror, "HURRIED_QUIET_SECONDS", 0.3)
        wait, deaf = server.store.wait_for_change, asyncio.Event()

        async def wait_or_not(version):
            await (asyncio.Event().wait() if not deaf.is_set() else wait(version))

        monkeypatch.setattr(server.store, "wait_for_change", wait_or_not)
        work.drain.drain(work.order(lead=60))
        await work.until(lambda: work.find("web") is None)
        deaf.set()

        assert (await work.ended()).outcome == "drained"
        assert server.asked("GET", "/pods/web") == []


async def test_what_a_watch_does_not_show_is_looked_after(server, monkeypatch):
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        monkeypatch.setattr(work.drain._mirror, "_on", lambda _: None)
        work.drain.drain(work.order(lead=60))

        assert (await work.ended()).outcome == "drained"
    assert len(server.asked("GET", "/pods/web")) == 1
