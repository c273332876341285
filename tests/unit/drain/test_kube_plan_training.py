"""Training leaves last, and its Jobs know that it has not failed, in virtual time."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.drain_aim import DrainSettings
from lastcall.drain.kubernetes.drain_past import Do
from lastcall.drain.kubernetes.pods import MARK_REASON, Disruption
from support.drain_course import (
    BEGAN_AT,
    BLOCKED,
    FORBIDDEN,
    GROUP,
    OK,
    OTHER_GROUP,
    UID,
    UNKNOWN,
    Course,
    a_pod,
    an_order,
    refuses_evictions,
    told,
    trainer,
)

# --- training --------------------------------------------------------------------------------


def test_every_training_pod_is_marked_at_once():
    course = Course(trainer(), told("train-1"), a_pod("web"), order=an_order(waiting=[GROUP]))
    course.run(until=60)

    marks = [(call.at, call.pod) for call in course.made(Do.MARK)]
    assert marks == [(0, "train-0"), (0, "train-1")]


def test_training_waits_for_its_flush_and_leaves_when_it_is_over():
    course = Course(told(), a_pod("web"), order=an_order(waiting=[GROUP]))
    course.at(40, lambda: setattr(course, "order", an_order(training=[GROUP])))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.EVICT, "web")] == [0]
    assert [call.at for call in course.made(Do.EVICT, "train-0")] == [40]


def test_a_pod_of_several_containers_waits_for_all_their_flushes():
    both = an_order(training=[GROUP, OTHER_GROUP], waiting=[GROUP, OTHER_GROUP])
    course = Course(told(), order=both)
    one = an_order(training=[GROUP, OTHER_GROUP], waiting=[OTHER_GROUP])
    course.at(20, lambda: setattr(course, "order", one))
    none = an_order(training=[GROUP, OTHER_GROUP])
    course.at(50, lambda: setattr(course, "order", none))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [50]


@pytest.mark.parametrize(("grace", "at", "sent"), [(30, 110, 5), (600, 110, 5), (4, 110.5, None)])
def test_a_flush_that_is_never_over_is_waited_for_until_its_time_is_up(grace, at, sent):
    course = Course(told(grace_seconds=grace), order=an_order(waiting=[GROUP]), takes=600)
    course.run()

    (eviction,) = course.made(Do.EVICT)
    assert (eviction.at, eviction.grace) == (at, sent)


def test_training_that_nobody_told_goes_when_only_the_time_it_needs_is_left():
    course = Course(trainer(grace_seconds=60))
    course.run()

    assert [(call.at, call.grace) for call in course.made(Do.EVICT)] == [(54.5, None)]


def test_training_that_nobody_told_and_that_needs_more_than_there_is_goes_at_once():
    """A18: 28 s to the deadline, 60 s to end: what is left is what it gets."""
    course = Course(trainer(grace_seconds=60), order=an_order(lead=28), takes=60)
    course.run()

    (eviction,) = course.made(Do.EVICT)
    assert (eviction.at, eviction.grace) == (0, 25)
    assert course.ended_after == pytest.approx(25)


def test_training_without_any_time_to_end_is_asked_while_a_call_still_fits():
    course = Course(trainer(grace_seconds=0))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [112]


def test_a_last_moment_behind_a_budget_is_forced_at_once():
    course = Course(trainer(), answers=refuses_evictions(BLOCKED), takes=30)

    assert course.run().outcome == "drained"
    assert [(call.do, call.at) for call in course.calls] == [
        (Do.MARK, 0),
        (Do.EVICT, 84.5),
        (Do.DELETE, 84.5),
    ]


def test_a_flush_may_use_all_the_time_there_is_and_its_pod_still_gets_its_word():
    course = Course(told(), order=an_order(reserve=0, waiting=[GROUP]))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [112]


def test_a_process_told_late_holds_its_pod_from_then_on():
    course = Course(told(uses_accelerator=True, grace_seconds=60))
    course.at(50, lambda: setattr(course, "order", an_order(waiting=[GROUP])))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [110]


def test_what_a_pod_calls_its_inner_groups_says_nothing_of_other_pods():
    victim = a_pod("victim", uid="2c4f2b6e-7a10-4d58-9c3b-0f6e5d4c3b2a")
    inner = f"/kubepods/pod{UID}/1/pod{victim.uid}/2"
    course = Course(told(), victim, order=an_order(waiting=[inner]))
    course.run()

    assert [call.at for call in course.made(Do.EVICT, "victim")] == [0]
    assert [call.at for call in course.made(Do.EVICT, "train-0")] == [110]


# --- pods that bear our mark already ---------------------------------------------------------


MARKED = Disruption(MARK_REASON, BEGAN_AT - 20)


def test_a_pod_that_we_have_marked_is_given_time_to_say_that_it_still_flushes():
    course = Course(told(disruption=MARKED), a_pod("web"))
    course.at(2, lambda: setattr(course, "order", an_order(waiting=[GROUP])))
    course.at(40, lambda: setattr(course, "order", an_order(training=[GROUP])))

    assert course.run().outcome == "drained"
    assert [call.at for call in course.made(Do.EVICT, "web")] == [0]
    assert [call.at for call in course.made(Do.EVICT, "train-0")] == [40]


@pytest.mark.parametrize(("grace", "at"), [(30, 84.5), (600, 10)])
def test_a_pod_that_we_have_marked_and_in_which_nobody_speaks_trains_all_the_same(grace, at):
    course = Course(a_pod("train", disruption=MARKED, grace_seconds=grace))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [at]


def test_with_little_time_left_nobody_is_waited_for_beyond_the_time_of_flushes():
    course = Course(a_pod("train", disruption=MARKED), order=an_order(lead=9))
    course.run()

    assert [call.at for call in course.made(Do.EVICT)] == [6]


def test_a_mark_that_comes_with_its_deletion_makes_no_training_of_a_pod():
    replies = iter([UNKNOWN])
    course = Course(
        a_pod("web"),
        settings=DrainSettings(method="delete"),
        answers=lambda s, a: next(replies, OK),
    )
    course.at(0.1, lambda: course.change("web", disruption=Disruption(MARK_REASON, BEGAN_AT)))
    course.run()

    assert [call.at for call in course.made(Do.DELETE)] == [0, pytest.approx(0.28, abs=0.05)]


# --- marks -----------------------------------------------------------------------------------


def test_a_told_pod_that_opts_out_is_marked_and_left():
    order = an_order(waiting=[GROUP])
    slow = trainer("slow", grace_seconds=1)
    course = Course(told(opts_out=True), a_pod("db", opts_out=True), slow, order=order)

    assert course.run().outcome == "drained"
    assert [(call.do, call.at) for call in course.made(pod="train-0")] == [
        (Do.MARK, 0),
        (Do.MARK, 90),
    ]
    assert course.made(pod="db") == []


def test_a_process_that_comes_at_the_very_end_has_its_pod_marked():
    ending = a_pod("slow", ends_at=BEGAN_AT + 115.5, ending_grace_seconds=116)
    late = told("late", opts_out=True)
    course = Course(ending, order=an_order(training=[GROUP]))
    course.at(116, lambda: course.pods.update({late.uid: late}))
    course.run()

    assert [call.at for call in course.made(Do.MARK, "late")] == [116]


def test_a_pod_that_another_has_marked_is_not_marked_again():
    course = Course(trainer(disruption=Disruption("PreemptionByScheduler", BEGAN_AT)))
    course.run()

    assert course.made(Do.MARK) == []


def test_a_mark_that_was_taken_back_is_set_again():
    course = Course(trainer())
    course.at(60, lambda: course.change("train-0", disruption=None))
    course.run(until=80)

    assert [call.at for call in course.made(Do.MARK)] == [0, 60]


def test_a_mark_is_renewed_before_it_is_taken_for_stale():
    course = Course(trainer(), order=an_order(lead=900))
    course.run(until=800)

    assert [call.at for call in course.made(Do.MARK)] == list(range(0, 801, 90))


def test_a_mark_that_is_not_answered_is_tried_again():
    replies = iter([UNKNOWN, UNKNOWN])
    course = Course(trainer(), answers=lambda step, at: next(replies, OK))
    course.run(until=20)

    assert len(course.made(Do.MARK)) == 3


def test_a_mark_that_is_denied_keeps_nothing_up():
    def answers(step, at):
        return FORBIDDEN if step.do is Do.MARK else OK

    course = Course(trainer(grace_seconds=600), answers=answers)

    assert course.run().outcome == "drained"
    assert course.made(Do.EVICT)[0].at == 0


def test_a_pod_is_marked_before_it_is_asked_to_leave():
    course = Course(told(), order=an_order(training=[GROUP]))
    course.run()

    assert [call.do for call in course.calls] == [Do.MARK, Do.EVICT]
