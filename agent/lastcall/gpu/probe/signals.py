"""The table of signals: how each is read of a GPU, in what unit it is given, and how often.

Calls, fields and structures are those of NVIDIA's header ``nvml.h``.
"""

from collections.abc import Callable
from ctypes import byref
from functools import partial
from typing import Any, NamedTuple

from lastcall.core.gpu.codes import UNSUPPORTED
from lastcall.gpu.probe.calls import Refused, structure
from lastcall.gpu.process import LARGEST_PID

EVERY_ROUND = 0.0
OFTEN = 10.0
SLOWLY = 30.0
RARELY = 600.0
"""How often signals are read: the least seconds between two readings."""

FIELD_CALL = "nvmlDeviceGetFieldValues"

Call = Callable[..., Any]
Way = Callable[[Call, Any], tuple[float, ...]]


class Field(NamedTuple):
    """A signal that comes with others in one call, :data:`FIELD_CALL`.

    Attributes:
        signal: its name.
        number: the field's, ``NVML_FI_…``.
        every_seconds: how often it is read.
        unit: what one of the driver's is in the signal's unit.
    """

    signal: str
    number: int
    every_seconds: float
    unit: float = 1


class Reading(NamedTuple):
    """Signals that come with one call of their own.

    Attributes:
        signals: their names.
        every_seconds: how often they are read.
        ways: how; the next where driver or GPU do not have the one before. A way gives the values
            in the order of the signals; the last ones may be missing.
    """

    signals: tuple[str, ...]
    every_seconds: float
    ways: tuple[Way, ...]


FIELDS = (
    Field("recovery_action", 230, EVERY_ROUND),
    Field("ecc_uncorrected", 4, EVERY_ROUND),
    Field("ecc_corrected", 3, EVERY_ROUND),
    Field("memory_temperature_celsius", 82, EVERY_ROUND),
    Field("ecc_uncorrected_aggregate", 6, SLOWLY),
    Field("ecc_corrected_aggregate", 5, SLOWLY),
    Field("throttle_thermal_sw_seconds", 269, SLOWLY, 1e-9),
    Field("throttle_thermal_hw_seconds", 270, SLOWLY, 1e-9),
    Field("throttle_power_brake_seconds", 271, SLOWLY, 1e-9),
    Field("pcie_replays", 94, SLOWLY),
    Field("nvlink_crc_errors", 38, SLOWLY),
    Field("nvlink_replays", 52, SLOWLY),
    Field("nvlink_recoveries", 59, SLOWLY),
    Field("retired_sbe", 29, RARELY),
    Field("retired_dbe", 30, RARELY),
    Field("retired_pending", 31, RARELY),
)

_LINK_RECOVERY_FAILURES = 214
_MOST_LINKS = 18
_TEMPERATURE_OF_GPU = 0
_MEMORY_V2 = 0x02000028


_VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""In the order of ``nvmlValueType_t``: a field's value stands in a union under its type's name."""


def field_value(entry: Any) -> float:
    """Return the value in an entry of what :data:`FIELD_CALL` returns."""
    value: float = getattr(entry.value, _VALUE_TYPES[entry.valueType])
    return value


def _one(name: str, call: Call, handle: Any, *, unit: float = 1) -> tuple[float, ...]:
    return (call(name, handle) * unit,)


def _several(name: str, call: Call, handle: Any) -> tuple[float, ...]:
    return tuple(call(name, handle))


def _temperature(name: str, call: Call, handle: Any) -> tuple[float, ...]:
    return (call(name, handle, _TEMPERATURE_OF_GPU),)


def _utilization(call: Call, handle: Any) -> tuple[float, ...]:
    rates = call("nvmlDeviceGetUtilizationRates", handle)
    return rates.gpu / 100, rates.memory / 100


def _memory(call: Call, handle: Any, *version: int) -> tuple[float, ...]:
    memory = call("nvmlDeviceGetMemoryInfo", handle, *version)
    return memory.used, memory.total


def _memory_v2(call: Call, handle: Any) -> tuple[float, ...]:
    return _memory(call, handle, _MEMORY_V2)


def _fabric_v3(call: Call, handle: Any) -> tuple[float, ...]:
    fabric = structure("c_nvmlGpuFabricInfo_v3_t")
    call("nvmlDeviceGetGpuFabricInfoV", handle, byref(fabric))
    return fabric.state, fabric.status, fabric.healthMask, fabric.healthSummary


def _fabric_v2(call: Call, handle: Any) -> tuple[float, ...]:
    fabric = structure("c_nvmlGpuFabricInfo_v2_t")
    call("nvmlDeviceGetGpuFabricInfoV", handle, byref(fabric))
    return fabric.state, fabric.status, fabric.healthMask


def _sram(call: Call, handle: Any) -> tuple[float, ...]:
    status = structure("c_nvmlEccSramErrorStatus_v1_t")
    call("nvmlDeviceGetSramEccErrorStatus", handle, byref(status))
    return (status.bThresholdExceeded,)


def _mig(call: Call, handle: Any) -> tuple[float, ...]:
    current, _pending = call("nvmlDeviceGetMigMode", handle)
    return (current,)


def _links(call: Call, handle: Any) -> tuple[float, ...]:
    states: list[int] = []
    for link in range(_MOST_LINKS):
        try:
            states.append(call("nvmlDeviceGetNvLinkState", handle, link))
        except Refused as refused:
            if link == 0 or refused.code not in UNSUPPORTED:
                raise
            break
    return sum(map(bool, states)), len(states)


def _link_recovery_failures(call: Call, handle: Any) -> tuple[float, ...]:
    wanted = [(_LINK_RECOVERY_FAILURES, link) for link in range(_MOST_LINKS)]
    entries = call(FIELD_CALL, handle, wanted)
    counts = [field_value(entry) for entry in entries if entry.nvmlReturn == 0]
    if not counts:
        raise Refused(FIELD_CALL, entries[0].nvmlReturn)
    return (sum(counts),)


def _processes(name: str, call: Call, handle: Any) -> tuple[int, ...]:
    # Bindings and drivers that disagree about the structure give process ids that cannot be.
    pids = {process.pid for process in call(name, handle)}
    return tuple(sorted(pid for pid in pids if 0 < pid <= LARGEST_PID))


READINGS = (
    Reading(
        ("temperature_celsius",),
        EVERY_ROUND,
        (
            partial(_temperature, "nvmlDeviceGetTemperature"),
            partial(_temperature, "nvmlDeviceGetTemperatureV"),
        ),
    ),
    Reading(("margin_celsius",), EVERY_ROUND, (partial(_one, "nvmlDeviceGetMarginTemperature"),)),
    Reading(
        ("throttle_reasons",),
        EVERY_ROUND,
        (
            partial(_one, "nvmlDeviceGetCurrentClocksEventReasons"),
            partial(_one, "nvmlDeviceGetCurrentClocksThrottleReasons"),
        ),
    ),
    Reading(("utilization_ratio", "memory_utilization_ratio"), EVERY_ROUND, (_utilization,)),
    Reading(("memory_used_bytes", "memory_total_bytes"), EVERY_ROUND, (_memory_v2, _memory)),
    Reading(("power_watts",), EVERY_ROUND, (partial(_one, "nvmlDeviceGetPowerUsage", unit=1e-3),)),
    Reading(
        ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"),
        SLOWLY,
        (partial(_several, "nvmlDeviceGetRemappedRows"),),
    ),
    Reading(("pcie_generation",), SLOWLY, (partial(_one, "nvmlDeviceGetCurrPcieLinkGeneration"),)),
    Reading(
        ("pcie_generation_max",), SLOWLY, (partial(_one, "nvmlDeviceGetMaxPcieLinkGeneration"),)
    ),
    Reading(("pcie_width",), SLOWLY, (partial(_one, "nvmlDeviceGetCurrPcieLinkWidth"),)),
    Reading(("pcie_width_max",), SLOWLY, (partial(_one, "nvmlDeviceGetMaxPcieLinkWidth"),)),
    Reading(("nvlink_active", "nvlink_present"), SLOWLY, (_links,)),
    Reading(("nvlink_recovery_failures",), SLOWLY, (_link_recovery_failures,)),
    Reading(
        ("fabric_state", "fabric_status", "fabric_mask", "fabric_summary"),
        SLOWLY,
        (_fabric_v3, _fabric_v2),
    ),
    Reading(("sram_ecc_threshold",), RARELY, (_sram,)),
    Reading(("mig",), RARELY, (_mig,)),
    Reading(("persistence",), RARELY, (partial(_one, "nvmlDeviceGetPersistenceMode"),)),
)

PROCESSES = Reading(
    ("pids",),
    OFTEN,
    (
        partial(_processes, "nvmlDeviceGetComputeRunningProcesses_v3"),
        partial(_processes, "nvmlDeviceGetComputeRunningProcesses_v2"),
    ),
)
"""The processes that compute on the GPU: no figure, but read like one."""
