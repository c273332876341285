"""The fake driver, asked through the real pynvml, is what NVIDIA's header says of the real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM

import pytest

from support.nvml import FakeDriver, Kind
from support.nvml.asking import PynvmlProcess

XID = 0x8
TEMPERATURE = "nvml.nvmlDeviceGetTemperature(gpu({}), 0)"


@pytest.fixture
def fake(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "nvml", nvml_library)


@pytest.fixture
def start() -> Iterator[Callable[[FakeDriver], PynvmlProcess]]:
    with ExitStack() as stack:
        yield lambda fake: stack.enter_context(PynvmlProcess(fake))


@pytest.fixture
def client(fake: FakeDriver, start: Callable[[FakeDriver], PynvmlProcess]) -> PynvmlProcess:
    process = start(fake)
    assert process.ask("nvml.nvmlInit()") is None
    return process


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, "waited for five seconds"
        time.sleep(0.001)


def ignores_sigterm(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    return bool(ignored & 1 << (SIGTERM - 1))


HEALTHY = {
    "nvml.nvmlSystemGetDriverVersion()": "550.54.15",
    "nvml.nvmlSystemGetNVMLVersion()": "12.550.54.15",
    "nvml.nvmlDeviceGetCount()": 2,
    "nvml.nvmlDeviceGetUUID(gpu(1))": "GPU-00000001-0000-0000-0000-000000000000",
    "nvml.nvmlDeviceGetName(gpu(1))": "NVIDIA H100 80GB HBM3",
    "nvml.nvmlDeviceGetIndex(gpu(1))": 1,
    "nvml.nvmlDeviceGetPciInfo(gpu(1)).busId": "00000000:1C:00.0",
    "nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu(1))))": 1,
    "nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId('0000:1c:00.0'))": 1,
    "nvml.nvmlDeviceGetHandleByUUID('GPU-strange')": "error 6",
    "nvml.nvmlDeviceGetHandleByPciBusId('00000000:77:00.0')": "error 6",
    "gpu(2)": "error 2",
    TEMPERATURE.format(0): 34,
    "nvml.nvmlDeviceGetTemperature(gpu(0), 1)": "error 2",
    "nvml.nvmlDeviceGetTemperatureV(gpu(0), 0)": 34,
    "nvml.nvmlDeviceGetMarginTemperature(gpu(0))": 53,
    "nvml.nvmlDeviceGetUtilizationRates(gpu(0)).gpu": 0,
    "nvml.nvmlDeviceGetMemoryInfo(gpu(0)).total": 85_520_809_984,
    "nvml.nvmlDeviceGetMemoryInfo(gpu(0), version=nvml.nvmlMemory_v2).used": 4_194_304,
    "nvml.nvmlDeviceGetMemoryInfo(gpu(0), version=7)": "error 25",
    "nvml.nvmlDeviceGetPowerUsage(gpu(0))": 71_500,
    "nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu(0))": 1,
    "nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu(0))": 1,
    "nvml.nvmlDeviceGetRemappedRows(gpu(0))": [0, 0, 0, 0],
    "nvml.nvmlDeviceGetRowRemapperHistogram(gpu(0)).max": 2560,
    "nvml.nvmlDeviceGetMigMode(gpu(0))": [0, 0],
    "nvml.nvmlDeviceGetEccMode(gpu(0))": [1, 1],
    "nvml.nvmlDeviceGetPersistenceMode(gpu(0))": 1,
    "nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu(0))": 5,
    "nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu(0))": 16,
    "nvml.nvmlDeviceGetPcieReplayCounter(gpu(0))": 0,
    "nvml.nvmlDeviceGetNvLinkState(gpu(0), 17)": 1,
    "nvml.nvmlDeviceGetNvLinkState(gpu(0), 18)": "error 3",
    "nvml.nvmlDeviceGetNvLinkState(gpu(0), 99)": "error 2",
    "nvml.nvmlDeviceGetTotalEccErrors(gpu(0), 1, 0)": 0,
    "nvml.nvmlDeviceGetMemoryErrorCounter(gpu(0), 0, 1, 2)": 0,
    "nvml.nvmlDeviceGetRetiredPages(gpu(0), 0)": "error 3",
    "nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu(0))": "error 3",
    "nvml.nvmlDeviceGetComputeRunningProcesses(gpu(0))": [],
    "nvml.nvmlDeviceGetSupportedEventTypes(gpu(0)) & 0x800B": 0x800B,
    "fields(0, 3, 4, 5, 6, 230, 38, 52, 59, 94, 269)": [0] * 10,
    "fields(0, 82, (165, 17), (165, 18))": [46, 1, "error 2"],
    "fields(0, 29, (214, 0), 1, 9999)": ["error 3", "error 3", "error 3", "error 2"],
}


def test_a_fresh_driver_has_healthy_gpus(client: PynvmlProcess) -> None:
    assert {asked: client.ask(asked) for asked in HEALTHY} == HEALTHY


SET = {
    ("recovery_action", 4): ("fields(1, 230)", [4]),
    ("temperature_celsius", 91): (TEMPERATURE.format(1), 91),
    ("margin_celsius", -2): ("nvml.nvmlDeviceGetMarginTemperature(gpu(1))", -2),
    ("throttle_reasons", 0xC8): ("nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu(1))", 0xC8),
    ("utilization_ratio", 0.87): ("nvml.nvmlDeviceGetUtilizationRates(gpu(1)).gpu", 87),
    ("power_watts", 700.5): ("nvml.nvmlDeviceGetPowerUsage(gpu(1))", 700_500),
    ("ecc_uncorrected", 2): ("nvml.nvmlDeviceGetTotalEccErrors(gpu(1), 1, 0)", 2),
    ("remap_pending", 1): ("nvml.nvmlDeviceGetRemappedRows(gpu(1))", [0, 0, 1, 0]),
    ("throttle_thermal_hw_seconds", 1.5): ("fields(1, 270)", [1_500_000_000]),
    ("pcie_width", 8): ("nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu(1))", 8),
    ("nvlink_active", 17): (
        "[nvml.nvmlDeviceGetNvLinkState(gpu(1), link) for link in (0, 16, 17)]",
        [1, 1, 0],
    ),
    ("nvlink_recovery_failures", 3): ("fields(1, (214, 0), (214, 1), (214, 2**32 - 1))", [3, 0, 3]),
    ("retired_dbe", 2): ("nvml.nvmlDeviceGetRetiredPages(gpu(1), 1)", [0x10000, 0x20000]),
    ("retired_pending", 1): ("nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu(1))", 1),
    ("mig", 1): ("nvml.nvmlDeviceGetMigMode(gpu(1))", [1, 1]),
    ("persistence", 0): ("nvml.nvmlDeviceGetPersistenceMode(gpu(1))", 0),
}


def test_what_is_set_of_one_gpu_is_seen_at_once(fake: FakeDriver, client: PynvmlProcess) -> None:
    before = client.ask(TEMPERATURE.format(0))

    for signal, value in SET:
        fake.set(1, signal, value)

    assert [client.ask(asked) for asked, _ in SET.values()] == [seen for _, seen in SET.values()]
    assert client.ask(TEMPERATURE.format(0)) == before
    with pytest.raises(KeyError, match="no such signal"):
        fake.set(1, "temperature", 50)


def test_versioned_structures_of_another_version_are_refused(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    fake.set(0, "fabric_state", 2)
    fake.set(0, "fabric_summary", 3)
    fake.set(0, "sram_ecc_threshold", 1)
    call = "filled(nvml.nvmlDeviceGetGpuFabricInfoV, nvml.c_nvmlGpuFabricInfo_v{}_t(), {})"
    second = call.format(2, "nvml.nvmlGpuFabricInfo_v2")
    third = call.format(3, "nvml.nvmlGpuFabricInfo_v3")
    sram = "filled(nvml.nvmlDeviceGetSramEccErrorStatus, nvml.c_nvmlEccSramErrorStatus_v1_t(), {})"

    assert client.ask(f"(lambda f: [f.state, f.status, f.healthMask])({second})") == [2, 0, 0x11AA]
    assert client.ask(f"(lambda f: [f.healthSummary, f.clusterUuid[0]])({third})") == [3, 7]
    assert client.ask(call.format(3, 0x4000028)) == "error 25"
    assert client.ask(sram.format("nvml.nvmlEccSramErrorStatus_v1") + ".bThresholdExceeded") == 1
    assert client.ask(sram.format(7)) == "error 25"


def test_structures_have_the_size_that_pynvml_takes_them_for(client: PynvmlProcess) -> None:
    names = {
        "nvmlEccSramErrorStatus_v1_t": "c_nvmlEccSramErrorStatus_v1_t",
        "nvmlEventData_t": "c_nvmlEventData_t",
        "nvmlFieldValue_t": "c_nvmlFieldValue_t",
        "nvmlGpuFabricInfo_t": "c_nvmlGpuFabricInfo_t",
        "nvmlGpuFabricInfo_v2_t": "c_nvmlGpuFabricInfo_v2_t",
        "nvmlGpuFabricInfo_v3_t": "c_nvmlGpuFabricInfo_v3_t",
        "nvmlMarginTemperature_v1_t": "c_nvmlMarginTemperature_v1_t",
        "nvmlMemory_t": "c_nvmlMemory_t",
        "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
        "nvmlPciInfo_t": "nvmlPciInfo_t",
        "nvmlProcessInfo_v2_t": "c_nvmlProcessInfo_v2_t",
        "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
        "nvmlTemperature_v1_t": "c_nvmlTemperature_v1_t",
        "nvmlUtilization_t": "c_nvmlUtilization_t",
    }
    in_c = [f"nvml.nvmlLib.fake_sizeof(b'{name}')" for name in names]
    in_python = [f"ctypes.sizeof(nvml.{name})" for name in names.values()]

    sizes = client.ask(f"[{', '.join(in_c)}]")

    assert sizes == client.ask(f"[{', '.join(in_python)}]")


def test_what_is_not_supported_or_fails_is_one_signal_of_one_gpu(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    fake.unsupport(1, "nvmlDeviceGetMarginTemperature")
    fake.unsupport(None, 230)
    fake.unsupport(1, "ecc_corrected")
    fake.fail("nvmlDeviceGetTemperature", 999, gpu=1, times=2)
    fake.fail("nvmlDeviceGetHandleByIndex_v2", 4, gpu=0)
    margin = "nvml.nvmlDeviceGetMarginTemperature(gpu(1))"

    assert [client.ask(TEMPERATURE.format(1)) for _ in range(3)] == ["error 999", "error 999", 34]
    assert client.ask("gpu(0)") == "error 4"
    assert client.ask(margin) == "error 3"
    assert client.ask("fields(1, 230, 3, 4)") == ["error 3", "error 3", 0]
    entry = "nvml.nvmlDeviceGetFieldValues(gpu(1), [230])[0]"
    assert client.ask(f"{entry}.value.ullVal") != 0, "what stands beside an error is no value"

    fake.clear("nvmlDeviceGetMarginTemperature")
    fake.clear(230)
    fake.field(1, 3, 0.5, kind=Kind.DOUBLE)

    assert client.ask(margin) == 53
    assert client.ask("fields(1, 230, 3)") == [0, 0.5]
    with pytest.raises(KeyError, match="no function nvmlDeviceGetTemp"):
        fake.fail("nvmlDeviceGetTemp", 3)


def test_an_old_drivers_library_lacks_functions(
    tmp_path: Path, nvml_library: Path, start: Callable[[FakeDriver], PynvmlProcess]
) -> None:
    missing = "nvmlDeviceGetMarginTemperature"
    old = start(FakeDriver(tmp_path / "old", nvml_library, without=(missing,)))

    assert old.ask("nvml.nvmlInit()") is None
    assert old.ask(f"nvml.{missing}(gpu(0))") == "error 13"
    assert old.ask(TEMPERATURE.format(0)) == 34


def test_a_lost_gpu_answers_so_to_every_call_and_ends_the_wait_again_and_again(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    client.ask(f"listen({XID}, 0, 1)")
    client.begin("wait(5000)")

    fake.lose(1, xid=79)

    assert client.answer() == [XID, 79, 0xFFFFFFFF]
    assert [client.ask("wait(5000)") for _ in range(3)] == ["error 15"] * 3
    assert client.ask("gpu(1)") == "error 15"
    assert client.ask("nvml.nvmlDeviceGetCount()") == 2
    assert client.ask(TEMPERATURE.format(0)) == 34

    fake.restore(1)
    fake.require_reset(0)

    assert client.ask("wait(0)") == "error 10"
    assert client.ask(TEMPERATURE.format(0)) == "error 16"
    assert client.ask(TEMPERATURE.format(1)) == 34


def test_an_event_wakes_who_waits_and_nothing_else_does(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    fake.xid(0, 31)
    client.ask(f"listen({XID}, 0)")
    assert client.ask("seconds(lambda: wait(40)) >= 0.04"), "the past is not delivered"

    client.begin("wait(5000)")
    eventually(lambda: fake.calls("nvmlEventSetWait_v2") == 2)
    fake.xid(1, 79)
    fake.event(0, 0x2)
    fake.event(0, XID, 94, instance=3)

    assert client.answer() == [XID, 94, 3]
    assert client.ask("wait(0)") == "error 10"


def test_no_event_of_a_burst_is_lost(fake: FakeDriver, client: PynvmlProcess) -> None:
    client.ask(f"listen({XID}, 0, 1)")
    client.begin("sum(wait(5000)[1] for _ in range(10_003))")

    fake.xid(0, 1, count=3)
    fake.xid(1, 100, count=10_000)

    assert client.answer() == 1_000_003
    assert client.ask("wait(0)") == "error 10"


def test_one_unsupported_type_keeps_all_from_being_registered(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    fake.set(0, "supported_events", 0xB)

    assert client.ask("listen(0x8008, 0)") == "error 3"
    fake.xid(0, 79)
    assert client.ask("wait(0)") == "error 10"


def test_a_thousand_rounds_cost_no_file_descriptors(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    client.ask(f"listen({XID}, 0)")
    before = client.ask("len(os.listdir('/proc/self/fd'))")

    poll = "(nvml.nvmlInit(), fields(0, 230, 4), listen(8, 0), nvml.nvmlEventSetFree(events)"
    assert client.ask(f"[{poll}, nvml.nvmlShutdown())[1] for _ in range(1000)][-1]") == [0, 0]

    assert client.ask("len(os.listdir('/proc/self/fd'))") == before
    assert fake.calls("nvmlDeviceGetFieldValues", gpu=0) == 1000
    assert fake.calls("nvmlDeviceGetFieldValues", gpu=1) == 0


def test_a_call_hangs_until_it_is_released(fake: FakeDriver, client: PynvmlProcess) -> None:
    fake.hang("nvmlDeviceGetTemperature", gpu=1)
    assert client.ask(TEMPERATURE.format(0)) == 34

    client.begin(TEMPERATURE.format(1))
    eventually(lambda: fake.calls("nvmlDeviceGetTemperature", gpu=1) == 1)
    fake.set(1, "temperature_celsius", 50)
    fake.release_hang()

    assert client.answer() == 50

    fake.delay("nvmlDeviceGetTemperature", 0.02)
    assert client.ask(f"seconds(lambda: {TEMPERATURE.format(0)}) >= 0.02")


def test_a_stubborn_hang_outlives_sigterm(fake: FakeDriver, client: PynvmlProcess) -> None:
    client.ask(f"listen({XID}, 0)")
    client.begin("wait(5000)")
    eventually(lambda: fake.calls("nvmlEventSetWait_v2") == 1)

    fake.hang("nvmlEventSetWait_v2", stubborn=True)
    eventually(lambda: ignores_sigterm(client.pid))
    client.terminate()
    fake.release_hang()
    fake.xid(0, 43)

    assert client.answer() == [XID, 43, 0xFFFFFFFF]


def test_a_crash_ends_the_process_that_calls(fake: FakeDriver, client: PynvmlProcess) -> None:
    fake.crash("nvmlDeviceGetTemperature", gpu=1)
    assert client.ask(TEMPERATURE.format(0)) == 34

    client.begin(TEMPERATURE.format(1))

    assert client.returncode() == -11


def test_initialisation_is_counted_and_needed(
    fake: FakeDriver, start: Callable[[FakeDriver], PynvmlProcess]
) -> None:
    client = start(fake)
    assert client.ask("nvml._LoadNvmlLibrary()") is None
    assert client.ask("nvml.nvmlDeviceGetCount()") == "error 1"
    assert client.ask("nvml.nvmlShutdown()") == "error 1"

    assert client.ask("[nvml.nvmlInit(), nvml.nvmlInit(), nvml.nvmlShutdown()]") == [None] * 3
    assert client.ask("nvml.nvmlDeviceGetCount()") == 2
    assert client.ask("[nvml.nvmlShutdown()]") == [None]
    assert client.ask("nvml.nvmlDeviceGetCount()") == "error 1"

    fake.break_init(999)
    assert client.ask("nvml.nvmlInit()") == "error 999"


def test_a_driver_that_changed_refuses_new_processes_alone(
    fake: FakeDriver, client: PynvmlProcess, start: Callable[[FakeDriver], PynvmlProcess]
) -> None:
    fake.driver("560.35.03")

    assert client.ask("nvml.nvmlSystemGetDriverVersion()") == "550.54.15"
    assert start(fake).ask("nvml.nvmlInit()") == "error 18"

    fake.driver("560.35.03", loaded=True)

    assert start(fake).ask("[nvml.nvmlInit(), nvml.nvmlSystemGetDriverVersion()][1]") == "560.35.03"


def test_gpus_go_processes_come_and_calls_are_counted(
    fake: FakeDriver, client: PynvmlProcess
) -> None:
    fake.processes(1, [4711, 815])
    pids = "[p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu({}))]"
    assert client.ask(pids.format(1)) == [4711, 815]
    assert client.ask("len(nvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu(1)))") == 2

    fake.remove(0)
    assert client.ask("nvml.nvmlDeviceGetCount()") == 1
    assert client.ask("nvml.nvmlDeviceGetUUID(gpu(0))") == fake.uuid(1)

    fake.count(0)
    before = fake.calls_in_all()
    assert client.ask("nvml.nvmlDeviceGetCount()") == 0
    assert fake.calls_in_all() == before + 1
