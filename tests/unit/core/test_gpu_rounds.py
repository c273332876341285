"""What a whole round of looks says of what it does not show: it is over, or gone for good."""

from __future__ import annotations

from lastcall.core.gpu.judge import verdicts
from lastcall.core.gpu.model import Gpu, Health, Look, WatchState
from support.judged_gpus import Watched, uuid


def test_a_fault_ends_while_another_gpu_is_left_out_because_a_call_hung_on_it() -> None:
    for state in (WatchState.UNRESPONSIVE, WatchState.CRASHED):
        node = Watched()
        node.look(0, recovery_action=1)
        node.watch(state, gpu=1)
        node.wait(30)
        node.looks(3, 0)
        node.wait(180)

        assert node.sightings == ()


def test_a_fault_does_not_end_while_nothing_is_looked_at() -> None:
    node = Watched()
    node.look(0, recovery_action=1)
    node.looks(3, 0)
    node.watch(WatchState.UNRESPONSIVE, gpu=1)
    node.wait(3600)
    assert node.sightings is None

    node.looks(2, 0)
    assert node.sightings == ()


def test_where_there_is_no_gpu_any_more_none_is_told_of() -> None:
    node = Watched(3)
    node.look(0, remap_pending=1)
    node.watch(WatchState.UNRESPONSIVE, gpu=1, call="nvmlInitWithFlags")
    node.watch(WatchState.NO_GPU)

    assert set(verdicts(node.belief)) == {""}
    assert node.health(None) is Health.HEALTHY


def test_a_gpu_that_driver_and_bus_know_no_more_of_is_forgotten_after_a_round() -> None:
    node = Watched(3)
    node.look(2, remap_pending=1)
    node.watch(WatchState.RELEASED)
    node.watch(WatchState.WATCHING)
    node.count(2, pci=2)
    node.look(0)
    node.look(1)
    assert uuid(2) in verdicts(node.belief)

    node.looks(1, 0)
    assert set(verdicts(node.belief)) == {"", uuid(0), uuid(1)}


def test_a_gpu_that_is_only_not_looked_at_is_not_forgotten() -> None:
    for count, pci in ((2, 2), (1, 2), (1, None)):
        node = Watched()
        node.watch(WatchState.UNRESPONSIVE, gpu=1)
        node.count(count, pci=pci)
        node.looks(5, 0)

        assert uuid(1) in verdicts(node.belief)


def test_a_gpu_is_not_forgotten_while_a_nameless_one_may_be_it() -> None:
    node = Watched(2)
    node.watch(WatchState.UNRESPONSIVE)
    node.watch(WatchState.WATCHING)
    node.count(2, pci=2)
    for _ in range(3):
        node.looks(1, 0)
        node.take(Look(gpu=Gpu("", 1, "", node.gpus[1].pci), at=node.now, code=28))

    assert uuid(1) in verdicts(node.belief)


def test_a_faulty_gpu_that_fell_off_the_bus_is_not_forgotten_until_an_operator_says_so() -> None:
    node = Watched()
    node.xid(79, 1)
    node.watch(WatchState.STARTING)
    node.watch(WatchState.WATCHING)
    node.count(1, pci=1)
    node.looks(5, 0)
    assert node.health(1) is Health.FAULTY

    node.repair()
    node.looks(2, 0)
    assert set(verdicts(node.belief)) == {"", uuid(0)}
    assert node.sightings == ()
