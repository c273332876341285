"""What happens to a node, as tests name it: what sources show, what clients say."""

from __future__ import annotations

from dataclasses import dataclass

from lastcall.core.events import (
    ClientJoined,
    ClientLeft,
    DrillRequested,
    FlushReported,
    ProcessDied,
    SourceReported,
)
from lastcall.core.model import Action, Kind, Sighting

UNIX_AT_ZERO = 1_700_000_000.0
"""What a right wall clock shows when the monotonic clock shows zero."""


def unix(seconds: float) -> float:
    """Return the wall time of a moment on the monotonic clock."""
    return UNIX_AT_ZERO + seconds


@dataclass(frozen=True)
class Scope:
    """One part of a source that is read whole, and how many absences withdraw what it showed."""

    source: str
    name: str
    absences: int = 1

    def shows(self, *sightings: Sighting) -> SourceReported:
        """Return the report that this, and nothing else, stands there."""
        return SourceReported(self.source, self.name, sightings, self.absences)


SPOT = Scope("aws", "spot/instance-action", absences=3)
TARGET_STATE = Scope("aws", "autoscaling/target-lifecycle-state")
REBALANCE = Scope("aws", "events/recommendations/rebalance")
SCHEDULED = Scope("aws", "events/maintenance/scheduled")
PREEMPTED = Scope("gcp", "instance/preempted")
MAINTENANCE = Scope("gcp", "instance/maintenance-event")
EVENTS = Scope("azure", "events")
LOGIND = Scope("shutdown", "logind")
FILE = Scope("file", "path")

SCOPES = (
    SPOT,
    TARGET_STATE,
    REBALANCE,
    SCHEDULED,
    PREEMPTED,
    MAINTENANCE,
    EVENTS,
    LOGIND,
    FILE,
)


def sighting(scope: Scope, key: str, kind: Kind, action: Action, **more: object) -> Sighting:
    """Return a sighting in a scope."""
    return Sighting(
        source=scope.source,
        scope=scope.name,
        key=key,
        kind=kind,
        action=action,
        **more,  # type: ignore[arg-type]  # the callers below give each field its own type
    )


def spot(ends_at: float | None, action: Action = Action.TERMINATE) -> Sighting:
    """Return a Spot Instance's interruption, which states its time."""
    return sighting(SPOT, "instance-action", Kind.PREEMPTION, action, **_stated(ends_at))


def terminated() -> Sighting:
    """Return an Auto Scaling group's decision to end the instance, which states no time."""
    return sighting(TARGET_STATE, "target-lifecycle-state", Kind.TERMINATION, Action.TERMINATE)


def rebalance(made_at: str = "2031-03-21T09:00:00Z") -> Sighting:
    """Return a rebalance recommendation; its time says when it was made."""
    return sighting(REBALANCE, "rebalance", Kind.REBALANCE, Action.NONE, identity=made_at)


def scheduled(
    starts_at: float | None,
    key: str = "instance-event-1",
    code: str = "system-reboot",
    action: Action = Action.REBOOT,
) -> Sighting:
    """Return one of the scheduled events of EC2."""
    stated = _stated(starts_at)
    return sighting(SCHEDULED, key, Kind.MAINTENANCE, action, code=code, cancellable=True, **stated)


def preempted() -> Sighting:
    """Return Google's ``TRUE``, which states no time."""
    return sighting(PREEMPTED, "preempted", Kind.PREEMPTION, Action.TERMINATE, code="TRUE")


def host_maintenance(value: str) -> Sighting:
    """Return what Google does with a machine whose host is maintained."""
    action = Action.TERMINATE if value.startswith("TERMINATE") else Action.MIGRATE
    return sighting(MAINTENANCE, value, Kind.MAINTENANCE, action, code=value, cancellable=True)


_AZURE = {
    "Preempt": (Kind.PREEMPTION, Action.TERMINATE),
    "Reboot": (Kind.MAINTENANCE, Action.REBOOT),
    "Redeploy": (Kind.MAINTENANCE, Action.REDEPLOY),
    "Freeze": (Kind.MAINTENANCE, Action.FREEZE),
}


def azure(code: str, starts_at: float | None, key: str = "event-1", **more: object) -> Sighting:
    """Return one of Azure's scheduled events."""
    kind, action = _AZURE.get(code, (Kind.MAINTENANCE, Action.NONE))
    return sighting(EVENTS, key, kind, action, code=code, **{**_stated(starts_at), **more})


def shutdown(ends_at: float | None = None, **more: object) -> Sighting:
    """Return the operating system's own end; with a time it is one that waits for us."""
    more = {"acknowledgeable": ends_at is not None, **_stated(ends_at), **more}
    return sighting(LOGIND, "shutdown", Kind.SHUTDOWN, Action.STOP, **more)


def announced_by_file() -> Sighting:
    """Return what an operator or an unknown cloud announces by a file."""
    return sighting(FILE, "file", Kind.TERMINATION, Action.UNKNOWN)


def joined(
    session: str,
    *,
    process: str = "",
    job: str = "llama",
    rank: int | None = 0,
    handled: tuple[str, ...] = (),
) -> ClientJoined:
    """Return a process's hello; the process is named after its connection unless told otherwise."""
    process = process or f"process of {session}"
    return ClientJoined(
        session=session,
        identity=process,
        job=job,
        rank=rank,
        pid=4242,
        cgroup=f"/group of {process}",
        handled=handled,
    )


def lost(session: str) -> ClientLeft:
    """Return the end of a connection without a farewell."""
    return ClientLeft(session, said_bye=False, reason="connection reset")


def left(session: str) -> ClientLeft:
    """Return a farewell."""
    return ClientLeft(session, said_bye=True, reason="done")


def died(session: str) -> ProcessDied:
    """Return the death of the process that :func:`joined` on a connection."""
    return ProcessDied(f"process of {session}")


def flushed(session: str, notice_id: str, path: str = "/ckpt/9", **more: object) -> FlushReported:
    """Return a client's word that its checkpoint is durable."""
    return FlushReported(
        session=session,
        id=notice_id,
        path=path,
        step=9,
        **more,  # type: ignore[arg-type]  # fields of their own type, given by name
    )


def drill(lead_seconds: float = 30.0, *, drain: bool = False) -> DrillRequested:
    """Return an operator's wish to rehearse."""
    return DrillRequested("operator", lead_seconds, Kind.PREEMPTION, drain)


def _stated(moment: float | None) -> dict[str, object]:
    return {} if moment is None else {"deadline": moment, "deadline_unix": unix(moment)}
