"""Where the fake driver keeps what the probe's signals are read from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """One number of a GPU's state: a field's, or one of the other values.

    Attributes:
        where: the field's number, or the value's name in ``layout.STATE``.
        factor: how many of the driver's units are one of the signal's.
    """

    where: int | str
    factor: float = 1


_NANOSECONDS = 1e9

PLACES = {
    "recovery_action": Place(230),
    "ecc_corrected": Place(3),
    "ecc_uncorrected": Place(4),
    "ecc_corrected_aggregate": Place(5),
    "ecc_uncorrected_aggregate": Place(6),
    "memory_temperature_celsius": Place(82),
    "remapped_corrected": Place(142),
    "remapped_uncorrected": Place(143),
    "remap_pending": Place(144),
    "remap_failed": Place(145),
    "throttle_thermal_sw_seconds": Place(269, _NANOSECONDS),
    "throttle_thermal_hw_seconds": Place(270, _NANOSECONDS),
    "throttle_power_brake_seconds": Place(271, _NANOSECONDS),
    "pcie_replays": Place(94),
    "nvlink_crc_errors": Place(38),
    "nvlink_replays": Place(52),
    "nvlink_recoveries": Place(59),
    "nvlink_recovery_failures": Place(214),
    "retired_sbe": Place(29),
    "retired_dbe": Place(30),
    "retired_pending": Place(31),
    "utilization_ratio": Place("utilization_percent", 100),
    "memory_utilization_ratio": Place("memory_utilization_percent", 100),
    "power_watts": Place("power_milliwatts", 1000),
}
"""Signals that the driver names or measures otherwise; all others stand under their own name."""
