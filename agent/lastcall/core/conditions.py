"""The conditions of the phase table: what has to hold for a notice to go on."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.core import incidents
from lastcall.core.deadlines import flush_until
from lastcall.core.model import Claim, Kind, Notice, Outcome, Stance
from lastcall.core.turn import Settings, Turn


def gone(_: Turn, notice: Notice) -> bool:
    """No source reports it any more."""
    return notice.gone


def expired(turn: Turn, notice: Notice) -> bool:
    """It has stood for as long as such a notice stands."""
    expires_seconds = notice.lead.response.expires_seconds
    return expires_seconds is not None and turn.now >= notice.first_seen + expires_seconds


def due(turn: Turn, notice: Notice) -> bool:
    """The time to tell it has come, and nothing stronger has been told."""
    if not any(incidents.is_due(turn, claim) for claim in notice.claims):
        return False
    return notice.stance is Stance.FLUSH or incidents.told_incident(turn) is None


def joins(turn: Turn, notice: Notice) -> bool:
    """It is due, and the node is going anyway: it is one more reason for that."""
    return not notice.drill and due(turn, notice) and incidents.told_incident(turn) is not None


def superseded(turn: Turn, notice: Notice) -> bool:
    """A notice that was told took its place."""
    others = turn.node.notices.values()
    return any(other.told and notice.id in other.supersedes for other in others)


def begun(_: Turn, notice: Notice) -> bool:
    """A client has begun to flush."""
    return any(flush.begun_at is not None for flush in notice.flushes.values())


def flushes_over(turn: Turn, notice: Notice) -> bool:
    """Every flush is over or its time is up, and that was not made known yet."""
    return not notice.flushes_over and _no_flush_is_waited_for(turn, notice)


def flushed(turn: Turn, notice: Notice) -> bool:
    """The node is to be drained, and every flush is over or its time is up."""
    dated = notice.deadline is not None
    return dated and drains(turn, notice) and _no_flush_is_waited_for(turn, notice)


def overdue(turn: Turn, notice: Notice) -> bool:
    """The deadline is here and a flush is not over."""
    if notice.overdue or notice.deadline is None or notice.stance is not Stance.FLUSH:
        return False
    return turn.now >= notice.deadline and bool(notice.unsettled)


def passed(turn: Turn, notice: Notice) -> bool:
    """The deadline is behind, and so is the time in which a flush may report late."""
    ends_at = over_at(notice, turn.settings)
    return ends_at is not None and turn.now >= ends_at


def rehearsed(turn: Turn, notice: Notice) -> bool:
    """It is a drill, and all that was to be shown has been."""
    over = notice.drained is not None or not drains(turn, notice)
    return notice.drill and over and not notice.unsettled


def ready_to_go(turn: Turn, notice: Notice) -> bool:
    """Nothing is left to wait for, and whoever announced it may be told so."""
    return not notice.drill and next(acknowledgeable(turn, notice), None) is not None


def drains(turn: Turn, notice: Notice) -> bool:
    """The node is to be drained for it."""
    return notice.drains and turn.settings.acts


def _no_flush_is_waited_for(turn: Turn, notice: Notice) -> bool:
    if not notice.unsettled:
        return True
    if notice.deadline is None or notice.told_at is None:
        return False
    until = flush_until(notice.deadline, notice.told_at, turn.settings.reserve_seconds)
    return turn.now >= until


def over_at(notice: Notice, settings: Settings) -> float | None:
    """Return when a notice ends by itself: what is told late still has its time to report."""
    if notice.deadline is None or notice.told_at is None or notice.stance is not Stance.FLUSH:
        return None
    return max(notice.deadline, notice.told_at) + settings.late_seconds


def acknowledgeable(turn: Turn, notice: Notice) -> Iterator[Claim]:
    """Yield each claim of whose event it is to be said now that we are done with it.

    A provider is told only where all went well: the machine may end the sooner for it. A shutdown
    waits for us and comes whatever we say, so it is let go once there is nothing to wait for.
    """
    is_over = _is_over(turn, notice)
    went_well = is_over and _went_well(turn, notice)
    for claim in notice.claims:
        sighting = claim.sighting
        may_come = is_over if sighting.kind is Kind.SHUTDOWN else went_well
        known = sighting.acknowledgeable and sighting.source in turn.settings.acknowledges
        if may_come and known and not claim.acknowledged:
            yield claim


def _is_over(turn: Turn, notice: Notice) -> bool:
    """Whether nothing is left to wait for."""
    if notice.told_at is None:
        return notice.stance is Stance.INFORM
    return not notice.unsettled and (notice.drained is not None or not drains(turn, notice))


def _went_well(turn: Turn, notice: Notice) -> bool:
    good = {Outcome.IN_TIME, Outcome.LATE, Outcome.IGNORED}
    flushed_well = all(flush.outcome in good for flush in notice.flushes.values())
    return turn.settings.acts and notice.drained in ("drained", "none") and flushed_well
