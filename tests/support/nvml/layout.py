"""What the fake driver serves, and how its state lies in memory, for Python and C alike."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MAX_GPUS = 16
FIELDS = 320
PIDS = 64

CALLS = (
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlErrorString",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlEventSetCreate",
    "nvmlEventSetFree",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetWait_v2",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetRetiredPages_v2",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetMemoryErrorCounter",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetEccMode",
)
"""The functions that the library exports."""

STATE = {
    "temperature_celsius": 34,
    "margin_celsius": 53,
    "throttle_reasons": 0x1,
    "utilization_percent": 0,
    "memory_utilization_percent": 0,
    "memory_total_bytes": 85_520_809_984,
    "memory_reserved_bytes": 671_088_640,
    "memory_used_bytes": 4_194_304,
    "power_milliwatts": 71_500,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "nvlink_present": 18,
    "nvlink_active_mask": (1 << 18) - 1,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_mask": 0x11AA,
    "fabric_summary": 1,
    "fabric_clique": 0,
    "fabric_cluster": 7,
    "sram_ecc_threshold": 0,
    "mig": 0,
    "persistence": 1,
    "ecc_mode": 1,
    "remap_banks_max": 2_560,
    "remap_banks_high": 0,
    "remap_banks_partial": 0,
    "remap_banks_low": 0,
    "remap_banks_none": 0,
    "supported_events": 0xFF8F,
    "field_latency_microseconds": 12,
}
"""What a GPU holds beside its fields, as on an idle, healthy H100 of a machine with NVSwitch."""


class Kind(IntEnum):
    """Which member of ``nvmlValue_t`` a field's value is in (``nvmlValueType_t``)."""

    DOUBLE = 0
    UNSIGNED_INT = 1
    UNSIGNED_LONG = 2
    UNSIGNED_LONG_LONG = 3
    SIGNED_LONG_LONG = 4
    SIGNED_INT = 5
    UNSIGNED_SHORT = 6


@dataclass(frozen=True, slots=True)
class FieldDefault:
    """How a field is until a test says otherwise."""

    kind: Kind
    value: int = 0
    supported: bool = True
    per_link: bool = False


_COUNTER = FieldDefault(Kind.UNSIGNED_LONG_LONG)
_NUMBER = FieldDefault(Kind.UNSIGNED_INT)
# An H100 remaps rows instead of retiring pages, and its NVLink is older than these counters.
_RETIRED_PAGES = FieldDefault(Kind.UNSIGNED_LONG_LONG, supported=False)
_NVLINK_5 = FieldDefault(Kind.UNSIGNED_LONG_LONG, supported=False, per_link=True)
NVLINK_STATE_FIELD = 165

FIELD_DEFAULTS = {
    **dict.fromkeys((3, 4, 5, 6), _COUNTER),
    **dict.fromkeys((29, 30, 31, 92, 93), _RETIRED_PAGES),
    **dict.fromkeys((38, 52, 59), _COUNTER),
    82: FieldDefault(Kind.UNSIGNED_INT, value=46),
    **dict.fromkeys((94, 95), _NUMBER),
    **dict.fromkeys((142, 143, 144, 145), _NUMBER),
    NVLINK_STATE_FIELD: FieldDefault(Kind.UNSIGNED_INT, per_link=True),
    **dict.fromkeys((*range(206, 216), *range(219, 223)), _NVLINK_5),
    230: _NUMBER,
    **dict.fromkeys((269, 270, 271), _COUNTER),
}
"""By the field's number, as in the header that NVIDIA ships with NVML."""


class Rule(ctypes.Structure):
    """How one function behaves, for all GPUs or for one."""

    calls: int
    code: int
    times: int
    hang: int
    crash: int
    delay_microseconds: int
    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in ("calls", "code", "times", "hang", "crash", "delay_microseconds")
    )


class Rules(ctypes.Structure):
    """One rule for each function."""

    _fields_ = tuple((name, Rule) for name in CALLS)


class FieldCell(ctypes.Structure):
    """What ``nvmlDeviceGetFieldValues`` answers for one field."""

    known: int
    code: int
    kind: int
    per_link: int
    link: int
    value: int
    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("known", "code", "kind", "per_link", "link", "value")
    )


class Values(ctypes.Structure):
    """A GPU's values beside its fields."""

    _fields_ = tuple((name, ctypes.c_int64) for name in STATE)


class GpuState(ctypes.Structure):
    """One GPU."""

    present: int
    code: int
    bus: int
    pid_count: int
    uuid: bytes
    name: bytes
    pids: ctypes.Array[ctypes.c_int64]
    values: Values
    fields: ctypes.Array[FieldCell]
    rules: Rules
    _fields_ = (
        ("present", ctypes.c_int64),
        ("code", ctypes.c_int64),
        ("bus", ctypes.c_int64),
        ("pid_count", ctypes.c_int64),
        ("uuid", ctypes.c_char * 80),
        ("name", ctypes.c_char * 96),
        ("pids", ctypes.c_int64 * PIDS),
        ("values", Values),
        ("fields", FieldCell * FIELDS),
        ("rules", Rules),
    )


class State(ctypes.Structure):
    """All of the fake driver's state."""

    init_code: int
    library_version: bytes
    kernel_version: bytes
    nvml_version: bytes
    rules: Rules
    gpus: ctypes.Array[GpuState]
    _fields_ = (
        ("init_code", ctypes.c_int64),
        ("library_version", ctypes.c_char * 80),
        ("kernel_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("rules", Rules),
        ("gpus", GpuState * MAX_GPUS),
    )


class Event(ctypes.Structure):
    """One record of the file of events. Without a type it only wakes those who wait."""

    gpu: int
    type: int
    data: int
    instance: int
    _fields_ = tuple((name, ctypes.c_int64) for name in ("gpu", "type", "data", "instance"))


_STRUCTURES = (Rule, Rules, FieldCell, Values, GpuState, State, Event)


def header() -> str:
    """Return the same in C, for the library's sources to include."""
    lines = ["#include <stdint.h>"]
    lines += [
        f"enum {{ MAX_GPUS = {MAX_GPUS}, FIELDS = {FIELDS}, NVLINK_STATE = {NVLINK_STATE_FIELD} }};"
    ]
    for structure in _STRUCTURES:
        lines += [f"struct {structure.__name__} {{", *_members(structure), "};"]
    return "\n".join(lines) + "\n"


def _members(structure: type[ctypes.Structure]) -> Iterator[str]:
    for name, kind, *_ in structure._fields_:
        element = getattr(kind, "_type_", None)
        if isinstance(element, type):
            yield f"    {_c_name(element)} {name}[{kind._length_}];"  # type: ignore[union-attr]  # an array
        else:
            yield f"    {_c_name(kind)} {name};"


def _c_name(kind: type[object]) -> str:
    plain: dict[type[object], str] = {ctypes.c_int64: "int64_t", ctypes.c_char: "char"}
    return plain.get(kind, f"struct {kind.__name__}")
