"""What a drain of a Slurm node does now: from the jobs, the order, what was done and the time.

Nothing here waits, asks a clock or runs a command. A plan is derived from what is known each time
anew; only what the jobs do not show is remembered (:class:`Past`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Literal

from lastcall.core.commands import Drain
from lastcall.drain.slurm.processes import Footprint, job_of, signal_number
from lastcall.drain.slurm.text import Job

END_MARGIN_SECONDS = 1.0
"""So long before the deadline a drain is over, so that its result is still written down."""

END_MARGIN_SHARE = 1 / 10
"""The most of the drain's time that this margin takes."""

NO_FOOTPRINT = Footprint()


@dataclass(frozen=True, slots=True)
class Means:
    """What a drain may do to jobs.

    Attributes:
        requeue: which of the jobs that may be requeued are: those of one node, all, or none.
        signal: sent to batch scripts of jobs that do not use the socket; empty for none.
    """

    requeue: Literal["single", "all", "none"] = "single"
    signal: str = "USR1"


class State(StrEnum):
    """Where a job stands."""

    FLUSHING = "flushing"
    WORKING = "working"
    ASKING = "asking"
    LEAVING = "leaving"
    KEPT = "kept"
    GONE = "gone"


class Do(Enum):
    """What can be done about a job."""

    SIGNAL = "signal"
    REQUEUE = "requeue"
    LOOK_BACK = "look back"
    """At how it ended; where it ended for the notice, it is requeued after all."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do now."""

    do: Do
    job: Job


