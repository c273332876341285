"""When which Event is written, on loop time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from lastcall.core.facts import Cordoned, NoticeChanged, NoticeSeen, NoticeTold
from lastcall.core.model import DeadlineQuality, Kind
from lastcall.drain.kubernetes.events import ObjectRef
from lastcall.drain.kubernetes.notes import QUEUE_LIMIT, WRITERS
from lastcall.drain.kubernetes.notes_gate import CORDON_FIRST_SECONDS
from lastcall.drain.kubernetes.reply import Outcome, Reply
from support.kube_notes import (
    NODE,
    POD,
    StandInApi,
    came,
    drained,
    ended,
    moved,
    notice,
    overdue,
    running,
    settled,
    told,
    writer_of,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
def api():
    return StandInApi()


def reasons(api):
    return [(kind, reason) for kind, reason, _ in api.said]


async def heard(api, *facts, seconds=5.0):
    """Let a writer hear facts, and give it some time to write."""
    writer = writer_of(api)
    async with running(writer):
        for fact in facts:
            writer.note(fact)
        await asyncio.sleep(seconds)
    return api.said


# --- what is written -------------------------------------------------------------------------


async def test_a_notice_is_written_on_the_node_once_the_clients_are_told(api):
    await heard(api, NoticeSeen(notice(), 120.0), told(8))

    ((at, about, text),) = api.calls
    assert at == 0.0
    assert (about, text.reason, text.is_warning) == (NODE, "PreemptionNotice", True)
    assert "8 training processes" in text.message
    assert (text.instance, text.at_unix) == ("lastcall-x", 1_700_000_000.0)


async def test_a_deadline_that_no_provider_stated_is_shown_as_wall_time(api):
    await asyncio.sleep(10.0)
    assumed = notice(deadline=40.0, deadline_unix=None, deadline_quality=DeadlineQuality.ASSUMED)

    ((_, _, message),) = await heard(api, replace(told(), notice=assumed))

    assert "expected at 2023-11-14T22:14:00Z" in message


async def test_an_evicted_pod_is_told_why_with_its_uid(api):
    await heard(api, told(), moved(uid="u-9"))

    _, about, text = api.calls[-1]
    assert about == ObjectRef("Pod", "train-0", "training", "u-9")
    assert text.message.startswith("Evicted because aws announced preemption (terminate)")


async def test_an_evicted_pod_without_a_uid_has_that_of_the_pod_that_is_known(api):
    await heard(api, moved(uid=""))

    assert api.calls[0][1] == POD


async def test_an_evicted_pod_is_told_the_deadline_that_holds_now(api):
    later = notice(deadline=180.0, deadline_unix=1_700_000_180.0)
    await heard(api, told(), NoticeChanged(later), moved())

    assert "at 2023-11-14T22:16:20Z" in api.said[-1][2]


async def test_a_notice_that_becomes_another_kind_is_written_again_under_another_name(api):
    maintenance = notice(kind=Kind.MAINTENANCE, told=True)
    await heard(api, NoticeTold(maintenance, 8), NoticeChanged(notice(told=True)))

    first, second = (text for _, _, text in api.calls)
    assert second.reason == "PreemptionNotice"
    assert second.message.startswith("aws announced preemption (terminate) at 2023-11-14T22:15:20Z")
    assert second.message.endswith("; before, it was maintenance")
    assert second.name != first.name


@pytest.mark.parametrize(
    "changed", [notice(deadline=60.0, told=True), notice(kind=Kind.MAINTENANCE, told=False)]
)
async def test_any_other_change_of_a_notice_has_no_event(api, changed):
    await heard(api, told(8), NoticeChanged(changed))

    assert len(api.calls) == 1


async def test_after_a_restart_a_change_of_the_same_kind_has_the_first_events_name(api):
    await heard(api, told(8))
    await heard(api, NoticeChanged(notice(sources=("aws", "node"), told=True)))

    assert len({text.name for _, _, text in api.calls}) == 1


@pytest.mark.parametrize("outcome", ["blocked", "gone", "failed"])
async def test_a_pod_that_was_not_moved_has_no_event(api, outcome):
    assert await heard(api, moved(outcome)) == []


async def test_an_evicted_pod_costs_one_event(api):
    await heard(api, *(moved(pod=f"web/web-{n}", uid=f"u-{n}") for n in range(100)))

    assert len(api.calls) == 100
    assert len({text.name for _, _, text in api.calls}) == 100


@pytest.mark.parametrize(
    ("outcome", "is_warning"), [("drained", False), ("incomplete", True), ("failed", True)]
)
async def test_the_end_of_the_drain_is_written_on_the_node(api, outcome, is_warning):
    await heard(api, drained(outcome))

    ((_, about, text),) = api.calls
    assert (about, text.reason, text.is_warning) == (NODE, "NodeDrained", is_warning)


@pytest.mark.parametrize("outcome", ["none", "stopped"])
async def test_a_drain_that_moved_nothing_or_was_broken_off_is_not_said_to_have_ended(api, outcome):
    assert await heard(api, drained(outcome)) == []


@pytest.mark.parametrize("ending", ["withdrawn", "completed"])
async def test_a_notice_that_is_taken_back_is_written_on_the_node(api, ending):
    await heard(api, told(), ended(ending))

    assert reasons(api)[1:] == [("Node", "NoticeWithdrawn")]


async def test_a_notice_told_before_a_restart_is_known_to_be_taken_back(api):
    await heard(api, ended("withdrawn"))

    assert reasons(api) == [("Node", "NoticeWithdrawn")]


async def test_a_notice_that_nobody_was_told_of_leaves_no_event(api):
    assert await heard(api, NoticeSeen(notice(), None), ended("withdrawn")) == []


@pytest.mark.parametrize("ending", ["passed", "superseded", "expired", "rehearsed", "rebooted"])
async def test_any_other_end_of_a_notice_has_no_event(api, ending):
    await heard(api, ended(ending))

    assert api.calls == []


async def test_a_node_whose_uid_is_not_known_yet_is_named_by_its_name(api):
    writer = writer_of(api, node=lambda: ObjectRef("Node", "node-a"))
    async with running(writer):
        writer.note(told())
        await asyncio.sleep(1.0)

    assert api.calls[0][1] == ObjectRef("Node", "node-a", uid="node-a")


# --- flushes, gathered -----------------------------------------------------------------------


async def test_a_flush_is_written_on_the_pod_and_on_the_node(api):
    await heard(api, told(1), settled())

    assert sorted(reasons(api)[1:]) == [("Node", "CheckpointFlushed"), ("Pod", "CheckpointFlushed")]
    assert [round(at) for at, _, _ in api.calls[1:]] == [1, 1]


async def test_a_missed_checkpoint_is_a_warning_on_both(api):
    await heard(api, told(1), settled(outcome="missed", cause="no report"))

    assert sorted(reasons(api)[1:]) == [("Node", "CheckpointMissed"), ("Pod", "CheckpointMissed")]
    assert [text.is_warning for _, _, text in api.calls[1:]] == [True, True]


async def test_who_has_not_saved_is_named_on_the_node_at_the_deadline(api):
    writer = writer_of(api)
    async with running(writer):
        for fact in (*map(came, range(4)), told(4), settled(3, cgroup="")):
            writer.note(fact)
        await asyncio.sleep(120.0)
        writer.note(overdue(0, 1, 2))
        await asyncio.sleep(1.0)

    at, about, text = api.calls[-1]
    assert (at, about, text.reason, text.is_warning) == (120.0, NODE, "CheckpointMissed", True)
    assert text.message == (
        "The deadline is here, and 3 processes have not saved: llama (ranks 0-2)"
    )


async def test_what_was_said_at_the_deadline_is_not_said_of_the_node_again(api):
    missed = [settled(rank, outcome="missed") for rank in range(2)]
    await heard(api, came(0), came(1), told(2), overdue(0, 1), *missed, ended("passed"))

    assert sorted(reasons(api)[1:]) == [("Node", "CheckpointMissed"), ("Pod", "CheckpointMissed")]


async def test_a_flush_that_ends_late_or_otherwise_after_it_is_still_written(api):
    late, failed = settled(0, outcome="late", cgroup=""), settled(1, outcome="failed", cgroup="")
    await heard(api, told(2), overdue(0, 1), late, failed)

    assert sorted(reason for _, reason in reasons(api)[1:]) == [
        "CheckpointFlushed",
        "CheckpointMissed",
        "CheckpointMissed",
    ]


async def test_the_deadline_told_again_after_a_restart_has_the_same_name(api):
    await heard(api, came(0), overdue(0, 1))
    await heard(api, overdue(1, 0))

    assert len({text.name for _, _, text in api.calls}) == 1


@pytest.mark.parametrize("outcome", ["ignored", "withdrawn"])
async def test_a_flush_that_nobody_wants_any_more_has_no_event(api, outcome):
    await heard(api, told(1), settled(outcome=outcome))

    assert reasons(api) == [("Node", "PreemptionNotice")]


async def test_sixty_four_ranks_in_eight_pods_make_nine_events(api):
    pods = {
        f"/kubepods/{n}": ObjectRef("Pod", f"train-{n}", "training", f"u-{n}") for n in range(8)
    }
    writer = writer_of(api, pod=pods.get)
    async with running(writer):
        writer.note(told(64))
        for rank in range(64):
            writer.note(settled(rank, cgroup=f"/kubepods/{rank // 8}"))
            await asyncio.sleep(0.01)
        await asyncio.sleep(5.0)

    said = api.said[1:]
    assert [kind for kind, _, _ in said].count("Pod") == 8
    assert [message for kind, _, message in said if kind == "Node"] == [
        "llama (64 processes) saved step 1200 at /ckpt/1200, at worst 12.3 s before the deadline"
    ]


async def test_the_node_waits_for_all_who_were_told_the_pod_does_not(api):
    writer = writer_of(api)
    async with running(writer):
        writer.note(told(2))
        writer.note(settled(0))
        await asyncio.sleep(30.0)
        before = reasons(api)
        writer.note(settled(1, cgroup=""))
        await asyncio.sleep(2.0)

    assert before == [("Node", "PreemptionNotice"), ("Pod", "CheckpointFlushed")]
    assert reasons(api)[2:] == [("Node", "CheckpointFlushed")]
    assert "(2 processes)" in api.said[-1][2]


async def test_the_node_waits_no_longer_than_flushes_have_their_time(api):
    writer = writer_of(api)
    async with running(writer):
        writer.note(told(2))
        writer.note(settled(0, cgroup=""))
        await asyncio.sleep(112.0)

    assert [round(at) for at, _, _ in api.calls] == [0, 110]


async def test_the_end_of_the_drain_does_not_come_before_what_was_flushed(api):
    await heard(api, told(2), settled(0, cgroup=""), drained("incomplete"))

    assert [reason for _, reason in reasons(api)[1:]] == ["CheckpointFlushed", "NodeDrained"]


async def test_the_end_of_a_notice_releases_what_was_gathered(api):
    await heard(api, told(2), settled(0, cgroup=""), ended("passed"), seconds=1.0)

    assert reasons(api)[1:] == [("Node", "CheckpointFlushed")]


async def test_a_straggler_after_that_has_an_event_of_its_own(api):
    await heard(api, told(1), settled(0, cgroup=""))
    await heard(api, told(1), settled(1, cgroup="", outcome="late", margin_seconds=-2.0))

    flushed = [text for _, _, text in api.calls if text.reason == "CheckpointFlushed"]
    assert len({text.name for text in flushed}) == 2


async def test_what_is_said_again_after_a_restart_has_the_same_names(api):
    facts = (told(1), settled(), moved(), drained(), ended("withdrawn"))
    await heard(api, *facts)
    before = {text.name for _, _, text in api.calls}
    api.calls.clear()

    await heard(api, *facts)

    assert {text.name for _, _, text in api.calls} == before


async def test_the_process_of_no_pod_is_written_of_on_the_node_alone(api):
    await heard(api, told(1), settled(cgroup="/system.slice/train.service"))

    assert reasons(api)[1:] == [("Node", "CheckpointFlushed")]


# --- what comes first, and what is not written at all ----------------------------------------


async def test_the_first_event_of_a_notice_waits_for_the_cordon(api):
    writer = writer_of(api)
    async with running(writer):
        writer.note(told(8, drains=True))
        await asyncio.sleep(0.1)
        assert api.calls == []
        writer.note(Cordoned(notice().id, cordoned=False, detail="refused"))
        await asyncio.sleep(1.0)

    assert [at for at, _, _ in api.calls] == [0.1]


async def test_it_does_not_wait_for_long_for_a_cordon_that_is_not_tried(api):
    await heard(api, told(8, drains=True))

    assert [at for at, _, _ in api.calls] == [CORDON_FIRST_SECONDS]


async def test_a_second_notice_waits_for_its_own_cordon(api):
    writer = writer_of(api)
    async with running(writer):
        writer.note(Cordoned("n-0", cordoned=True, detail=""))
        writer.note(told(8, drains=True))
        await asyncio.sleep(1.0)

    assert [at for at, _, _ in api.calls] == [CORDON_FIRST_SECONDS]


async def test_about_a_node_that_is_not_ours_nothing_is_written(api):
    writer = writer_of(api, refusal=lambda: "this token is bound to node node-b")
    with capture_logs() as log:
        async with running(writer):
            for fact in (told(1), settled(), moved(), drained()):
                writer.note(fact)
            await asyncio.sleep(5.0)
        writer.note(ended("withdrawn"))
        await writer.close()

    assert api.calls == []
    assert log == []


@pytest.mark.parametrize(("found", "written"), [("", 1), ("another node's", 0)])
async def test_until_it_is_known_whether_it_is_ours_events_are_held(api, found, written):
    refusals = [None]
    writer = writer_of(api, refusal=lambda: refusals[-1])
    async with running(writer):
        writer.note(told())
        await asyncio.sleep(60.0)
        assert api.calls == []
        refusals.append(found)
        await asyncio.sleep(1.0)

    assert len(api.calls) == written


async def test_what_is_held_is_bounded_and_counted_at_the_end(api):
    writer = writer_of(api, refusal=lambda: None)
    with capture_logs() as log:
        async with running(writer):
            for number in range(QUEUE_LIMIT + 5):
                writer.note(moved(pod=f"web/web-{number}", uid=f"u-{number}"))
            await asyncio.sleep(1.0)
        await writer.close()

    assert api.calls == []
    assert log[-1]["events"] == QUEUE_LIMIT + 5


# --- how it is written -----------------------------------------------------------------------


async def test_a_few_are_written_at_a_time(api):
    await heard(api, *(moved(pod=f"web/web-{n}", uid=f"u-{n}") for n in range(20)))

    assert api.most_at_once == WRITERS


async def test_the_nodes_events_come_before_those_of_its_pods(api):
    writer = writer_of(api)
    for number in range(20):
        writer.note(moved(pod=f"web/web-{number}", uid=f"u-{number}"))
    writer.note(told())
    async with running(writer):
        await asyncio.sleep(1.0)

    assert reasons(api)[0] == ("Node", "PreemptionNotice")


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.UNAUTHORIZED])
async def test_trouble_that_passes_is_waited_out(api, outcome):
    api.replies = [Reply(outcome)] * 2

    await heard(api, told())

    assert [round(at) for at, _, _ in api.calls] == [0, 1, 3]
    assert len({text.name for _, _, text in api.calls}) == 1


async def test_a_server_that_asks_for_time_gets_it_within_reason(api):
    api.replies = [
        Reply(Outcome.THROTTLED, retry_after_seconds=3.0),
        Reply(Outcome.THROTTLED, retry_after_seconds=600.0),
    ]

    await heard(api, told(), seconds=10.0)

    assert [round(at) for at, _, _ in api.calls] == [0, 3, 8]


async def test_lasting_trouble_is_given_up_and_said_once(api):
    api.replies = [Reply(Outcome.UNKNOWN, message="no answer within 3 s")] * 6

    with capture_logs() as log:
        await heard(api, told(), drained(), seconds=20.0)

    assert len(api.calls) == 6
    assert [(one["event"], one["detail"]) for one in log] == [
        ("kubernetes_event_not_written", "no answer within 3 s")
    ]


async def test_trouble_that_comes_again_is_said_again(api):
    invalid, fine = Reply(Outcome.INVALID, 422), Reply(Outcome.OK, 201)
    api.replies = [invalid, fine, invalid]
    writer = writer_of(api)

    with capture_logs() as log:
        async with running(writer):
            for fact in (told(), drained(), ended("withdrawn")):
                writer.note(fact)
                await asyncio.sleep(1.0)

    assert len(log) == 2


async def test_a_missing_right_is_said_once_for_good_and_costs_no_second_try(api):
    forbidden = Reply(Outcome.FORBIDDEN, 403, message="cannot create events")
    api.replies = [forbidden, Reply(Outcome.OK, 201), forbidden]
    writer = writer_of(api)

    with capture_logs() as log:
        async with running(writer):
            for fact in (told(), drained(), ended("withdrawn")):
                writer.note(fact)
                await asyncio.sleep(1.0)

    assert len(api.calls) == 3
    assert [one["detail"] for one in log] == ["cannot create events"]


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.NAMESPACE_TERMINATING, Outcome.GONE])
async def test_what_is_there_or_goes_nowhere_is_no_trouble(api, outcome):
    api.replies = [Reply(outcome)]

    with capture_logs() as log:
        await heard(api, moved())

    assert len(api.calls) == 1
    assert log == []


async def test_too_many_events_are_dropped_the_oldest_of_the_pods_first(api):
    writer = writer_of(api)
    with capture_logs() as log:
        writer.note(told())
        for number in range(QUEUE_LIMIT + 5):
            writer.note(moved(pod=f"web/web-{number}", uid=f"u-{number}"))
        async with running(writer):
            await asyncio.sleep(60.0)

    written = {about.name for _, about, _ in api.calls}
    assert len(api.calls) == QUEUE_LIMIT
    assert "node-a" in written
    assert "web-5" not in written
    assert "web-6" in written
    assert [one["why"] for one in log] == ["dropped"]


async def test_the_end_writes_what_is_left(api):
    writer = writer_of(api)
    writer.note(told(2))
    writer.note(settled(0))

    await writer.close()

    assert sorted(reasons(api)) == [
        ("Node", "CheckpointFlushed"),
        ("Node", "PreemptionNotice"),
        ("Pod", "CheckpointFlushed"),
    ]


async def test_the_end_writes_again_what_was_cut_off(api):
    writer = writer_of(api)
    async with running(writer):
        writer.note(told())
        await asyncio.sleep(0.005)

    await writer.close()

    assert len(api.calls) == 2
    assert len({text.name for _, _, text in api.calls}) == 1


async def test_the_end_waits_a_second_at_most_and_says_what_was_not_written(api):
    api.takes_seconds = 3.0
    writer = writer_of(api)
    for number in range(10):
        writer.note(moved(pod=f"web/web-{number}", uid=f"u-{number}"))

    with capture_logs() as log:
        await writer.close()

    assert asyncio.get_running_loop().time() == 1.0
    assert log == [{"event": "kubernetes_events_not_written", "events": 10, "log_level": "warning"}]
