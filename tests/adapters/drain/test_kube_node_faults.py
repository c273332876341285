"""Whatever is wrong with the API server, attempts end in time with a result, and nothing is raised.

What is left to the next attempt is tried here as the core would: by calling again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lastcall.core.events import BackendChecked, CordonFound, CordonLifted
from lastcall.drain.kubernetes.reviews import Right
from lastcall.drain.kubernetes.rights import DRY_RUN
from support.kept_node import BRISK, NODE, kept_node, notice
from support.kube_api.admission import PINNED_TO_NODE, Policy
from support.kube_api.clients import with_token, with_token_file
from support.kube_api.faults import Fault
from support.kube_api.identities import ADMIN, AGENT_RIGHTS, agent, kubelet
from support.kube_api.objects import node
from support.kube_api.server import fake_kube_api

RIGHTS = AGENT_RIGHTS | {"watch nodes"}
PATH = "/nodes/node-a"


@pytest.fixture
async def server():
    async with fake_kube_api(with_controllers=True) as server:
        server.add("nodes", node(NODE, ready=True), node("node-b"))
        yield server


@pytest.fixture
async def kept(server):
    async with kept_node(server) as kept:
        await kept.watched()
        await kept.until(lambda: kept.health and kept.health.rights)
        yield kept


def conflicting(server, monkeypatch, times):
    """Have another write the node just before each of our first patches."""
    answer, left = server.cluster.answer, [times]

    def overtaken(asking):
        if asking.verb == "patch" and not asking.dry_run and left[0]:
            left[0] -= 1
            found = server.store.get("nodes", "", NODE)
            found["metadata"]["labels"]["beat"] = str(left[0])
            server.store.put("nodes", found)
        return answer(asking)

    monkeypatch.setattr(server.cluster, "answer", overtaken)


# --- answers to the cordon -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.CLOSED, "the connection was closed with no answer"),
        (Fault.HALF_AN_ANSWER, "the answer breaks off"),
        (Fault.NO_JSON, "the answer is no JSON object"),
        (Fault.STORE_TIMEOUT, "within the allotted timeout"),
        (Fault.STORE_UNAVAILABLE, "code = Unavailable"),
        (Fault.HANGS, "no answer within"),
    ],
)
async def test_a_server_that_gives_no_clear_answer_is_a_result(server, kept, fault, said):
    trouble = server.break_(fault, path_part=PATH)

    attempt = await kept.keeper.cordon(notice(ends_in=1.0))

    assert (attempt.done, attempt.foreign) == (False, False)
    assert said in attempt.detail
    server.troubles.remove(trouble)
    assert (await kept.keeper.cordon(notice())).done
    assert kept.of(CordonLifted) == []


@pytest.mark.parametrize("fault", [Fault.CLOSED, Fault.STORE_TIMEOUT, Fault.NO_JSON])
async def test_a_patch_whose_fate_is_unknown_is_looked_up_and_sent_again(server, kept, fault):
    server.break_(fault, "PATCH", times=1)

    assert (await kept.keeper.cordon(notice())).done
    assert kept.cordoned


async def test_a_patch_that_was_applied_without_an_answer_counts(server, kept):
    server.break_(Fault.CLOSED_AFTER_DOING, "PATCH", PATH, times=2)

    attempt = await kept.keeper.cordon(notice())

    assert attempt.done
    assert kept.marks["notice-id"] == "n-1"
    assert kept.of(CordonFound) == []


async def test_a_cordon_that_was_made_though_nobody_heard_is_found(server, kept):
    server.break_(Fault.CLOSED_AFTER_DOING, "PATCH", PATH)
    server.break_(Fault.CLOSED, "GET", PATH)
    assert not (await kept.keeper.cordon(notice())).done
    server.troubles.clear()

    await kept.until(lambda: kept.of(CordonFound))
    assert kept.of(CordonFound)[0].id == "n-1"


async def test_one_that_was_lifted_though_nobody_heard_was_lifted_by_us(server, kept):
    await kept.keeper.cordon(notice())
    await kept.until(lambda: kept.condition)
    server.break_(Fault.CLOSED_AFTER_DOING, "PATCH", PATH)
    server.break_(Fault.CLOSED, "GET", PATH)
    assert not (await kept.keeper.uncordon("n-1")).done
    server.troubles.clear()
    await kept.until(lambda: not kept.cordoned)

    assert (await kept.keeper.uncordon("n-1")).done
    assert kept.of(CordonLifted) == []


async def test_a_race_costs_two_calls_more(server, kept, monkeypatch):
    conflicting(server, monkeypatch, times=1)
    before = len(server.log)

    assert (await kept.keeper.cordon(notice())).done
    calls = [one.method for one in server.log[before:] if one.path.endswith(PATH)]
    assert calls == ["PATCH", "GET", "PATCH"]


async def test_who_loses_every_race_gives_up_for_now(server, kept, monkeypatch):
    conflicting(server, monkeypatch, times=1000)

    attempt = await kept.keeper.cordon(notice())

    assert not attempt.done
    assert "the object has been modified" in attempt.detail
    assert not kept.cordoned


async def test_a_server_that_is_busy_is_asked_again_when_it_says(server, kept):
    server.break_(Fault.THROTTLED, "PATCH", times=1)
    loop = asyncio.get_running_loop()
    began = loop.time()

    assert (await kept.keeper.cordon(notice())).done
    assert loop.time() - began > 0.9


async def test_a_server_that_stays_busy_costs_no_more_than_the_time_there_is(server, kept):
    server.break_(Fault.THROTTLED, "PATCH")
    loop = asyncio.get_running_loop()
    began = loop.time()

    attempt = await kept.keeper.cordon(notice(ends_in=1.0))

    assert not attempt.done
    assert "Too many requests" in attempt.detail
    assert loop.time() - began < 3.0


async def test_no_right_to_cordon_is_said(server, kept):
    server.denied.add("patch nodes")

    attempt = await kept.keeper.cordon(notice())

    assert not attempt.done
    assert "cannot patch" in attempt.detail
    server.denied.clear()
    assert (await kept.keeper.cordon(notice())).done


async def test_an_admission_policy_that_denies_it_is_named(server, kept):
    server.policies.append(Policy("freeze", lambda *_: "no changes on Fridays", reason=""))

    attempt = await kept.keeper.cordon(notice())

    assert "no changes on Fridays" in attempt.detail


async def test_a_cordon_whose_fate_stays_open_is_said_with_what_was_asked(server, kept):
    server.break_(Fault.CLOSED, path_part=PATH)

    attempt = await kept.keeper.cordon(notice(ends_in=1.0))

    path = "/api/v1/nodes/node-a: the connection was closed with no answer"
    assert attempt.detail == f"the cordon was not written: PATCH {path}; then GET {path}"


async def test_a_patch_that_is_refused_is_said_to_be_the_cordon(server, kept):
    server.denied.add("patch nodes")

    attempt = await kept.keeper.cordon(notice())

    assert attempt.detail.startswith("the cordon was not written: ")
    assert "; then" not in attempt.detail


async def test_credentials_that_are_refused_are_said(server, kept):
    server.tokens.clear()

    attempt = await kept.keeper.cordon(notice())

    assert not attempt.done
    assert "refuses the agent's credentials" in attempt.detail


async def test_a_server_that_is_gone_is_a_result(server, kept):
    await server.__aexit__(None, None, None)

    attempt = await kept.keeper.cordon(notice(ends_in=2.0))

    assert not attempt.done
    assert attempt.detail


async def test_an_uncordon_that_fails_can_be_tried_again(server, kept):
    await kept.keeper.cordon(notice())
    server.break_(Fault.STORE_TIMEOUT, path_part=PATH)
    attempt = await kept.keeper.uncordon("n-1")
    assert (attempt.done, "within the allotted timeout" in attempt.detail) == (False, True)

    server.troubles.clear()
    assert (await kept.keeper.uncordon("n-1")).done
    assert not kept.cordoned


@pytest.mark.parametrize("what", ["cordon", "uncordon", "tried"])
async def test_an_attempt_can_be_cancelled(server, kept, what):
    server.break_(Fault.HANGS)
    work = {
        "cordon": lambda: kept.keeper.cordon(notice()),
        "uncordon": lambda: kept.keeper.uncordon("n-1"),
        "tried": lambda: kept.keeper.tried("n-1"),
    }[what]
    task = asyncio.create_task(work())
    await asyncio.sleep(0.02)  # so that it is under way
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    server.troubles.clear()
    assert (await kept.keeper.cordon(notice())).done


# --- the wrong node --------------------------------------------------------------------------


@pytest.mark.parametrize("identity", [agent("node-b", RIGHTS), kubelet("node-b")])
async def test_credentials_of_another_node_are_said_once_and_nothing_is_tried(server, identity):
    server.tokens["agent"] = identity
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and kept.health.detail)
        before = len(server.log)

        for attempt in (await kept.keeper.cordon(notice()), await kept.keeper.uncordon("n-1")):
            assert not attempt.done
            assert "bound to node node-b, but node_name is node-a" in attempt.detail
            assert "NODE_NAME" in attempt.detail
        await kept.keeper.tried("n-1")

        assert kept.health == BackendChecked(up=False, detail=attempt.detail)
        assert kept.unseen == [attempt.detail]
        assert kept.keeper.refusal == attempt.detail
        assert len(server.log) == before == 1


async def test_whether_anything_may_be_done_is_open_until_the_server_says_who_asks(server):
    server.break_(Fault.STORE_TIMEOUT, path_part="selfsubjectreviews")
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and not kept.health.up)
        assert kept.keeper.refusal is None

        server.troubles.clear()
        await kept.until(lambda: kept.keeper.refusal is not None)
        assert kept.keeper.refusal == ""


async def test_before_it_is_known_whose_node_it_is_nothing_is_written(server):
    server.tokens["agent"] = agent("node-b", RIGHTS)
    async with kept_node(server, runs=False) as kept:
        assert not (await kept.keeper.cordon(notice())).done

    assert server.asked("PATCH") == []


async def test_credentials_of_no_node_will_do(server):
    server.tokens["admin"] = ADMIN
    async with kept_node(server, credentials=with_token("admin")) as kept:
        await kept.watched()
        assert (await kept.keeper.cordon(notice())).done


async def test_a_server_too_old_to_say_who_asks_will_do(server):
    del server.cluster._calls["create", "selfsubjectreviews"]
    async with kept_node(server) as kept:
        await kept.watched()
        assert (await kept.keeper.cordon(notice())).done


async def test_a_node_that_does_not_exist_is_named_with_the_remedy(server):
    server.tokens["agent"] = ADMIN
    async with kept_node(server, node_name="ip-10-0-0-1") as kept:
        await kept.until(lambda: kept.health and kept.health.detail)
        attempt = await kept.keeper.cordon(notice())

        assert not attempt.done
        assert 'no node named "ip-10-0-0-1"; set node_name' in attempt.detail
        assert not kept.health.up
        assert attempt.detail in kept.unseen
        assert kept.keeper.refusal == ""

        server.add("nodes", node("ip-10-0-0-1"))
        assert (await kept.keeper.cordon(notice())).done
        await kept.until(lambda: kept.health.up)


async def test_a_policy_that_pins_the_agent_to_its_node_lets_it_cordon_it(server):
    server.policies += PINNED_TO_NODE
    async with kept_node(server) as kept:
        await kept.watched()
        assert (await kept.keeper.cordon(notice())).done


# --- what is known of the node ---------------------------------------------------------------


async def test_each_version_of_the_node_is_shown(server, kept):
    kept.change(lambda found: found["metadata"]["labels"].update(a="1"))
    await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("a") == "1")

    assert kept.unseen == []
    assert len(server.asked("GET", PATH)) == 1


@pytest.mark.parametrize("status", [200, 410])
async def test_a_watch_that_is_too_old_begins_anew(server, kept, status):
    server.old_watch_status = status
    server.end_watches()
    server.store.compact()
    kept.change(lambda found: found["metadata"]["labels"].update(a="1"))

    await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("a") == "1")
    await kept.watched()


async def test_a_watch_that_ends_in_good_order_is_followed_by_another(server):
    async with kept_node(server, pace=replace(BRISK, watch_seconds=0)) as kept:
        await kept.until(lambda: sum(bool(one.query.get("watch")) for one in server.log) >= 3)
        await kept.until(lambda: kept.health and kept.health.rights)

        assert kept.unseen == []
        assert kept.health.detail == ""


async def test_where_the_node_may_not_be_watched_it_is_read_often(server):
    server.tokens["agent"] = agent(NODE, AGENT_RIGHTS)
    async with kept_node(server) as kept:
        await server.has_been_asked("GET", PATH, times=4)
        kept.change(lambda found: found["metadata"]["labels"].update(a="1"))
        await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("a") == "1")

        assert "read every 0.05 s instead of watched" in kept.health.detail
        assert kept.health.up
        assert kept.unseen == []
        watches = [one for one in server.log if one.query.get("watch")]
        assert len(watches) == 1
        assert (await kept.keeper.cordon(notice())).done


async def test_a_watch_that_is_allowed_later_is_taken_up(server):
    server.tokens["agent"] = agent(NODE, AGENT_RIGHTS)
    async with kept_node(server, pace=replace(BRISK, watch_again_seconds=0.1)) as kept:
        await kept.until(lambda: kept.health and "instead of watched" in kept.health.detail)
        server.tokens["agent"] = agent(NODE, RIGHTS)

        await kept.watched()
        await kept.until(lambda: "instead of watched" not in kept.health.detail)


async def test_a_node_that_cannot_be_read_is_said_until_it_can(server):
    server.break_(Fault.STORE_TIMEOUT, "GET")
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and not kept.health.up)
        assert "within the allotted timeout" in kept.health.detail
        assert "within the allotted timeout" in kept.unseen[0]
        assert kept.keeper.status()["api"] == "down"

        server.troubles.clear()
        await kept.until(lambda: kept.seen)
        await kept.until(lambda: kept.health.up and not kept.health.detail)


async def test_a_server_that_is_down_at_the_start_is_waited_for(server):
    server.break_(Fault.CLOSED)
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and not kept.health.up)
        server.troubles.clear()

        await kept.watched()
        await kept.until(lambda: kept.health.up and kept.health.rights)


@pytest.mark.parametrize("path", ["selfsubjectreviews", PATH])
async def test_failures_in_a_row_are_spaced_out(server, path):
    server.break_(Fault.STORE_TIMEOUT, path_part=path)
    async with kept_node(server):
        await asyncio.sleep(0.5)  # how often it asks within this time is what this is about

    asked = [one for one in server.log if path in one.path and one.method != "PATCH"]
    assert 2 <= len(asked) < 20


async def test_a_node_that_is_deleted_and_comes_back_is_seen_again(server, kept):
    server.store.remove("nodes", "", NODE)
    await kept.until(lambda: kept.unseen)
    fresh = node(NODE)
    server.add("nodes", fresh)

    await kept.until(lambda: kept.seen[-1]["metadata"]["uid"] == fresh["metadata"]["uid"])
    assert kept.keeper.ref().uid == fresh["metadata"]["uid"]


async def test_a_store_restored_from_a_backup_is_believed_at_the_next_look(server):
    async with kept_node(server, pace=replace(BRISK, warm_seconds=0.05)) as kept:
        await kept.watched()
        server.store.version = 10
        kept.change(lambda found: found["metadata"]["labels"].update(restored="yes"))

        await kept.until(lambda: kept.seen[-1]["metadata"]["labels"].get("restored"))


# --- credentials and connections over time ---------------------------------------------------


async def test_a_token_that_rotates_while_nothing_happens_fails_nothing(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    server.tokens = {"t-1": agent(NODE, RIGHTS)}
    async with kept_node(server, credentials=with_token_file(path)) as kept:
        await kept.watched()
        path.write_text("t-2")
        server.tokens = {"t-2": agent(NODE, RIGHTS)}

        assert (await kept.keeper.cordon(notice())).done
        assert kept.of(BackendChecked)[-1].up


async def test_the_connection_is_kept_warm_for_the_cordon(monkeypatch):
    monkeypatch.setattr("lastcall.drain.kubernetes.transport.IDLE_SECONDS", 0.3)
    async with fake_kube_api(keepalive_seconds=0.4) as server:
        server.add("nodes", node(NODE))
        async with kept_node(server, pace=replace(BRISK, warm_seconds=0.1)) as kept:
            await kept.watched()
            await asyncio.sleep(1.0)  # long enough for an idle connection to be closed twice
            reads = server.asked("GET", PATH)
            attempt = await kept.keeper.cordon(notice())

        patch = next(one for one in server.asked("PATCH", PATH) if not one.query.get("dryRun"))
        assert attempt.done
        assert len(reads) >= 3
        assert patch.connection in {one.connection for one in reads[-2:]}


async def test_after_a_long_silence_the_first_cordon_succeeds():
    async with fake_kube_api(keepalive_seconds=0.05) as server:
        server.add("nodes", node(NODE))
        async with kept_node(server) as kept:
            await kept.watched()
            await asyncio.sleep(0.3)  # the server closes what is idle meanwhile
            attempt = await kept.keeper.cordon(notice())

        assert (attempt.done, attempt.detail) == (True, "")


# --- rights ----------------------------------------------------------------------------------


async def test_rights_are_reviewed_and_those_that_lack_are_said(server):
    server.denied.add("patch nodes/status")
    rights = (Right("patch", "nodes"), Right("patch", "nodes", subresource="status"))
    async with kept_node(server, rights=rights) as kept:
        await kept.until(lambda: kept.health and kept.health.rights)

        assert dict(kept.health.rights) == {
            "patch nodes": True,
            "patch nodes/status": False,
            DRY_RUN: True,
        }
        assert "no right to patch nodes/status: no role grants it" in kept.health.detail
        assert kept.health.up


async def test_a_cordon_that_admission_would_deny_is_said_before_any_notice(server):
    server.policies.append(Policy("freeze", lambda *_: "no changes on Fridays"))
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and kept.health.rights)

        assert dict(kept.health.rights)[DRY_RUN] is False
        assert "the cordon would be refused" in kept.health.detail
        assert "no changes on Fridays" in kept.health.detail


async def test_rights_that_could_not_be_found_out_are_asked_for_again(server):
    server.break_(Fault.STORE_TIMEOUT, "POST", "selfsubjectaccessreviews", times=1)
    async with kept_node(server) as kept:
        await kept.until(lambda: kept.health and kept.health.rights)
        assert dict(kept.health.rights) == {DRY_RUN: True}

        await kept.until(lambda: len(kept.health.rights) == 2)
        assert dict(kept.health.rights) == {"patch nodes": True, DRY_RUN: True}


async def test_a_right_that_is_granted_later_is_noticed(server):
    server.denied.add("patch nodes")
    async with kept_node(server, pace=replace(BRISK, review_seconds=0.05)) as kept:
        await kept.until(lambda: kept.health and "no right to patch nodes" in kept.health.detail)
        server.denied.clear()

        await kept.until(lambda: not kept.health.detail)
        assert dict(kept.health.rights)["patch nodes"] is True
