"""Faults that others reported of their GPU health checks: each must come out right here."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.judge import verdicts
from lastcall.core.gpu.model import Health, Recovery, WatchState
from lastcall.core.gpu.rules import XidOverride, make_rules
from lastcall.core.gpu.signal_rules import SIGNALS, Check
from support.judged_gpus import PCIE, SXM, Watched, uuid

FABRIC_MANAGER_SECONDS = 600


def test_a_call_that_hangs_is_told_once_with_gpu_and_call_and_a_good_answer_ends_it() -> None:
    """NVSentinel issue 1576, pull request 1574."""
    node = Watched()
    node.watch(WatchState.UNRESPONSIVE, gpu=1, call="nvmlDeviceGetTemperature")
    assert (node.health(1), node.reasons(1)) == (Health.UNKNOWN, ("driver_unresponsive",))
    mark = node.mark("driver_unresponsive", 1)
    assert "nvmlDeviceGetTemperature" in mark.detail
    assert node.verdict(1).recovery is Recovery.REBOOT
    assert node.reasons(0) == ()

    node.wait(60)
    node.watch(WatchState.UNRESPONSIVE, gpu=1, call="nvmlDeviceGetTemperature")
    assert node.mark("driver_unresponsive", 1) == mark

    again = node.restarted()
    assert again.mark("driver_unresponsive", 1) == mark
    again.watch(WatchState.WATCHING)
    again.look(0)
    assert again.reasons(1) == ("driver_unresponsive",)
    again.look(1)
    assert again.health(1) is Health.HEALTHY


def test_a_call_that_hangs_on_no_certain_gpu_is_told_of_the_node() -> None:
    """NVSentinel issue 1576: the hang may be before any GPU is named."""
    node = Watched()
    node.watch(WatchState.UNRESPONSIVE, call="nvmlInitWithFlags")
    assert node.reasons(None) == ("driver_unresponsive",)

    node.watch(WatchState.WATCHING)
    assert node.health(None) is Health.HEALTHY


def test_a_hang_that_the_kernel_reports_is_told_in_its_words() -> None:
    node = Watched()
    node.watch(WatchState.UNRESPONSIVE, detail="no calls into the driver are made: XID 119")

    detail = node.mark("driver_unresponsive", None).detail
    assert detail == "no calls into the driver are made: XID 119"


def test_thousands_of_corrected_errors_a_second_degrade_without_any_xid() -> None:
    """NVSentinel issue 1748, DCGM issue 313."""
    node = Watched()
    node.looks(1, ecc_corrected=0)
    node.looks(1, ecc_corrected=23_000)
    assert (node.health(), node.reasons()) == (Health.DEGRADED, ("ecc_corrected_rate",))

    node.watch(WatchState.UNRESPONSIVE, gpu=0, call="nvmlDeviceGetFieldValues")
    assert node.health() is Health.DEGRADED


@pytest.mark.parametrize("number", range(144, 151))
def test_an_nvlink_error_is_not_fatal_by_its_number(number: int) -> None:
    """NVSentinel issue 1357."""
    line = f"NVRM: Xid (PCI:0000:01:00): {number}, RLW_RXPIPE {{}} XC0 i0 Link 05 (0x4 0x8)"
    node = Watched(5)
    node.xid(number, 0)
    node.xid(number, 1, text=line.format("Nonfatal"))
    node.xid(number, 2, text=line.format("Fatal"))
    node.xid(number, 3)
    node.xid(number, 4)
    node.wait(0.3)
    node.look(0)
    node.look(3, recovery_action=1)
    node.xid(number, 4, text=line.format("Fatal"))

    assert [node.health(gpu) for gpu in range(5)] == [
        Health.DEGRADED,
        Health.DEGRADED,
        Health.FAULTY,
        Health.FAULTY,
        Health.FAULTY,
    ]


def test_a_fatal_line_is_heard_after_an_event_that_could_not_say_so() -> None:
    """NVSentinel issue 1357: NVML's event comes first, and has the number alone."""
    node = Watched(action=None)
    node.xid(145)
    assert node.health() is Health.DEGRADED

    node.wait(0.01)
    node.xid(145, text="NVRM: Xid (PCI:0000:01:00): 145, RLW_REMAP Fatal XC1 i0 Link 01")
    assert node.health() is Health.FAULTY


def test_a_hundred_thousand_of_the_same_error_are_one_decision_and_take_no_room() -> None:
    """NVSentinel issue 1120."""
    node = Watched(action=None)
    node.xid(95)
    verdict = node.verdict()
    at_first = len(repr(node.belief))
    for _ in range(1000):
        node.now += 0.1
        for _ in range(100):
            node.xid(95)

    assert node.verdict() is verdict
    assert len(repr(node.belief)) < at_first + 100


