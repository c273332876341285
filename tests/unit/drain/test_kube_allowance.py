"""How often something may be written, with time as an argument."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lastcall.drain.kubernetes.allowance import Allowance


def take_all(allowance, now, spare=0):
    taken = 0
    while allowance.allows(now, spare):
        allowance.spend(now)
        taken += 1
    return taken


def test_at_first_a_few_are_let_through_at_once():
    assert take_all(Allowance(4, 450.0), now=1e6) == 4


def test_then_one_at_a_time():
    allowance = Allowance(4, 450.0)
    take_all(allowance, now=100.0)

    assert take_all(allowance, now=549.0) == 0
    assert take_all(allowance, now=550.0) == 1


def test_a_long_pause_saves_up_no_more_than_at_first():
    allowance = Allowance(4, 450.0)
    take_all(allowance, now=0.0)

    assert take_all(allowance, now=1e6) == 4


def test_what_matters_less_leaves_some_for_what_matters_more():
    allowance = Allowance(4, 450.0)

    assert take_all(allowance, now=0.0, spare=1) == 3
    assert take_all(allowance, now=0.0) == 1


@given(st.lists(st.integers(0, 900), min_size=1, max_size=60))
def test_an_hour_never_has_more_than_the_few_and_one_for_each_span(gaps):
    allowance, now, times = Allowance(4, 450.0), 0, []
    for gap in gaps:
        now += gap
        times += [now] * take_all(allowance, now)

    assert all(sum(0 <= at - first < 3600 for at in times) <= 12 for first in times)
