"""The rhythm of looks: spread over the fleet, never slower than its period, patient in trouble."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.sources.pacing import Pace


def pace(period_seconds: float = 1.0, seed: int = 1, **options: float) -> Pace:
    return Pace(period_seconds, chance=random.Random(seed), **options)


def test_nodes_that_start_together_look_first_at_different_moments():
    first = sorted(pace(seed=seed).first() for seed in range(500))

    fullest = max(
        sum(low <= one < low + 0.1 for one in first) for low in [n / 10 for n in range(10)]
    )
    assert first[0] >= 0
    assert first[-1] <= 1.0
    assert fullest < 100


def test_a_look_that_is_made_seldom_is_first_made_soon():
    assert max(pace(3600.0, seed).first() for seed in range(100)) <= 5.0


@given(st.floats(0.01, 3600), st.integers())
def test_the_period_is_never_exceeded(period_seconds, seed):
    rhythm = pace(period_seconds, seed)

    for _ in range(20):
        assert 0.9 * period_seconds <= rhythm.after_success() <= period_seconds


def test_nodes_that_look_together_once_drift_apart():
    moments = {round(pace(seed=seed).after_success(), 3) for seed in range(100)}

    assert len(moments) > 50


def test_failures_are_followed_by_longer_and_longer_waits():
    rhythm = pace()

    waits = [rhythm.after_failure() for _ in range(8)]

    assert 0.1 <= waits[0] <= 0.2
    assert 0.4 <= waits[2] <= 0.8
    assert 2.5 <= waits[-1] <= 5.0


@given(
    st.floats(0.01, 3600),
    st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=100),
)
def test_no_failure_delays_a_look_beyond_the_longest_back_off(period_seconds, wishes):
    rhythm = pace(period_seconds)

    for wish in wishes:
        assert 0 < rhythm.after_failure(wish) <= 5.0


def test_a_service_that_asks_to_be_left_alone_is_left_alone_within_bounds():
    assert pace().after_failure(3.0) == 3.0
    assert pace().after_failure(60.0) == 5.0


def test_a_week_of_failures_is_no_fault():
    rhythm = pace()

    assert all(rhythm.after_failure() > 0 for _ in range(100_000))


def test_a_success_ends_the_back_off():
    rhythm = pace()
    for _ in range(10):
        rhythm.after_failure()

    rhythm.after_success()

    assert rhythm.after_failure() <= 0.2


def test_a_rhythm_faster_than_the_back_off_fails_as_fast_as_it_looks():
    assert pace(0.02).after_failure() <= 0.02


@pytest.mark.parametrize("longest", [30.0, 60.0])
def test_what_is_not_urgent_may_wait_longer(longest):
    rhythm = pace(longest_back_off_seconds=longest)

    assert 5.0 < max(rhythm.after_failure() for _ in range(20)) <= longest