def test_the_same_for_errors_whose_number_matters() -> None:
    """NVSentinel issue 1120."""
    node = Watched()
    for _ in range(3000):
        node.now += 0.5
        node.xid(43)

    assert node.reasons() == ("xid_43",)
    assert len(node.belief.gpus[uuid(0)].xids[43].runs) < 50


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from",
        "154, GPU recovery action changed from 0x0 () to 0x99999999",
        "to 0xzz to -1 to 99999999999999999999",
        "fatal nonfatal FATAL \x00 ☃ " * 50,
    ],
)
def test_no_line_of_the_kernel_is_too_odd(text: str) -> None:
    """NVSentinel pull request 1440."""
    for action in (None, 0):
        node = Watched(action=action)
        for number in (79, 145, 154, 99999):
            node.xid(number, text=text)
        node.rounds(3)

        assert len(node.mark("xid_79").detail) < 300


@pytest.mark.parametrize("name", [SXM, PCIE, "NVIDIA GB300"])
def test_an_optional_fabric_service_that_is_not_there_is_no_fault(name: str) -> None:
    """NVSentinel issue 1471, aicr issue 2641: IMEX is not ready, and nothing needs it."""
    not_ready = 0x8000 | 0x2000 | 0x400
    node = Watched(1, name=name)
    node.rounds(200, fabric_state=1, nvlink_present=18, nvlink_active=0)
    node.rounds(20, fabric_state=3, fabric_status=0, fabric_mask=not_ready)

    assert node.health() is Health.HEALTHY


def test_a_driver_that_is_being_installed_is_waited_for_and_one_that_never_comes_is_not() -> None:
    """NVSentinel issues 1423 and 1425, pull request 1034."""
    node = Watched(begun=False, rules=make_rules(expected=8))
    node.watch(WatchState.NO_DRIVER)
    for _ in range(9):
        node.wait(30)
        node.watch(WatchState.STARTING)
        node.watch(WatchState.NO_DRIVER)
    assert node.health(None) is Health.UNKNOWN

    node.wait(30)
    assert (node.health(None), node.reasons(None)) == (Health.DEGRADED, ("driver_missing",))
    assert node.verdict(None).recovery is Recovery.NONE

    node.watch(WatchState.STARTING)
    assert node.health(None) is Health.DEGRADED
    node.watch(WatchState.WATCHING)
    assert node.health(None) is Health.HEALTHY


def test_a_driver_that_nobody_expects_may_be_missing_for_ever() -> None:
    """NVSentinel issue 1423."""
    node = Watched(begun=False)
    node.watch(WatchState.NO_DRIVER)
    node.wait(86400)

    assert node.health(None) is Health.UNKNOWN
    assert node.reasons(None) == ()


