"""What of the GPUs' verdicts is reported: one fault, or one good moment to save, at a time."""

from __future__ import annotations

from lastcall.core.gpu.judge import EMPTY, sightings
from lastcall.core.gpu.model import WatchState
from lastcall.core.model import Action, Kind, Sighting, Stance
from lastcall.core.policy import Policy
from support.judged_gpus import Watched


def test_healthy_gpus_are_a_report_of_nothing() -> None:
    assert Watched().sightings == ()


def test_a_fault_is_a_notice_and_says_which_gpu_and_why() -> None:
    node = Watched()
    node.look(1, code=15)

    assert node.sighting == Sighting(
        source="gpu",
        scope="health",
        key="faulty",
        kind=Kind.GPU_FAULT,
        action=Action.REBOOT,
        code="faulty",
        identity=node.sighting.identity,
        reason="GPU 1 (00000001): gpu_lost",
        cancellable=True,
    )
    assert Policy().respond(node.sighting).stance is Stance.FLUSH


def test_the_action_is_what_the_worst_of_the_faults_takes() -> None:
    node = Watched(3, action=None)
    actions = []
    node.look(0, code=16)
    actions.append(node.sighting.action)
    node.look(1, code=15)
    actions.append(node.sighting.action)
    node.look(2, remap_failed=1)
    actions.append(node.sighting.action)

    assert actions == [Action.NONE, Action.REBOOT, Action.TERMINATE]


def test_a_fault_of_the_node_is_named_so() -> None:
    node = Watched()
    node.count(1, pci=2)
    node.count(1, pci=2)

    assert node.sighting.reason == "node: gpu_missing"


def test_faults_that_begin_close_together_are_one_until_the_last_is_over() -> None:
    node = Watched()
    node.look(0, code=15)
    first = node.sighting
    node.wait(100)
    node.look(1, code=16)
    node.looks(3, 0)
    both_later = node.sighting
    node.looks(3, 1)
    node.wait(180)
    assert node.sightings == ()

    assert first.identity == both_later.identity
    assert both_later.reason == "GPU 1 (00000001): reset_required"


def test_a_fault_that_begins_long_after_another_is_told_anew_though_that_one_stands() -> None:
    node = Watched()
    node.look(0, code=15)
    first = node.sighting
    node.wait(600)
    node.look(1, code=16)
    second = node.sighting
    node.looks(3, 1)

    assert second.identity != first.identity
    assert node.sighting.identity == second.identity
    assert node.sighting.reason == "GPU 0 (00000000): gpu_lost"


def test_a_fault_that_is_over_and_comes_again_is_another() -> None:
    node = Watched()
    node.look(1, code=16)
    first = node.sighting
    node.looks(3, 1)
    node.wait(180)
    node.look(1, code=16)

    assert node.sighting.identity != first.identity


def test_what_is_no_fault_is_a_good_moment_to_save() -> None:
    node = Watched()
    node.look(remap_pending=1)

    assert (node.sighting.key, node.sighting.code) == ("degraded", "degraded")
    assert node.sighting.action is Action.NONE
    assert node.sighting.reason == "GPU 0 (00000000): row_remap_pending"
    assert Policy().respond(node.sighting).stance is Stance.ADVISE


def test_a_heat_wave_over_eight_gpus_is_one_good_moment() -> None:
    node = Watched(8)
    seen = set()
    for gpu in range(8):
        node.looks(3, gpu, temperature_celsius=95)
        seen.add(node.sighting.identity)

    assert len(seen) == 1
    assert len(node.sighting.reason) <= 200
    assert node.sighting.reason.endswith("…")


def test_another_sign_much_later_is_another_good_moment() -> None:
    node = Watched()
    node.look(0, remap_pending=1)
    first = node.sighting.identity
    node.wait(170)
    node.look(0, codes={"inforom": 14})
    joined = node.sighting.identity
    node.wait(190)
    node.look(1, remap_pending=1)

    assert first == joined != node.sighting.identity


