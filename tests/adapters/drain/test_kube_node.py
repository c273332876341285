"""The node is cordoned at once, by one guarded call, and given back, against the fake server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from lastcall.core.events import CordonFound, CordonLifted
from lastcall.core.facts import NodeGpuHealth, NoticeEnded
from lastcall.core.gpu.model import Health, Recovery
from lastcall.core.model import Kind
from lastcall.drain.kubernetes.events import ObjectRef
from lastcall.drain.kubernetes.node import call_seconds
from lastcall.drain.kubernetes.node_marks import Wanted, cordon_step
from support.kept_node import BRISK, NODE, kept_node, notice
from support.kube_api.faults import Fault
from support.kube_api.identities import kubelet
from support.kube_api.objects import node
from support.kube_api.patches import MERGE, patched
from support.kube_api.server import fake_kube_api

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture
async def server():
    async with fake_kube_api(with_controllers=True) as server:
        server.add("nodes", node(NODE, ready=True, taints=[NOT_READY]))
        yield server


@pytest.fixture
async def kept(server):
    async with kept_node(server) as kept:
        await kept.watched()
        await kept.until(lambda: kept.health and kept.health.rights)
        yield kept


def patches(server, path="/api/v1/nodes/node-a"):
    return [
        one for one in server.asked("PATCH") if one.path == path and not one.query.get("dryRun")
    ]


def cordoned_by_us(found, name="n-1", boot="boot-1"):
    step = cordon_step(found, Wanted(name, "preemption", boot, "", taint=False))
    return patched(found, step.patch, MERGE)


# --- the cordon ------------------------------------------------------------------------------


async def test_the_cordon_is_one_call_and_the_first_after_the_notice(server, kept):
    before = len(server.log)

    attempt = await kept.keeper.cordon(notice())

    assert (attempt.done, attempt.detail) == (True, "")
    assert kept.cordoned
    first = server.log[before]
    assert (first.method, first.path) == ("PATCH", "/api/v1/nodes/node-a")
    assert first.body["spec"] == {"unschedulable": True}
    assert first.connection in {one.connection for one in server.log[:before]}
    assert float(first.query["timeout"].removesuffix("ms")) < 3000


async def test_a_cordon_says_whose_it_is_and_what_for(kept):
    await kept.keeper.cordon(notice(kind=Kind.GPU_FAULT, deadline_unix=1_767_225_720.9))

    assert kept.marks == {
        "cordoned-by": "lastcall",
        "notice-id": "n-1",
        "boot-id": "boot-1",
        "deadline": "2026-01-01T00:02:00Z",
    }
    assert kept.label == "gpu_fault"


async def test_a_deadline_that_was_assumed_is_told_by_the_nodes_clock(kept):
    await kept.keeper.cordon(notice(ends_in=30))

    at = time.mktime(time.strptime(kept.marks["deadline"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert at == pytest.approx(time.time() + 30, abs=3)


async def test_a_taint_is_put_beside_those_of_others(server):
    async with kept_node(server, taint=True) as kept:
        await kept.watched()
        await kept.keeper.cordon(notice())

        assert "lastcall.dev/notice" in kept.taints
        assert NOT_READY["key"] in kept.taints

        await kept.keeper.uncordon("n-1")
        assert kept.taints == [NOT_READY["key"]]


async def test_without_the_right_to_taint_the_node_is_cordoned_all_the_same(server):
    server.tokens["agent"] = kubelet(NODE)
    async with kept_node(server, taint=True) as kept:
        await kept.watched()
        attempt = await kept.keeper.cordon(notice())

        assert attempt.done
        assert "without the taint" in attempt.detail
        assert "not allowed to modify taints" in attempt.detail
        assert kept.cordoned
        assert kept.marks["notice-id"] == "n-1"


async def test_before_anything_is_known_of_the_node_it_is_read_first(server):
    async with kept_node(server, runs=False) as kept:
        assert (await kept.keeper.cordon(notice())).done

    asked = [(one.method, one.path.rsplit("/", 1)[-1]) for one in server.log]
    assert asked[:3] == [("POST", "selfsubjectreviews"), ("GET", NODE), ("PATCH", NODE)]


async def test_a_second_cordon_for_the_same_notice_changes_nothing(server, kept):
    same = notice(deadline_unix=1_767_225_720)
    await kept.keeper.cordon(same)
    await kept.until(lambda: kept.condition)
    version = kept.node["metadata"]["resourceVersion"]

    assert (await kept.keeper.cordon(same)).done
    assert kept.node["metadata"]["resourceVersion"] == version


async def test_a_notice_that_changes_in_place_renews_all_that_is_said_of_it(server):
    async with kept_node(server, taint=True) as kept:
        await kept.watched()
        await kept.keeper.cordon(notice(kind=Kind.MAINTENANCE, deadline_unix=1_767_225_780))
        await kept.until(lambda: kept.condition)
        before = len(patches(server))

        changed = notice(kind=Kind.PREEMPTION, deadline_unix=1_767_225_720)
        assert (await kept.keeper.cordon(changed)).done

        assert (kept.marks["deadline"], kept.label) == ("2026-01-01T00:02:00Z", "preemption")
        ours = [one for one in kept.node["spec"]["taints"] if one["key"] == "lastcall.dev/notice"]
        assert [one["value"] for one in ours] == ["preemption"]
        (patch,) = patches(server)[before:]
        assert patch.body["metadata"]["resourceVersion"]
        await kept.until(lambda: kept.condition["reason"] == "Preemption")
        assert kept.condition["message"] == "notice n-1; the node goes at 2026-01-01T00:02:00Z"
        assert kept.of(CordonFound) == kept.of(CordonLifted) == []


async def test_a_cordon_that_is_lifted_while_its_marks_are_renewed_stays_lifted(server):
    async with kept_node(server, runs=False) as kept:
        await kept.keeper.cordon(notice())
        kept.change(lambda found: found["spec"].pop("unschedulable"))

        attempt = await kept.keeper.cordon(notice(kind=Kind.MAINTENANCE))

        assert (attempt.done, attempt.foreign) == (False, False)
        assert "stands no more" in attempt.detail
        assert not kept.cordoned
        await kept.until(lambda: kept.of(CordonLifted))


async def test_a_cordon_for_another_notice_takes_the_marks_over(kept):
    await kept.keeper.cordon(notice("n-1"))
    attempt = await kept.keeper.cordon(notice("n-2", kind=Kind.MAINTENANCE))

    assert attempt.done
    assert (kept.marks["notice-id"], kept.label) == ("n-2", "maintenance")
    assert kept.of(CordonFound) == kept.of(CordonLifted) == []


async def test_a_node_that_was_cordoned_before_is_left_as_it_is(server, kept):
    kept.change(lambda found: found["spec"].update(unschedulable=True))
    version = kept.node["metadata"]["resourceVersion"]

    attempt = await kept.keeper.cordon(notice())

    assert (attempt.done, attempt.foreign) == (False, True)
    assert "cordoned already" in attempt.detail
    assert kept.node["metadata"]["resourceVersion"] == version

    assert (await kept.keeper.uncordon("n-1")).done
    assert kept.cordoned
    assert kept.marks == {}


async def test_what_an_old_version_says_of_a_foreign_cordon_is_not_believed(server):
    async with kept_node(server, runs=False) as kept:
        kept.change(lambda found: found["spec"].update(unschedulable=True))
        assert (await kept.keeper.cordon(notice())).foreign
        kept.change(lambda found: found["spec"].pop("unschedulable"))

        assert (await kept.keeper.cordon(notice())).done


async def test_a_race_with_another_writer_is_run_again(server):
    async with kept_node(server, taint=True, runs=False) as kept:
        await kept.keeper.cordon(notice("n-0"))
        await kept.keeper.uncordon("n-0")
        added = {"key": "just-added", "effect": "NoSchedule"}
        kept.change(lambda found: found["spec"]["taints"].append(added))

        assert (await kept.keeper.cordon(notice())).done
        assert "just-added" in kept.taints
        assert kept.cordoned


# --- giving it back --------------------------------------------------------------------------


async def test_what_was_cordoned_is_given_back_as_it_was(kept):
    before = kept.node
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition.get("status") == "True")

    attempt = await kept.keeper.uncordon("n-1")

    assert (attempt.done, attempt.detail) == (True, "")
    assert kept.node["spec"] == before["spec"]
    assert "annotations" not in kept.node["metadata"]
    assert kept.node["metadata"]["labels"] == before["metadata"]["labels"]
    await kept.until(lambda: kept.condition["status"] == "False")
    assert kept.of(CordonFound) == kept.of(CordonLifted) == []


async def test_a_cordon_for_another_notice_stands_and_is_found_afterwards(kept):
    await kept.keeper.cordon(notice("n-1"))
    await kept.keeper.cordon(notice("n-2"))

    attempt = await kept.keeper.uncordon("n-1")

    assert attempt.done
    assert "another notice, n-2" in attempt.detail
    assert kept.of(CordonFound) == []
    await kept.until(lambda: kept.of(CordonFound))
    assert kept.of(CordonFound)[0].id == "n-2"
    assert (await kept.keeper.uncordon("n-2")).done
    assert not kept.cordoned


async def test_a_node_that_is_gone_has_nothing_to_give_back(server, kept):
    await kept.keeper.cordon(notice())
    server.store.remove("nodes", "", NODE)
    await kept.until(lambda: "the node object was deleted" in kept.unseen)

    assert (await kept.keeper.uncordon("n-1")).done
    assert kept.of(CordonLifted) == []


async def test_giving_it_back_twice_is_harmless(kept):
    await kept.keeper.cordon(notice())

    assert (await kept.keeper.uncordon("n-1")).done
    assert (await kept.keeper.uncordon("n-1")).done
    assert not kept.cordoned


async def test_an_admin_who_cordons_after_it_was_lifted_keeps_the_cordon(kept):
    await kept.keeper.cordon(notice())
    kept.change(lambda found: found["metadata"]["annotations"].clear())
    await kept.until(lambda: kept.of(CordonLifted))

    assert (await kept.keeper.uncordon("n-1")).done
    assert kept.cordoned


# --- what others do about it -----------------------------------------------------------------


async def test_a_cordon_of_ours_is_found_by_an_agent_that_knows_of_none(server):
    server.add("nodes", cordoned_by_us(server.store.get("nodes", "", NODE), boot="boot-0"))
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.of(CordonFound))
        kept.change(lambda found: found["metadata"]["labels"].update(other="change"))
        await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("other"))

        assert kept.of(CordonFound) == [CordonFound("n-1", "made before this boot")]
        await kept.keeper.uncordon("n-1")
        assert not kept.cordoned


async def test_an_admin_who_lifts_it_is_heard_and_the_marks_go(kept):
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)

    kept.change(lambda found: found["spec"].pop("unschedulable"))
    await kept.until(lambda: kept.of(CordonLifted))

    assert [one.id for one in kept.of(CordonLifted)] == ["n-1"]
    await kept.until(lambda: kept.marks == {} and not kept.label)
    await kept.until(lambda: kept.condition["status"] == "False")
    assert not kept.cordoned
    assert len(kept.of(CordonLifted)) == 1


async def test_whoever_takes_the_cordon_over_keeps_it_and_our_marks_go(server):
    async with kept_node(server, taint=True) as kept:
        await kept.watched()
        await kept.keeper.cordon(notice())
        kept.change(
            lambda found: found["metadata"]["annotations"].update(
                {"lastcall.dev/cordoned-by": "alice"}
            )
        )
        await kept.until(lambda: kept.marks == {"cordoned-by": "alice"})

        assert [one.id for one in kept.of(CordonLifted)] == ["n-1"]
        assert kept.cordoned
        assert "lastcall.dev/notice" not in kept.taints
        assert not kept.label


async def test_a_change_that_no_watch_told_of_is_noticed_at_the_next_look(server, kept):
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)
    server.end_watches()
    kept.change(lambda found: found["spec"].pop("unschedulable"))
    server.store.compact()

    await kept.until(lambda: kept.of(CordonLifted))
    await kept.until(lambda: kept.marks == {})


async def test_the_marks_are_removed_later_where_they_cannot_be_at_once(server, kept):
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)
    server.denied.add("patch nodes")

    kept.change(lambda found: found["spec"].pop("unschedulable"))
    await kept.until(lambda: "cannot be removed" in kept.health.detail)
    server.denied.clear()
    await asyncio.sleep(0.1)  # it is put off for this long
    kept.change(lambda found: found["metadata"]["labels"].update(other="change"))

    await kept.until(lambda: kept.marks == {})
    await kept.until(lambda: "cannot be removed" not in kept.health.detail)
    assert len(kept.of(CordonLifted)) == 1


async def test_what_a_watch_still_tells_of_the_time_before_is_nobodys_doing(kept):
    before = kept.node
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)

    kept.keeper._own._event("MODIFIED", before)
    kept.keeper._own._event("DELETED", before)

    assert kept.of(CordonLifted) == []
    assert kept.keeper._own.node["spec"]["unschedulable"]


async def test_a_read_that_a_change_has_overtaken_is_nobodys_doing(server, kept, monkeypatch):
    answer = server.cluster.answer

    def late(asking):
        found = answer(asking)
        if asking.verb == "get" and asking.target.resource == "nodes":
            kept.change(lambda now: now["metadata"]["labels"].update(later="yes"))
            kept.keeper._own._event("MODIFIED", kept.node)
        return found

    monkeypatch.setattr(server.cluster, "answer", late)
    await kept.keeper._own.look()

    assert kept.seen[-1]["metadata"]["labels"]["later"] == "yes"


# --- the condition ---------------------------------------------------------------------------


async def test_the_condition_says_what_the_node_is_cordoned_for(kept):
    await kept.keeper.cordon(notice(deadline_unix=1_767_225_720))
    await kept.until(lambda: kept.condition)

    assert kept.condition["status"] == "True"
    assert kept.condition["reason"] == "Preemption"
    assert kept.condition["message"] == "notice n-1; the node goes at 2026-01-01T00:02:00Z"
    assert {one["type"] for one in kept.node["status"]["conditions"]} == {
        "Ready",
        "InterruptionNotice",
    }


async def test_the_condition_says_that_the_notice_stands_whose_cordon_was_lifted(kept):
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)

    kept.change(lambda found: found["spec"].pop("unschedulable"))
    await kept.until(lambda: kept.condition["status"] == "False")

    assert kept.condition["reason"] == "CordonLifted"
    assert kept.condition["message"] == "somebody lifted the cordon; notice n-1 stands"

    kept.keeper.note(NoticeEnded(notice(), "withdrawn", {}))
    await kept.until(lambda: kept.condition["reason"] == "NoNotice")


async def test_a_lifted_cordon_is_still_told_of_by_the_next_agent(server):
    async with kept_node(server) as kept:
        await kept.watched()
        await kept.keeper.cordon(notice())
        kept.change(lambda found: found["spec"].pop("unschedulable"))
        await kept.until(lambda: kept.condition.get("reason") == "CordonLifted")

    async with kept_node(server) as kept:
        await kept.watched()
        kept.change(lambda found: found["metadata"]["labels"].update(other="change"))
        await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("other"))
        assert kept.condition["reason"] == "CordonLifted"

        kept.keeper.note(NoticeEnded(notice(), "withdrawn", {}))
        await kept.until(lambda: kept.condition["reason"] == "NoNotice")


async def test_a_condition_that_cannot_be_set_is_only_said(server, kept):
    server.denied.add("patch nodes/status")

    assert (await kept.keeper.cordon(notice())).done
    await kept.until(lambda: "the node's condition cannot be set" in kept.health.detail)

    assert kept.health.up
    assert kept.cordoned


# --- the condition of the GPUs ----------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch):
    """Let verdicts be written without the seconds that they wait for the cordon and apart."""
    monkeypatch.setattr("lastcall.drain.kubernetes.node_gpus.FIRST_SECONDS", 0.02)
    monkeypatch.setattr("lastcall.drain.kubernetes.node_gpus.APART_SECONDS", 0.02)


FAULTY = NodeGpuHealth(Health.FAULTY, ("xid_79",), Recovery.REBOOT, "GPU has fallen off the bus")


async def test_the_node_says_that_a_gpu_is_faulty_beside_what_others_say_of_it(at_once, kept):
    kept.keeper.note(FAULTY)
    await kept.until(lambda: kept.gpu_condition)

    assert kept.gpu_condition["status"] == "False"
    assert kept.gpu_condition["reason"] == "Xid79"
    assert kept.gpu_condition["message"] == "xid_79; recommended: reboot the machine"
    assert {one["type"] for one in kept.node["status"]["conditions"]} == {"Ready", "GPUHealthy"}


async def test_the_cordon_for_a_fault_comes_before_its_condition(at_once, server, kept):
    before = len(server.log)
    kept.keeper.note(FAULTY)
    await kept.keeper.cordon(notice(kind=Kind.GPU_FAULT))
    await kept.until(lambda: kept.gpu_condition and kept.condition)

    assert server.log[before].path == "/api/v1/nodes/node-a"
    assert len(patches(server, "/api/v1/nodes/node-a/status")) == 2
    assert kept.cordoned


async def test_the_next_agent_writes_the_same_words_no_second_time(at_once, server):
    async with kept_node(server) as kept:
        await kept.watched()
        kept.keeper.note(FAULTY)
        await kept.until(lambda: kept.gpu_condition)

    async with kept_node(server) as kept:
        await kept.watched()
        kept.keeper.note(replace(FAULTY, detail="other figures"))
        await asyncio.sleep(0.1)

        assert len(patches(server, "/api/v1/nodes/node-a/status")) == 1


async def test_a_condition_of_gpus_that_cannot_be_set_is_tried_again_later(at_once, server, kept):
    server.denied.add("patch nodes/status")
    kept.keeper.note(FAULTY)
    await kept.until(lambda: "the node's condition of its GPUs cannot be" in kept.health.detail)
    assert kept.health.up

    server.denied.clear()
    await asyncio.sleep(BRISK.tend_again_seconds)
    kept.change(lambda found: found["metadata"]["labels"].update(other="change"))
    await kept.until(lambda: kept.gpu_condition)
    assert "GPUs" not in kept.health.detail


# --- what waits for it -----------------------------------------------------------------------


@pytest.fixture
def patient(monkeypatch):
    """Let whatever waits for the cordon wait for longer than any test."""
    monkeypatch.setattr("lastcall.drain.kubernetes.node_tries.BEGIN_SECONDS", 600.0)
    monkeypatch.setattr("lastcall.drain.kubernetes.node_tries.TRIED_SECONDS", 600.0)


async def test_what_is_to_come_after_the_cordon_waits_for_its_end(patient, kept):
    waiting = asyncio.create_task(kept.keeper.tried("n-1"))
    await asyncio.sleep(0)
    assert not waiting.done()

    await kept.keeper.cordon(notice())
    await waiting

    assert kept.cordoned


async def test_it_does_not_wait_for_ever_for_a_cordon_that_hangs(server, kept, monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.node_tries.TRIED_SECONDS", 0.1)
    server.break_(Fault.HANGS, "PATCH")
    cordoning = asyncio.create_task(kept.keeper.cordon(notice()))
    await server.has_been_asked("PATCH", times=2)

    await kept.keeper.tried("n-1")

    assert not cordoning.done()
    cordoning.cancel()
    await asyncio.gather(cordoning, return_exceptions=True)


async def test_it_does_not_wait_for_ever_for_a_cordon_that_is_not_begun(kept, monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.node_tries.BEGIN_SECONDS", 0.05)
    monkeypatch.setattr("lastcall.drain.kubernetes.node_tries.TRIED_SECONDS", 600.0)

    await kept.keeper.tried("n-1")

    assert not kept.cordoned


async def test_it_does_not_wait_where_the_node_is_cordoned_already(patient, kept):
    await kept.keeper.cordon(notice("n-1"))

    await kept.keeper.tried("n-2")

    assert kept.marks["notice-id"] == "n-1"


async def test_after_a_cordon_that_failed_nothing_waits(patient, server, kept):
    server.denied.add("patch nodes")
    assert not (await kept.keeper.cordon(notice())).done

    await kept.keeper.tried("n-1")

    assert not kept.cordoned


# --- how it is shown -------------------------------------------------------------------------


async def test_the_node_is_named_with_its_uid_once_it_is_known(server, kept):
    assert kept.keeper.ref() == ObjectRef("Node", NODE, uid=kept.node["metadata"]["uid"])


async def test_the_state_is_shown(kept):
    shown = kept.keeper.status()

    assert (shown["api"], shown["detail"]) == ("up", "")
    assert shown["node_age_seconds"] < 5
    assert shown["rights"] == {"patch nodes": True, "dry run: patch nodes": True}


@pytest.mark.parametrize(
    ("left_seconds", "seconds"), [(None, 3.0), (120, 3.0), (8, 2.0), (0.4, 0.25), (-5, 0.25)]
)
def test_a_call_takes_no_more_than_a_quarter_of_what_is_left(left_seconds, seconds):
    assert call_seconds(left_seconds) == seconds
