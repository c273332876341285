"""A fault that comes and goes is told of once, and is over only after a quiet time."""

from __future__ import annotations

from lastcall.core.gpu.judge import wake_at
from lastcall.core.gpu.model import Health, WatchState
from support.judged_gpus import Watched


def test_a_fault_that_comes_and_goes_for_an_hour_is_one_notice() -> None:
    node = Watched()
    told = set()
    for step in range(720):
        node.looks(1, recovery_action=1 if step % 5 == 0 else 0)
        told.add(node.reported)

    assert len(told) == 1
    node.wait(180)
    assert node.sightings == ()


def test_while_a_fault_may_come_back_what_was_reported_stands() -> None:
    node = Watched()
    node.looks(1, recovery_action=2)
    before = node.reported
    node.looks(3)
    assert node.health() is Health.HEALTHY
    over_at = node.now + 180

    assert wake_at(node.belief) == over_at
    node.wait(179)
    assert (node.sightings, node.reported) == (None, before)
    node.wait(1)
    assert node.sightings == ()
    assert wake_at(node.belief) is None


def test_another_fault_in_the_quiet_time_is_the_same_notice() -> None:
    node = Watched()
    node.look(0, code=16)
    first = node.sighting
    node.wait(600)
    node.looks(3, 0)
    node.wait(170)
    node.look(1, code=15)

    assert node.sighting.identity == first.identity
    assert node.sighting.reason == "GPU 1 (00000001): gpu_lost"


def test_a_fault_that_is_seen_again_late_is_another_though_nobody_woke_the_judge() -> None:
    node = Watched()
    node.look(code=16)
    first = node.sighting
    node.looks(3)
    node.now += 181
    node.look(code=16)

    assert node.sighting.identity != first.identity


def test_a_lesser_sign_waits_until_the_fault_is_over() -> None:
    node = Watched()
    node.look(0, code=16)
    node.looks(3, 0)
    node.look(1, remap_pending=1)
    assert node.sightings is None

    node.wait(180)
    assert node.sighting.key == "degraded"


# --- an operator's word ------------------------------------------------------------------------


def test_an_operators_word_ends_a_fault_without_a_quiet_time() -> None:
    node = Watched()
    node.look(code=16)
    node.repair()
    assert wake_at(node.belief) is None
    assert node.sightings is None

    node.rounds(2)
    assert node.sightings == ()


def test_an_operators_word_ends_a_quiet_time_that_goes_on() -> None:
    node = Watched()
    node.look(code=16)
    node.looks(3)
    node.repair()
    node.rounds(2)

    assert node.sightings == ()


def test_an_operators_word_is_not_believed_before_the_gpus_were_looked_at() -> None:
    node = Watched(3)
    node.look(0, remap_pending=1)
    node.looks(3, 2, temperature_celsius=95)
    node.look(1, recovery_action=2)
    node.repair()
    assert node.sightings is None
    node.look(2)
    node.look(0)
    assert node.sightings is None

    node.look(1, recovery_action=2)
    assert [sighting.key for sighting in node.sightings or ()] == ["faulty", "degraded"]


def test_what_a_reset_does_not_mend_is_the_same_fault_afterwards() -> None:
    node = Watched()
    node.look(0, code=16)
    first = node.sighting.identity
    node.wait(60)
    node.look(1, remap_failed=1)
    node.repair()
    node.rounds(1, remap_failed=1)

    assert node.sighting.identity == first


def test_where_no_gpu_is_left_an_operators_word_is_enough() -> None:
    node = Watched()
    node.look(code=15)
    node.watch(WatchState.NO_GPU)
    node.repair()

    assert node.sightings == ()


# --- a restart of the agent --------------------------------------------------------------------


def test_a_fault_whose_first_mark_has_ended_is_the_same_after_a_restart() -> None:
    node = Watched()
    node.look(0, code=16)
    first = node.sighting.identity
    node.wait(60)
    node.looks(1, 1, recovery_action=1)
    node.looks(3, 0)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.looks(2, 1, recovery_action=1)

    assert again.sighting.identity == first
    again.look(0, code=15)
    assert again.sighting.identity == first


def test_an_advice_whose_first_mark_has_ended_is_the_same_after_a_restart() -> None:
    node = Watched()
    node.look(0, remap_pending=1)
    first = node.sighting.identity
    node.wait(60)
    node.look(1, remap_pending=1)
    node.looks(3, 0, remap_pending=0)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.rounds(2)

    assert again.sighting.identity == first


def test_what_was_no_news_before_a_restart_is_none_afterwards() -> None:
    node = Watched(3)
    node.look(0, remap_pending=1)
    node.looks(3, 0, remap_pending=0)
    node.wait(60)
    node.look(0, remap_pending=1)
    assert node.sightings == ()
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.rounds(2)

    assert again.sightings == ()
    again.look(1, remap_pending=1)
    assert again.sighting.key == "degraded"


def test_a_fault_that_weakens_is_no_advice_before_or_after_a_restart() -> None:
    for looks_before in (0, 4):
        node = Watched()
        node.xid(79)
        node.looks(looks_before)
        again = node.restarted()
        again.watch(WatchState.WATCHING)
        again.rounds(5)
        again.wait(180)

        assert again.health() is Health.DEGRADED
        assert again.sightings == ()


def test_a_fault_of_which_nothing_is_left_has_its_quiet_time_after_a_restart() -> None:
    node = Watched()
    node.look(code=16)
    told = node.reported
    node.looks(3)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.rounds(3)
    assert (again.sightings, again.reported) == (None, told)

    again.wait(165)
    assert again.sightings == ()


def test_a_fault_that_returns_in_the_quiet_time_after_a_restart_is_the_same() -> None:
    node = Watched()
    node.look(code=16)
    first = node.sighting.identity
    node.looks(3)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.looks(1, code=16)

    assert again.sighting.identity == first


def test_a_fault_of_before_that_no_notice_stands_for_is_told_of() -> None:
    node = Watched()
    node.look(code=16)
    node.reported = ()

    assert node.restarted().sighting.key == "faulty"
