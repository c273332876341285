"""GPUs for the tests of what is shown of them, and readings whose figures a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from lastcall.core.gpu.model import Figures, Gpu, Health, Mark, NodeLook, Recovery, Verdict

GPU_0 = Gpu("GPU-aaaa", 0, "NVIDIA H100 80GB HBM3", "00000000:1B:00.0")
GPU_1 = Gpu("GPU-bbbb", 1, "NVIDIA H100 80GB HBM3", "00000000:43:00.0")

HEALTHY = Verdict(Health.HEALTHY)
OFF_THE_BUS = Mark(
    reason="xid_79",
    health=Health.FAULTY,
    recovery=Recovery.REBOOT,
    detail="GPU has fallen off the bus",
    since=150.0,
    xid=79,
    lost=True,
)
REMAP_PENDING = Mark(
    reason="row_remap_pending",
    health=Health.DEGRADED,
    recovery=Recovery.RESET_WHEN_IDLE,
    since=140.0,
)
DEGRADED = Verdict(Health.DEGRADED, (REMAP_PENDING,))
LOST = Verdict(Health.FAULTY, (REMAP_PENDING, OFF_THE_BUS))

VALUES = {
    "temperature_celsius": 61.0,
    "memory_temperature_celsius": 74.0,
    "margin_celsius": 26.0,
    "power_watts": 412.5,
    "utilization_ratio": 0.97,
    "memory_used_bytes": 70.0 * 2**30,
    "memory_total_bytes": 80.0 * 2**30,
    "ecc_corrected": 3.0,
    "ecc_uncorrected": 0.0,
    "remapped_corrected": 1.0,
    "remapped_uncorrected": 2.0,
    "remap_pending": 1.0,
    "remap_failed": 0.0,
    "retired_sbe": 0.0,
    "retired_dbe": 0.0,
    "throttle_reasons": float(0x4 | 0x40),
    "throttle_thermal_sw_seconds": 0.5,
    "throttle_thermal_hw_seconds": 12.0,
    "throttle_power_brake_seconds": 0.0,
    "pcie_replays": 4.0,
    "pcie_generation": 5.0,
    "pcie_generation_max": 5.0,
    "pcie_width": 16.0,
    "pcie_width_max": 16.0,
    "nvlink_present": 18.0,
    "nvlink_active": 17.0,
    "nvlink_crc_errors": 0.0,
    "nvlink_replays": 1.0,
    "nvlink_recoveries": 0.0,
    "nvlink_recovery_failures": 0.0,
    "fabric_state": 3.0,
    "recovery_action": 0.0,
    "persistence": 1.0,
    "mig": 0.0,
    "call_seconds_max": 0.004,
}
"""A figure for every signal that is shown."""


@dataclass
class FixedReadings:
    """What the watch would have read."""

    last: list[Figures] = field(default_factory=list)
    look: NodeLook | None = None
    expected: int = 0
    kernel_log: str = "off"
    event_stream_up: bool | None = None
    fresh_seconds: float = 15.0

    def read(
        self, gpu: Gpu, at: float, *, idle_ratio: float | None = None, **values: float
    ) -> None:
        """Set a GPU's figures; without any, one for every signal."""
        self.last = [one for one in self.last if one.gpu != gpu]
        self.last.append(Figures(gpu, at, values or VALUES, idle_ratio))

    def figures(self) -> list[Figures]:
        """Return them all."""
        return self.last

    def node_look(self) -> NodeLook | None:
        """Return the look at all GPUs together."""
        return self.look
