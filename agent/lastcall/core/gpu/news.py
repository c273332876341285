"""What else than looks and XIDs the judge of GPUs is told.

All times are seconds on the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lastcall.core.gpu.model import Gpu, Verdict, WatchState


@dataclass(frozen=True, slots=True)
class Moment:
    """Time has passed; due whenever the judge asked to be woken."""

    at: float


@dataclass(frozen=True, slots=True)
class WatchSaid:
    """How it stands with the watch over the GPUs.

    Attributes:
        at: when.
        state: in one word.
        detail: for people.
        gpu: UUID of the GPU that a call hangs on, where one does.
        call: that call.
    """

    at: float
    state: WatchState
    detail: str = ""
    gpu: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class NoiseExpected:
    """A flush or a drain of our own ends processes, which leaves errors behind that say nothing.

    Attributes:
        at: when.
        until: how long this holds; the latest word counts, and one of the past ends it.
    """

    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Repaired:
    """An operator says that the GPUs were reset."""

    at: float


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier run of the agent in the same boot made of the GPUs.

    Attributes:
        at: when this is told.
        verdicts: by UUID; :data:`~lastcall.core.gpu.model.NODE` has the empty one.
        faulty: when the fault began that stands in the agent's notices, as its sighting's identity
            has it; ``None``: none stands.
        degraded: the same of an advice.
    """

    at: float
    verdicts: Mapping[str, tuple[Gpu, Verdict]] = field(default_factory=dict)
    faulty: float | None = None
    degraded: float | None = None
