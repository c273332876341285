"""Pods leaving a node, against the fake API server: what is asked, when, and what is said."""

from __future__ import annotations

import asyncio
import json

import pytest

from lastcall.drain.kubernetes.drain import DrainSettings
from lastcall.drain.kubernetes.events import ObjectRef
from support.kube_api.faults import Fault
from support.kube_api.objects import budget, node, pod
from support.kube_api.server import fake_kube_api
from support.kube_drains import OWN_UID, drain_at_work, gpu_pod, group_of


@pytest.fixture
async def server():
    async with fake_kube_api(ends_after_seconds=0.05) as server:
        server.add("nodes", node("node-a"), node("node-b"))
        yield server


def owned(name, **more):
    return pod(name, **{"owner": "ReplicaSet"} | more)


# --- the whole way ---------------------------------------------------------------------------


async def test_a_node_with_nothing_to_move_is_drained_at_once(server):
    server.add(
        "pods",
        owned("ds", owner="DaemonSet"),
        owned("done", phase="Succeeded"),
        owned("far", node_name="node-b"),
        owned("agent", uid=OWN_UID),
    )
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60))
        ended = await work.ended(1.0)

    assert (ended.outcome, ended.detail) == ("drained", "no pod was to leave")
    assert [one.method for one in server.log if one.method != "GET"] == []


async def test_a_hundred_and_ten_pods_leave_in_parallel_with_one_call_each(server):
    server.add("pods", *(owned(f"web-{i}") for i in range(110)))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60))
        ended = await work.ended()

        assert (ended.outcome, ended.detail) == ("drained", "110 pods have left")
        assert {tuple(work.outcomes(f"web-{i}")) for i in range(110)} == {("evicted",)}
        assert len(work.evictions()) == 110
    calls = [one for one in server.log if "watch" not in one.query]
    assert len(calls) == 111
    assert all(one.body["deleteOptions"]["preconditions"]["uid"] for one in work.evictions())
    assert all("gracePeriodSeconds" not in one.body["deleteOptions"] for one in work.evictions())


async def test_at_most_so_many_calls_are_in_flight(server):
    server.add("pods", *(owned(f"web-{i}") for i in range(20)))
    async with drain_at_work(server, settings=DrainSettings(calls_in_flight=4)) as work:
        hang = server.break_(Fault.HANGS, "POST")
        work.drain.drain(work.order(lead=30))
        await server.has_been_asked("POST", "/eviction", 4)
        await asyncio.sleep(0.1)
        assert len(work.evictions()) == 4

        hang.times = 0
        work.drain.stop("n-1")


async def test_drained_is_said_only_once_the_pods_are_gone(server):
    server.kubelet.ends_after_seconds = 0.6
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=10))
        await work.until(lambda: work.outcomes("web") == ["evicted"])
        assert work.endings == []
        ended = await work.ended()

        assert ended.outcome == "drained"
        assert work.find("web") is None


async def test_a_long_time_to_end_is_cut_to_what_is_left(server):
    server.add("pods", owned("slow", grace_seconds=60))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=28))
        await work.ended()

    (eviction,) = work.evictions("slow")
    assert eviction.body["deleteOptions"]["gracePeriodSeconds"] in (24, 25)


async def test_a_pod_that_comes_during_the_drain_leaves_too(server):
    server.kubelet.ends_after_seconds = 0.5
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=10))
        await server.has_been_asked("POST", "/eviction")
        server.add("pods", owned("late"))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("late") == ["evicted"]


async def test_a_pod_whose_binding_was_under_way_at_the_cordon_leaves_too(server):
    async with drain_at_work(server, settling_seconds=1.0) as work:
        work.drain.drain(work.order(lead=10))
        await asyncio.sleep(0.4)
        server.add("pods", owned("late"))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("late") == ["evicted"]


async def test_daemonsets_are_never_asked_for(server):
    server.add("pods", owned("ds", owner="DaemonSet", phase="Failed"), owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order())
        await work.ended()

        assert work.calls("ds") == []
    assert server.asked("GET", "daemonsets") == []


