"""What past checkpoints say about the next flush, and the arithmetic of what time is left."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.commands import Advise
from lastcall.core.deadlines import flush_until, left
from lastcall.core.estimates import KEPT, JobAdvice, JobHistory, advise, remember
from lastcall.core.events import CheckpointReported, ProvidersFound
from lastcall.core.turn import Settings
from support.happenings import PREEMPTED, joined, preempted
from support.story import a_node

HOUR = 3600.0

moments = st.floats(0, 1e9, allow_nan=False)


def history(*durable_seconds: float, stalls: tuple[float, ...] = ()) -> JobHistory:
    return JobHistory(stall_seconds=stalls, durable_seconds=durable_seconds)


def fits(durable_seconds: float, budget_seconds: float | None) -> str:
    known = history(durable_seconds)
    advice = advise(
        known, budget_seconds=budget_seconds, mean_time_between_interruptions_seconds=HOUR
    )
    return advice.fits


# --- what time is left -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "told_at", "reserve_seconds", "until"),
    [(120, 0, 10, 110), (30, 0, 10, 20), (15, 0, 10, 10), (90, 100, 10, 90), (120, 0, 0, 120)],
)
def test_the_reserve_never_takes_more_than_a_third(
    deadline: float, told_at: float, reserve_seconds: float, until: float
) -> None:
    assert flush_until(deadline, told_at, reserve_seconds) == pytest.approx(until)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(moments, moments, st.floats(0, 3600))
def test_a_flush_is_over_before_the_deadline_and_not_before_it_was_told(
    deadline: float, told_at: float, reserve_seconds: float
) -> None:
    until = flush_until(deadline, told_at, reserve_seconds)

    assert until <= deadline
    assert until >= min(told_at, deadline)


def test_nothing_less_than_nothing_is_left() -> None:
    assert left(10, 4) == 6
    assert left(10, 11) == 0


# --- what is remembered ----------------------------------------------------------------------


def test_the_latest_durations_are_remembered_and_only_so_many() -> None:
    known = JobHistory()
    for number in range(KEPT + 5):
        known = remember(
            known, now=number, step=number, path="/c", stall_seconds=None, durable_seconds=number
        )

    assert known.durable_seconds == tuple(range(5, KEPT + 5))
    assert known.stall_seconds == ()
    assert (known.last_at, known.last_step, known.last_path) == (KEPT + 4, KEPT + 4, "/c")


# --- what is advised -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durable_seconds", "budget_seconds", "expected"),
    [
        (16.0, 20, "fits"),
        (16.1, 20, "tight"),
        (20, 20, "tight"),
        (20.1, 20, "misses"),
        (1, None, "unknown"),
    ],
)
def test_whether_a_flush_fits(
    durable_seconds: float, budget_seconds: float | None, expected: str
) -> None:
    assert fits(durable_seconds, budget_seconds) == expected


def test_nothing_is_said_of_a_job_that_reported_nothing() -> None:
    advice = advise(JobHistory(), budget_seconds=20, mean_time_between_interruptions_seconds=HOUR)

    assert advice == JobAdvice(None, "unknown", None)


def test_the_prediction_is_near_the_worst_of_what_was_seen() -> None:
    twenty = advise(
        history(*range(1, 21)), budget_seconds=None, mean_time_between_interruptions_seconds=HOUR
    )
    two = advise(
        history(3.0, 1.0), budget_seconds=None, mean_time_between_interruptions_seconds=HOUR
    )

    assert (twenty.predicted_seconds, two.predicted_seconds) == (19, 3)


def test_the_interval_is_youngs() -> None:
    advice = advise(
        history(stalls=(9.0, 2.0, 1.0)),
        budget_seconds=None,
        mean_time_between_interruptions_seconds=HOUR,
    )

    assert advice.interval_seconds == pytest.approx(math.sqrt(2 * 2.0 * HOUR))


def test_training_that_never_stands_still_is_given_no_interval() -> None:
    advice = advise(
        history(stalls=(0.0,)), budget_seconds=None, mean_time_between_interruptions_seconds=HOUR
    )

    assert advice.interval_seconds is None


# --- when it is said -------------------------------------------------------------------------


def test_a_job_is_advised_by_the_shortest_warning_of_the_providers_that_are_watched() -> None:
    story = a_node()
    story.at(1, ProvidersFound(("aws", "gcp"), "configured"))

    decided = story.at(
        2, CheckpointReported(session="s0", step=1, stall_seconds=2.0, durable_seconds=18.0)
    )

    advice = decided.command(Advise).advice
    assert (advice.fits, advice.predicted_seconds) == ("tight", 18)
    assert advice.interval_seconds == pytest.approx(math.sqrt(2 * 2.0 * (6 * HOUR + 2)))


def test_without_a_provider_it_is_unknown_whether_a_flush_fits() -> None:
    story = a_node()

    decided = story.at(2, CheckpointReported(session="s0", step=1, durable_seconds=18.0))

    assert decided.command(Advise).advice.fits == "unknown"


def test_a_process_that_joins_a_known_job_is_advised_at_once() -> None:
    story = a_node()
    story.at(1, CheckpointReported(session="s0", step=1, durable_seconds=18.0))

    assert story.at(2, joined("s1", rank=1)).command(Advise).session == "s1"
    assert story.at(3, joined("s2", job="another")).commands(Advise) == []


def test_the_more_interruptions_the_shorter_the_interval() -> None:
    story = a_node(Settings(prior_interruption_seconds=HOUR))
    story.at(1, CheckpointReported(session="s0", step=1, stall_seconds=2.0))
    before = story.machine.advice(story.node, "llama", 100).interval_seconds

    story.at(50, PREEMPTED.shows(preempted()))
    after = story.machine.advice(story.node, "llama", 100).interval_seconds

    assert before == pytest.approx(math.sqrt(2 * 2.0 * (HOUR + 100)))
    assert after == pytest.approx(math.sqrt(2 * 2.0 * (HOUR + 100) / 2))