def test_a_fabric_that_a_gpu_never_joins_is_told_of() -> None:
    """NVSentinel issue 883: the fabric manager was down for 20 days."""
    for state in (1, 2):
        node = Watched(8)
        node.rounds(FABRIC_MANAGER_SECONDS // 5, fabric_state=state, nvlink_present=18)
        assert node.health() is Health.HEALTHY

        node.rounds(1, fabric_state=state, nvlink_present=18)
        assert (node.health(), node.reasons()) == (Health.DEGRADED, ("fabric_not_joined",))


@pytest.mark.parametrize(
    ("signal", "hot", "cool"), [("temperature_celsius", 95, 60), ("margin_celsius", 2, 20)]
)
def test_one_hot_sample_is_no_fault(signal: str, hot: float, cool: float) -> None:
    """NVSentinel 1.27.0 release notes, issues 1980 and 1944."""
    node = Watched()
    for value in (hot, hot, cool, hot, cool, hot, hot):
        node.looks(1, **{signal: value})
        assert node.health() is Health.HEALTHY

    node.looks(1, **{signal: hot})
    assert node.health() is Health.DEGRADED


@pytest.mark.parametrize("state", [WatchState.NO_DRIVER, WatchState.CRASHED])
def test_a_watch_that_cannot_begin_leaves_no_gpu_healthy(state: WatchState) -> None:
    """k8s-device-plugin issues 1640 and 2037, pull request 1641."""
    node = Watched()
    node.watch(state)

    assert {verdict.health for _, verdict in verdicts(node.belief).values()} == {Health.UNKNOWN}


@pytest.mark.parametrize("action", [1, 2, 4, 6, 7, 99])
def test_a_gpu_that_answers_is_not_well_while_the_driver_wants_it_reset(action: int) -> None:
    """HAMi pull request 2213."""
    node = Watched()
    node.look(code=16)
    node.looks(20, recovery_action=action)
    assert node.health() is Health.FAULTY
    assert "reset_required" in node.reasons()

    node.looks(3)
    assert node.health() is Health.HEALTHY


@pytest.mark.parametrize(
    "values",
    [{"ecc_uncorrected": 1}, {"remap_failed": 1}, {"recovery_action": 1}, {"retired_dbe": 70}],
)
def test_what_is_wrong_when_the_watch_begins_is_wrong(values: dict[str, float]) -> None:
    """k8s-device-plugin issues 111 and 267."""
    node = Watched(begun=False, action=None)
    node.watch(WatchState.WATCHING)
    node.look(**{"retired_sbe": 0, **values})

    assert node.health() is Health.FAULTY


def test_one_lost_gpu_is_one_lost_gpu() -> None:
    """Nvgpu issue 6, gpustat issue 125, gpud issue 604."""
    node = Watched()
    node.look(1, code=15)
    node.look(0)

    assert [node.health(gpu) for gpu in (0, 1)] == [Health.HEALTHY, Health.FAULTY]


def test_a_machine_without_gpus_is_well() -> None:
    """Dask issue 7746, distributed issues 4873 and 4965."""
    node = Watched(begun=False)
    node.watch(WatchState.NO_GPU)

    assert set(verdicts(node.belief)) == {""}
    assert node.health(None) is Health.HEALTHY
    assert node.sightings == ()


def test_a_machine_whose_gpus_are_expected_is_not_well_without_them() -> None:
    """The other side of dask issue 7746."""
    node = Watched(begun=False, rules=make_rules(expected=1))
    node.watch(WatchState.NO_GPU)
    node.wait(299)
    assert node.health(None) is Health.UNKNOWN

    node.wait(1)
    assert node.reasons(None) == ("gpu_missing",)


def test_a_lost_gpu_is_not_forgotten_because_none_is_counted_any_more() -> None:
    """Dask issue 7746 must not hide that the last GPU fell off the bus."""
    node = Watched()
    node.look(0, code=15)
    node.watch(WatchState.NO_GPU)

    assert set(verdicts(node.belief)) == {"", uuid(0)}
    assert node.health(0) is Health.FAULTY


@pytest.mark.parametrize("code", [2, 3, 13, 14, 25, 26, 27, 10, 999])
def test_a_signal_that_cannot_be_read_drops_itself_alone(code: int) -> None:
    """Distributed issues 5342 and 5628."""
    signals = sorted({name for rule in SIGNALS for name in rule.reads} - {"inforom"})
    node = Watched(len(signals))
    for _ in range(4):
        node.wait(5)
        for gpu, signal in enumerate(signals):
            node.look(gpu, codes={signal: code}, temperature_celsius=50, utilization_ratio=1.0)

    assert {node.health(gpu) for gpu in range(len(signals))} == {Health.HEALTHY}


def test_one_call_that_always_fails_for_unknown_reasons_says_nothing_of_the_gpu() -> None:
    """Distributed issue 5342: the look has the code, and all other figures."""
    node = Watched()
    for _ in range(10):
        node.wait(5)
        node.look(code=999, temperature_celsius=50, call_seconds_max=0.01)
    assert node.health() is Health.HEALTHY

    node.looks(3, temperature_celsius=95)
    assert node.reasons() == ("temperature",)


def test_a_gpu_that_may_not_be_read_is_not_unhealthy() -> None:
    """container-toolkit issues 842 and 1363, gpu-feature-discovery issue 6."""
    node = Watched()
    node.looks(20, code=4)

    assert (node.health(), node.reasons()) == (Health.UNKNOWN, ("no_permission",))
    assert node.verdict().recovery is Recovery.NONE
    assert node.sightings == ()


@pytest.mark.parametrize("code", [17, 999])
def test_device_files_taken_from_a_container_are_no_fault_of_a_gpu(code: int) -> None:
    """container-toolkit issues 48 and 1227, k8s-device-plugin issue 426."""
    node = Watched()
    node.rounds(1, code=code)
    node.count(openable=False)
    node.rounds(10, code=code)

    assert (node.health(None), node.reasons(None)) == (Health.UNKNOWN, ("device_access_lost",))
    assert node.verdict(None).recovery is Recovery.RESTART_AGENT
    assert [node.health(gpu) for gpu in (0, 1)] == [Health.UNKNOWN] * 2
    assert node.reasons(0) == node.reasons(1) == ()
    assert node.sightings == ()

    node.count(openable=True)
    node.rounds(3)
    assert node.health(None) is node.health() is Health.HEALTHY


def test_one_gpu_in_trouble_is_no_loss_of_access() -> None:
    """container-toolkit issue 48: all GPUs at once, or it is something else."""
    node = Watched()
    node.count(openable=False)
    node.looks(3, code=999)

    assert node.reasons(None) == ()
    assert node.reasons(0) == ("unknown_error",)


def test_a_watch_that_lost_its_device_files_says_so_of_the_node() -> None:
    """container-toolkit issue 48."""
    node = Watched()
    node.watch(WatchState.ACCESS_LOST)
    assert node.reasons(None) == ("device_access_lost",)

    node.watch(WatchState.WATCHING)
    assert node.reasons(None) == ()


def test_gpus_whose_nvlinks_are_all_inactive_are_not_healthy() -> None:
    """Gpud issue 1085."""
    node = Watched(8)
    node.rounds(3, nvlink_active=0, nvlink_present=18)

    assert {node.reasons(gpu) for gpu in range(8)} == {("nvlink_inactive",)}
    assert node.mark("nvlink_inactive").detail == "NVLinks inactive: 18 of 18"
    assert node.health() is Health.DEGRADED


@pytest.mark.parametrize("name", [PCIE, "NVIDIA GB200", SXM])
def test_a_fabric_that_is_not_supported_is_none(name: str) -> None:
    """Gpud pull request 1147, issues 1106 and 1108."""
    node = Watched(4, name=name)
    node.rounds(200, fabric_state=0, fabric_status=3, fabric_mask=0, nvlink_present=18)

    assert node.health() is Health.HEALTHY


def test_having_joined_the_fabric_needs_that_it_succeeded() -> None:
    """azhpc-images pull request 506."""
    node = Watched(4)
    node.rounds(2, fabric_state=3, fabric_status=23)

    assert (node.health(), node.reasons()) == (Health.DEGRADED, ("fabric_status",))


def test_two_errors_within_one_look_both_count() -> None:
    """DCGM issue 235, dcgm-exporter issue 190."""
    node = Watched(action=None)
    node.xid(62)
    node.xid(45)
    node.xid(63)
    node.rounds(1)

    assert set(node.reasons()) == {"xid_62", "xid_63"}
    assert node.reasons()[0] == "xid_62"


def test_a_channel_reset_three_times_in_ten_minutes_is_more_than_the_programs_fault() -> None:
    """EKS node monitoring agent, issue 272."""
    node = Watched()
    node.xid(43)
    node.wait(300)
    node.xid(43)
    node.wait(301)
    node.xid(43)
    assert node.health() is Health.HEALTHY

    node.wait(298)
    node.xid(43)
    assert (node.health(), node.reasons()) == (Health.DEGRADED, ("xid_43",))

    node.rounds(40)
    assert node.health() is Health.HEALTHY


def test_how_often_a_channel_may_be_reset_is_the_sites_to_say() -> None:
    """EKS node monitoring agent, issue 272."""
    node = Watched(rules=make_rules(xids=[XidOverride(43, "reset", 5, 60)]))
    node.xid(43, count=4)
    assert node.health() is Health.HEALTHY

    node.xid(43)
    assert node.health() is Health.FAULTY


@pytest.mark.parametrize("action", [None, 0])
def test_a_contained_memory_error_alone_is_no_fault(action: int | None) -> None:
    """gpu-operator issue 1065."""
    node = Watched(action=action)
    node.xid(94, count=1000)
    node.rounds(3)

    assert node.health() is Health.HEALTHY
    assert node.sightings == ()


def test_a_stuck_system_processor_is_a_fault_by_the_kernels_line_alone() -> None:
    """DCGM 4.6 (DcgmKmsgReader.cpp): after XID 119 no call into the driver is made."""
    node = Watched()
    node.watch(WatchState.UNRESPONSIVE, gpu=0, call="nvmlDeviceGetTemperature")
    node.xid(119, text="NVRM: Xid (PCI:0000:00:00): 119, Timeout waiting for RPC from GSP")
    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)
    assert node.sighting.key == "faulty"

    node.watch(WatchState.RELEASED)
    node.wait(3600)
    assert node.health() is Health.FAULTY


def test_every_kind_of_rule_is_in_use() -> None:
    assert {rule.check for rule in SIGNALS} == set(Check)
