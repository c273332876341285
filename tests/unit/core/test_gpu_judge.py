"""How GPUs are judged: which evidence outweighs which, and what it takes to be well again."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.judge import EMPTY, verdicts, wake_at
from lastcall.core.gpu.model import NODE, Gpu, Health, Look, Mark, Recovery, Verdict, WatchState
from lastcall.core.gpu.news import Remembered
from lastcall.core.gpu.rules import make_rules
from support.judged_gpus import Watched, uuid

SILENT = [
    WatchState.UNRESPONSIVE,
    WatchState.CRASHED,
    WatchState.NO_DRIVER,
    WatchState.DRIVER_CHANGED,
    WatchState.ACCESS_LOST,
    WatchState.RELEASED,
]


# --- being well --------------------------------------------------------------------------------


def test_nothing_is_known_before_anything_was_heard() -> None:
    assert verdicts(EMPTY) == {}
    assert wake_at(EMPTY) is None


def test_a_gpu_is_healthy_only_once_it_was_looked_at() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.STARTING)
    assert node.health(None) is Health.UNKNOWN

    node.watch(WatchState.WATCHING)
    node.look(0)
    assert node.health(0) is Health.HEALTHY
    assert uuid(1) not in verdicts(node.belief)

    node.look(1, code=7)
    assert node.health(1) is Health.UNKNOWN


def test_the_same_look_again_changes_nothing_that_is_told() -> None:
    node = Watched()
    before = verdicts(node.belief)
    node.rounds(3)

    assert verdicts(node.belief) is before


# --- the code on a call ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "recovery", "lost"),
    [
        (15, "gpu_lost", Recovery.REBOOT, True),
        (16, "reset_required", Recovery.RESET, False),
        (11, "irq_issue", Recovery.REBOOT, False),
    ],
)
def test_some_codes_say_at_once_that_a_gpu_is_faulty(
    code: int, reason: str, recovery: Recovery, *, lost: bool
) -> None:
    node = Watched()
    node.look(code=code)

    assert node.health() is Health.FAULTY
    assert node.reasons() == (reason,)
    assert (node.verdict().recovery, node.verdict().lost) == (recovery, lost)
    assert "nvmlDeviceGetHandleByIndex_v2" in node.mark(reason).detail
    assert node.health(1) is Health.HEALTHY


@pytest.mark.parametrize(
    ("code", "reason"), [(17, "unknown_error"), (999, "unknown_error"), (28, "gpu_not_found")]
)
def test_an_unclear_code_on_one_gpu_makes_it_suspect_after_three_in_a_row(
    code: int, reason: str
) -> None:
    node = Watched()
    node.looks(2, code=code)
    node.looks(1)
    node.looks(2, code=code)
    assert node.health() is Health.HEALTHY

    node.looks(1, code=code)
    assert (node.health(), node.reasons()) == (Health.DEGRADED, (reason,))
    assert node.health(1) is Health.HEALTHY


def test_a_code_ends_after_three_good_looks() -> None:
    node = Watched()
    node.look(code=15)
    node.looks(2)
    node.looks(1, code=15)
    node.looks(2)
    assert node.health() is Health.FAULTY

    node.looks(1)
    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize("code", [27, 10, 3, 4])
def test_a_look_that_could_not_read_anything_says_nothing(code: int) -> None:
    node = Watched()
    node.look(code=15)
    node.looks(2)
    node.refuses(code, count=10)
    node.refuses(code, 1)
    assert "gpu_lost" in node.reasons()
    assert node.health(1) is Health.UNKNOWN

    node.looks(1)
    assert "gpu_lost" not in node.reasons()
    node.looks(1, 1)
    assert node.health(1) is (Health.UNKNOWN if code == 4 else Health.HEALTHY)


def test_a_gpu_of_which_nothing_may_be_read_is_named_so_until_it_may() -> None:
    node = Watched()
    node.refuses(4)
    assert (node.health(), node.reasons()) == (Health.UNKNOWN, ("no_permission",))

    node.looks(3)
    assert node.health() is Health.HEALTHY


def test_a_gpu_without_a_name_is_told_of_with_the_node_until_it_has_one() -> None:
    node = Watched()
    lost = Gpu("", 1, "", node.gpus[1].pci)
    node.take(Look(gpu=lost, at=node.now, code=15, call="nvmlDeviceGetHandleByIndex_v2"))

    assert (node.health(None), node.reasons(None)) == (Health.FAULTY, ("gpu_lost",))
    assert lost.pci in node.mark("gpu_lost", None).detail
    assert set(verdicts(node.belief)) == {"", uuid(0), uuid(1)}

    node.rounds(1)
    assert node.health(None) is Health.HEALTHY


# --- a watch that sees nothing -----------------------------------------------------------------


@pytest.mark.parametrize("state", SILENT)
def test_a_silent_watch_makes_unknown_what_was_healthy_and_keeps_what_was_not(
    state: WatchState,
) -> None:
    node = Watched(3)
    node.look(0, code=15)
    node.look(1, remap_pending=1)
    node.watch(state)
    node.wait(3600)

    assert [node.health(gpu) for gpu in range(3)] == [
        Health.FAULTY,
        Health.DEGRADED,
        Health.UNKNOWN,
    ]
    assert node.health(None) is Health.UNKNOWN

    node.watch(WatchState.WATCHING)
    assert node.health(2) is Health.UNKNOWN
    node.rounds(1)
    assert node.health(2) is Health.HEALTHY


def test_an_upgraded_driver_is_no_fault_of_a_gpu() -> None:
    node = Watched()
    node.count(driver="560.1", kernel="550.1")

    assert (node.health(None), node.reasons(None)) == (Health.HEALTHY, ("driver_upgrade_pending",))
    assert node.verdict(None).recovery is Recovery.NONE
    assert node.sightings == ()

    node.watch(WatchState.DRIVER_CHANGED)
    assert node.health(None) is node.health() is Health.UNKNOWN
    node.watch(WatchState.WATCHING)
    node.count()
    assert node.reasons(None) == ()


def test_too_few_gpus_are_a_fault_of_the_node_on_the_second_look() -> None:
    node = Watched()
    node.count(1, pci=2)
    node.count(2, pci=2)
    node.count(1, pci=2)
    assert node.health(None) is Health.HEALTHY

    node.count(1, pci=2)
    assert (node.health(None), node.reasons(None)) == (Health.FAULTY, ("gpu_missing",))
    assert node.verdict(None).recovery is Recovery.REBOOT

    node.count(2, pci=2)
    node.count(2, pci=2)
    assert node.health(None) is Health.FAULTY
    node.count(2, pci=2)
    assert node.health(None) is Health.HEALTHY


def test_a_driver_that_has_no_gpu_yet_has_five_minutes_to_find_them() -> None:
    node = Watched(rules=make_rules(expected=2))
    node.count(0, pci=2)
    node.wait(60)
    node.count(0, pci=2)
    assert (node.health(None), node.reasons(None)) == (Health.UNKNOWN, ())

    node.wait(239)
    assert node.reasons(None) == ()
    node.wait(1)
    assert (node.health(None), node.reasons(None)) == (Health.FAULTY, ("gpu_missing",))

    for _ in range(3):
        node.count(2, pci=2)
    assert node.health(None) is Health.HEALTHY


def test_gpus_that_the_driver_finds_within_five_minutes_were_never_missing() -> None:
    node = Watched(rules=make_rules(expected=2))
    node.count(0, pci=2)
    node.wait(200)
    node.count(2, pci=2)
    node.wait(600)

    assert node.health(None) is Health.HEALTHY


def test_how_many_gpus_there_should_be_is_the_sites_to_say() -> None:
    few, many = Watched(rules=make_rules(expected=2)), Watched(rules=make_rules(expected=4))
    for node in (few, many):
        node.count(2, pci=8)
        node.count(2, pci=8)

    assert few.health(None) is Health.HEALTHY
    assert many.reasons(None) == ("gpu_missing",)


# --- a restart of the agent --------------------------------------------------------------------


def test_after_a_restart_a_mark_stands_until_looks_speak_against_it() -> None:
    node = Watched(4, action=None)
    node.look(0, code=15)
    node.look(1, remap_failed=1)
    node.xid(109, 2)
    again = node.restarted()
    assert [again.reasons(gpu) for gpu in range(4)] == [
        ("gpu_lost",),
        ("row_remap_failed",),
        ("xid_109",),
        (),
    ]
    assert again.health(3) is Health.UNKNOWN

    again.watch(WatchState.WATCHING)
    again.rounds(2, remap_failed=0)
    assert [again.health(gpu) for gpu in range(3)] == [Health.FAULTY] * 3
    again.rounds(1, remap_failed=0)
    assert [again.health(gpu) for gpu in range(3)] == [
        Health.HEALTHY,
        Health.HEALTHY,
        Health.FAULTY,
    ]


@pytest.mark.parametrize("pci", ["", "00000001:01:00.0"])
def test_a_gpu_that_cannot_be_named_any_more_is_the_only_silent_one_in_its_place(pci: str) -> None:
    node = Watched()
    node.look(1, code=15)
    again = node.restarted()
    again.watch(WatchState.WATCHING)
    again.look(0)
    place = pci and node.gpus[1].pci
    again.take(Look(gpu=Gpu("", 1, "", place), at=again.now, code=15))

    assert (again.reasons(1), again.reasons(None)) == (("gpu_lost",), ())
    assert again.verdict(1).lost


def test_a_nameless_gpu_in_a_place_of_its_own_is_none_that_is_known() -> None:
    again = Watched().restarted()
    again.watch(WatchState.WATCHING)
    again.take(Look(gpu=Gpu("", 1, "", "00000000:77:00.0"), at=again.now, code=15))

    assert (again.reasons(1), again.reasons(None)) == ((), ("gpu_lost",))


def test_what_is_remembered_does_not_outweigh_what_was_seen_since() -> None:
    node = Watched()
    node.look(remap_pending=1)
    began = node.mark("row_remap_pending").since
    old = Mark(reason="row_remap_pending", health=Health.DEGRADED, since=1.0)
    node.take(Remembered(node.now, {uuid(0): (node.gpus[0], Verdict(Health.DEGRADED, (old,)))}))

    assert node.mark("row_remap_pending").since == began


def test_marks_of_the_node_and_of_an_older_version_are_remembered_too() -> None:
    marks = (
        Mark(reason="gpu_missing", health=Health.FAULTY, recovery=Recovery.REBOOT),
        Mark(reason="xid_79", health=Health.FAULTY, recovery=Recovery.REBOOT, xid=79),
    )
    odd = Mark(reason="of_an_older_version", health=Health.DEGRADED)
    gone = Mark(reason="unknown_action", health=Health.FAULTY, recovery=Recovery.REBOOT)
    node = Watched(begun=False)
    node.take(
        Remembered(
            node.now,
            {
                "": (NODE, Verdict(Health.FAULTY, marks)),
                uuid(0): (node.gpus[0], Verdict(Health.FAULTY, (odd, gone))),
            },
        )
    )
    assert set(node.reasons(None)) == {"gpu_missing", "xid_79"}
    assert set(node.reasons(0)) == {"unknown_action", "of_an_older_version"}

    node.watch(WatchState.WATCHING)
    node.rounds(3)
    assert node.health(0) is Health.HEALTHY


def test_repaired_gpus_are_looked_at_anew_and_what_no_reset_repairs_stands() -> None:
    node = Watched(3, action=None)
    node.look(0, ecc_uncorrected=2)
    node.look(1, remap_failed=1)
    node.xid(95, 2)
    node.repair()

    assert [node.health(gpu) for gpu in range(3)] == [
        Health.UNKNOWN,
        Health.FAULTY,
        Health.UNKNOWN,
    ]
    node.rounds(1, ecc_uncorrected=0)
    assert node.health(0) is node.health(2) is Health.HEALTHY
    node.look(0, ecc_uncorrected=2)
    assert node.health(0) is Health.FAULTY
