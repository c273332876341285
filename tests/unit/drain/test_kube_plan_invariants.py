"""What never happens, whatever the pods are and the server answers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.drain.kubernetes.drain_aim import DrainSettings
from lastcall.drain.kubernetes.drain_past import Do
from lastcall.drain.kubernetes.pods import PodClass
from lastcall.drain.kubernetes.reply import Outcome, Reply
from support.drain_course import (
    BEGAN_AT,
    BLOCKED,
    CONFLICT,
    FORBIDDEN,
    GONE,
    GROUP,
    INVALID,
    NAMESPACE_TERMINATING,
    OK,
    OWN_UID,
    THROTTLED,
    TWO_BUDGETS,
    UID,
    UNAUTHORIZED,
    UNKNOWN,
    Course,
    a_pod,
    an_order,
)

TINY = 1e-6
"""Seconds that rounding may cost."""


# --- whatever comes --------------------------------------------------------------------------

REPLIES = [
    OK,
    GONE,
    CONFLICT,
    BLOCKED,
    replace(BLOCKED, retry_after_seconds=10.0),
    TWO_BUDGETS,
    THROTTLED,
    NAMESPACE_TERMINATING,
    FORBIDDEN,
    INVALID,
    UNKNOWN,
    UNAUTHORIZED,
    Reply(Outcome.EXPIRED, 410),
]


@st.composite
def pods(draw):
    found = []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(
            st.sampled_from(["plain", "ds", "mirror", "own", "kept", "gpu", "told", "ending"])
        )
        more = {
            "plain": {},
            "ds": {"owner": "DaemonSet"},
            "mirror": {"is_mirror": True},
            "own": {"uid": OWN_UID},
            "kept": {"opts_out": True},
            "gpu": {"uses_accelerator": True},
            "told": {"uid": UID},
            "ending": {
                "ends_at": BEGAN_AT + draw(st.floats(-50, 900)),
                "ending_grace_seconds": 900,
            },
        }[kind]
        grace = draw(st.sampled_from([0, 1, 5, 30, 60, 600]))
        found.append(a_pod(f"{kind}-{number}", grace_seconds=grace, **more))
    return found


@settings(max_examples=100, deadline=None)
@given(
    pods=pods(),
    lead=st.floats(0.0, 200.0),
    reserve=st.floats(0.0, 60.0),
    flush_over_at=st.none() | st.floats(0.0, 200.0),
    replies=st.lists(st.sampled_from(REPLIES), max_size=40),
    force=st.sampled_from(["all", "training", "none"]),
    method=st.sampled_from(["evict", "delete"]),
    takes=st.none() | st.floats(0.0, 100.0),
    cordoned_after=st.floats(0.0, 10.0),
    shows=st.booleans(),
)
def test_whatever_the_server_answers(  # noqa: PLR0917 — hypothesis fills them in by name
    pods, lead, reserve, flush_over_at, replies, force, method, takes, cordoned_after, shows
):
    answers = iter(replies)
    order = an_order(lead=lead, reserve=reserve, waiting=[GROUP])
    course = Course(
        *pods,
        order=order,
        settings=DrainSettings(method=method, force=force),
        answers=lambda step, at: next(answers, OK),
        takes=takes,
        cordoned_after=cordoned_after,
        shows=shows,
    )
    if flush_over_at is not None:
        over = replace(order, waiting=frozenset())
        course.at(flush_over_at, lambda: setattr(course, "order", over))

    result = course.run()

    aim = course.aim
    removals = course.made(Do.EVICT) + course.made(Do.DELETE)
    assert result.outcome in {"drained", "incomplete", "failed"}
    assert course.ended_after <= max(0.0, aim.end_at - BEGAN_AT) + TINY
    for call in removals:
        assert call.grace is None or call.grace >= 1
        assert call.at < aim.over_at - BEGAN_AT + TINY
        assert call.at >= cordoned_after - TINY
        assert not call.pod.startswith(("ds", "mirror", "own", "kept"))
    if method == "delete":
        assert course.made(Do.EVICT) == []
    if force == "none" and method == "evict":
        assert not any(call.forced for call in removals)
    for call in removals:
        if call.pod.startswith("told") and (
            flush_over_at is None or call.at < flush_over_at - TINY
        ):
            grace = next(pod.grace_seconds for pod in pods if pod.name == call.pod)
            assert BEGAN_AT + call.at >= aim.due_at(PodClass.TRAINING, grace, waits=True) - TINY
    left = {
        one.pod.name
        for one in course.plan().outlooks
        if one.pod_class in (PodClass.ORDINARY, PodClass.TRAINING) and not one.state.is_off
    }
    assert (result.outcome == "drained") == (not left)
    for name in {name for _, name, _ in course.reports}:
        ended = [one for one in course.told(name) if one != "blocked"]
        assert len(ended) <= 1
        assert course.told(name).count("blocked") <= 1
    reported = {name for _, name, outcome in course.reports if outcome != "blocked"}
    assert left <= reported
