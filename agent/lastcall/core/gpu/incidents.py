"""Which marks are one occurrence: at most one fault and one advice to save stand at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lastcall.core.gpu.belief import QUIET_SECONDS, Belief, Incidents, Key, Occurrence
from lastcall.core.gpu.model import EFFORT, Gpu, Health, Mark, Recovery, Verdict
from lastcall.core.gpu.news import Remembered
from lastcall.core.model import Action, Kind, Sighting

SOURCE = "gpu"
SCOPE = "health"
FAULTY = "faulty"
DEGRADED = "degraded"

RETURNS_SECONDS = 1800.0
"""A mark that went and comes back within this time is no news."""

_REASON_CHARACTERS = 200

_ACTIONS = {Recovery.REBOOT: Action.REBOOT, Recovery.REPLACE: Action.TERMINATE}

Judged = Mapping[str, tuple[Gpu, Verdict]]


def follow(incidents: Incidents, judged: Judged, at: float, *, advises: bool) -> Incidents:
    """Return the incidents once the GPUs are judged anew, or the time has come for it.

    A fault that comes and goes would else be told of each time.

    Args:
        incidents: the incidents before.
        judged: how the GPUs are now.
        at: when.
        advises: an advice that stood before was reported.
    """
    if is_due(incidents, at):
        incidents = close(incidents)
    present = {
        (gpu.uuid, mark.reason, health): mark
        for health in (Health.DEGRADED, Health.FAULTY)
        for gpu, mark in _marks(judged, health)
    }
    recent = {key for key, ended_at in incidents.stood.items() if at - ended_at <= RETURNS_SECONDS}
    faults, signs = [], []
    for (uuid, reason, health), mark in present.items():
        was_faulty = (uuid, reason, Health.FAULTY) in recent
        if health is Health.FAULTY and not was_faulty:
            faults.append(mark.since)
        elif health is Health.DEGRADED and not was_faulty and (uuid, reason, health) not in recent:
            signs.append(mark.since)
    healths = {health for _, _, health in present}
    fault, quiet_since = incidents.fault, None
    if Health.FAULTY in healths:
        if fault is None and not faults:
            faults = [mark.since for mark in present.values() if mark.health is Health.FAULTY]
        fault = _joined(fault, faults)
    elif fault is not None:
        quiet_since = at if incidents.quiet_since is None else incidents.quiet_since
        fault = replace(fault, last=quiet_since)
    return Incidents(
        fault=fault,
        quiet_since=quiet_since,
        advice=_joined(incidents.advice if Health.DEGRADED in healths else None, signs),
        told=_told(incidents, advises=advises) if Health.DEGRADED in healths else None,
        stood=_stood(incidents.stood, present, at),
    )


def quiet_until(incidents: Incidents) -> float | None:
    """Return when a fault of which nothing is seen any more is over; ``None``: there is none."""
    if incidents.quiet_since is None:
        return None
    return incidents.quiet_since + QUIET_SECONDS


def is_due(incidents: Incidents, at: float) -> bool:
    """Whether a fault has been quiet for long enough to be over."""
    until = quiet_until(incidents)
    return until is not None and at >= until


def close(incidents: Incidents) -> Incidents:
    """Return the incidents once a fault of which nothing is seen any more is over."""
    if incidents.quiet_since is None:
        return incidents
    return replace(incidents, fault=None, quiet_since=None)


def recall(news: Remembered) -> Incidents:
    """Return the incidents as an earlier run of the agent told of them."""
    marks = {
        (uuid, mark.reason, mark.health): mark
        for uuid, (_, verdict) in news.verdicts.items()
        for mark in verdict.marks
    }
    last = {
        wanted: max((m.since for m in marks.values() if m.health is wanted), default=news.at)
        for wanted in (Health.FAULTY, Health.DEGRADED)
    }
    advice = None if news.degraded is None else Occurrence(news.degraded, last[Health.DEGRADED])
    return Incidents(
        fault=None if news.faulty is None else Occurrence(news.faulty, last[Health.FAULTY]),
        advice=advice,
        told=advice,
        stood=dict.fromkeys(marks, math.inf),
    )


def sightings(belief: Belief) -> tuple[Sighting, ...] | None:
    """Return what a source that reports the GPUs' health sees now.

    Two occurrences are the same where they began at the same time, on the clock that starts with
    the machine.

    Returns:
        Its sightings; ``None`` where what was reported before must stand: a fault may come back, or
        too little is known to say that there is nothing else.
    """
    incidents = belief.incidents
    if incidents.quiet_since is not None:
        return None
    if incidents.fault is not None:
        named = list(_marks(belief.judged, Health.FAULTY))
        recovery = max((mark.recovery for _, mark in named), key=EFFORT.index)
        action = _ACTIONS.get(recovery, Action.NONE)
        fault = _sighting(FAULTY, action, incidents.fault.began, named)
        if incidents.told is None:
            return (fault,)
        # What took the place of an advice stands beside it: else it would be told of again.
        named = list(_marks(belief.judged, Health.DEGRADED))
        return fault, _sighting(DEGRADED, Action.NONE, incidents.told.began, named)
    if incidents.advice is not None and (belief.settled or belief.was_settled):
        named = list(_marks(belief.judged, Health.DEGRADED))
        return (_sighting(DEGRADED, Action.NONE, incidents.advice.began, named),)
    return () if belief.settled else None


def _marks(judged: Judged, health: Health) -> Iterator[tuple[Gpu, Mark]]:
    for gpu, verdict in judged.values():
        for mark in verdict.marks:
            if mark.health is health:
                yield gpu, mark


def _joined(occurrence: Occurrence | None, new: Iterable[float]) -> Occurrence | None:
    """Return the occurrence with marks that began then; what begins much later is another one."""
    for since in sorted(new):
        if occurrence is None or since - occurrence.last > QUIET_SECONDS:
            occurrence = Occurrence(since, since)
        else:
            occurrence = replace(occurrence, last=max(since, occurrence.last))
    return occurrence


def _told(incidents: Incidents, *, advises: bool) -> Occurrence | None:
    """Return the advice that is known to have been reported before what is news now."""
    if incidents.fault is None and advises:
        return incidents.advice
    return incidents.told


def _stood(
    before: Mapping[Key, float], present: Mapping[Key, Mark], at: float
) -> Mapping[Key, float]:
    ended = {
        key: at if ended_at == math.inf else ended_at
        for key, ended_at in before.items()
        if key not in present
    }
    kept = {key: ended_at for key, ended_at in ended.items() if at - ended_at <= RETURNS_SECONDS}
    return {**kept, **dict.fromkeys(present, math.inf)}


def _sighting(code: str, action: Action, began: float, named: list[tuple[Gpu, Mark]]) -> Sighting:
    return Sighting(
        source=SOURCE,
        scope=SCOPE,
        key=code,
        kind=Kind.GPU_FAULT,
        action=action,
        code=code,
        identity=f"{began:.3f}",
        reason=_reason(named),
        cancellable=True,
    )


def _reason(named: list[tuple[Gpu, Mark]]) -> str:
    by_gpu: dict[str, list[str]] = {}
    for gpu, mark in named:
        by_gpu.setdefault(_name(gpu), []).append(mark.reason)
    words = "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in by_gpu.items())
    return words if len(words) <= _REASON_CHARACTERS else words[: _REASON_CHARACTERS - 1] + "…"


def _name(gpu: Gpu) -> str:
    if not gpu.uuid:
        return "node"
    short = gpu.uuid.removeprefix("GPU-")[:8]
    return f"GPU {gpu.index} ({short})" if gpu.index >= 0 else f"GPU {short}"
