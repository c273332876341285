"""Orders to drain that change, are taken back, or find an agent that has just started."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.drain.kubernetes import drain as kube_drain
from lastcall.drain.kubernetes.drain import DrainSettings
from support.kube_api.faults import Fault
from support.kube_api.objects import budget, node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import drain_at_work, gpu_pod, group_of


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def owned(name, **more):
    return pod(name, **{"owner": "ReplicaSet"} | more)


# --- orders that change ----------------------------------------------------------------------


async def test_a_withdrawn_notice_stops_evictions_and_takes_marks_back(server):
    train = gpu_pod("train")
    server.add("pods", train, owned("db"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60, waiting=[group_of(train)]))
        await work.until(lambda: work.mark_of("train") == "True" and work.outcomes("db"))
        work.drain.stop("n-1")
        asked = len(work.evictions())

        await work.until(lambda: work.mark_of("train") == "False")
        await asyncio.sleep(0.1)
        assert len(work.evictions()) == asked
        assert work.endings == []
        assert "pods" not in work.drain.status()


async def test_marks_of_pods_that_end_are_left(server):
    server.kubelet.ends_after_seconds = None
    server.add("pods", gpu_pod("train", grace_seconds=600))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60))
        await work.until(lambda: work.outcomes("train") == ["evicted"])
        work.drain.stop("n-1")
        await asyncio.sleep(0.2)

        assert work.mark_of("train") == "True"


async def test_marks_stay_while_another_order_stands(server):
    server.add("pods", gpu_pod("train"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=600, name="drill"))
        await work.drain.marked("drill")
        work.drain.drain(work.order(lead=300, name="real"))
        work.drain.stop("drill")
        await asyncio.sleep(0.2)

        assert work.mark_of("train") == "True"
        work.drain.stop("real")


async def test_of_two_orders_the_newer_moves_pods_and_both_end(server):
    train = owned("train", owner="Job")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=30, name="drill", waiting=[group_of(train)]))
        await work.drain.marked("drill")
        assert work.evictions() == []
        work.drain.drain(work.order(lead=20, name="real", training=[group_of(train)]))
        await work.until(lambda: len(work.endings) == 2)

    assert {(one.id, one.outcome) for one in work.endings} == {
        ("drill", "drained"),
        ("real", "drained"),
    }
    assert len(work.evictions()) == 1


async def test_a_pod_is_counted_once_however_many_notices_it_leaves_for(server):
    server.kubelet.ends_after_seconds = 0.4
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=30, name="drill"))
        await work.until(lambda: work.outcomes("web") == ["evicted"])
        work.drain.drain(work.order(lead=20, name="real"))
        await work.until(lambda: len(work.endings) == 2)

        assert work.outcomes("web") == ["evicted"]


async def test_a_blocked_pod_is_counted_once_where_its_order_is_given_again(server):
    server.add("pods", owned("db"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server) as work:
        order = work.order(lead=60)
        work.drain.drain(order)
        await work.until(lambda: work.outcomes("db") == ["blocked"])
        work.drain.stop("n-1")
        asked = len(work.evictions())
        work.drain.drain(order)
        await work.until(lambda: len(work.evictions()) > asked)
        await work.until(lambda: work.drain.status()["pods"][0]["state"] == "blocked")

        assert work.outcomes("db") == ["blocked"]
        work.drain.stop("n-1")


async def test_of_two_orders_only_the_newer_one_counts_what_stays(server):
    server.add("pods", owned("db"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server, settings=DrainSettings(force="none")) as work:
        work.drain.drain(work.order(lead=1, name="drill"))
        work.drain.drain(work.order(lead=1.5, name="real"))
        await work.until(lambda: len(work.endings) == 2)

        assert work.outcomes("db") == ["blocked", "failed"]


async def test_the_last_drain_is_shown_until_another_begins(server, monkeypatch):
    server.add("pods", owned("db"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server, settings=DrainSettings(force="none")) as work:
        work.drain.drain(work.order(lead=1))
        ended = await work.ended()
        await work.until(lambda: "last_drain" in work.drain.status())
        shown = work.drain.status()["last_drain"]
        work.drain.drain(work.order(lead=60, name="next"))
        assert "last_drain" not in work.drain.status()
        work.drain.stop("next")

        monkeypatch.setattr(kube_drain, "LAST_SHOWN_SECONDS", 0.05)
        work.drain.drain(work.order(lead=0, name="third"))
        await work.until(lambda: len(work.endings) == 2)
        await work.until(lambda: "last_drain" not in work.drain.status())

    assert (shown["id"], shown["outcome"], shown["detail"]) == ("n-1", "incomplete", ended.detail)
    assert [(row["pod"], row["state"]) for row in shown["pods"]] == [("training/db", "blocked")]


async def test_when_the_newer_order_is_stopped_the_older_one_goes_on(server):
    server.add("pods", owned("web"))
    cordon = asyncio.Event()

    async def cordoned(notice_id):
        if notice_id == "real":
            await cordon.wait()

    async with drain_at_work(server, cordoned=cordoned) as work:
        work.drain.drain(work.order(lead=20, name="drill"))
        work.drain.drain(work.order(lead=20, name="real"))
        await asyncio.sleep(0.1)
        assert work.evictions() == []
        work.drain.stop("real")

        assert (await work.ended()).id == "drill"


async def test_an_order_is_ended_once_even_if_it_comes_again(server):
    async with drain_at_work(server) as work:
        order = work.order(lead=20)
        work.drain.drain(order)
        await work.ended()
        work.drain.drain(order)
        await work.until(lambda: "pods" not in work.drain.status())
        work.drain.drain(order)
        await asyncio.sleep(0.05)

        assert "pods" not in work.drain.status()
    assert len(work.endings) == 1


async def test_an_order_that_was_taken_back_may_be_given_again(server):
    train = gpu_pod("train", grace_seconds=600)
    server.kubelet.ends_after_seconds = None
    server.add("pods", train)
    async with drain_at_work(server) as work:
        order = work.order(lead=900, waiting=[group_of(train)])
        work.drain.drain(order)
        await work.drain.marked("n-1")
        work.drain.stop("n-1")
        await work.until(lambda: work.mark_of("train") == "False")
        work.drain.drain(order)
        await work.until(lambda: work.mark_of("train") == "True")
        await asyncio.sleep(0.6)

        assert work.mark_of("train") == "True"
        work.drain.stop("n-1")


async def test_marks_that_cannot_be_taken_back_are_given_up_in_time(server, monkeypatch):
    monkeypatch.setattr(kube_drain, "UNMARKS_SECONDS", 0.2)
    server.add("pods", gpu_pod("train"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=600))
        await work.drain.marked("n-1")
        server.break_(Fault.HANGS, "PATCH")
        work.drain.stop("n-1")
        await work.until(lambda: not work.drain._stopped, 1.0)

    assert work.mark_of("train") == "True"


async def test_taking_back_an_order_that_is_not_known_changes_nothing(server):
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=20))
        work.drain.stop("another")

        assert (await work.ended()).outcome == "drained"


async def test_after_a_restart_the_drain_is_taken_up_from_what_the_pods_show(server):
    server.kubelet.ends_after_seconds = 0.6
    train = gpu_pod("train")
    server.add("pods", owned("web", grace_seconds=1), train)
    async with drain_at_work(server) as work:
        order = work.order(lead=20, waiting=[group_of(train)])
        work.drain.drain(order)
        await work.drain.marked("n-1")
        await work.until(lambda: work.outcomes("web") == ["evicted"])
    async with drain_at_work(server) as again:
        again.drain.drain(order)
        await again.drain.marked("n-1")
        over = again.order(lead=20, training=[group_of(train)], began_at=order.began_at)
        again.drain.drain(over)

        assert (await again.ended()).outcome == "drained"
        assert again.outcomes("web") == ["gone"]
    assert len(work.evictions("web")) == 1
    assert len(server.asked("PATCH", "/pods/train/status")) == 1


async def test_a_fault_of_the_agents_own_is_an_ending_too(server, monkeypatch):
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:

        def broken(*_):
            raise RuntimeError("a bug")

        monkeypatch.setattr(work.drain._calls, "make", broken)
        work.drain.drain(work.order(lead=20))
        ended = await work.ended()

    assert ended.outcome == "failed"
    assert "a bug" in ended.detail
