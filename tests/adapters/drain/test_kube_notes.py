"""Events as they stand in the cluster, written to the fake API server."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from support.kube_api.clients import client_of, with_token
from support.kube_api.faults import Fault
from support.kube_api.identities import NOBODY, kubelet
from support.kube_api.objects import node, pod
from support.kube_api.server import ADMIN_TOKEN, fake_kube_api
from support.kube_notes import drained, ended, moved, running, settled, told, writer_of

EVENTS_OF_NODES = "/namespaces/default/events"
EVENTS_OF_PODS = "/namespaces/training/events"


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"))
        server.add("pods", pod("train-0"))
        yield server


def events_of(server):
    return list(server.store.all("events"))


async def written(server, *facts, token=ADMIN_TOKEN):
    """Have facts written until nothing is left."""
    async with client_of(server, with_token(token)) as api:
        writer = writer_of(api)
        for fact in facts:
            writer.note(fact)
        await writer.close()


async def test_a_whole_story_stands_in_the_cluster(server):
    await written(server, told(1), settled(), moved(), drained(), ended("withdrawn"))

    found = {
        (one["involvedObject"]["kind"], one["metadata"]["namespace"], one["reason"])
        for one in events_of(server)
    }
    assert found == {
        ("Node", "default", "PreemptionNotice"),
        ("Node", "default", "CheckpointFlushed"),
        ("Node", "default", "NodeDrained"),
        ("Node", "default", "NoticeWithdrawn"),
        ("Pod", "training", "PreemptionNotice"),
        ("Pod", "training", "CheckpointFlushed"),
    }


async def test_an_agent_that_starts_again_doubles_nothing(server):
    facts = (told(1), settled(), moved(), drained())
    await written(server, *facts)
    before = len(events_of(server))

    with capture_logs() as log:
        await written(server, *facts)

    assert len(events_of(server)) == before == 5
    assert len(server.asked("POST", "/events")) == 10
    assert log == []


async def test_an_event_written_without_an_answer_is_not_doubled(server):
    server.break_(Fault.CLOSED_AFTER_DOING, "POST", EVENTS_OF_NODES, times=1)
    async with client_of(server) as api:
        writer = writer_of(api)
        async with running(writer):
            writer.note(told())
            await server.has_been_asked("POST", EVENTS_OF_NODES, times=2)

    assert [one["reason"] for one in events_of(server)] == ["PreemptionNotice"]


async def test_each_call_is_bounded(server):
    await written(server, told())

    assert server.asked("POST", EVENTS_OF_NODES)[0].query == {"timeout": "2750ms"}


async def test_a_server_that_hangs_does_not_hold_the_end_up(server):
    server.break_(Fault.HANGS, "POST", "/events")

    async with asyncio.timeout(3.0):
        with capture_logs() as log:
            await written(server, told())

    assert [one["event"] for one in log] == ["kubernetes_events_not_written"]


async def test_a_namespace_that_goes_away_is_no_trouble(server):
    server.terminating.add("training")

    with capture_logs() as log:
        await written(server, moved())

    assert events_of(server) == []
    assert len(server.asked("POST", EVENTS_OF_PODS)) == 1
    assert log == []


async def test_a_missing_right_is_named_once(server):
    server.tokens["nobody"] = NOBODY

    with capture_logs() as log:
        await written(server, told(), drained(), token="nobody")

    named = [one for one in log if one["event"] == "kubernetes_event_not_written"]
    assert len(named) == 1
    assert named[0]["why"] == "forbidden"
    assert 'cannot create resource "events"' in named[0]["detail"]


async def test_the_kubelets_own_credentials_suffice(server):
    server.tokens["kubelet"] = kubelet("node-a")

    await written(server, told(), moved(), token="kubelet")

    assert len(events_of(server)) == 2


async def test_hostile_text_is_written_as_a_plain_line(server):
    hostile = settled(job="a\n\x1b[2Jb\udcff", path="/c/" + "ä" * 4000, cause="x" * 9000)

    await written(server, told(1), hostile)

    (message,) = {one["message"] for one in events_of(server) if "saved" in one["message"]}
    assert message.isprintable()
    assert message.startswith("a [2Jb (rank 0) saved step 1200 at /c/ää")
    assert len(message.encode()) <= 1024
