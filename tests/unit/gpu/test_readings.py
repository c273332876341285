"""The figures of each GPU, as they were last read."""

from __future__ import annotations

from lastcall.core.gpu.model import Gpu, Look, NodeLook
from lastcall.gpu.readings import Readings

FIRST, SECOND = Gpu("GPU-a", 0), Gpu("GPU-b", 1)


def readings(expected: int = 0, poll_seconds: float = 5.0) -> Readings:
    return Readings(poll_seconds=poll_seconds, expected=expected)


def test_a_value_that_is_read_now_and_then_stands_between() -> None:
    kept = readings()
    kept.take(Look(gpu=FIRST, at=0, values={"temperature_celsius": 40, "pcie_width": 16}))
    kept.take(Look(gpu=FIRST, at=5, values={"temperature_celsius": 41}))

    (figures,) = kept.figures()

    assert figures.at == 5
    assert figures.values == {"temperature_celsius": 41, "pcie_width": 16}


def test_a_signal_that_can_be_read_no_more_has_no_value() -> None:
    kept = readings()
    kept.take(Look(gpu=FIRST, at=0, values={"power_watts": 300}))
    kept.take(Look(gpu=FIRST, at=5, values={"pcie_width": 16}, codes={"power_watts": 999}))

    assert kept.figures()[0].values == {"pcie_width": 16}


def test_a_look_that_could_not_read_anything_is_no_success() -> None:
    kept = readings()
    kept.take(Look(gpu=FIRST, at=0, values={"power_watts": 300}))
    kept.take(Look(gpu=FIRST, at=5, values={"call_seconds_max": 0.1}, codes={"power_watts": 27}))

    assert kept.figures()[0].at == 0


def test_a_gpu_that_does_not_answer_keeps_the_time_of_its_last_answer() -> None:
    kept = readings()
    kept.take(Look(gpu=FIRST, at=0, values={"power_watts": 300}))
    kept.take(Look(gpu=SECOND, at=0, values={"power_watts": 200}))
    kept.take(Look(gpu=FIRST, at=5, code=15, call="nvmlDeviceGetPowerUsage"))
    kept.take(Look(gpu=SECOND, at=5, values={"power_watts": 210}))

    assert [(each.gpu.uuid, each.at) for each in kept.figures()] == [("GPU-a", 0), ("GPU-b", 5)]


def test_how_idle_a_gpu_is_comes_from_how_busy_it_was() -> None:
    kept = readings()
    for at in range(0, 60, 5):
        kept.take(Look(gpu=FIRST, at=at, values={"utilization_ratio": 0.25}))
        kept.take(Look(gpu=SECOND, at=at, values={"power_watts": 300}))

    idle = [each.idle_ratio for each in kept.figures()]

    assert idle == [0.75, None]


def test_as_many_are_expected_as_the_site_says_or_stand_on_the_bus() -> None:
    said, seen = readings(expected=8), readings()
    assert seen.expected == 0

    for kept in (said, seen):
        kept.take_node(NodeLook(at=0, driver_count=3, pci_count=4))

    assert (said.expected, seen.expected) == (8, 4)


def test_figures_are_fresh_for_some_looks_and_never_for_less_than_a_moment() -> None:
    assert readings(poll_seconds=30).fresh_seconds == 90
    assert readings(poll_seconds=0.1).fresh_seconds == 15
