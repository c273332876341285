"""The words of GPU health: what is read of a GPU, and what is made of it.

All times are seconds on the monotonic clock. Nothing here changes once made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Health(StrEnum):
    """How a GPU is, in the order of how bad it is; ``unknown`` says nothing either way."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    FAULTY = "faulty"


class Recovery(StrEnum):
    """What brings a GPU back, in the order of how much it takes."""

    NONE = "none"
    RESTART_AGENT = "restart_agent"
    RESET_WHEN_IDLE = "reset_when_idle"
    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"


SEVERITY = tuple(Health)
"""From what is best to what is worst."""

EFFORT = tuple(Recovery)
"""From what takes least to what takes most."""


class WatchState(StrEnum):
    """How it stands with the watch over the GPUs.

    ``no_gpu``: the machine has none. ``no_driver``: no driver, or none yet. ``driver_changed``: the
    driver's library is not of its kernel module's version any more. ``access_lost``: the container
    lost its device files. ``unresponsive``: a call into the driver did not come back. ``crashed``:
    the probe ended by itself. ``released``: it was let go, so that a GPU can be reset.
    """

    OFF = "off"
    STARTING = "starting"
    WATCHING = "watching"
    NO_GPU = "no_gpu"
    NO_DRIVER = "no_driver"
    DRIVER_CHANGED = "driver_changed"
    ACCESS_LOST = "access_lost"
    UNRESPONSIVE = "unresponsive"
    CRASHED = "crashed"
    RELEASED = "released"


WATCH_TROUBLES = (
    WatchState.NO_DRIVER,
    WatchState.DRIVER_CHANGED,
    WatchState.ACCESS_LOST,
    WatchState.UNRESPONSIVE,
    WatchState.CRASHED,
)
"""States in which GPUs that may be there are not watched, though they should be."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        uuid: its UUID; empty where it is not known.
        index: the driver's number for it now, which may be another's after a restart; -1 where it
            has none.
        name: its model.
        pci: its PCI address, as the driver writes it: ``00000000:1B:00.0``.
    """

    uuid: str
    index: int = -1
    name: str = ""
    pci: str = ""


NODE = Gpu("")
"""Stands in a GPU's place for what is said of all GPUs of the node together."""


_OF_THE_LOOK = frozenset({"call_seconds_max"})
"""What a look has even where it read nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one GPU.

    Attributes:
        gpu: which.
        at: when.
        code: what the GPU itself answered: the return code of NVML (``nvmlReturn_t``) that says
            that the GPU cannot be used, such as 15 (lost) or 16 (reset required); else 0.
        call: the call that answered it.
        values: by the signal's name, as in ``docs/reference/gpu.md``; what this look did not read
            is not in it.
        codes: the return code of each signal that could not be read.
        pids: processes that compute on it, as the driver numbers them; ``None``: not read.
    """

    gpu: Gpu
    at: float
    code: int = 0
    call: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    pids: tuple[int, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing could be read of the GPU itself."""
        return self.values.keys() <= _OF_THE_LOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLook:
    """One look at all GPUs together.

    Attributes:
        at: when.
        driver_count: GPUs that the driver counts.
        pci_count: NVIDIA's GPUs on the PCI bus; ``None`` where it cannot be seen.
        control_openable: the driver's control device can be opened; ``None``: not tried.
        driver: version of the driver's library.
        kernel_driver: version of the kernel module; empty where it cannot be seen.
    """

    at: float
    driver_count: int
    pci_count: int | None = None
    control_openable: bool | None = None
    driver: str = ""
    kernel_driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidSeen:
    """An XID error that the driver reported for a GPU.

    Attributes:
        uuid: the GPU's; empty where it is not known.
        xid: its number; 999 is the driver's own word for one that it does not know.
        at: when it was seen; for one of the past, when the kernel wrote it.
        count: how often, where several came together.
        text: the kernel's own line, where that is the source; NVML's events have no text.
        past: it came before the watch began.
    """

    uuid: str
    xid: int
    at: float
    count: int = 1
    text: str = ""
    past: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One thing that speaks against a GPU.

    Attributes:
        reason: its name, such as ``xid_79`` or ``row_remap_pending``.
        health: what it makes of the GPU.
        recovery: what helps.
        detail: for people: the figure, the call, the kernel's line.
        since: when it was first so.
        xid: the XID behind it, if one is.
        lost: nothing can be saved from this GPU any more.
    """

    reason: str
    health: Health
    recovery: Recovery = Recovery.NONE
    detail: str = ""
    since: float = 0.0
    xid: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is made of a GPU, or, for :data:`NODE`, of all of them together.

    Attributes:
        health: how it is.
        marks: what speaks against it, in no order.
    """

    health: Health = Health.UNKNOWN
    marks: tuple[Mark, ...] = ()

    @property
    def recovery(self) -> Recovery:
        """What takes care of all that speaks against it."""
        return max((mark.recovery for mark in self.marks), key=EFFORT.index, default=Recovery.NONE)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against it, the worst first."""
        return tuple(mark.reason for mark in self._worst_first())

    @property
    def detail(self) -> str:
        """What speaks against it, in words for people, the worst first."""
        return "; ".join(mark.detail or mark.reason for mark in self._worst_first())

    def _worst_first(self) -> list[Mark]:
        return sorted(self.marks, key=lambda mark: -SEVERITY.index(mark.health))

    @property
    def lost(self) -> bool:
        """Whether nothing can be saved from it any more."""
        return any(mark.lost for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that computes on GPUs.

    Attributes:
        pid: its process id.
        gpus: UUIDs of the GPUs.
        command: its command line, cut short; empty where it cannot be seen.
        parents: process ids from its parent upward.
    """

    pid: int
    gpus: tuple[str, ...]
    command: str = ""
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """A GPU's figures of its last good look, for the metrics.

    Attributes:
        gpu: which.
        at: when they were read.
        values: by the signal's name.
        idle_ratio: share of the last minutes in which nothing ran on it; ``None``: not known.
    """

    gpu: Gpu
    at: float
    values: Mapping[str, float]
    idle_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """What is kept of a GPU.

    Attributes:
        gpu: which.
        verdict: how it was last judged.
        sign_at: when its trouble of now began; ``None`` while it has none.
        safe_at: when all work on the node was saved after that; ``None``: not yet.
        lost_at: when it was lost.
    """

    gpu: Gpu
    verdict: Verdict = Verdict()
    sign_at: float | None = None
    safe_at: float | None = None
    lost_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatch:
    """How it stands with the watch over the GPUs.

    Attributes:
        state: in one word.
        detail: for people.
        since: when it came to be so.
        gpu: UUID of the GPU that a call hangs on, where one does.
        call: that call.
        pid: the probe's process, where it cannot be ended.
    """

    state: WatchState
    detail: str = ""
    since: float = 0.0
    gpu: str = ""
    call: str = ""
    pid: int | None = None
