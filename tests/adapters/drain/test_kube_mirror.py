"""The node's pods, kept fresh whatever becomes of lists and watches."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from lastcall.drain.kubernetes import mirror as kube_mirror
from lastcall.drain.kubernetes.mirror import PodMirror
from support.kube_api.clients import client_of, with_token, with_token_file
from support.kube_api.faults import Fault
from support.kube_api.identities import ADMIN, AGENT_RIGHTS, agent
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api

UID = "1c4f2b6e-7a10-4d58-9c3b-0f6e5d4c3b2a"


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=None) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        server.add("pods", pod("p-0"), pod("far", node_name="node-b"))
        yield server


@asynccontextmanager
async def mirror_of(server, credentials=None):
    async with client_of(server, credentials) as api:
        mirror = PodMirror(
            api=api,
            node_name="node-a",
            monotonic=asyncio.get_running_loop().time,
            wall=time.time,
            changed=lambda: None,
        )
        running = asyncio.create_task(mirror.run())
        try:
            yield mirror
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()


async def until(holds, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.005)


def names(mirror):
    return sorted(one.name for one in mirror.pods.values())


def lists(server):
    return [one for one in server.asked("GET", "/api/v1/pods") if "watch" not in one.query]


def watches(server):
    return [one for one in server.asked("GET", "/api/v1/pods") if "watch" in one.query]


async def test_the_nodes_pods_are_listed_once_and_then_watched(server):
    async with mirror_of(server) as mirror:
        await until(lambda: watches(server))
        server.add("pods", pod("p-1"), pod("far-2", node_name="node-b"))
        await until(lambda: names(mirror) == ["p-0", "p-1"])
        server.store.remove("pods", "training", "p-0")
        await until(lambda: names(mirror) == ["p-1"])

        assert mirror.age_seconds == 0.0
    assert len(lists(server)) == 1


async def test_nothing_is_known_before_the_first_list(server):
    server.break_(Fault.STORE_TIMEOUT)
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.trouble)

        assert not mirror.is_listed
        assert mirror.age_seconds is None
        assert "did not complete" in mirror.trouble


async def test_five_thousand_pods_come_in_pages(server, monkeypatch):
    monkeypatch.setattr(kube_mirror, "LIST_SECONDS", 60.0)
    server.add("pods", *(pod(f"many-{i:04}") for i in range(5000)))
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed, 50)

        assert len(mirror.pods) == 5001
    assert len(lists(server)) == 11


async def test_while_the_store_is_stuck_the_list_comes_from_the_servers_memory(server):
    trouble = server.break_(Fault.STORE_TIMEOUT, times=1)
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)

    assert trouble.times == 0
    assert [one.query.get("resourceVersion") for one in lists(server)] == [None, "0"]


async def test_a_watch_that_is_begun_anew_goes_on_where_the_last_bookmark_was(server):
    server.bookmark_seconds = 0.05
    async with mirror_of(server) as mirror:
        await until(lambda: watches(server))
        await until(lambda: mirror._version != "202")
        version = mirror._version
        mirror._break_off()
        await until(lambda: len(watches(server)) == 2)

        assert watches(server)[1].query["resourceVersion"] >= version
    assert len(lists(server)) == 1


async def test_watches_that_end_at_once_do_not_keep_the_server_busy(server):
    async with mirror_of(server) as mirror:
        watch_pods = mirror._api.watch_pods
        mirror._api.watch_pods = lambda *args: watch_pods(*args, watch_seconds=0)
        mirror.doubt()
        await asyncio.sleep(0.5)

    assert 2 <= len(watches(server)) <= 5


async def test_a_watch_that_is_broken_off_goes_on_where_it_was(server):
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.age_seconds == 0.0 and server._watching)
        server.end_watches()
        server.add("pods", pod("p-1"))
        await until(lambda: names(mirror) == ["p-0", "p-1"])

    assert len(lists(server)) == 1


@pytest.mark.parametrize("status", [200, 410])
async def test_a_place_too_long_ago_is_listed_anew(server, status):
    server.old_watch_status = status
    async with mirror_of(server) as mirror:
        await until(lambda: server._watching)
        server.add("pods", pod("p-1"))
        server.store.remove("pods", "training", "p-0")
        server.store.compact()
        server.end_watches()
        await until(lambda: names(mirror) == ["p-1"])

    assert len(lists(server)) >= 2


async def test_what_was_known_is_kept_while_nothing_answers(server):
    async with mirror_of(server) as mirror:
        await until(lambda: server._watching)
        server.break_(Fault.CLOSED)
        server.end_watches()
        await until(lambda: mirror.trouble)

        assert names(mirror) == ["p-0"]
        assert mirror.is_listed
        assert mirror.age_seconds > 0

        server.troubles.clear()
        mirror.hurry(is_hurried=True)
        await until(lambda: mirror.age_seconds == 0.0)
        assert mirror.trouble == ""


async def test_without_the_right_to_watch_lists_take_its_place(server):
    server.tokens["agent"] = agent(rights=AGENT_RIGHTS - {"watch pods"})
    async with mirror_of(server, with_token("agent")) as mirror:
        mirror.hurry(is_hurried=True)
        await until(lambda: mirror.is_listed)
        server.add("pods", pod("p-1"))
        await until(lambda: names(mirror) == ["p-0", "p-1"])

        await until(lambda: "cannot watch" in mirror.trouble)


async def test_an_idle_mirror_that_is_hurried_tries_at_once(server):
    server.break_(Fault.CLOSED)
    async with mirror_of(server) as mirror:
        mirror._failures = 12
        await until(lambda: mirror.trouble)
        server.troubles.clear()
        mirror.hurry(is_hurried=True)
        await until(lambda: mirror.is_listed, 1.0)


async def test_a_list_that_hangs_is_given_up_when_there_is_a_hurry(server):
    hang = server.break_(Fault.HANGS, times=1)
    async with mirror_of(server) as mirror:
        await until(lambda: hang.times == 0)
        mirror.hurry(is_hurried=True)
        await until(lambda: mirror.is_listed, 2.0)


async def test_a_watch_that_was_quiet_for_long_is_begun_anew_in_a_hurry(server):
    async with mirror_of(server) as mirror:
        await until(lambda: server._watching)
        mirror._heard_at -= 100
        mirror.hurry(is_hurried=True)
        await until(lambda: len(watches(server)) == 2)

    assert len(lists(server)) == 1


async def test_a_watch_that_is_doubted_is_begun_anew_with_a_list(server):
    async with mirror_of(server) as mirror:
        await until(lambda: server._watching)
        mirror.doubt()
        mirror.doubt()
        await until(lambda: len(watches(server)) == 2)

    assert len(lists(server)) == 2


async def test_a_token_that_is_renewed_is_taken_up(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    server.tokens = {"t-1": ADMIN}
    async with mirror_of(server, with_token_file(path)) as mirror:
        await until(lambda: server._watching)
        server.tokens = {"t-2": ADMIN}
        path.write_text("t-2")
        server.end_watches()
        server.add("pods", pod("p-1"))
        await until(lambda: names(mirror) == ["p-0", "p-1"])


async def test_pods_of_other_nodes_are_never_taken_in(server):
    """Even if the server should ignore the selector."""
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)
        mirror._put(pod("far-2", node_name="node-b"))

        assert names(mirror) == ["p-0"]


async def test_an_answer_about_a_pod_that_has_gone_does_not_bring_it_back(server):
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)
        content = server.store.get("pods", "training", "p-0")
        mirror.forget(content["metadata"]["uid"])
        mirror.take(content)

        assert names(mirror) == []


async def test_an_older_version_of_a_pod_is_not_taken_for_news(server):
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)
        older = server.store.get("pods", "training", "p-0")
        newer = {**older, "status": {"phase": "Succeeded"}}
        newer["metadata"] = {**older["metadata"], "resourceVersion": "9000"}
        mirror.take(newer)
        mirror.take(older)

        assert [one.is_finished for one in mirror.pods.values()] == [True]


async def test_a_list_from_memory_does_not_hide_what_came_later(server):
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)
        known = server.store.get("pods", "training", "p-0")
        later = pod("later")
        later["metadata"]["resourceVersion"] = "9000"
        mirror._put(later)
        mirror._replace([known], 300)

        assert names(mirror) == ["later", "p-0"]


async def test_after_the_store_was_set_back_a_list_is_believed(server):
    """What is read from a backup of the store has lower versions than what was known."""
    async with mirror_of(server) as mirror:
        await until(lambda: server._watching)
        for name in ("p-0", "ghost"):
            content = server.store.get("pods", "training", name) or pod(name)
            content["metadata"]["resourceVersion"] = "9000"
            mirror._put(content)
        mirror.doubt()
        await until(lambda: names(mirror) == ["p-0"])

        assert next(iter(mirror.pods.values())).version < 9000


async def test_a_pod_is_found_by_group_and_by_name_even_when_it_has_gone(server):
    server.add("pods", pod("train", uid=UID))
    group = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope"
    async with mirror_of(server) as mirror:
        await until(lambda: names(mirror) == ["p-0", "train"])
        assert mirror.find(group).name == "train"

        server.store.remove("pods", "training", "train")
        await until(lambda: names(mirror) == ["p-0"])

        assert mirror.find(group).name == "train"
        assert mirror.find("training/train").uid == UID
        assert mirror.find("training/other") is None
        assert mirror.find("/system.slice") is None

        server.add("pods", pod("train"))
        await until(lambda: names(mirror) == ["p-0", "train"])
        assert mirror.find("training/train").uid != UID


async def test_a_static_pods_group_leads_to_its_mirror(server):
    digest = "0f6e5d4c3b2a1c4f2b6e7a104d589c3b"
    annotations = {"kubernetes.io/config.mirror": digest, "kubernetes.io/config.hash": digest}
    server.add("pods", pod("etcd", annotations=annotations))
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)

        assert mirror.find(f"/kubepods/burstable/pod{digest}/1").name == "etcd"


async def test_only_so_many_gone_pods_are_remembered(server):
    async with mirror_of(server) as mirror:
        await until(lambda: mirror.is_listed)
        for number in range(1100):
            made = pod(f"x-{number}")
            mirror._put(made)
            mirror.forget(made["metadata"]["uid"])

        assert mirror.find("training/x-0") is None
        assert mirror.find("training/x-1099").name == "x-1099"
