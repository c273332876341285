"""The rules on sampled signals, as data.

Limits are those in use elsewhere, named with each rule; where others only warn, so does this
table. A signal that a GPU does not have is no fault: its rule says nothing then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntFlag, StrEnum

from lastcall.core.gpu.codes import CORRUPTED_INFOROM
from lastcall.core.gpu.model import Health, Recovery


class Throttle(IntFlag):
    """Reasons of a slowdown that say something of a GPU's health (``nvmlClocksEventReason…``).

    Being idle, a clock setting or a power cap is no trouble.
    """

    HW_SLOWDOWN = 0x08
    SW_THERMAL = 0x20
    HW_THERMAL = 0x40
    POWER_BRAKE = 0x80


class Check(StrEnum):
    """How a signal is checked, and what the rule's limit is of.

    ``at_least``: the figure, from the limit on. ``near_zero``: a margin above 0, up to the limit.
    ``bits``: any bit of the limit; ``hits`` and ``looks`` count minutes, so that it does not matter
    how often is looked. ``rate``: the growth a minute, above the limit. ``link_rate``: the same;
    without a limit, what suits the PCIe link. ``growth``: the growth in all, from the limit on.
    ``below``: under load, a share of what it could be, below the limit. ``links``: NVLinks that
    should be active and are not. ``fabric_wait``: seconds without having joined the NVLink fabric.
    ``fabric_status``, ``fabric_health``, ``action``, ``code``: what the driver itself says.
    """

    AT_LEAST = "at_least"
    NEAR_ZERO = "near_zero"
    BITS = "bits"
    RATE = "rate"
    LINK_RATE = "link_rate"
    GROWTH = "growth"
    BELOW = "below"
    LINKS = "links"
    FABRIC_WAIT = "fabric_wait"
    FABRIC_STATUS = "fabric_status"
    FABRIC_HEALTH = "fabric_health"
    ACTION = "action"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRule:
    """How one signal is judged.

    Attributes:
        name: its name, which is the reason that a GPU's verdict gives.
        reads: the signals that it reads; several are added up.
        check: how.
        words: what is said of it; ``{figure}`` and ``{text}`` are filled in.
        health: what it makes of the GPU; ``None``: nothing.
        recovery: what helps.
        limit: see :class:`Check`; ``None`` where there is none, or none that is fixed.
        hits: how many of the last ``looks`` must say so.
        looks: how many looks are considered.
        window_seconds: the time over which growth is taken.
        above: growth counts only where the figure itself is above this.
        noisy: ended processes cause it too; it says nothing while a flush or a drain goes on.
        yields: it is a weaker witness than the recovery action: where that needs none, the GPU is
            degraded by it and not faulty.
    """

    name: str
    reads: tuple[str, ...]
    check: Check
    words: str
    health: Health | None = Health.DEGRADED
    recovery: Recovery = Recovery.NONE
    limit: float | None = None
    hits: int = 1
    looks: int = 1
    window_seconds: float = 60.0
    above: float = -math.inf
    noisy: bool = False
    yields: bool = False


def _throttled(name: str, signal: str, cause: str) -> SignalRule:
    # The driver's own clock of it sees what samples miss: 36 s a minute are 6 of 10 minutes.
    return SignalRule(
        name=name,
        reads=(signal,),
        check=Check.RATE,
        words=f"slowed down by {cause} for {{figure:.0f}} s a minute",
        limit=36.0,
        window_seconds=600.0,
    )


def _flag(
    name: str, signal: str, words: str, recovery: Recovery, health: Health = Health.DEGRADED
) -> SignalRule:
    return SignalRule(
        name=name,
        reads=(signal,),
        check=Check.AT_LEAST,
        words=words,
        health=health,
        recovery=recovery,
        limit=1.0,
    )


_MEMORY = (
    SignalRule(
        name="ecc_uncorrected",
        reads=("ecc_uncorrected",),
        check=Check.AT_LEAST,
        words="uncorrected memory errors since the last reset: {figure:.0f}",
        health=Health.FAULTY,
        recovery=Recovery.RESET,
        limit=1.0,
        yields=True,
    ),
    SignalRule(  # Azure's cyclecloud-healthagent warns from 100 a minute on
        name="ecc_corrected_rate",
        reads=("ecc_corrected",),
        check=Check.RATE,
        words="corrected memory errors: {figure:.0f} a minute",
        limit=100.0,
    ),
    _flag(
        "sram_ecc_threshold",
        "sram_ecc_threshold",
        "more uncorrected SRAM errors than the driver accepts",
        Recovery.REPLACE,
        Health.FAULTY,
    ),
    # What runs goes on running correctly, and the next reset repairs it (NVIDIA, "GPU memory error
    # management", error recovery and response flags).
    _flag(
        "row_remap_pending",
        "remap_pending",
        "a memory row is replaced at the next reset",
        Recovery.RESET_WHEN_IDLE,
    ),
    _flag(
        "row_remap_failed",
        "remap_failed",
        "a memory row could not be replaced",
        Recovery.REPLACE,
        Health.FAULTY,
    ),
    SignalRule(  # DCGM, and Azure's NHC
        name="row_remap_uncorrected",
        reads=("remapped_uncorrected",),
        check=Check.AT_LEAST,
        words="memory rows replaced after uncorrected errors: {figure:.0f}",
        health=Health.FAULTY,
        recovery=Recovery.REPLACE,
        limit=512.0,
    ),
    SignalRule(  # DCGM; the same for the one below
        name="retired_pages",
        reads=("retired_sbe", "retired_dbe"),
        check=Check.AT_LEAST,
        words="retired memory pages: {figure:.0f}",
        health=Health.FAULTY,
        recovery=Recovery.REPLACE,
        limit=63.0,
    ),
    SignalRule(
        name="retired_pages_growing",
        reads=("retired_dbe",),
        check=Check.GROWTH,
        words="memory pages retired for double-bit errors in the last days: {figure:.0f}",
        health=Health.FAULTY,
        recovery=Recovery.REPLACE,
        limit=1.0,
        window_seconds=7 * 86400.0,
        above=15.0,
    ),
    _flag(
        "retired_pages_pending",
        "retired_pending",
        "a memory page is retired at the next reset",
        Recovery.RESET_WHEN_IDLE,
    ),
    SignalRule(
        name="inforom_corrupted",
        reads=("inforom",),
        check=Check.CODE,
        words="the GPU's configuration memory is corrupted",
        limit=float(CORRUPTED_INFOROM),
        window_seconds=1800.0,
    ),
)

_HEAT = (
    SignalRule(  # gpud: in 6 of the last 10 minutes
        name="throttled",
        reads=("throttle_reasons",),
        check=Check.BITS,
        words="slowed down in {figure:.0f} of the last minutes: {text}",
        limit=float(sum(Throttle)),
        hits=6,
        looks=10,
    ),
    _throttled("throttled_thermal_sw", "throttle_thermal_sw_seconds", "heat (software)"),
    _throttled("throttled_thermal_hw", "throttle_thermal_hw_seconds", "heat (hardware)"),
    _throttled("throttled_power_brake", "throttle_power_brake_seconds", "the power brake"),
    SignalRule(  # the error level of Azure's cyclecloud-healthagent
        name="temperature",
        reads=("temperature_celsius",),
        check=Check.AT_LEAST,
        words="{figure:.0f} °C",
        limit=90.0,
        hits=3,
        looks=3,
    ),
    SignalRule(
        name="memory_temperature",
        reads=("memory_temperature_celsius",),
        check=Check.AT_LEAST,
        words="memory at {figure:.0f} °C",
        limit=105.0,
        hits=3,
        looks=3,
    ),
    # Three in a row as NVSentinel does; a margin of 0 or less is not reliable (gpud issue 1208).
    SignalRule(
        name="temperature_margin",
        reads=("margin_celsius",),
        check=Check.NEAR_ZERO,
        words="{figure:.0f} °C below where it slows down",
        limit=3.0,
        hits=3,
        looks=3,
    ),
)

_LINKS = (
    SignalRule(  # without a limit: what DCGM accepts, by the link's generation and width
        name="pcie_replays",
        reads=("pcie_replays",),
        check=Check.LINK_RATE,
        words="PCIe replays: {figure:.0f} a minute",
    ),
    # Both fall by themselves to save power, so only a GPU at work is judged.
    SignalRule(
        name="pcie_width",
        reads=("pcie_width", "pcie_width_max"),
        check=Check.BELOW,
        words="PCIe width x{figure:.0f} under load",
        limit=1.0,
        hits=3,
        looks=3,
    ),
    SignalRule(
        name="pcie_generation",
        reads=("pcie_generation", "pcie_generation_max"),
        check=Check.BELOW,
        words="PCIe generation {figure:.0f} under load",
        limit=1.0,
        hits=3,
        looks=3,
    ),
    SignalRule(
        name="nvlink_inactive",
        reads=("nvlink_active",),
        check=Check.LINKS,
        words="NVLinks inactive: {figure:.0f} of {text}",
        hits=3,
        looks=3,
    ),
    SignalRule(  # DCGM: 100 a second
        name="nvlink_crc_errors",
        reads=("nvlink_crc_errors",),
        check=Check.RATE,
        words="NVLink CRC errors: {figure:.0f} a minute",
        limit=6000.0,
        noisy=True,
    ),
    SignalRule(
        name="nvlink_replays",
        reads=("nvlink_replays",),
        check=Check.GROWTH,
        words="new NVLink replays: {figure:.0f}",
        limit=1.0,
        window_seconds=180.0,
        noisy=True,
    ),
    SignalRule(
        name="nvlink_recoveries",
        reads=("nvlink_recoveries",),
        check=Check.GROWTH,
        words="new NVLink recoveries: {figure:.0f}",
        limit=1.0,
        window_seconds=180.0,
        noisy=True,
    ),
    SignalRule(
        name="nvlink_recovery_failures",
        reads=("nvlink_recovery_failures",),
        check=Check.AT_LEAST,
        words="NVLink recoveries that failed: {figure:.0f}",
        health=Health.FAULTY,
        recovery=Recovery.RESET,
        limit=1.0,
        yields=True,
    ),
    SignalRule(
        name="fabric_not_joined",
        reads=("fabric_state",),
        check=Check.FABRIC_WAIT,
        words="not in the NVLink fabric for {figure:.0f} s; is its fabric manager running?",
        limit=600.0,
    ),
    SignalRule(
        name="fabric_status",
        reads=("fabric_status",),
        check=Check.FABRIC_STATUS,
        words="joining the NVLink fabric failed with code {figure:.0f}",
        hits=2,
        looks=2,
    ),
    SignalRule(
        name="fabric_health",
        reads=("fabric_mask", "fabric_summary"),
        check=Check.FABRIC_HEALTH,
        words="NVLink fabric: {text}",
        hits=3,
        looks=3,
    ),
)

SIGNALS: tuple[SignalRule, ...] = (
    SignalRule(
        name="recovery_action",
        reads=("recovery_action",),
        check=Check.ACTION,
        words="{text}",
        health=Health.FAULTY,
    ),
    *_MEMORY,
    *_HEAT,
    *_LINKS,
)
"""In the order in which they are judged."""
