"""Pods marked for notices that move nothing, or nothing any more, against the fake API server."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.drain.kubernetes import drain_marks as kube_drain_marks
from support.kube_api.faults import Fault
from support.kube_api.objects import node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import drain_at_work, gpu_pod, group_of


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def job_pod(name, **more):
    return pod(name, **{"owner": "Job"} | more)


def opted_out(name):
    return job_pod(name, annotations={"lastcall.dev/drain": "false"})


# --- notices that move nothing ---------------------------------------------------------------


async def test_told_pods_are_marked_and_nothing_is_moved(server):
    train, kept = job_pod("train"), opted_out("kept")
    server.add("pods", train, kept, gpu_pod("untold"), job_pod("web"))
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train), group_of(kept)))
        await work.drain.marked("n-1")

        assert work.mark_of("train") == work.mark_of("kept") == "True"
        await asyncio.sleep(0.1)
        assert work.mark_of("untold") == work.mark_of("web") == ""
        assert {one.method for one in server.log} == {"GET", "PATCH"}
        assert work.events == []


async def test_who_joins_later_is_marked_before_it_may_end(server):
    train, late = job_pod("train"), job_pod("late")
    server.add("pods", train, late)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train)))
        await work.drain.marked("n-1")
        work.drain.mark(work.marking(group_of(train), group_of(late)))
        await work.drain.marked("n-1")

        assert work.mark_of("late") == "True"
    assert len(server.asked("PATCH", "/status")) == 2


async def test_marks_are_renewed(server, monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.drain_outlook.MARK_STANDS_SECONDS", 1.3)
    monkeypatch.setattr(kube_drain_marks, "MARK_STANDS_SECONDS", 1.3)
    monkeypatch.setattr("lastcall.drain.kubernetes.drain_past.MARK_AGAIN_SECONDS", 0.3)
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train)))
        await work.until(lambda: len(server.asked("PATCH", "/pods/train/status")) >= 2)


async def test_when_it_is_over_the_marks_are_taken_back(server):
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train)))
        await work.drain.marked("n-1")
        work.drain.stop("n-1")

        await work.until(lambda: work.mark_of("train") == "False")


async def test_a_mark_that_another_notice_wants_stays(server):
    one, both = job_pod("one"), job_pod("both")
    server.add("pods", one, both)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(one), group_of(both), name="n-1"))
        work.drain.mark(work.marking(group_of(both), name="n-2"))
        await work.drain.marked("n-1")
        await work.drain.marked("n-2")
        work.drain.stop("n-1")
        await work.until(lambda: work.mark_of("one") == "False")
        await asyncio.sleep(0.1)

        assert work.mark_of("both") == "True"


async def test_a_mark_stays_where_its_notice_only_stops_to_drain(server):
    train = job_pod("train")
    server.add("pods", train, gpu_pod("untold"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=600, waiting=[group_of(train)]))
        await work.drain.marked("n-1")
        work.drain.stop("n-1")
        work.drain.mark(work.marking(group_of(train)))

        await work.until(lambda: work.mark_of("untold") == "False")
        assert work.mark_of("train") == "True"


async def test_a_trainer_that_comes_after_the_drain_is_marked_at_its_ok(server):
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=20))
        await work.ended()
        late = job_pod("late")
        server.add("pods", late)
        await work.until(lambda: work.drain.status()["pods_known"] == 1)
        work.drain.mark(work.marking(group_of(late)))
        await work.drain.marked("n-1")

        assert work.mark_of("late") == "True"
        work.drain.stop("n-1")
        await work.until(lambda: work.mark_of("late") == "False")


async def test_a_drain_takes_the_place_of_the_mark(server):
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train)))
        await work.drain.marked("n-1")
        work.drain.drain(work.order(lead=20, training=[group_of(train)]))

        assert (await work.ended()).outcome == "drained"
    assert len(server.asked("PATCH", "/pods/train/status")) == 1


async def test_a_call_that_fails_is_made_again(server):
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        server.break_(Fault.STORE_TIMEOUT, "PATCH", times=1)
        work.drain.mark(work.marking(group_of(train)))
        await work.drain.marked("n-1")

        assert work.mark_of("train") == "True"


async def test_marks_that_are_denied_are_not_waited_for(server):
    server.denied.add("patch pods/status")
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.mark(work.marking(group_of(train)))
        async with asyncio.timeout(0.5):
            await work.drain.marked("n-1")


async def test_a_fault_of_the_agents_own_keeps_nobody_waiting(server, monkeypatch):
    train = job_pod("train")
    server.add("pods", train)
    async with drain_at_work(server) as work:

        def broken(*_):
            raise RuntimeError("a bug")

        monkeypatch.setattr(work.drain._calls, "make", broken)
        work.drain.mark(work.marking(group_of(train)))
        async with asyncio.timeout(0.5):
            await work.drain.marked("n-1")


# --- drains ----------------------------------------------------------------------------------


async def test_a_told_pod_that_opts_out_is_marked_and_stays(server):
    kept = opted_out("kept")
    server.add("pods", kept, job_pod("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=20, waiting=[group_of(kept)]))
        await work.drain.marked("n-1")
        assert work.mark_of("kept") == "True"

        assert (await work.ended()).outcome == "drained"
        assert [one.method for one in work.calls("kept")] == ["PATCH"]


async def test_who_joins_in_the_middle_of_a_drain_is_marked_before_it_may_end(server):
    train, late = job_pod("train"), opted_out("late")
    server.add("pods", train, late)
    async with drain_at_work(server) as work:
        began = asyncio.get_running_loop().time()
        work.drain.drain(work.order(lead=60, waiting=[group_of(train)], began_at=began))
        await work.drain.marked("n-1")
        both = [group_of(train), group_of(late)]
        work.drain.drain(work.order(lead=60, waiting=both, began_at=began))
        await work.drain.marked("n-1")

        assert work.mark_of("late") == "True"
        work.drain.stop("n-1")


async def test_a_marked_pod_is_not_evicted_while_its_client_comes_back(server):
    train = job_pod("train", grace_seconds=1)
    server.add("pods", train, job_pod("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60, waiting=[group_of(train)]))
        await work.drain.marked("n-1")
    async with drain_at_work(server) as again:
        order = again.order(lead=60)
        again.drain.drain(order)
        await again.until(lambda: again.find("web") is None)
        await asyncio.sleep(0.3)
        assert again.evictions("train") == []

        over = again.order(lead=60, training=[group_of(train)], began_at=order.began_at)
        again.drain.drain(over)
        assert (await again.ended()).outcome == "drained"
