"""What each of the server's answers leads to, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.drain.kubernetes.drain_aim import DrainSettings
from lastcall.drain.kubernetes.drain_outlook import State
from lastcall.drain.kubernetes.drain_past import Do
from lastcall.drain.kubernetes.reply import Cause
from support.drain_course import (
    BEGAN_AT,
    BLOCKED,
    CONFLICT,
    FORBIDDEN,
    GONE,
    INVALID,
    NAMESPACE_TERMINATING,
    OK,
    THROTTLED,
    TWO_BUDGETS,
    UNAUTHORIZED,
    UNKNOWN,
    Course,
    a_pod,
    an_order,
    budget_until,
    refuses_evictions,
    trainer,
)

NEVER = DrainSettings(force="none")


def states(course):
    return {one.pod.name: one.state for one in course.plan().outlooks}


# --- budgets ---------------------------------------------------------------------------------


def test_a_blocked_pod_is_asked_again_every_one_to_two_seconds_and_reported_once():
    course = Course(a_pod("db"), answers=budget_until(10))
    course.run()

    times = [call.at for call in course.made(Do.EVICT)]
    assert times == [0, 1.5, 3, 4.5, 6, 7.5, 9, 10.5]
    assert course.told("db") == ["blocked", "evicted"]
    assert course.details["db", "blocked"] == "The disruption budget db needs 1 healthy pods"


@pytest.mark.parametrize(
    ("retry_after", "lead", "second_at"),
    [(10.0, 120, 10.5), (10.0, 30, 1.5), (100.0, 120, 1.5), (0.0, 120, 1.05)],
)
def test_case_2_a_servers_wish_to_wait_is_heard_if_there_is_time(retry_after, lead, second_at):
    wishing = replace(BLOCKED, retry_after_seconds=retry_after)
    replies = iter([wishing])
    course = Course(
        a_pod("db"),
        order=an_order(lead=lead),
        answers=lambda step, at: next(replies, OK),
    )
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [0, pytest.approx(second_at)]


def test_a_busy_server_is_not_reported_as_a_budget():
    replies = iter([THROTTLED, THROTTLED])
    course = Course(a_pod("web"), answers=lambda step, at: next(replies, OK))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == pytest.approx([0, 1.05, 2.1])
    assert course.told("web") == ["evicted"]


def test_case_25_a_pod_that_needs_60_s_of_120_is_deleted_when_60_are_left():
    course = Course(a_pod("db", grace_seconds=60), answers=refuses_evictions(BLOCKED), takes=60)

    assert course.run().outcome == "drained"
    (deletion,) = course.made(Do.DELETE)
    assert deletion.at == 54.5
    assert (deletion.grace, deletion.forced) == (None, True)
    assert course.ended_after == 114.5
    assert course.told("db") == ["blocked", "forced"]


def test_a_budget_is_heeded_for_a_third_of_the_time_whatever_the_pod_needs():
    course = Course(a_pod("db", grace_seconds=600), answers=refuses_evictions(BLOCKED), takes=600)
    course.run()

    (deletion,) = course.made(Do.DELETE)
    assert deletion.at == pytest.approx(115 / 3)
    assert deletion.grace == 76


def test_case_26_after_the_escalation_no_budget_is_asked_any_more():
    course = Course(a_pod("db"), answers=refuses_evictions(BLOCKED), takes=30)
    course.run()

    assert max(call.at for call in course.made(Do.EVICT)) < 84.5
    assert [call.at for call in course.made(Do.DELETE)] == [84.5]


def test_case_5_a_crashing_pod_that_its_budget_holds_is_deleted_in_time():
    course = Course(a_pod("crash"), answers=refuses_evictions(BLOCKED))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.DELETE)] == [84.5]


def test_case_23_thirty_seconds_are_enough_to_reach_the_escalation():
    course = Course(
        a_pod("db"), order=an_order(lead=30), answers=refuses_evictions(BLOCKED), takes=None
    )
    course.run()

    (deletion,) = course.made(Do.DELETE)
    assert deletion.at == pytest.approx(9)
    assert deletion.grace == 18


def test_case_22_a_reserve_longer_than_the_notice_never_makes_a_grace_below_a_second():
    course = Course(
        *(a_pod(f"p-{i}", grace_seconds=30) for i in range(3)),
        order=an_order(lead=2, reserve=30),
        answers=budget_until(1),
    )
    course.run()

    assert all(call.grace >= 1 for call in course.made(Do.EVICT) + course.made(Do.DELETE))


@pytest.mark.parametrize(
    ("force", "pod", "is_deleted"),
    [
        ("all", a_pod("p"), True),
        ("training", a_pod("p"), False),
        ("training", trainer("p"), True),
        ("none", trainer("p"), False),
    ],
)
def test_force_says_which_pods_a_budget_does_not_hold_to_the_end(force, pod, is_deleted):
    course = Course(pod, settings=DrainSettings(force=force), answers=refuses_evictions(BLOCKED))
    result = course.run()

    assert bool(course.made(Do.DELETE)) is is_deleted
    assert result.outcome == ("drained" if is_deleted else "incomplete")


def test_a_blocked_pod_that_is_never_forced_is_asked_until_the_time_is_over():
    course = Course(a_pod("db"), settings=NEVER, answers=refuses_evictions(BLOCKED))

    result = course.run()

    assert 113 < course.calls[-1].at < 115
    assert course.ended_after == 117.5
    assert result.detail == (
        "1 of 1 pods have not left: "
        "apps/db (blocked: The disruption budget db needs 1 healthy pods)"
    )


def test_two_budgets_are_escalated_at_once():
    course = Course(a_pod("db"), answers=refuses_evictions(TWO_BUDGETS))
    course.run()

    assert [(call.at, call.do) for call in course.calls] == [(0, Do.EVICT), (0, Do.DELETE)]
    assert course.told("db") == ["forced"]
    assert course.details["db", "forced"] == "not evicted: This pod has more than one budget"


def test_two_budgets_that_are_never_forced_are_said_once():
    course = Course(a_pod("db"), settings=NEVER, answers=refuses_evictions(TWO_BUDGETS))

    assert course.run().outcome == "incomplete"
    assert course.told("db") == ["blocked", "failed"]
    assert len(course.calls) <= 12


# --- other answers ---------------------------------------------------------------------------


def test_a_pod_that_is_gone_when_it_is_asked_is_a_success():
    course = Course(a_pod("web"), answers=refuses_evictions(GONE))

    assert course.run().outcome == "drained"
    assert course.told("web") == ["gone"]


def test_case_4_a_pod_reborn_elsewhere_is_not_chased():
    def answers(step, at):
        return CONFLICT if step.do is Do.EVICT else GONE

    course = Course(a_pod("db-0", owner="StatefulSet"), answers=answers)

    assert course.run().outcome == "drained"
    assert [call.do for call in course.calls] == [Do.EVICT, Do.LOOK]
    assert course.told("db-0") == ["gone"]


def test_a_conflict_over_the_very_pod_is_no_success():
    """A server that is busy with a pod answers so too."""
    replies = iter([CONFLICT])
    course = Course(a_pod("web"), answers=lambda step, at: next(replies, OK))

    assert course.run().outcome == "drained"
    assert [call.do for call in course.calls] == [Do.EVICT, Do.LOOK, Do.EVICT]


def test_case_7_in_a_namespace_that_ends_a_pod_is_deleted_and_others_go_on():
    def answers(step, at):
        is_leaving = step.pod.namespace == "leaving" and step.do is Do.EVICT
        return NAMESPACE_TERMINATING if is_leaving else OK

    course = Course(
        a_pod("old", namespace="leaving"), a_pod("web"), settings=NEVER, answers=answers
    )

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.DELETE, "old")] == [0]
    assert course.told("old") == course.told("web") == ["evicted"]


def test_case_7_in_a_namespace_that_ends_a_pod_that_ends_is_waited_for():
    course = Course(a_pod("old", ends_at=BEGAN_AT + 10, ending_grace_seconds=30), takes=None)
    course.at(8, lambda: course.remove("uid-old"))

    assert course.run().outcome == "drained"
    assert course.calls == []
    assert course.told("old") == ["gone"]


@pytest.mark.parametrize("reply", [UNKNOWN, UNAUTHORIZED])
def test_what_is_not_answered_is_tried_again(reply):
    replies = iter([reply, reply])
    course = Course(a_pod("web"), answers=lambda step, at: next(replies, OK))

    assert course.run().outcome == "drained"
    assert len(course.made(Do.EVICT)) == 3
    assert course.made(Do.EVICT)[-1].at < 2
    assert course.told("web") == ["evicted"]


def test_an_eviction_that_was_done_though_nothing_was_heard_is_reported():
    course = Course(a_pod("web"), answers=refuses_evictions(UNKNOWN), takes=None)
    course.at(
        0.1,
        lambda: course.change("web", ends_at=course.now + 30, ending_grace_seconds=30),
    )
    course.at(20, lambda: course.remove("uid-web"))

    assert course.run().outcome == "drained"
    assert len(course.calls) == 1
    assert course.told("web") == ["evicted"]


@pytest.mark.parametrize("reply", [FORBIDDEN, INVALID])
def test_where_evictions_are_denied_a_pod_is_deleted_at_the_escalation(reply):
    course = Course(a_pod("web"), answers=refuses_evictions(reply))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.DELETE)] == [84.5]
    assert course.told("web") == ["blocked", "forced"]


@pytest.mark.parametrize("reply", [FORBIDDEN, INVALID])
def test_where_evictions_are_denied_and_nothing_is_forced_it_has_failed(reply):
    course = Course(a_pod("web"), settings=NEVER, answers=refuses_evictions(reply))

    course.run()

    assert course.told("web") == ["blocked", "failed"]
    assert states(course) == {"web": State.FAILED}
    assert len(course.calls) < 30


def test_a_webhook_that_gives_way_later_is_asked_again():
    def answers(step, at):
        return FORBIDDEN if step.do is Do.EVICT and at < 20 else OK

    course = Course(a_pod("db"), settings=NEVER, answers=answers)

    assert course.run().outcome == "drained"
    assert course.told("db") == ["blocked", "evicted"]


def test_without_the_right_to_delete_a_budget_is_asked_to_the_end():
    def answers(step, at):
        if step.do is Do.DELETE:
            return FORBIDDEN
        return BLOCKED if step.do is Do.EVICT and at < 100 else OK

    course = Course(a_pod("db"), answers=answers)

    assert course.run().outcome == "drained"
    assert len(course.made(Do.DELETE)) == 1
    assert course.told("db") == ["blocked", "evicted"]


def test_without_the_right_to_delete_two_budgets_are_asked_now_and_then():
    def answers(step, at):
        return {Do.DELETE: FORBIDDEN, Do.EVICT: TWO_BUDGETS}.get(step.do, OK)

    course = Course(a_pod("db"), answers=answers)

    assert course.run().outcome == "incomplete"
    assert len(course.calls) < 20


def test_where_nothing_is_answered_the_drain_has_failed():
    course = Course(a_pod("web"), answers=lambda step, at: UNKNOWN)

    result = course.run()

    assert result.outcome == "failed"
    assert "no answer within 3 s" in result.detail
    assert "apps/web" in result.detail


@pytest.mark.parametrize("reply", [FORBIDDEN, THROTTLED])
def test_where_nothing_but_refusals_come_the_drain_has_failed(reply):
    course = Course(a_pod("web"), answers=lambda step, at: reply)

    result = course.run()

    assert result.outcome == "failed"
    assert reply.message in result.detail


def test_one_pod_that_moves_in_spite_of_a_busy_server_makes_the_drain_incomplete():
    def answers(step, at):
        return OK if step.pod.name == "web-0" else THROTTLED

    course = Course(a_pod("web-0"), a_pod("web-1"), answers=answers)

    assert course.run().outcome == "incomplete"


# --- each pod is counted once ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "before", "standing"),
    [
        (UNKNOWN, [], "asking: no answer within 3 s"),
        (THROTTLED, [], "asking: Too many requests"),
        (BLOCKED, ["blocked"], "blocked: The disruption budget db needs 1 healthy pods"),
        (FORBIDDEN, ["blocked"], "failed: pods is forbidden"),
    ],
)
def test_a_pod_that_never_left_has_failed_in_the_end(reply, before, standing):
    course = Course(a_pod("db"), settings=NEVER, answers=refuses_evictions(reply))
    course.run()

    assert course.told("db") == [*before, "failed"]
    assert course.details["db", "failed"] == standing


def test_a_pod_that_others_end_too_late_has_failed_in_the_end():
    ending = a_pod("slow", ends_at=BEGAN_AT + 115.5, ending_grace_seconds=116)
    course = Course(ending)
    course.run()

    assert course.told("slow") == ["failed"]


def test_a_pod_that_was_accepted_and_stays_is_not_counted_twice():
    course = Course(a_pod("held", grace_seconds=5, finalizers=("example.com/x",)))
    course.run()

    assert course.told("held") == ["evicted"]


def test_without_any_list_the_drain_has_failed_and_says_why():
    course = Course(a_pod("web"), is_listed=False)

    result = course.run()

    assert (result.outcome, course.ended_after) == ("failed", 117.5)
    assert result.detail == "the node's pods could not be listed: no list"


def test_a_list_that_comes_late_is_still_used():
    course = Course(a_pod("web"), is_listed=False)
    course.at(40, lambda: setattr(course, "is_listed", True))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.EVICT)] == [40]


# --- case 10 and 11: what is said ------------------------------------------------------------


def test_case_10_all_pods_blocked_is_a_result():
    course = Course(
        *(a_pod(f"db-{i}") for i in range(5)),
        settings=NEVER,
        answers=refuses_evictions(BLOCKED),
    )

    assert course.run().outcome == "incomplete"
    assert course.ended_after == 117.5


def test_case_11_the_result_names_exactly_the_pods_that_have_not_left():
    def answers(step, at):
        return BLOCKED if step.pod.name == "slow" and step.do is Do.EVICT else OK

    course = Course(
        *(a_pod(f"web-{i}") for i in range(9)), a_pod("slow"), settings=NEVER, answers=answers
    )
    result = course.run()

    assert result.detail.startswith("1 of 10 pods have not left: apps/slow (blocked: ")
    assert "web" not in result.detail


def test_a_result_names_fifty_pods():
    answers = refuses_evictions(BLOCKED)
    pods = [a_pod(f"web-7d9c5b6f4-{i:05}") for i in range(50)]

    detail = Course(*pods, settings=NEVER, answers=answers).run().detail

    assert all(f"{pod.full_name} (blocked: The disruption budget" in detail for pod in pods)


def test_a_result_stays_short_however_many_pods_are_left():
    long = Cause("DisruptionBudget", "x" * 500)
    course = Course(
        *(a_pod(f"db-{i:03}") for i in range(200)),
        settings=NEVER,
        answers=refuses_evictions(replace(BLOCKED, causes=(long,))),
    )
    detail = course.run().detail

    assert len(detail) <= 4000
    assert detail.startswith("200 of 200 pods have not left: apps/db-000 (blocked: xxx")
    assert detail.endswith(" more")
