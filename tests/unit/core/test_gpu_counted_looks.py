"""Which looks count where several must say so: errors bring looks forward, many within a second."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.model import Health
from lastcall.core.gpu.rules import make_rules
from support.judged_gpus import Watched


def test_a_second_of_heat_is_one_look_however_many_errors_bring_looks_forward() -> None:
    node = Watched()
    node.wait(3)
    for number in (13, 31, 69, 8, 45, 32, 11, 25, 39, 80):
        node.xid(number)
        node.looks(1, every=0.1, temperature_celsius=95)
    node.looks(1, temperature_celsius=95)
    assert node.health() is Health.HEALTHY

    node.looks(2, temperature_celsius=95)
    assert node.reasons() == ("temperature",)


def test_a_burst_of_looks_does_not_end_what_speaks_against_a_gpu() -> None:
    node = Watched(3, action=0)
    node.look(0, remap_pending=1)
    node.look(1, code=16)
    node.xid(79, 2)
    for gpu in range(3):
        node.looks(10, gpu, every=0.1, remap_pending=0)

    assert node.health(0) is Health.DEGRADED
    assert [node.health(gpu) for gpu in (1, 2)] == [Health.FAULTY] * 2


def test_a_burst_of_unclear_answers_is_one_of_three() -> None:
    node = Watched()
    node.looks(10, every=0.1, code=999)
    node.looks(2, code=999)
    assert node.health() is Health.HEALTHY

    node.looks(1, code=999)
    assert node.reasons() == ("unknown_error",)


def test_one_bad_look_of_a_burst_begins_the_good_looks_anew() -> None:
    node = Watched()
    node.look(remap_pending=1)
    node.looks(2, remap_pending=0)
    node.wait(0.1)
    node.look(remap_pending=1)
    node.looks(2, remap_pending=0)

    assert node.health() is Health.DEGRADED


@pytest.mark.parametrize(
    ("code", "values"), [(15, {}), (0, {"recovery_action": 1.0}), (0, {"remap_failed": 1.0})]
)
def test_what_one_look_says_holds_at_once(code: int, values: dict[str, float]) -> None:
    node = Watched()
    node.wait(0.1)
    node.look(code=code, **values)

    assert node.health() is Health.FAULTY


def test_an_xid_that_waits_is_decided_by_any_look() -> None:
    node = Watched()
    node.xid(48)
    node.wait(0.1)
    node.look(recovery_action=0)

    assert node.health() is Health.DEGRADED


def test_looks_that_come_somewhat_early_count() -> None:
    node = Watched()
    node.looks(3, every=4.0, temperature_celsius=95)

    assert node.health() is Health.DEGRADED


def test_how_often_is_looked_is_the_sites_to_say() -> None:
    node = Watched(rules=make_rules(look_seconds=1.0))
    node.looks(3, every=1.0, temperature_celsius=95)

    assert node.health() is Health.DEGRADED