@dataclass(frozen=True, slots=True)
class News:
    """One thing to report of a job."""

    job: Job
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What was done about a job.

    Attributes:
        has_trained: it was seen to have processes that were told to flush.
        is_signalled: its script was sent the signal, or that was tried.
        is_asked: Slurm has accepted that it is requeued.
        is_looked_back_at: it is known how it ended.
        trouble: why it could not be requeued when that was last tried.
        again_at: when that is tried again.
        said: the outcomes that were reported.
    """

    has_trained: bool = False
    is_signalled: bool = False
    is_asked: bool = False
    is_looked_back_at: bool = False
    trouble: str = ""
    again_at: float = 0.0
    said: frozenset[str] = frozenset()


NOTHING = Past()


@dataclass(frozen=True, slots=True)
class View:
    """What is known when a plan is made.

    Attributes:
        order: what holds.
        means: what may be done.
        now: on the monotonic clock.
        jobs: those on the node.
        earlier: those seen since the drain began, by number.
        footprints: where the jobs stand on the node, by number.
        is_listed: it is known which jobs there are.
        is_cordoned: the cordon was tried, so that nothing takes the place of what leaves.
    """

    order: Drain
    means: Means
    now: float
    jobs: Mapping[int, Job]
    earlier: Mapping[int, Job]
    footprints: Mapping[int, Footprint] = field(default_factory=dict)
    is_listed: bool = True
    is_cordoned: bool = True

    @property
    def end_at(self) -> float:
        """When the drain is over, whatever is left."""
        spans = max(0.0, self.order.deadline - self.order.began_at)
        return self.order.deadline - min(END_MARGIN_SECONDS, spans * END_MARGIN_SHARE)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a job stands, and why."""

    job: Job
    state: State
    trains: bool
    detail: str = ""
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now.

    Attributes:
        outlooks: where each job stands, also those that have left.
        steps: what to do.
        news: what is to be reported.
        look_at: when to plan again, if nothing changes before.
        is_over: nothing is left to do or to wait for.
        owes_nothing: no job that has flushed still waits for us to requeue it.
    """

    outlooks: tuple[Outlook, ...]
    steps: tuple[Step, ...]
    news: tuple[News, ...]
    look_at: float
    is_over: bool
    owes_nothing: bool


def plan(view: View, pasts: Mapping[int, Past]) -> Plan:
    """Return what to do now."""
    shared = _shared(view.footprints)
    outlooks = tuple(
        _outlook(job, pasts.get(number, NOTHING), view, shared)
        for number, job in {**view.earlier, **view.jobs}.items()
    )
    times = [view.order.flush_until, view.end_at]
    times += [pasts[one.job.id].again_at for one in outlooks if one.job.id in pasts]
    return Plan(
        outlooks=outlooks,
        steps=tuple(one.step for one in outlooks if one.step is not None),
        news=tuple(news for one in outlooks if (news := _news(one, pasts)) is not None),
        look_at=min((at for at in times if at > view.now), default=view.now),
        is_over=view.now >= view.end_at or _is_empty(view, outlooks),
        owes_nothing=view.is_listed and not any(_is_owed(one, pasts) for one in outlooks),
    )


def _outlook(job: Job, past: Past, view: View, shared: Collection[str]) -> Outlook:
    trains, waits = _role(job, view, shared)
    trains = trains or past.has_trained
    if job.id not in view.jobs:
        return _ended(job, past, view, trains=trains)
    if job.is_ending or past.is_asked:
        return Outlook(job, State.LEAVING, trains)
    if waits:
        return Outlook(job, State.FLUSHING, trains, "its flush is not over")
    step = _signal_step(job, past, view) if not trains else None
    if not trains and view.now < view.order.flush_until:
        return Outlook(job, State.WORKING, trains, "it does not use the socket", step)
    why_not = kept_because(job, view.means)
    if why_not:
        return Outlook(job, State.KEPT, trains, why_not, step)
    is_due = view.is_cordoned and view.now >= past.again_at
    step = Step(Do.REQUEUE, job) if is_due else step
    return Outlook(job, State.ASKING, trains, past.trouble, step)


def _ended(job: Job, past: Past, view: View, *, trains: bool) -> Outlook:
    """Return where a job stands that is on the node no more."""
    is_open = trains and not (past.is_asked or past.is_looked_back_at)
    if not is_open or kept_because(job, view.means):
        return Outlook(job, State.GONE, trains, past.trouble)
    is_due = view.is_cordoned and view.now >= past.again_at
    step = Step(Do.LOOK_BACK, job) if is_due else None
    return Outlook(job, State.LEAVING, trains, past.trouble, step)


def kept_because(job: Job, means: Means) -> str:
    """Return why a job is not requeued, whatever becomes of its flushes; empty where it is."""
    if not job.is_batch:
        return "it has no batch script that could be started again"
    if not job.may_requeue:
        return "it was submitted not to be requeued"
    if means.requeue == "none":
        return 'drain.slurm.requeue is "none"'
    if means.requeue == "single" and job.nodes > 1:
        return f'it has {job.nodes} nodes, and drain.slurm.requeue is "single"'
    return ""


def _role(job: Job, view: View, shared: Collection[str]) -> tuple[bool, bool]:
    """Return whether a job trains, and whether a flush is not over that may be one of its own.

    A control group that several jobs are in does not tell which of them trains, so it makes none of
    them a training job; but what is waited for there is waited for by all.
    """
    own = view.footprints.get(job.id, NO_FOOTPRINT).cgroups
    order = view.order
    trains = any(group in own - set(shared) or job_of(group) == job.id for group in order.training)
    waits = any(group in own or job_of(group) == job.id for group in order.waiting)
    return trains, waits


def _signal_step(job: Job, past: Past, view: View) -> Step | None:
    """Return the step that has a script save by itself; one that catches no signal would die."""
    name = view.means.signal
    if not name or past.is_signalled or job.state != "RUNNING":
        return None
    caught = view.footprints.get(job.id, NO_FOOTPRINT).caught
    return Step(Do.SIGNAL, job) if signal_number(name) in caught else None


def _shared(footprints: Mapping[int, Footprint]) -> set[str]:
    seen: set[str] = set()
    shared: set[str] = set()
    for one in footprints.values():
        shared |= one.cgroups & seen
        seen |= one.cgroups
    return shared


def _news(one: Outlook, pasts: Mapping[int, Past]) -> News | None:
    past = pasts.get(one.job.id, NOTHING)
    if one.state is State.GONE and not past.said & {"evicted", "gone"}:
        return News(one.job, "gone", one.detail)
    if one.state is State.KEPT and "blocked" not in past.said:
        return News(one.job, "blocked", one.detail)
    return None


def _is_empty(view: View, outlooks: Collection[Outlook]) -> bool:
    if not (view.is_listed and view.is_cordoned):
        return False
    return all(one.state is State.GONE for one in outlooks)


def _is_owed(one: Outlook, pasts: Mapping[int, Past]) -> bool:
    return one.trains and one.state is State.ASKING and not pasts.get(one.job.id, NOTHING).trouble
