"""The idle share of a moving window."""

from __future__ import annotations

import pytest

from lastcall.gpu.idle import Idle


def test_it_is_not_known_before_two_looks() -> None:
    idle = Idle()

    assert idle.ratio(0.0) is None
    idle.add(0.0, 0.5)
    assert idle.ratio(1.0) is None


def test_it_is_what_utilization_leaves() -> None:
    idle = Idle()
    for at in range(0, 605, 5):
        idle.add(at, 0.25)

    assert idle.ratio(600.0) == pytest.approx(0.75)


def test_a_look_weighs_by_the_time_that_it_stands_for() -> None:
    idle = Idle()
    idle.add(0.0, 1.0)
    idle.add(90.0, 1.0)
    for at in range(91, 101):
        idle.add(at, 0.0)

    assert idle.ratio(100.0) == pytest.approx(0.095)


def test_what_lies_before_the_window_does_not_count() -> None:
    idle = Idle(100.0)
    for at in range(0, 210, 10):
        idle.add(at, 1.0 if at < 95 else 0.0)
        if at == 150:
            assert idle.ratio(150.0) == pytest.approx(0.55)

    assert idle.ratio(200.0) == pytest.approx(1.0)


def test_a_look_at_the_windows_edge_counts_for_its_part_within() -> None:
    idle = Idle(100.0)
    idle.add(0.0, 1.0)
    idle.add(80.0, 1.0)
    idle.add(130.0, 1.0)
    idle.add(131.0, 0.0)
    idle.add(150.0, 0.0)

    assert idle.ratio(150.0) == pytest.approx(1 - 80.5 / 100)


def test_it_is_not_known_when_the_last_look_is_long_past() -> None:
    idle = Idle(100.0)
    idle.add(0.0, 0.0)
    idle.add(10.0, 0.0)

    assert idle.ratio(109.0) == 1.0
    assert idle.ratio(110.0) is None


def test_after_a_long_gap_it_begins_anew() -> None:
    idle = Idle(100.0)
    idle.add(0.0, 1.0)
    idle.add(10.0, 1.0)
    idle.add(500.0, 0.0)
    assert idle.ratio(500.0) is None

    idle.add(505.0, 0.0)

    assert idle.ratio(505.0) == 1.0


def test_many_looks_need_little_memory_and_all_count() -> None:
    idle = Idle(600.0)
    for number in range(60000):
        idle.add(number / 50, 1.0 if number % 4 == 0 else 0.0)

    assert len(idle._points) <= 250
    assert idle.ratio(60000 / 50) == pytest.approx(0.75, abs=0.001)


@pytest.mark.parametrize("ratio", [-3.0, 7.0])
def test_a_figure_out_of_range_is_brought_into_it(ratio: float) -> None:
    idle = Idle()
    idle.add(0.0, ratio)
    idle.add(10.0, ratio)

    assert idle.ratio(10.0) == (1.0 if ratio < 0 else 0.0)


def test_a_look_that_comes_out_of_order_is_ignored() -> None:
    idle = Idle()
    idle.add(0.0, 0.0)
    idle.add(10.0, 0.0)
    idle.add(5.0, 1.0)
    idle.add(10.0, 1.0)

    assert idle.ratio(10.0) == 1.0
