"""A provider's clock from headers that only tell whole seconds."""

from __future__ import annotations

import math
import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.sources.skew import ProviderClock

OFFSET = 1_900_000_000.4


def date_at(monotonic: float, offset: float = OFFSET) -> str:
    return formatdate(math.floor(monotonic + offset), usegmt=True)


def asked(clock: ProviderClock, moments: list[float], offset: float = OFFSET) -> None:
    for moment in moments:
        clock.learn(date_at(moment, offset), moment - 0.001, moment + 0.001)


def test_nothing_is_known_before_the_first_answer():
    assert ProviderClock().offset_seconds is None


def test_one_answer_tells_it_to_half_a_second():
    clock = ProviderClock()

    asked(clock, [10.0])

    assert clock.offset_seconds == pytest.approx(OFFSET, abs=0.51)


def test_answers_on_many_parts_of_a_second_tell_it_to_milliseconds():
    clock, chance = ProviderClock(), random.Random(7)

    asked(clock, [second + chance.random() for second in range(200)])

    assert clock.offset_seconds == pytest.approx(OFFSET, abs=0.02)


def test_an_answer_that_took_long_tells_less_and_spoils_nothing():
    clock, chance = ProviderClock(), random.Random(7)
    asked(clock, [second + chance.random() for second in range(200)])
    before = clock.offset_seconds

    clock.learn(date_at(210.0), 210.0 - 55, 210.0)

    assert clock.offset_seconds == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize("step", [-7200.0, -2.0, 2.0, 7200.0])
def test_a_clock_that_was_set_is_believed_at_once(step):
    clock = ProviderClock()
    asked(clock, [float(second) for second in range(20)])

    asked(clock, [20.0], OFFSET + step)

    assert clock.offset_seconds == pytest.approx(OFFSET + step, abs=0.51)


def test_clocks_that_drift_apart_are_followed_without_a_jump():
    clock, chance = ProviderClock(), random.Random(7)
    worst = 0.0
    for second in range(5000):
        drifted = OFFSET + second * 20e-6
        asked(clock, [second + chance.random()], drifted)
        if second > 100:
            worst = max(worst, abs((clock.offset_seconds or 0.0) - drifted))

    assert worst < 0.05


@pytest.mark.parametrize(
    "text", [None, "", "soon", "Fri, 99 Nov 2031 99:99:99 GMT", "Fri, 02 May 99999999 20:26:40 GMT"]
)
def test_a_header_that_is_no_date_changes_nothing(text):
    clock = ProviderClock()
    asked(clock, [10.0])
    before = clock.offset_seconds

    clock.learn(text, 11.0, 11.0)

    assert clock.offset_seconds == before


@given(st.text(max_size=40))
def test_no_header_is_a_fault(text):
    ProviderClock().learn(text, 1.0, 2.0)


@given(st.floats(-1e6, 1e6), st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_a_clock_that_runs_evenly_is_always_within_half_a_second(offset, moments):
    clock = ProviderClock()

    asked(clock, sorted(moments), OFFSET + offset)

    assert clock.offset_seconds == pytest.approx(OFFSET + offset, abs=0.51)
