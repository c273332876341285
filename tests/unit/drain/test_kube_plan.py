"""Which pods leave and when, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.drain.kubernetes.drain_aim import DrainSettings, aim_of
from lastcall.drain.kubernetes.drain_past import Do
from lastcall.drain.kubernetes.pods import PodClass
from support.drain_course import (
    BEGAN_AT,
    BLOCKED,
    GONE,
    GROUP,
    OK,
    OWN_UID,
    Course,
    a_pod,
    an_order,
    refuses_evictions,
    told,
    trainer,
)

STRICT = DrainSettings(method="delete")

# --- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lead", "over", "end"),
    [(120, 115, 117.5), (30, 27, 28.5), (10, 9, 9.5), (0, 0, 0), (-5, -5, -5)],
)
def test_a_margin_is_kept_before_the_deadline(lead, over, end):
    aim = aim_of(an_order(lead=lead))

    assert aim.over_at - BEGAN_AT == pytest.approx(over)
    assert aim.end_at - BEGAN_AT == pytest.approx(end)


@pytest.mark.parametrize(
    ("grace", "left", "sent"),
    [(30, 115, None), (115, 115, None), (116, 115, 115), (60, 25.2, 25), (60, 0.4, 1), (60, -3, 1)],
)
def test_a_time_to_end_is_sent_only_where_the_pods_own_is_too_long(grace, left, sent):
    aim = aim_of(an_order())

    assert aim.grace_to_send(grace, aim.over_at - left) == sent


@pytest.mark.parametrize(("left", "seconds"), [(115, 3.0), (8, 2.0), (1, 0.5), (-4, 0.5)])
def test_a_call_takes_at_most_a_quarter_of_what_is_left(left, seconds):
    aim = aim_of(an_order())

    assert aim.call_seconds(aim.over_at - left) == seconds


# --- what leaves, and what does not ----------------------------------------------------------


@pytest.mark.parametrize(("lead", "seconds"), [(120, 1), (5, 0.45), (0, 0)])
def test_a_node_with_nothing_to_move_is_drained_as_soon_as_nothing_more_can_come(lead, seconds):
    course = Course(
        a_pod("ds", owner="DaemonSet"), a_pod("job", is_finished=True), order=an_order(lead=lead)
    )

    assert course.run().outcome == "drained"
    assert course.ended_after == pytest.approx(seconds)
    assert course.calls == []


def test_a_pod_that_was_given_to_the_node_just_before_the_cordon_is_moved():
    course = Course(cordoned_after=0.2)
    late = a_pod("late")
    course.at(0.9, lambda: course.pods.update({late.uid: late}))

    assert course.run().outcome == "drained"
    assert course.told("late") == ["evicted"]


@pytest.mark.parametrize("grace", [5, 30, 60])
@pytest.mark.parametrize("late", [0.0, 0.45])
def test_at_its_last_moment_a_pod_is_given_all_of_its_own_time(grace, late):
    aim = aim_of(an_order())

    asked_at = aim.due_at(PodClass.TRAINING, grace, waits=None) + late

    assert aim.grace_to_send(grace, asked_at) is None
    assert aim.grace_to_send(grace, aim.escalate_at(grace) + late) is None


def test_ordinary_pods_are_all_asked_at_once_with_their_own_time_to_end():
    course = Course(*(a_pod(f"web-{i}") for i in range(40)))

    result = course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [0] * 40
    assert {call.grace for call in course.calls} == {None}
    assert (result.outcome, result.detail) == ("drained", "40 pods have left")


def test_case_8_and_28_daemonset_pods_are_left_whatever_their_phase():
    course = Course(
        a_pod("ds-1", owner="DaemonSet"),
        a_pod("ds-2", owner="DaemonSet", is_finished=True),
        a_pod("ds-3", owner="DaemonSet", uses_accelerator=True),
    )
    course.run()

    assert course.calls == []


def test_mirror_pods_the_own_pod_and_finished_ones_are_left():
    course = Course(
        a_pod("etcd", is_mirror=True),
        a_pod("lastcall", uid=OWN_UID),
        a_pod("done", is_finished=True),
    )

    assert course.run().outcome == "drained"
    assert course.calls == []


def test_a_pod_that_opts_out_is_left_and_named_but_is_no_failure():
    course = Course(a_pod("db", opts_out=True), a_pod("web"))

    result = course.run()

    assert {call.pod for call in course.calls} == {"web"}
    assert result.outcome == "drained"
    assert result.detail.endswith("left alone by their annotation: apps/db")


def test_bare_pods_leave_and_are_counted():
    course = Course(a_pod("bare", owner=""), a_pod("web"))

    assert "1 of them bare" in course.run().detail
    assert "bare, nothing recreates it" in course.details["bare", "evicted"]


def test_a_pod_that_comes_while_the_drain_goes_on_is_treated_likewise():
    course = Course(a_pod("web", grace_seconds=20), takes=None)
    late = a_pod("late")
    course.takes = 15
    course.at(5, lambda: course.pods.update({late.uid: late}))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.EVICT, "late")] == [5]


def test_a_pod_that_finishes_by_itself_has_left():
    course = Course(a_pod("web"), answers=refuses_evictions(BLOCKED))
    course.at(3, lambda: course.change("web", is_finished=True))

    assert course.run().outcome == "drained"
    assert course.ended_after == 3
    assert course.told("web") == ["blocked", "gone"]


# --- case 13: drained means gone -------------------------------------------------------------


def test_case_13_drained_is_said_only_once_the_pods_are_gone():
    course = Course(a_pod("web"), takes=12)

    result = course.run(until=11)

    assert course.ended_after is None
    assert result.outcome == "incomplete"
    assert course.run().outcome == "drained"
    assert course.ended_after == 12


def test_what_the_watch_does_not_show_is_looked_after():
    def answers(step, at):
        return GONE if step.do is Do.LOOK and at >= 8 else OK

    course = Course(a_pod("web"), answers=answers, shows=False)
    course.pods["uid-web"] = replace(course.pods["uid-web"])

    # The server says that it was accepted, but nothing is ever seen of it.
    course.run(until=2.5)
    assert [call.at for call in course.made(Do.LOOK)] == [2]


def test_an_end_that_is_overdue_is_looked_after():
    def answers(step, at):
        return GONE if step.do is Do.LOOK else OK

    course = Course(a_pod("web", grace_seconds=5), takes=None, answers=answers)

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.LOOK)] == [7]


def test_an_accepted_eviction_that_came_to_nothing_is_asked_for_again():
    course = Course(a_pod("web"), shows=False)
    course.at(3, lambda: setattr(course, "shows", True))

    assert course.run().outcome == "drained"
    assert [call.do for call in course.calls[:3]] == [Do.EVICT, Do.LOOK, Do.EVICT]
    assert course.told("web") == ["evicted"]


# --- the cordon ----------------------------------------------------------------------------


def test_evictions_wait_until_the_cordon_was_tried_and_marks_do_not():
    course = Course(a_pod("web"), trainer(grace_seconds=300), cordoned_after=2)
    course.run()

    assert [call.at for call in course.made(Do.MARK)] == [0]
    assert [call.at for call in course.made(Do.EVICT)] == [2, 2]


def test_an_empty_node_is_not_called_drained_before_the_cordon():
    course = Course(cordoned_after=2)

    course.run()
    assert course.ended_after == 3


# --- pods that end already -------------------------------------------------------------------


def test_a_pod_that_ends_in_time_is_not_asked_again():
    course = Course(
        a_pod("old", ends_at=BEGAN_AT + 20, ending_grace_seconds=30),
    )
    course.at(15, lambda: course.remove("uid-old"))

    assert course.run().outcome == "drained"
    assert course.calls == []


def test_a_pod_that_would_end_too_late_has_its_time_cut_short_once():
    course = Course(
        a_pod("slow", grace_seconds=600, ends_at=BEGAN_AT + 590, ending_grace_seconds=600),
        takes=600,
    )

    assert course.run().outcome == "drained"
    assert [(call.do, call.at, call.grace) for call in course.calls] == [(Do.EVICT, 0, 115)]
    assert course.told("slow") == ["gone"]


def test_a_deadline_that_comes_nearer_cuts_short_what_was_granted():
    course = Course(a_pod("web", grace_seconds=100), takes=600)
    course.at(10, lambda: setattr(course, "order", an_order(lead=60)))
    course.run()

    assert [(call.at, call.grace) for call in course.made(Do.EVICT)] == [(0, None), (10, 45)]
    assert course.told("web") == ["evicted"]


def test_case_29_a_pod_that_can_no_longer_end_is_stuck_and_not_waited_for():
    course = Course(
        a_pod(
            "held", ends_at=BEGAN_AT - 3600, ending_grace_seconds=0, finalizers=("example.com/x",)
        ),
        a_pod("web"),
    )

    result = course.run()

    assert result.outcome == "incomplete"
    assert course.ended_after == 1
    assert "apps/held (stuck: 3601 s past the time it had to end" in result.detail
    assert "held by example.com/x" in result.detail
    assert course.made(pod="held") == []


def test_case_29_a_finalizer_that_holds_an_evicted_pod_is_waited_for_ten_seconds():
    course = Course(a_pod("held", grace_seconds=5, finalizers=("example.com/x",)))

    assert course.run().outcome == "incomplete"
    assert course.ended_after == 15


# --- the strict method -----------------------------------------------------------------------


def test_the_strict_method_deletes_when_it_would_have_evicted():
    course = Course(a_pod("web"), told(), settings=STRICT, order=an_order(waiting=[GROUP]))

    assert course.run().outcome == "drained"
    assert course.made(Do.EVICT) == []
    assert [(call.at, call.pod) for call in course.made(Do.DELETE)] == [
        (0, "web"),
        (110, "train-0"),
    ]
    assert course.told("web") == ["evicted"]


# --- the deadline ----------------------------------------------------------------------------


def test_nothing_is_asked_once_the_time_is_over():
    course = Course(a_pod("web"), cordoned_after=116)

    result = course.run()

    assert course.calls == []
    assert course.ended_after == 117.5
    assert result.detail == "1 of 1 pods have not left: apps/web (asking: no time was left)"


def test_an_order_that_comes_too_late_ends_at_once():
    course = Course(a_pod("web"), order=an_order(lead=-1))

    assert course.run().outcome == "incomplete"
    assert course.ended_after == 0


def test_a_deadline_that_moves_away_gives_the_pods_more_time():
    course = Course(trainer(grace_seconds=60), order=an_order(lead=120))
    course.at(30, lambda: setattr(course, "order", an_order(lead=300)))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [234.5]


def test_the_pods_with_the_longest_way_to_go_are_asked_first():
    course = Course(a_pod("a", grace_seconds=10), a_pod("b", grace_seconds=100), trainer())
    course.run()

    assert [call.pod for call in course.calls[:3]] == ["train-0", "b", "a"]