async def test_a_pod_that_opts_out_is_left_and_named(server):
    server.add("pods", owned("db", annotations={"lastcall.dev/drain": "false"}), owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order())
        ended = await work.ended()

        assert work.calls("db") == []
    assert ended.outcome == "drained"
    assert "training/db" in ended.detail


async def test_evictions_wait_for_the_cordon_and_marks_do_not(server):
    server.add("pods", owned("web"), gpu_pod("train"))
    cordon = asyncio.Event()
    asked = []

    async def cordoned(notice_id):
        asked.append(notice_id)
        await cordon.wait()

    async with drain_at_work(server, cordoned=cordoned) as work:
        work.drain.drain(work.order(lead=30))
        await work.until(lambda: work.mark_of("train") == "True")
        await asyncio.sleep(0.1)
        assert work.evictions() == []

        cordon.set()
        await work.ended()
        assert len(work.evictions()) == 2
    assert asked == ["n-1"]


async def test_case_19_a_node_that_was_cordoned_before_is_drained_all_the_same(server):
    cordoned = node("node-a")
    cordoned["spec"]["unschedulable"] = True
    server.add("nodes", cordoned)
    server.add("pods", owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order())

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("web") == ["evicted"]


async def hangs(_):
    await asyncio.Event().wait()


async def breaks(_):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("cordoned", [hangs, breaks])
async def test_a_cordon_that_is_never_tried_keeps_nothing_up(server, cordoned):
    server.add("pods", owned("web"))
    async with drain_at_work(server, cordoned=cordoned) as work:
        work.drain.drain(work.order(lead=2))

        assert (await work.ended()).outcome == "drained"


# --- budgets ---------------------------------------------------------------------------------


async def test_a_pod_behind_a_budget_is_asked_again_and_deleted_in_the_end(server):
    server.add("pods", owned("db", grace_seconds=1), owned("web"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server) as work:
        order = work.order(lead=4)
        work.drain.drain(order)
        await work.until(lambda: "blocked" in work.outcomes("db"), 1.0)
        ended = await work.ended()

        assert ended.outcome == "drained"
        assert work.outcomes("db") == ["blocked", "forced"]
        assert work.outcomes("web") == ["evicted"]
    (deletion,) = server.asked("DELETE", "/pods/db")
    assert deletion.at == pytest.approx(order.deadline - 0.4 - 1.36, abs=0.25)
    assert deletion.body.get("gracePeriodSeconds") is None
    assert len(work.evictions("db")) in (2, 3, 4)
    marks = server.asked("PATCH", "/pods/db/status")
    assert len(marks) == 1
    assert marks[0].at < deletion.at


async def test_a_budget_that_gives_way_is_heard(server):
    server.add("pods", owned("db"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=30))
        await work.until(lambda: "blocked" in work.outcomes("db"))
        await work.until(lambda: work.drain.status()["pods"][0]["state"] == "blocked")
        server.add("poddisruptionbudgets", budget("db", "db", allowed=1))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("db") == ["blocked", "evicted"]


async def test_a_budget_is_never_overruled_where_nothing_is_forced(server):
    server.add("pods", owned("db"), owned("web"))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server, settings=DrainSettings(force="none")) as work:
        order = work.order(lead=2)
        work.drain.drain(order)
        ended = await work.ended()
        assert asyncio.get_running_loop().time() <= order.deadline

    assert ended.outcome == "incomplete"
    assert ended.detail.startswith("1 of 2 pods have not left: training/db (blocked: ")
    assert "needs 1 healthy pods" in ended.detail
    assert server.asked("DELETE") == []


async def test_two_budgets_are_overruled_at_once(server):
    server.add("pods", owned("db"))
    server.add("poddisruptionbudgets", budget("a", "db"), budget("b", "db"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=60))

        assert (await work.ended(2.0)).outcome == "drained"
        assert work.outcomes("db") == ["forced"]
    assert len(work.evictions("db")) == 1


