"""Which marks are one occurrence: at most one fault and one advice to save stand at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lastcall.core.gpu.belief import QUIET_SECONDS, Advice, Belief, Incidents
from lastcall.core.gpu.model import EFFORT, Gpu, Health, Mark, Recovery, Verdict
from lastcall.core.model import Action, Kind, Sighting

SOURCE = "gpu"
SCOPE = "health"

RETURNS_SECONDS = 1800.0
"""A mark that went and comes back within this time is no news."""

_REASON_CHARACTERS = 200

_ACTIONS = {Recovery.REBOOT: Action.REBOOT, Recovery.REPLACE: Action.TERMINATE}

Judged = Mapping[str, tuple[Gpu, Verdict]]


def follow(incidents: Incidents, judged: Judged, at: float) -> Incidents:
    """Return the incidents once the GPUs are judged anew."""
    present = {
        (gpu.uuid, mark.reason): mark
        for health in (Health.DEGRADED, Health.FAULTY)
        for gpu, mark in _marks(judged, health)
    }
    faulty = [mark.since for _, mark in _marks(judged, Health.FAULTY)]
    faulty_since = incidents.faulty_since
    if not faulty:
        faulty_since = None
    elif faulty_since is None:
        faulty_since = min(faulty)
    new = sorted(
        mark.since
        for key, mark in present.items()
        if mark.health is Health.DEGRADED
        and at - incidents.stood.get(key, -math.inf) > RETURNS_SECONDS
    )
    advice = incidents.advice
    if not any(mark.health is Health.DEGRADED for mark in present.values()):
        advice = None
    for since in new:
        advice = _advised(advice, since)
    return replace(
        incidents,
        faulty_since=faulty_since,
        advice=advice,
        stood=_stood(incidents.stood, present, at),
    )


def sightings(belief: Belief) -> tuple[Sighting, ...] | None:
    """Return what a source that reports the GPUs' health sees now.

    The fault is one from the first faulty mark to the last; what makes it clear whether two
    occurrences are the same is when they began, on the clock that starts with the machine.

    Returns:
        Its sightings; ``None`` where too little is known to say that there is nothing else, so that
        what was reported before must stand.
    """
    incidents = belief.incidents
    if incidents.faulty_since is not None:
        named = list(_marks(belief.judged, Health.FAULTY))
        recovery = max((mark.recovery for _, mark in named), key=EFFORT.index)
        action = _ACTIONS.get(recovery, Action.NONE)
        return (_sighting("faulty", action, incidents.faulty_since, named),)
    if incidents.advice is not None and (belief.settled or belief.was_settled):
        named = list(_marks(belief.judged, Health.DEGRADED))
        return (_sighting("degraded", Action.NONE, incidents.advice.began, named),)
    return () if belief.settled else None


def _marks(judged: Judged, health: Health) -> Iterator[tuple[Gpu, Mark]]:
    for gpu, verdict in judged.values():
        for mark in verdict.marks:
            if mark.health is health:
                yield gpu, mark


def _advised(advice: Advice | None, since: float) -> Advice:
    if advice is None or since - advice.last > QUIET_SECONDS:
        return Advice(since, since)
    return replace(advice, last=max(since, advice.last))


def _stood(
    before: Mapping[tuple[str, str], float], present: Mapping[tuple[str, str], Mark], at: float
) -> Mapping[tuple[str, str], float]:
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
