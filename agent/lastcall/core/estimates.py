"""What past checkpoints say about the next flush, and how often to checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

KEPT = 20
"""Durations remembered for one job."""

COMFORT = 0.8
"""Share of the budget up to which a predicted flush counts as fitting."""


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The latest checkpoints of one job on this node.

    Attributes:
        stall_seconds: how long training stood still for each.
        durable_seconds: from the start of each to durable.
        last_at: when the last one became durable, on the monotonic clock.
    """

    stall_seconds: tuple[float, ...] = ()
    durable_seconds: tuple[float, ...] = ()
    last_at: float | None = None
    last_step: int | None = None
    last_path: str | None = None


@dataclass(frozen=True, slots=True)
class JobAdvice:
    """What follows for the job: ``fits`` is ``fits``, ``tight``, ``misses`` or ``unknown``."""

    interval_seconds: float | None
    fits: str
    predicted_seconds: float | None


def remember(
    history: JobHistory,
    *,
    now: float,
    step: int,
    path: str | None,
    stall_seconds: float | None,
    durable_seconds: float | None,
) -> JobHistory:
    """Return the history with one more durable checkpoint."""
    history = replace(history, last_at=now, last_step=step, last_path=path)
    if stall_seconds is not None:
        kept = (*history.stall_seconds, stall_seconds)[-KEPT:]
        history = replace(history, stall_seconds=kept)
    if durable_seconds is not None:
        kept = (*history.durable_seconds, durable_seconds)[-KEPT:]
        history = replace(history, durable_seconds=kept)
    return history


def advise(
    history: JobHistory,
    *,
    budget_seconds: float | None,
    mean_time_between_interruptions_seconds: float,
) -> JobAdvice:
    """Return the advice for a job.

    The predicted flush is the 95th percentile of the remembered durations. The interval is
    Young's first-order optimum, √(2·C·M), with the median stall for C (J. W. Young, "A first order
    approximation to the optimum checkpoint interval", CACM 17(9), 1974). It holds for
    interruptions that come at random with a steady rate, which is a rule of thumb only.
    """
    predicted = _quantile(history.durable_seconds, 0.95)
    stall = _quantile(history.stall_seconds, 0.5)
    interval = None
    if stall:
        interval = math.sqrt(2 * stall * mean_time_between_interruptions_seconds)
    return JobAdvice(interval, verdict(predicted, budget_seconds), predicted)


def verdict(predicted_seconds: float | None, budget_seconds: float | None) -> str:
    """Return whether a flush fits: ``fits``, ``tight``, ``misses`` or ``unknown``."""
    if predicted_seconds is None or budget_seconds is None:
        return "unknown"
    if predicted_seconds <= COMFORT * budget_seconds:
        return "fits"
    return "tight" if predicted_seconds <= budget_seconds else "misses"


def _quantile(values: tuple[float, ...], share: float) -> float | None:
    if not values:
        return None
    return sorted(values)[math.ceil(share * len(values)) - 1]