async def test_the_strict_method_marks_and_deletes(server):
    server.denied.add("create pods/eviction")
    server.add("pods", owned("web"), gpu_pod("train", grace_seconds=60))
    server.add("poddisruptionbudgets", budget("web", "web"))
    async with drain_at_work(server, settings=DrainSettings(method="delete")) as work:
        work.drain.drain(work.order(lead=30))

        assert (await work.ended()).outcome == "drained"
        assert work.evictions() == []
        for name in ("web", "train"):
            methods = [one.method for one in server.log if f"/pods/{name}" in one.path]
            assert methods == ["PATCH", "DELETE"]
    (deletion,) = server.asked("DELETE", "/pods/train")
    assert deletion.body["gracePeriodSeconds"] in (26, 27)


# --- pods that are hard to move --------------------------------------------------------------


async def test_a_pod_reborn_elsewhere_under_its_name_is_left_alone(server):
    old = owned("db-0", owner="StatefulSet")
    server.add("pods", old)
    async with drain_at_work(server) as work:
        # The watch is behind: what is there by now is another pod.
        server.store.remove("pods", "training", "db-0")
        server.add("pods", owned("db-0", owner="StatefulSet", node_name="node-b"))
        work.drain._mirror._put(old)
        work.drain.drain(work.order(lead=20))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("db-0") == ["gone"]
        assert "deletionTimestamp" not in work.find("db-0")["metadata"]


async def test_in_a_namespace_that_ends_pods_are_deleted_and_others_go_on(server):
    server.terminating.add("leaving")
    server.add("pods", owned("old", namespace="leaving"), owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=20))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("old") == work.outcomes("web") == ["evicted"]
    assert len(server.asked("DELETE", "/pods/old")) == 1


async def test_a_pod_that_a_finalizer_holds_is_named_as_what_is_left(server):
    server.add("pods", owned("held", grace_seconds=1, finalizers=["example.com/x"]), owned("web"))
    async with drain_at_work(server) as work:
        work.drain.drain(work.order(lead=2))
        ended = await work.ended()

    assert ended.outcome == "incomplete"
    assert "1 of 2 pods have not left: training/held (leaving" in ended.detail


async def test_a_pod_that_others_end_is_waited_for_and_not_asked(server):
    server.kubelet.ends_after_seconds = 0.4
    server.add("pods", owned("web", grace_seconds=1))
    async with drain_at_work(server) as work:
        uid = work.find("web")["metadata"]["uid"]
        await work.drain._calls._api.evict_pod("training", "web", uid)
        await work.until(lambda: next(iter(work.drain._mirror.pods.values())).ends_at is not None)
        work.drain.drain(work.order(lead=20))

        assert (await work.ended()).outcome == "drained"
        assert work.outcomes("web") == ["gone"]
    assert len(work.evictions()) == 1


# --- what is shown ---------------------------------------------------------------------------


async def test_what_goes_on_is_shown(server):
    train = owned("train", owner="Job")
    server.add("pods", train, owned("db"), owned("ds", owner="DaemonSet"))
    server.add("pods", owned("kept", annotations={"lastcall.dev/drain": "false"}))
    server.add("poddisruptionbudgets", budget("db", "db"))
    async with drain_at_work(server) as work:
        assert work.drain.status() == {"pods_known": 4, "pods_age_seconds": 0.0}
        work.drain.drain(work.order(lead=60, waiting=[group_of(train)]))
        await work.until(lambda: work.outcomes("db") == ["blocked"])
        await work.until(lambda: work.drain.status()["pods"][0]["state"] == "blocked")
        shown = work.drain.status()
        work.drain.stop("n-1")

    assert json.dumps(shown)
    assert shown["pods_to_leave"] == 2
    assert [(one["pod"], one["class"], one["state"]) for one in shown["pods"]] == [
        ("training/db", "ordinary", "blocked"),
        ("training/train", "training", "waiting"),
        ("training/kept", "opted out", "kept"),
    ]
    assert shown["pods"][1]["detail"] == "for its flush"


async def test_pods_are_found_for_events(server):
    train = owned("train", owner="Job")
    server.add("pods", train)
    async with drain_at_work(server) as work:
        reference = ObjectRef("Pod", "train", "training", train["metadata"]["uid"])

        assert work.drain.pod_of(group_of(train)) == reference
        assert work.drain.pod_of("training/train") == reference
        assert work.drain.pod_of("/user.slice") is None
