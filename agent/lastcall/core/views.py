"""A notice as others are shown it: told to clients, logged, counted, listed."""

from __future__ import annotations

from dataclasses import dataclass

from lastcall.core.deadlines import flush_until
from lastcall.core.model import Action, DeadlineQuality, Kind, Notice, Phase, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """What can be said of a notice without knowing what time it is.

    Attributes:
        sources: every source that reports it; ``source`` is the one that saw it first.
        deadline: on the monotonic clock.
        deadline_unix: as the provider stated it; ``None`` where the deadline is assumed.
        flush_until: when flushes should be over, on the monotonic clock.
        told: the clients were told of it.
        drains: the node is to be emptied for it, where the agent may act.
    """

    id: str
    phase: Phase
    kind: Kind
    source: str
    sources: tuple[str, ...]
    action: Action
    urgency: Urgency
    first_seen: float
    deadline: float | None
    deadline_unix: float | None
    deadline_quality: DeadlineQuality
    flush_until: float | None
    cancellable: bool
    drill: bool
    reason: str
    supersedes: tuple[str, ...]
    told: bool = False
    drains: bool = False


def view(notice: Notice, reserve_seconds: float) -> NoticeView:
    """Return what is shown of a notice."""
    named, nearest = notice.lead.sighting, notice.nearest
    told_at = notice.told_at if notice.told_at is not None else notice.first_seen
    deadline = nearest.deadline
    return NoticeView(
        id=notice.id,
        phase=notice.phase,
        kind=named.kind,
        source=named.source,
        sources=tuple(dict.fromkeys(claim.sighting.source for claim in notice.claims)),
        action=nearest.sighting.action,
        urgency=notice.urgency,
        first_seen=notice.first_seen,
        deadline=deadline,
        deadline_unix=nearest.sighting.deadline_unix,
        deadline_quality=nearest.quality,
        flush_until=(None if deadline is None else flush_until(deadline, told_at, reserve_seconds)),
        cancellable=all(claim.sighting.cancellable for claim in notice.claims),
        drill=notice.drill,
        reason=named.reason,
        supersedes=notice.supersedes,
        told=notice.told_at is not None,
        drains=notice.drains,
    )
