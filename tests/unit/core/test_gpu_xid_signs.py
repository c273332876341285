"""What becomes of XIDs: what is asked of the driver, how long they count, and which do not."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.judge import verdicts, wake_at
from lastcall.core.gpu.model import Health, Look, Recovery, WatchState
from support.judged_gpus import Watched, uuid


def test_an_xid_waits_a_second_for_the_look_that_reads_the_recovery_action() -> None:
    node = Watched()
    node.xid(48)
    assert node.health() is Health.HEALTHY
    assert wake_at(node.belief) == node.now + 1

    node.wait(0.2)
    node.look(recovery_action=2)
    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)
    assert set(node.reasons()) == {"recovery_action", "xid_48"}
    assert wake_at(node.belief) is None


def test_an_xid_after_which_the_driver_needs_no_recovery_only_degrades() -> None:
    node = Watched()
    node.xid(95)
    node.wait(0.2)
    node.look()

    assert (node.health(), node.reasons()) == (Health.DEGRADED, ("xid_95",))
    assert not node.verdict().lost


def test_a_look_from_before_the_xid_does_not_answer_for_it() -> None:
    node = Watched()
    node.xid(48)
    node.take(Look(gpu=node.gpus[0], at=node.now - 0.1, values={"recovery_action": 0}))
    assert node.health() is Health.HEALTHY

    node.wait(1)
    assert node.health() is Health.FAULTY


def test_where_no_look_comes_the_number_decides_after_a_second() -> None:
    node = Watched()
    node.xid(48)
    node.wait(0.9)
    assert node.health() is Health.HEALTHY

    node.wait(0.1)
    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.RESET)


def test_where_the_look_cannot_read_the_action_the_number_decides() -> None:
    for code in (0, 999):
        node = Watched()
        node.xid(48)
        node.action = None
        node.look(code=code)

        assert node.reasons() == ("xid_48",)
        assert node.health() is Health.FAULTY


def test_on_an_old_driver_the_number_decides_at_once_and_programs_faults_are_still_none() -> None:
    node = Watched(action=None)
    node.xid(95, 0)
    node.xid(31, 1)
    node.xid(13, 1)

    assert (node.health(0), node.verdict(0).lost) == (Health.FAULTY, True)
    assert node.health(1) is Health.HEALTHY


@pytest.mark.parametrize("number", [79, 119, 120])
def test_after_some_xids_the_driver_hangs_and_is_not_asked(number: int) -> None:
    node = Watched()
    node.xid(number)

    assert node.health() is Health.FAULTY
    assert node.mark(f"xid_{number}").xid == number
    assert node.verdict().lost == (number == 79)


def test_a_watched_xid_ends_after_three_good_looks_and_three_quiet_minutes() -> None:
    node = Watched()
    node.xid(63)
    node.rounds(20)
    node.xid(63)
    node.rounds(35)
    assert node.health() is Health.DEGRADED

    node.rounds(1)
    assert node.health() is Health.HEALTHY


def test_a_fault_by_number_ends_only_by_what_repairs_it_where_the_action_cannot_be_read() -> None:
    node = Watched(action=None)
    node.xid(109)
    node.rounds(1000)
    assert node.health() is Health.FAULTY

    node.repair()
    assert node.health() is Health.UNKNOWN
    node.rounds(1)
    assert node.health() is Health.HEALTHY


def test_a_fault_by_number_is_one_no_more_once_the_driver_has_needed_nothing_three_times() -> None:
    node = Watched()
    node.xid(119)
    node.looks(1)
    node.looks(1, code=999)
    node.looks(2)
    assert node.health() is Health.FAULTY
    began = node.mark("xid_119").since

    node.looks(1)
    assert node.health() is Health.DEGRADED
    assert node.mark("xid_119").since == began

    node.rounds(40)
    assert node.health() is Health.HEALTHY


def test_what_an_xid_is_follows_the_recovery_action_until_that_is_none() -> None:
    node = Watched()
    node.xid(48)
    node.look(recovery_action=3)
    assert node.mark("xid_48").health is Health.DEGRADED

    node.looks(1, recovery_action=2)
    node.looks(2)
    node.looks(1, recovery_action=1)
    assert node.mark("xid_48").recovery is Recovery.RESET
    node.xid(48)
    assert wake_at(node.belief) is None

    node.looks(3)
    assert node.mark("xid_48").health is Health.DEGRADED
    node.looks(40)
    assert node.health() is Health.HEALTHY


def test_a_fault_by_number_stands_while_the_driver_wants_anything() -> None:
    node = Watched()
    node.xid(119)
    node.looks(2)
    node.looks(1, recovery_action=5)
    node.looks(2)

    assert node.mark("xid_119").health is Health.FAULTY


def test_the_same_xid_again_asks_the_driver_again_and_changes_nothing_where_that_is_content() -> (
    None
):
    node = Watched()
    node.xid(48)
    node.look()
    mark = node.mark("xid_48")
    node.wait(30)
    node.xid(48)
    assert wake_at(node.belief) == node.now + 1

    node.look()
    assert node.mark("xid_48") == mark
    assert wake_at(node.belief) is None


def test_counts_of_programs_faults_are_dropped_with_time() -> None:
    node = Watched()
    node.xid(43)
    node.rounds(110)
    assert 43 in node.belief.gpus[uuid(0)].xids

    node.rounds(20)
    assert node.belief.gpus[uuid(0)].xids == {}


def test_an_xid_that_had_calmed_down_and_comes_again_is_judged_again() -> None:
    node = Watched()
    node.xid(119)
    node.looks(4)
    assert node.health() is Health.DEGRADED

    node.xid(119)
    assert node.health() is Health.FAULTY


def test_a_gpu_that_cannot_be_initialised_again_wants_more_than_a_reset() -> None:
    node = Watched(action=None)
    node.xid(143)
    assert node.verdict().recovery is Recovery.RESET

    node.wait(600)
    node.xid(143)
    assert node.verdict().recovery is Recovery.REBOOT


def test_more_of_the_same_do_not_prolong_the_wait_for_the_driver() -> None:
    node = Watched()
    node.xid(143)
    node.wait(0.5)
    node.xid(143)
    node.wait(0.5)

    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)


def test_two_witnesses_of_the_same_errors_do_not_make_them_more() -> None:
    node = Watched()
    for _ in range(2):
        node.xid(43)
        node.xid(43, text="NVRM: Xid (PCI:0000:00:00): 43, pid=7, name=python")
        node.wait(60)
    assert node.health() is Health.HEALTHY

    node.xid(43)
    assert node.reasons() == ("xid_43",)


def test_errors_that_a_drain_leaves_behind_say_nothing_and_others_still_do() -> None:
    node = Watched(action=None)
    node.looks(1, nvlink_replays=5, nvlink_crc_errors=0)
    node.expect_noise(120)
    node.xid(43, count=50)
    node.xid(45, count=50)
    node.looks(3, nvlink_replays=900, nvlink_crc_errors=1_000_000)
    assert node.health() is Health.HEALTHY

    node.xid(48)
    assert node.reasons() == ("xid_48",)

    node.wait(120)
    node.look(1, nvlink_replays=900)
    node.xid(43, 1, count=3)
    node.looks(3, nvlink_replays=900, nvlink_crc_errors=1_000_000)
    assert node.reasons() == ("xid_48",)
    assert node.reasons(1) == ("xid_43",)


def test_the_recovery_action_in_the_kernels_line_counts_where_it_cannot_be_read() -> None:
    line = "NVRM: Xid (PCI:0000:00:00): 154, GPU recovery action changed from {} to {}"
    old, new = Watched(action=None), Watched(action=0)
    for node in (old, new):
        node.xid(154, text=line.format("0x0 (None)", "0x2 (Node Reboot Required)"))
        node.wait(0.2)
        node.look()
    assert (old.health(), old.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)
    assert new.health() is Health.HEALTHY

    old.xid(154, text=line.format("0x2 (Node Reboot Required)", "0x0 (None)"))
    assert old.health() is Health.HEALTHY


def test_an_error_of_no_certain_gpu_is_held_against_all_of_them_together() -> None:
    node = Watched()
    node.xid(63, None)
    assert (node.health(None), node.reasons(None)) == (Health.DEGRADED, ("xid_63",))
    assert node.health() is Health.HEALTHY

    for _ in range(4):
        node.wait(60)
        node.count()
    assert node.health(None) is Health.HEALTHY


def test_no_more_numbers_are_kept_than_can_matter() -> None:
    node = Watched()
    for number in range(2000, 4000):
        node.xid(number)

    assert len(node.belief.gpus[uuid(0)].xids) < 100
    assert node.health() is Health.DEGRADED


# --- what came before the watch ------------------------------------------------------------------


def test_an_old_xid_says_nothing_once_the_driver_needs_no_recovery() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.xid(79, past=7200)
    node.xid(63, past=7200)
    assert verdicts(node.belief)[uuid(0)][1].health is Health.UNKNOWN

    node.look()
    assert node.health() is Health.HEALTHY


def test_what_came_just_before_the_watch_counts_like_what_comes_now() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.xid(48, past=30)
    node.xid(154, past=30, text="GPU recovery action changed from 0x0 to 0x1")
    node.xid(43, past=30, count=2)
    node.look()
    assert node.reasons() == ("xid_48",)
    assert node.health() is Health.DEGRADED

    node.xid(43)
    assert set(node.reasons()) == {"xid_43", "xid_48"}


def test_what_is_known_of_now_is_newer_than_what_the_log_still_has() -> None:
    node = Watched(action=None)
    node.xid(95)
    verdict = node.verdict()
    node.xid(95, past=3600)
    node.rounds(3)

    assert node.verdict() == verdict


def test_an_old_xid_counts_where_the_driver_still_wants_a_recovery() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.xid(48, past=7200)
    node.look(recovery_action=1)

    assert set(node.reasons()) == {"recovery_action", "xid_48"}


def test_an_old_fault_degrades_where_nobody_can_say_whether_it_was_repaired() -> None:
    node = Watched(begun=False, action=None)
    node.watch(WatchState.WATCHING)
    node.xid(109, 0, past=7200)
    node.xid(31, 0, past=7200)
    node.xid(109, 1, past=60)
    node.rounds(100)

    assert (node.health(0), node.reasons(0)) == (Health.DEGRADED, ("xid_109",))
    assert node.health(1) is Health.FAULTY
    node.repair()
    node.rounds(1)
    assert node.health(0) is node.health(1) is Health.HEALTHY


def test_an_old_xid_counts_by_its_number_where_the_gpu_hangs() -> None:
    node = Watched(begun=False)
    node.watch(WatchState.WATCHING)
    node.xid(119, past=20)
    node.watch(WatchState.UNRESPONSIVE, gpu=0, call="nvmlDeviceGetTemperature")

    assert node.health() is Health.FAULTY
