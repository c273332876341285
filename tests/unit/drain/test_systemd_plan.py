"""When a unit is told to stop."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import pytest

from lastcall.core.commands import Drain
from lastcall.core.model import Kind
from lastcall.drain.systemd.plan import Aim, aim_of, lies_in

TRAIN = "/system.slice/train.service"


def aim(
    deadline: float,
    *,
    flush_until: float | None = None,
    training: Iterable[str] = (),
    waiting: Iterable[str] = (),
) -> Aim:
    return aim_of(
        Drain(
            id="n-1",
            kind=Kind.PREEMPTION,
            reason="",
            began_at=0,
            flush_until=deadline - min(10, deadline / 3) if flush_until is None else flush_until,
            deadline=deadline,
            training=frozenset(training) | frozenset(waiting),
            waiting=frozenset(waiting),
        )
    )


def test_a_unit_that_has_flushed_is_stopped_at_once() -> None:
    assert aim(120, training=[TRAIN]).stop_at("train.service", 30) == 0


def test_a_unit_is_left_alone_while_flushes_have_their_time() -> None:
    assert aim(120, waiting=[TRAIN]).stop_at("train.service", 90) == 110


def test_a_unit_that_stops_fast_may_flush_to_the_last_moment() -> None:
    assert aim(120, waiting=[TRAIN]).stop_at("train.service", 2) == 113


def test_one_process_that_still_flushes_keeps_its_unit() -> None:
    order = aim(120, training=[f"{TRAIN}/rank0"], waiting=[f"{TRAIN}/rank1"])

    assert order.stop_at("train.service", 90) == 110


def test_a_unit_that_nobody_told_has_its_own_time_to_stop() -> None:
    assert aim(120).stop_at("other.service", 90) == 25


@pytest.mark.parametrize("stop_seconds", [150, inf])
def test_a_unit_that_needs_more_time_than_there_is_is_stopped_at_once(stop_seconds: float) -> None:
    assert aim(120).stop_at("other.service", stop_seconds) == 0


def test_no_unit_is_left_until_after_the_drain() -> None:
    order = aim(120, flush_until=120, waiting=[TRAIN])

    assert order.stop_at("train.service", 90) == order.over_at < order.end_at < 120


def test_a_short_notice_is_shared_out() -> None:
    order = aim(5, waiting=[TRAIN])

    assert order.stop_at("train.service", 90) == pytest.approx(5 - 5 / 3)
    assert (order.over_at, order.end_at) == (4.5, 4.75)


@pytest.mark.parametrize(
    "group",
    [
        "/system.slice/train.service",
        "/system.slice/train.service/rank0",
        "/machine.slice/box.scope/payload/system.slice/train.service",
        "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service",
    ],
)
def test_a_group_lies_in_its_unit_wherever_that_is(group: str) -> None:
    assert lies_in(group, "train.service")


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("/system.slice/system-train.slice/train@0.service", "train@0.service"),
        ("/system.slice/system-train.slice/train@0.service", "system-train.slice"),
        (r"/system.slice/train\x2dbig.service", r"train\x2dbig.service"),
        ("/system.slice/_memory.service", "memory.service"),
    ],
)
def test_odd_names_are_recognised(group: str, unit: str) -> None:
    assert lies_in(group, unit)


@pytest.mark.parametrize("group", ["", "/", "/system.slice/retrain.service", "/x/train.service.d"])
def test_another_group_is_not_a_units(group: str) -> None:
    assert not lies_in(group, "train.service")