def test_a_sign_that_comes_and_goes_is_not_told_of_again_for_half_an_hour() -> None:
    node = Watched()
    node.look(remap_pending=1)
    first = node.sighting.identity
    node.looks(3, remap_pending=0)
    assert node.sightings == ()

    node.wait(1000)
    node.looks(1, remap_pending=1)
    assert node.sightings == ()
    node.looks(3, remap_pending=0)

    node.wait(1900)
    node.look(remap_pending=1)
    assert node.sighting.identity != first


def test_a_fault_takes_the_place_of_an_advice_and_what_is_left_of_it_is_none() -> None:
    node = Watched()
    node.xid(119)
    assert node.sighting.key == "faulty"

    node.looks(3)
    node.wait(180)
    assert node.sightings == ()

    node.look(1, remap_pending=1)
    advice = node.sighting
    assert advice.key == "degraded"
    node.look(0, code=16)
    fault, beside_it = node.sightings or ()
    assert (fault.key, beside_it) == ("faulty", advice)


def test_an_advice_that_nobody_was_given_before_a_fault_is_not_given_for_it_either() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.look(0, remap_pending=1)
    node.wait(1)
    node.look(1, code=15)
    node.rounds(2)
    node.look(1, code=15)

    assert node.sighting.key == "faulty"


def test_what_degrades_a_gpu_while_a_fault_stands_waits_until_that_is_over() -> None:
    node = Watched()
    node.look(1, code=15)
    node.wait(400)
    node.look(0, remap_pending=1)
    assert node.sighting.key == "faulty"

    node.looks(3, 1)
    node.wait(180)
    assert node.sighting.key == "degraded"


def test_another_sign_while_a_fault_stands_leaves_the_advice_before_it_as_it_was() -> None:
    node = Watched(3)
    node.look(0, remap_pending=1)
    advice = node.sighting
    node.look(1, code=15)
    node.wait(400)
    node.look(2, remap_pending=1)

    _, beside_it = node.sightings or ()
    assert beside_it.identity == advice.identity


def test_an_advice_beside_a_fault_is_still_there_after_a_restart() -> None:
    node = Watched()
    node.look(0, remap_pending=1)
    node.look(1, remap_failed=1)
    again = node.restarted()
    assert again.sightings == node.sightings

    again.watch(WatchState.WATCHING)
    again.rounds(2)
    assert again.sightings == node.sightings


# --- when too little is known ------------------------------------------------------------------


def test_before_a_whole_round_nothing_can_be_said_to_be_over() -> None:
    node = Watched(begun=False)
    assert sightings(EMPTY) is None
    node.watch(WatchState.WATCHING)
    node.look(0)
    node.look(1)
    assert node.sightings is None

    node.look(0)
    assert node.sightings == ()


def test_before_a_whole_round_a_fault_is_told_of_and_a_lesser_sign_waits() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.look(0, remap_pending=1)
    assert node.sightings is None

    node.look(1, code=15)
    assert node.sighting.key == "faulty"


def test_a_silent_watch_neither_withdraws_nor_hides_anything() -> None:
    node = Watched()
    node.watch(WatchState.CRASHED)
    assert node.sightings is None

    node.xid(79)
    assert node.sighting.key == "faulty"


def test_what_stood_before_the_watch_fell_silent_is_reported_as_before() -> None:
    for values in ({"remap_pending": 1.0}, {"remap_failed": 1.0}):
        node = Watched()
        node.look(**values)
        before = node.sightings
        node.watch(WatchState.RELEASED)
        node.wait(600)

        assert node.sightings == before


def test_an_occurrence_is_the_same_after_a_restart_of_the_agent() -> None:
    for values in ({"remap_pending": 1.0}, {"remap_failed": 1.0}):
        node = Watched()
        node.look(**values)
        again = node.restarted()
        assert again.sightings is None or again.sightings == node.sightings

        again.watch(WatchState.WATCHING)
        again.rounds(2)
        assert again.sightings == node.sightings


def test_after_a_restart_two_good_moments_are_still_two() -> None:
    node = Watched()
    node.look(0, remap_pending=1)
    node.wait(400)
    node.look(1, remap_pending=1)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.rounds(2)

    assert again.sighting.identity == node.sighting.identity


def test_an_operators_word_that_all_is_repaired_ends_the_fault() -> None:
    node = Watched(action=None)
    node.xid(109)
    node.repair()
    node.rounds(2)

    assert node.sightings == ()
