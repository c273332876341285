"""What Events say of GPUs, how often, and which of it a notice's own Event says instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from lastcall.core.facts import GpuHealth
from lastcall.core.gpu.model import Health
from lastcall.drain.kubernetes.allowance import Allowance
from lastcall.drain.kubernetes.node_gpus import RECOVERIES
from lastcall.drain.kubernetes.notes_text import GPU_FAULT, Said, printable

GPU_DEGRADED = "GPUDegraded"
GPU_RECOVERED = "GPURecovered"

HOLD_SECONDS = 1.0
"""How long an event waits for the notice of the same fault, which then says it along."""

QUIET_SECONDS = 600.0
"""A GPU is said to be degraded once in this time."""

MOST_AT_ONCE = 4
EACH_SECONDS = 450.0
"""Events of one GPU after a pause, and how long until there is one more: in no hour are it more
than 12."""

_KNOWN_GPUS = 128

Put = Callable[[str, Said, tuple[str, ...]], None]
"""Takes the GPU, what is said, and what tells it apart from what else is said of that GPU."""


@dataclass(slots=True)
class _Known:
    """What has been said of a GPU.

    Attributes:
        fault: its worst reason and what helps, while it has been said to be faulty.
        is_over: it was healthy again since, which was not said.
        degraded_at: when it was last said to be degraded.
        recoveries: how often it was healthy again after a fault.
        allowance: what may be said of it.
    """

    fault: tuple[str, ...] | None = None
    is_over: bool = False
    degraded_at: float | None = None
    recoveries: int = 0
    allowance: Allowance = field(default_factory=lambda: Allowance(MOST_AT_ONCE, EACH_SECONDS))

    def may_say(self, now: float, *, is_new_fault: bool = False) -> bool:
        """Count what is to be said; the last one is kept for a fault of a GPU that was well."""
        allows = self.allowance.allows(now, spare=0 if is_new_fault else 1)
        if allows:
            self.allowance.spend(now)
        return allows


@dataclass(frozen=True, slots=True)
class _Held:
    """What is about to be said."""

    gpu: str
    said: Said
    words: tuple[str, ...]


class GpuNotes:
    """Says of each GPU that it is faulty, degraded, or well again. Belongs to the running loop.

    Args:
        put: takes what is said.
        wall: returns Unix seconds.
    """

    def __init__(self, put: Put, wall: Callable[[], float]) -> None:
        self._put = put
        self._wall = wall
        self._known: dict[str, _Known] = {}
        self._held: list[_Held] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, fact: GpuHealth) -> None:
        """Take in how a GPU is now, or how all of them are together."""
        now, known = asyncio.get_running_loop().time(), self._know(fact.gpu)
        said = _said(fact, known, now)
        if said is None:
            return
        # After a restart the same words have the same name, so that nothing is said twice.
        while_it_lasts = (str(int(self._wall() // QUIET_SECONDS)), str(known.recoveries))
        words = (*fact.reasons[:1], fact.recovery.value, *while_it_lasts)
        self._held.append(_Held(fact.gpu, said, words))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self.release)

    def take(self, said: Said) -> Said:
        """Return what is said of a notice of the GPUs, with what would have been said besides."""
        taken = [held.said for held in self._held if held.said.is_warning]
        if not taken:
            return said
        self._held = [held for held in self._held if not held.said.is_warning]
        is_fault = any(one.reason == GPU_FAULT for one in taken)
        message = "; ".join((said.message, *(one.message for one in taken)))
        return Said(
            GPU_FAULT if is_fault else GPU_DEGRADED,
            said.action,
            message,
            is_warning=said.is_warning,
        )

    def release(self) -> None:
        """Say what has been held."""
        if self._timer is not None:
            self._timer.cancel()
        held, self._held, self._timer = self._held, [], None
        for one in held:
            self._put(one.gpu, one.said, one.words)

    def _know(self, gpu: str) -> _Known:
        known = self._known.setdefault(gpu, _Known())
        if len(self._known) > _KNOWN_GPUS:
            del self._known[next(iter(self._known))]
        return known


def _said(fact: GpuHealth, known: _Known, now: float) -> Said | None:
    """Return what is to be said, and take note of it; ``None`` where it has been said."""
    if fact.health is Health.FAULTY:
        return _said_of_fault(fact, known, now)
    if fact.health is Health.DEGRADED:
        is_recent = known.degraded_at is not None and now - known.degraded_at < QUIET_SECONDS
        if is_recent or not known.may_say(now):
            return None
        known.degraded_at = now
        return Said(GPU_DEGRADED, "Report", _trouble(fact, "degraded"), is_warning=True)
    if fact.health is Health.HEALTHY and (known.fault or fact.before is Health.FAULTY):
        return _said_of_recovery(fact, known, now)
    return None


def _said_of_fault(fact: GpuHealth, known: _Known, now: float) -> Said | None:
    fault = (*fact.reasons[:1], fact.recovery.value)
    is_said = known.fault == fault and not known.is_over
    if is_said or not known.may_say(now, is_new_fault=known.fault is None):
        return None
    known.fault, known.is_over = fault, False
    return Said(GPU_FAULT, "Report", _trouble(fact, "faulty"), is_warning=True)


def _said_of_recovery(fact: GpuHealth, known: _Known, now: float) -> Said | None:
    known.recoveries += 1
    known.is_over = not known.may_say(now)
    if known.is_over:
        return None
    known.fault = None
    return Said(GPU_RECOVERED, "Report", f"{_who(fact)} healthy again", is_warning=False)


def _trouble(fact: GpuHealth, how: str) -> str:
    message = f"{_who(fact)} {how}: {printable(', '.join(fact.reasons))}"
    if fact.detail not in {"", "; ".join(fact.reasons)}:
        message += f" ({printable(fact.detail)})"
    if recovery := RECOVERIES[fact.recovery]:
        message += f"; recommended: {recovery}"
    return message


def _who(fact: GpuHealth) -> str:
    if not fact.gpu:
        return "The GPUs are, taken together,"
    number = f"GPU {fact.index}" if fact.index >= 0 else "A GPU"
    return f"{number} ({printable(fact.gpu)}) is"
