"""Which figure of a GPU is which metric: one row each, read at the moment of the scrape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from lastcall.core.gpu.signal_rules import Throttle


@dataclass(frozen=True, slots=True)
class Row:
    """One metric.

    Attributes:
        name: without what all names of GPUs begin with.
        text: what it means.
        signals: the signal behind each value of its further label; one without such a label has
            its signal under the empty text.
        label: that label's name.
        counter: it only ever grows while the driver stays loaded.
    """

    name: str
    text: str
    signals: Mapping[str, str]
    label: str = ""
    counter: bool = False


def _gauge(name: str, signal: str, text: str) -> Row:
    return Row(name, text, {"": signal})


ROWS = (
    _gauge("temperature_celsius", "temperature_celsius", "The GPU's temperature."),
    _gauge("memory_temperature_celsius", "memory_temperature_celsius", "The memory's temperature."),
    _gauge(
        "temperature_margin_celsius",
        "margin_celsius",
        "How much warmer the GPU may become before it slows down.",
    ),
    _gauge("power_watts", "power_watts", "The power that the GPU draws."),
    _gauge(
        "utilization_ratio",
        "utilization_ratio",
        "Share of the driver's last sample, under a second long, in which a kernel ran.",
    ),
    _gauge("memory_used_bytes", "memory_used_bytes", "Memory in use."),
    _gauge("memory_total_bytes", "memory_total_bytes", "Memory that there is."),
    Row(
        "ecc_errors",
        "Memory errors since the driver was loaded.",
        {"corrected": "ecc_corrected", "uncorrected": "ecc_uncorrected"},
        "kind",
        counter=True,
    ),
    Row(
        "remapped_rows",
        "Rows of memory that spare ones stand in for, by the kind of error.",
        {"corrected": "remapped_corrected", "uncorrected": "remapped_uncorrected"},
        "kind",
        counter=True,
    ),
    _gauge("remap_pending", "remap_pending", "1 while a row is to be remapped at the next reset."),
    _gauge("remap_failed", "remap_failed", "1 where a row could not be remapped."),
    Row(
        "retired_pages",
        "Pages of memory that are not used any more, by the kind of error; Volta and older.",
        {"single_bit": "retired_sbe", "double_bit": "retired_dbe"},
        "kind",
    ),
    Row(
        "throttle_seconds",
        "How long the GPU was slowed down.",
        {
            "sw_thermal": "throttle_thermal_sw_seconds",
            "hw_thermal": "throttle_thermal_hw_seconds",
            "power_brake": "throttle_power_brake_seconds",
        },
        "reason",
        counter=True,
    ),
    Row("pcie_replays", "Retries on the PCIe link.", {"": "pcie_replays"}, counter=True),
    _gauge(
        "pcie_link_generation",
        "pcie_generation",
        "Generation that the PCIe link runs at; it drops while the GPU idles.",
    ),
    _gauge("pcie_link_generation_max", "pcie_generation_max", "Generation that it could run at."),
    _gauge("pcie_link_width", "pcie_width", "Lanes of the PCIe link."),
    _gauge("pcie_link_width_max", "pcie_width_max", "Lanes that it could have."),
    _gauge("nvlink_links", "nvlink_present", "NVLink links that the GPU has."),
    _gauge("nvlink_links_active", "nvlink_active", "NVLink links that are active."),
    Row(
        "nvlink_errors",
        "Errors on the NVLink links.",
        {
            "crc": "nvlink_crc_errors",
            "replay": "nvlink_replays",
            "recovery": "nvlink_recoveries",
            "recovery_failure": "nvlink_recovery_failures",
        },
        "kind",
        counter=True,
    ),
    _gauge(
        "fabric_state",
        "fabric_state",
        "The GPU in its NVLink fabric: 0 there is none, 1 not started, 2 in progress, 3 completed.",
    ),
    _gauge(
        "recovery_action",
        "recovery_action",
        "What the driver itself asks for: 0 nothing, 1 a reset, 2 a reboot, 3 no peer-to-peer use, "
        "4 no new work and then a reset, 5 and above others.",
    ),
    _gauge("persistence_mode", "persistence", "1 where the driver keeps the GPU initialised."),
    _gauge("mig_mode", "mig", "1 where the GPU is divided into instances (MIG)."),
    _gauge(
        "call_seconds_max", "call_seconds_max", "The longest call into the driver at the last look."
    ),
)

_THROTTLES = {
    "hw_slowdown": Throttle.HW_SLOWDOWN,
    "sw_thermal": Throttle.SW_THERMAL,
    "hw_thermal": Throttle.HW_THERMAL,
    "power_brake": Throttle.POWER_BRAKE,
}


def collect(figures: Iterable[tuple[str, Mapping[str, float]]]) -> Iterator[Metric]:
    """Yield each metric with what the GPUs have of it; what one lacks is not shown for it.

    Args:
        figures: of each GPU its label and its signals.
    """
    known = list(figures)
    for row in ROWS:
        family = _family(row)
        for label, values in known:
            for further, signal in row.signals.items():
                value = values.get(signal)
                if value is not None and math.isfinite(value):
                    family.add_metric([label, further] if row.label else [label], value)
        yield family
    throttled = GaugeMetricFamily(
        "lastcall_gpu_throttled",
        "1 while the GPU is slowed down, and why.",
        labels=("gpu", "reason"),
    )
    for label, values in known:
        mask = values.get("throttle_reasons")
        if mask is not None and math.isfinite(mask):
            for reason, bit in _THROTTLES.items():
                throttled.add_metric([label, reason], float(bool(int(mask) & bit)))
    yield throttled


def _family(row: Row) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if row.counter else GaugeMetricFamily
    labels = ("gpu", row.label) if row.label else ("gpu",)
    return kind(f"lastcall_gpu_{row.name}", row.text, labels=labels)
