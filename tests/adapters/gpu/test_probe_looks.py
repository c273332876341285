"""What the probe reads of a GPU, and that what it cannot read spoils nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from support.nvml import FakeDriver
from support.nvml.layout import CALLS
from support.running_probe import Line, RunningProbe, make_control_device

EVERY_ROUND = {
    "recovery_action": 1,
    "ecc_uncorrected": 2,
    "ecc_corrected": 300,
    "temperature_celsius": 71,
    "memory_temperature_celsius": 80,
    "margin_celsius": -2,
    "throttle_reasons": 0x48,
    "utilization_ratio": 0.97,
    "memory_utilization_ratio": 0.4,
    "memory_used_bytes": 70_000_000_000,
    "memory_total_bytes": 85_520_809_984,
    "power_watts": 699.5,
}
NOW_AND_THEN = {
    "ecc_uncorrected_aggregate": 5,
    "ecc_corrected_aggregate": 70_000_000_000,
    "remapped_corrected": 1,
    "remapped_uncorrected": 2,
    "remap_pending": 1,
    "remap_failed": 0,
    "throttle_thermal_sw_seconds": 1.5,
    "throttle_thermal_hw_seconds": 0.5,
    "throttle_power_brake_seconds": 0.25,
    "pcie_replays": 12,
    "pcie_generation": 1,
    "pcie_generation_max": 5,
    "pcie_width": 8,
    "pcie_width_max": 16,
    "nvlink_present": 18,
    "nvlink_active": 17,
    "nvlink_crc_errors": 3,
    "nvlink_replays": 4,
    "nvlink_recoveries": 5,
    "nvlink_recovery_failures": 6,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_mask": 0x11AA,
    "fabric_summary": 2,
}
RARELY = {
    "sram_ecc_threshold": 1,
    "retired_sbe": 7,
    "retired_dbe": 8,
    "retired_pending": 1,
    "mig": 1,
    "persistence": 0,
}

# What is refused, and what cannot be read then.
REFUSED: list[tuple[tuple[str | int, ...], tuple[str, ...]]] = [
    ((230,), ("recovery_action",)),
    ((82,), ("memory_temperature_celsius",)),
    ((94,), ("pcie_replays",)),
    (
        ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"),
        ("temperature_celsius",),
    ),
    (("nvmlDeviceGetMarginTemperature",), ("margin_celsius",)),
    (
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        ("throttle_reasons",),
    ),
    (("nvmlDeviceGetUtilizationRates",), ("utilization_ratio", "memory_utilization_ratio")),
    (
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"),
        ("memory_used_bytes", "memory_total_bytes"),
    ),
    (("nvmlDeviceGetPowerUsage",), ("power_watts",)),
    (
        ("nvmlDeviceGetRemappedRows",),
        ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"),
    ),
    (("nvmlDeviceGetCurrPcieLinkWidth",), ("pcie_width",)),
    (("nvmlDeviceGetNvLinkState",), ("nvlink_active", "nvlink_present")),
    (
        ("nvmlDeviceGetGpuFabricInfoV",),
        ("fabric_state", "fabric_status", "fabric_mask", "fabric_summary"),
    ),
    (("nvmlDeviceGetSramEccErrorStatus",), ("sram_ecc_threshold",)),
    (("nvmlDeviceGetMigMode",), ("mig",)),
    (
        (
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetComputeRunningProcesses_v2",
        ),
        ("pids",),
    ),
]


class MakeFake(Protocol):
    def __call__(self, gpus: int = 2, without: tuple[str, ...] = ()) -> FakeDriver: ...


@pytest.fixture
def make_fake(tmp_path: Path, nvml_library: Path) -> MakeFake:
    def make(gpus: int = 2, without: tuple[str, ...] = ()) -> FakeDriver:
        return FakeDriver(tmp_path / "nvml", nvml_library, gpus=gpus, without=without)

    return make


def test_each_signal_is_read_in_its_unit_and_as_often_as_it_changes(make_fake: MakeFake) -> None:
    # Given a GPU with figures of its own
    fake = make_fake(gpus=1)
    for signal, value in (EVERY_ROUND | NOW_AND_THEN | RARELY).items():
        fake.set(0, signal, value)
    fake.field(0, 214, 6, link=11)
    fake.processes(0, [4711, 0, 2**32 - 1, 42])

    with RunningProbe(fake, poll_seconds=0.25) as probe:
        # When it is looked at first, then all is read
        first = probe.round()[0]
        assert first["code"] == 0
        assert first["codes"] == {}
        assert first["pids"] == [42, 4711]
        assert 0 < first["values"].pop("call_seconds_max") < 1
        assert first["values"] == pytest.approx(EVERY_ROUND | NOW_AND_THEN | RARELY)

        # When the time has come, then only what is read each time
        second = probe.round()[0]
        assert 0.2 < second["at"] - first["at"] < 2.0
        assert second["pids"] is None
        assert set(second["values"]) == {*EVERY_ROUND, "call_seconds_max"}

        # When somebody asks, then all but what hardly ever changes
        third = probe.look()[0]
        assert third["pids"] == [42, 4711]
        assert set(third["values"]) == {*EVERY_ROUND, *NOW_AND_THEN, "call_seconds_max"}


@pytest.mark.parametrize("code", [3, 13, 999])
def test_a_signal_that_is_refused_alone_drops_only_itself(make_fake: MakeFake, code: int) -> None:
    # Given as many GPUs, each refusing one thing
    fake = make_fake(gpus=len(REFUSED))
    for gpu, (places, _) in enumerate(REFUSED):
        fake.set(gpu, "nvlink_recovery_failures", 0)
        for place in places:
            fake.fail(place, code, gpu)

    # When they are looked at
    with RunningProbe(fake, once=True) as probe:
        looks = probe.round()

    # Then each lacks only that
    for gpu, (_, signals) in enumerate(REFUSED):
        look = looks[gpu]
        retired = dict.fromkeys(("retired_sbe", "retired_dbe", "retired_pending"), 3)
        assert look["code"] == 0
        assert look["codes"] == dict.fromkeys(signals, code) | retired
        read = {*look["values"], *(["pids"] if look["pids"] is not None else [])}
        expected = {*EVERY_ROUND, *NOW_AND_THEN, *RARELY, "call_seconds_max", "pids"}
        assert read == expected - {*signals} - {*retired}


def test_what_is_not_supported_is_asked_once_and_said_again(make_fake: MakeFake) -> None:
    fake = make_fake(gpus=1)
    fake.unsupport(0, "nvmlDeviceGetMarginTemperature")
    fake.set(0, "nvlink_present", 0)

    with RunningProbe(fake) as probe:
        first = probe.round()[0]
        asked = fake.calls("nvmlDeviceGetNvLinkState")
        again = probe.look()[0]

    assert first["codes"]["margin_celsius"] == again["codes"]["margin_celsius"] == 3
    assert first["codes"]["nvlink_present"] == again["codes"]["nvlink_present"] == 3
    assert fake.calls("nvmlDeviceGetMarginTemperature") == 1
    assert fake.calls("nvmlDeviceGetNvLinkState") == asked == 1


def test_what_fails_for_a_while_is_asked_again(make_fake: MakeFake) -> None:
    fake = make_fake(gpus=1)
    fake.fail("nvmlDeviceGetTemperature", 10, times=1)
    fake.fail("nvmlDeviceGetRemappedRows", 14, times=1)
    fake.fail("nvmlDeviceGetFieldValues", 2, times=1)

    with RunningProbe(fake) as probe:
        first = probe.round()[0]
        again = probe.look()[0]

    # A corrupted InfoROM is the GPU's, whatever call it is that finds it
    assert first["code"] == 0
    assert first["codes"]["temperature_celsius"] == 10
    assert first["codes"]["inforom"] == 14
    # One field that an old driver does not know does not take the others with it
    assert first["values"]["recovery_action"] == 0
    assert again["values"]["temperature_celsius"] == 34
    assert again["values"]["remap_pending"] == 0
    assert "inforom" not in again["codes"]


def test_an_old_driver_is_read_by_the_old_names(make_fake: MakeFake) -> None:
    fake = make_fake(
        gpus=2,
        without=(
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetMarginTemperature",
            "nvmlDeviceGetSramEccErrorStatus",
        ),
    )
    fake.unsupport(None, "recovery_action")
    fake.fail("nvmlDeviceGetGpuFabricInfoV", 25, gpu=0, times=1)
    fake.fail("nvmlDeviceGetGpuFabricInfoV", 13, gpu=1)
    fake.processes(0, [7])

    with RunningProbe(fake, once=True) as probe:
        looks = probe.round()

    assert looks[0]["code"] == 0
    assert looks[0]["values"]["throttle_reasons"] == 1
    assert looks[0]["values"]["memory_total_bytes"] == EVERY_ROUND["memory_total_bytes"]
    assert looks[0]["pids"] == [7]
    assert looks[0]["values"]["fabric_state"] == 3
    assert "fabric_summary" not in looks[0]["values"]
    assert looks[0]["codes"]["margin_celsius"] == 13
    assert looks[0]["codes"]["sram_ecc_threshold"] == 13
    assert looks[0]["codes"]["recovery_action"] == 3
    assert looks[1]["codes"]["fabric_state"] == 13


def test_a_lost_gpu_keeps_its_name_and_the_others_their_figures(make_fake: MakeFake) -> None:
    fake = make_fake(gpus=3)
    with RunningProbe(fake) as probe:
        healthy = probe.round()

        # When one GPU is lost and another needs a reset
        fake.lose(1)
        fake.require_reset(2)
        asked = fake.calls("nvmlDeviceGetTemperature", gpu=1)
        looks = probe.look()

        # Then each says so by its code, and the third is read as before
        assert [looks[gpu]["code"] for gpu in range(3)] == [0, 15, 16]
        assert looks[1]["gpu"] == healthy[1]["gpu"]
        assert looks[1]["call"] == "nvmlDeviceGetFieldValues"
        assert set(looks[1]["values"]) == {"call_seconds_max"}
        assert looks[0]["values"]["temperature_celsius"] == 34
        # And a lost one is asked nothing more in that look
        assert fake.calls("nvmlDeviceGetTemperature", gpu=1) == asked

        # When they answer again, then they are read again
        fake.restore(1)
        fake.restore(2)
        assert [look["code"] for look in probe.look().values()] == [0, 0, 0]


def test_a_gpu_without_a_handle_says_why_until_it_has_one(make_fake: MakeFake) -> None:
    fake = make_fake()
    fake.fail("nvmlDeviceGetHandleByIndex_v2", 4, gpu=1)

    with RunningProbe(fake) as probe:
        look = probe.round()[1]
        assert look["gpu"] == {"uuid": "", "index": 1, "name": "", "pci": ""}
        assert (look["code"], look["call"]) == (4, "nvmlDeviceGetHandleByIndex")
        assert look["pids"] is None

        fake.clear("nvmlDeviceGetHandleByIndex_v2")
        look = probe.look()[1]
        assert (look["gpu"]["uuid"], look["code"]) == (fake.uuid(1), 0)
        assert look["values"]["persistence"] == 1


def test_a_gpu_that_is_skipped_is_not_touched(make_fake: MakeFake) -> None:
    # Given that the call that tells a GPU's address is one that it hangs in
    fake = make_fake(gpus=4)
    fake.hang("nvmlDeviceGetHandleByIndex_v2", gpu=1)

    # When one is skipped by its index, and another by its address
    with RunningProbe(fake, once=True, skip=["index:1", "0000:1d:00.0"]) as probe:
        lines = probe.until(lambda line: line["type"] == "round")

    # Then nothing is told of them, and nothing asked but the address
    assert [line["gpu"]["index"] for line in lines if line["type"] == "gpu"] == [0, 3]
    assert [line["driver_count"] for line in lines if line["type"] == "node"] == [4]
    assert {call for call in CALLS if fake.calls(call, gpu=1)} == set()
    assert {call for call in CALLS if fake.calls(call, gpu=2)} == {
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetPciInfo_v3",
    }


def test_access_that_was_taken_away_is_told_from_gpus_that_fail(make_fake: MakeFake) -> None:
    fake = make_fake()
    with RunningProbe(fake) as probe:
        probe.round()

        # When everything fails for one GPU, then it alone is blamed
        _refuse_all(fake, 999, gpu=1)
        probe.say("look")
        lines = probe.until(lambda line: line["type"] == "round")
        assert _codes(lines) == [0, 999]
        assert "node" not in [line["type"] for line in lines]

        # When everything fails for all, then the control device is tried: it is not there
        _refuse_all(fake, 17, gpu=0)
        probe.say("look")
        lines = probe.until(lambda line: line["type"] == "round")
        assert _codes(lines) == [17, 999]
        assert _openable(lines) == [False]

        # When it is there, then that is told
        make_control_device(fake)
        probe.say("look")
        assert _openable(probe.until(lambda line: line["type"] == "round")) == [True]

        # When the GPUs answer again, then it is not tried any more
        for gpu in range(2):
            _refuse_all(fake, 0, gpu=gpu)
        probe.say("look")
        lines = probe.until(lambda line: line["type"] == "round")
        assert _codes(lines) == [0, 0]
        assert _openable(lines)[-1] is None


def _refuse_all(fake: FakeDriver, code: int, gpu: int) -> None:
    for call in CALLS:
        if call.startswith("nvmlDevice") and call != "nvmlDeviceGetCount_v2":
            fake.fail(call, code, gpu)


def _codes(lines: list[Line]) -> list[int]:
    return [line["code"] for line in lines if line["type"] == "gpu"]


def _openable(lines: list[Line]) -> list[bool | None]:
    return [line["control_openable"] for line in lines if line["type"] == "node"]
