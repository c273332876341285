"""How much strangers may ask, with time as an argument."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.serve.limits import (
    BURST_SECONDS,
    DESCRIPTORS,
    Allowance,
    Bucket,
    Slots,
    raise_descriptor_limit,
)


def take_all(bucket: Bucket, now: float, cost: float = 1) -> int:
    taken = 0
    while bucket.wait_seconds(now) == 0:
        bucket.spend(cost)
        taken += 1
    return taken


def test_after_a_pause_a_burst_passes_at_once():
    bucket = Bucket(50, now=0)

    assert take_all(bucket, now=0) == 50 * BURST_SECONDS + 1


def test_a_long_pause_saves_up_no_more_than_one_burst():
    bucket = Bucket(50, now=0)

    assert take_all(bucket, now=1e6) == 50 * BURST_SECONDS + 1


def test_after_the_burst_items_pass_at_the_rate():
    bucket = Bucket(50, now=0)
    take_all(bucket, now=0)

    assert sum(take_all(bucket, now=second / 10) for second in range(1, 101)) == pytest.approx(
        500, abs=1
    )


def test_an_item_bigger_than_the_burst_passes_and_is_paid_off_later():
    bucket = Bucket(1024, now=0)

    assert bucket.wait_seconds(0) == 0
    bucket.spend(16384)

    assert bucket.wait_seconds(0) == pytest.approx(12)
    assert bucket.wait_seconds(12) == 0


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1000)), max_size=50))
def test_waiting_as_long_as_is_said_is_always_enough(items):
    bucket, now = Bucket(10, now=0), 0.0
    for pause_seconds, cost in items:
        now += pause_seconds
        bucket.spend(cost)
        now += bucket.wait_seconds(now)
        assert bucket.wait_seconds(now) < 1e-6


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(10, 50 * BURST_SECONDS + 1), (16384, 65536 * BURST_SECONDS / 16384 + 1)],
)
def test_an_allowance_ends_with_whatever_runs_out_first(size_bytes, expected):
    allowance, lines = Allowance(50, 65536, now=0), 0

    while allowance.wait_seconds(0) == 0:
        allowance.spend(size_bytes)
        lines += 1

    assert lines == expected


def test_a_lifted_allowance_has_no_end():
    allowance = Allowance(1, 1024, now=0)
    allowance.spend(1e9)

    allowance.lift()

    assert allowance.wait_seconds(0) == 0


def test_slots_run_out_for_one_user_before_they_run_out_for_all():
    slots = Slots(most=3, most_per_user=2)

    assert [slots.take(1), slots.take(1), slots.take(1)] == [True, True, False]
    assert [slots.take(2), slots.take(3)] == [True, False]


def test_a_slot_given_back_can_be_taken_again():
    slots = Slots(most=1, most_per_user=1)
    assert slots.take(1)
    assert not slots.take(2)

    slots.give_back(1)

    assert slots.take(2)


def test_the_descriptor_limit_is_raised_as_far_as_needed_and_allowed(monkeypatch):
    limits = {resource.RLIMIT_NOFILE: (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)

    raise_descriptor_limit()
    assert limits[resource.RLIMIT_NOFILE] == (4096, 4096)

    limits[resource.RLIMIT_NOFILE] = (1024, resource.RLIM_INFINITY)
    raise_descriptor_limit()
    assert limits[resource.RLIMIT_NOFILE] == (DESCRIPTORS, resource.RLIM_INFINITY)


def test_a_descriptor_limit_that_is_high_or_fixed_is_left_alone(monkeypatch):
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    for soft in (1024, DESCRIPTORS, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, 1048576))

        raise_descriptor_limit()
