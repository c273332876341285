"""All transitions of a notice, as one table, and the one function that applies them.

``Machine.handle(node, event, now)`` returns the node as it becomes and the commands that follow.
It reads no clock and does no I/O, and is total: every event is answered in every phase. An event
first changes what is known (:data:`EVENTS`); then the rows of :data:`TABLE` are tried on every
open notice until none fires, so that a phase never depends on the order in which news came in.

What stands outside the table: claims fold and vanish in ``incidents``, a single client's flush is
judged in ``flushes``, and the cordon, which belongs to the node and not to one notice, is taken
and given back at the end of this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lastcall.core import clients, drills, flushes, health, incidents, restart
from lastcall.core.commands import Acknowledge, CallOff, Command, Drain, Tell, Uncordon
from lastcall.core.deadlines import flush_until
from lastcall.core.estimates import JobAdvice
from lastcall.core.events import (
    Acked,
    AcknowledgeEnded,
    AllTold,
    Beat,
    CheckpointReported,
    ClientJoined,
    ClientLeft,
    CordonEnded,
    DrainEnded,
    DrillRequested,
    Event,
    FlushFailed,
    FlushReported,
    IdentityLearned,
    Intended,
    ProcessDied,
    Progressed,
    ProvidersFound,
    Rebooted,
    Restored,
    ResumeReported,
    SourcePolled,
    SourceReported,
    Started,
    Tick,
    UncordonEnded,
)
from lastcall.core.facts import (
    Acknowledged,
    AllClientsTold,
    Cordoned,
    FlushOverdue,
    NodeDrained,
    NoticeEnded,
    NoticeTold,
    Uncordoned,
)
from lastcall.core.model import Node, Notice, Outcome, Phase, Stance
from lastcall.core.turn import Settings, Turn

Effect = Callable[[Turn, Notice], Notice]

GIVE_BACK_AGAIN_SECONDS = 10.0
"""How long after a failure it is tried again to lift our cordon."""


@dataclass(frozen=True, slots=True)
class Row:
    """When the condition holds, the effect is taken and the notice goes on to a phase.

    ``to`` is ``None`` where it stays in the phase that it is in.
    """

    when: Callable[[Turn, Notice], bool]
    to: Phase | None
    then: Effect


# --- conditions ------------------------------------------------------------------------------


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


def flushed(turn: Turn, notice: Notice) -> bool:
    """The node is to be drained, and every flush is over or its time is up."""
    if not drains(turn, notice) or notice.deadline is None or notice.told_at is None:
        return False
    until = flush_until(notice.deadline, notice.told_at, turn.settings.reserve_seconds)
    return not notice.unsettled or turn.now >= until


def overdue(turn: Turn, notice: Notice) -> bool:
    """The deadline is here and a flush is not over."""
    if notice.overdue or notice.deadline is None or notice.stance is not Stance.FLUSH:
        return False
    return turn.now >= notice.deadline and bool(notice.unsettled)


def passed(turn: Turn, notice: Notice) -> bool:
    """The deadline is behind, and so is the time in which a flush may report late."""
    over_at = _over_at(notice, turn.settings)
    return over_at is not None and turn.now >= over_at


def rehearsed(turn: Turn, notice: Notice) -> bool:
    """It is a drill, and all that was to be shown has been."""
    over = notice.drained is not None or not drains(turn, notice)
    return notice.drill and over and not notice.unsettled


def ready_to_go(turn: Turn, notice: Notice) -> bool:
    """All is flushed and drained, and the provider may be told so."""
    drained_well = notice.drained in ("drained", "none")
    if not drained_well or notice.acknowledged or notice.drill or not turn.settings.acts:
        return False
    good = {Outcome.IN_TIME, Outcome.LATE, Outcome.IGNORED}
    flushed_well = all(flush.outcome in good for flush in notice.flushes.values())
    return flushed_well and next(_acknowledgeable(turn, notice), None) is not None


def drains(turn: Turn, notice: Notice) -> bool:
    """The node is to be drained for it."""
    return notice.drains and turn.settings.acts


# --- effects ---------------------------------------------------------------------------------


def tell(turn: Turn, notice: Notice) -> Notice:
    """Tell every client, and keep new work off a node that is going."""
    notice = replace(notice, phase=Phase.TOLD, told_at=turn.now)
    if notice.stance is Stance.FLUSH and not notice.drill:
        weaker = tuple(other.id for other in turn.node.notices.values() if other.told)
        notice = replace(notice, supersedes=weaker)
        turn.change(interruptions=turn.node.interruptions + 1)
    for client in turn.node.clients.values():
        notice = flushes.expect(turn, notice, client)
    shown, sessions = turn.view(notice), turn.sessions_of(notice.flushes)
    turn.do(Tell(shown, sessions))
    turn.publish(NoticeTold(shown, len(sessions)))
    turn.cordon(notice)
    return notice


def join(turn: Turn, notice: Notice) -> Notice:
    """Hand its claims to the notice that the node is going by."""
    incident = incidents.told_incident(turn)
    if incident is not None:
        incidents.absorb(turn, incident, notice.claims)
    return end(turn, replace(notice, gone=True), "superseded")


def supersede(turn: Turn, notice: Notice) -> Notice:
    """Let a stronger notice take its place."""
    return call_off(turn, notice, "superseded", "a stronger notice took its place")


def withdraw(turn: Turn, notice: Notice) -> Notice:
    """Let training go on."""
    return call_off(turn, notice, "withdrawn", "the provider withdrew it")


def expire(turn: Turn, notice: Notice) -> Notice:
    """Let an advice end that nobody took back."""
    notice = flushes.settle_all(turn, notice, Outcome.IGNORED, "the advice expired")
    return call_off(turn, notice, "expired", "it has stood for as long as such a notice stands")


def call_off(turn: Turn, notice: Notice, ending: str, reason: str) -> Notice:
    """Tell those who were told that it no longer stands."""
    told = tuple(flush.client for flush in notice.flushes.values())
    notice = flushes.settle_all(turn, notice, Outcome.WITHDRAWN, reason)
    if notice.told_at is not None:
        turn.do(CallOff(notice.id, reason, turn.sessions_of(told)))
    return end(turn, notice, ending)


def drain(turn: Turn, notice: Notice) -> Notice:
    """Move work off the node."""
    notice = replace(notice, phase=Phase.DRAINING, drain_began_at=turn.now)
    turn.do(Drain(turn.view(notice)))
    return notice


def mark_overdue(turn: Turn, notice: Notice) -> Notice:
    """Say at the deadline who has not flushed: there may be no later moment to say it."""
    late = tuple(flush.client for flush in notice.unsettled)
    turn.publish(FlushOverdue(turn.view(notice), late))
    return replace(notice, overdue=True)


def acknowledge(turn: Turn, notice: Notice) -> Notice:
    """Tell the provider that we are done."""
    for source, key in _acknowledgeable(turn, notice):
        turn.do(Acknowledge(notice.id, source, key))
    return replace(notice, acknowledged=True)


def close(turn: Turn, notice: Notice) -> Notice:
    """Count what was not flushed as missed; after a rehearsal the processes go on."""
    notice = flushes.settle_all(turn, notice, Outcome.MISSED, "no report before the deadline")
    if notice.drill:
        return call_off(turn, notice, "passed", "the drill is over")
    return end(turn, notice, "passed")


def conclude(turn: Turn, notice: Notice) -> Notice:
    """End a rehearsal: the processes go on as before."""
    return call_off(turn, notice, "rehearsed", "the drill is over")


def end(turn: Turn, notice: Notice, ending: str) -> Notice:
    """End it, for whatever reason."""
    notice = replace(notice, ended_at=turn.now, ending=ending, gone=notice.gone or notice.drill)
    turn.publish(NoticeEnded(turn.view(notice), ending, flushes.tally(notice)))
    return notice


def nothing(_: Turn, notice: Notice) -> Notice:
    """Go on."""
    return notice


# --- the table -------------------------------------------------------------------------------

_ENDS = (
    Row(gone, Phase.WITHDRAWN, withdraw),
    Row(superseded, Phase.WITHDRAWN, supersede),
    Row(expired, Phase.DONE, expire),
    Row(overdue, None, mark_overdue),
    Row(passed, Phase.DONE, close),
    Row(rehearsed, Phase.DONE, conclude),
)

TABLE: dict[Phase, tuple[Row, ...]] = {
    Phase.SEEN: (
        Row(gone, Phase.WITHDRAWN, withdraw),
        Row(expired, Phase.DONE, expire),
        Row(joins, Phase.DONE, join),
        Row(due, Phase.TOLD, tell),
    ),
    Phase.TOLD: (
        *_ENDS,
        Row(flushed, Phase.DRAINING, drain),
        Row(begun, Phase.FLUSHING, nothing),
    ),
    Phase.FLUSHING: (
        *_ENDS,
        Row(flushed, Phase.DRAINING, drain),
    ),
    Phase.DRAINING: (
        *_ENDS,
        Row(ready_to_go, None, acknowledge),
    ),
    Phase.DONE: (),
    Phase.WITHDRAWN: (),
}
"""The rows of a phase are tried from the top; the first whose condition holds is taken."""


# --- events ----------------------------------------------------------------------------------


def _all_told(turn: Turn, event: AllTold) -> None:
    notice = turn.node.notices.get(event.id)
    if notice is None or notice.told_at is None or notice.signalled:
        return
    turn.put_notice(replace(notice, signalled=True))
    # A notice that was kept back until its time is measured from then.
    waited = notice.lead.response.act_before_seconds is not None
    since = notice.told_at if waited else notice.first_seen
    turn.publish(AllClientsTold(turn.view(notice), event.clients, turn.now - since))


def _cordon_ended(turn: Turn, event: CordonEnded) -> None:
    if event.cordoned:
        turn.change(cordoned_for=event.id)
    turn.publish(Cordoned(event.id, event.cordoned, event.detail))


def _uncordon_ended(turn: Turn, event: UncordonEnded) -> None:
    turn.change(giving_back=False)
    if event.uncordoned:
        turn.change(cordoned_for=None)
        for notice in turn.node.open_notices:
            if notice.told:
                turn.cordon(notice)
    else:
        turn.change(give_back_after=turn.now + GIVE_BACK_AGAIN_SECONDS)
    turn.publish(Uncordoned(event.id, event.uncordoned, event.detail))


def _drain_ended(turn: Turn, event: DrainEnded) -> None:
    notice = turn.node.notices.get(event.id)
    if notice is not None and notice.drain_began_at is not None and notice.drained is None:
        turn.put_notice(replace(notice, drained=event.outcome))
        seconds = turn.now - notice.drain_began_at
        turn.publish(NodeDrained(event.id, event.outcome, seconds, event.detail))


def _acknowledge_ended(turn: Turn, event: AcknowledgeEnded) -> None:
    turn.publish(Acknowledged(event.id, event.accepted, event.detail))


def _tick(_turn: Turn, _event: Tick) -> None:
    pass


EVENTS: dict[type[Event], Callable[[Turn, Any], None]] = {
    Started: lambda turn, _: restart.start(turn),
    Restored: lambda turn, event: restart.restore(turn, event.node),
    Rebooted: lambda turn, _: restart.reboot(turn),
    Tick: _tick,
    ProvidersFound: health.settle_providers,
    IdentityLearned: health.identify,
    SourcePolled: health.poll,
    SourceReported: incidents.report,
    ClientJoined: clients.join,
    ClientLeft: clients.leave,
    ProcessDied: clients.die,
    Acked: clients.ack,
    Intended: clients.intend,
    Progressed: clients.progress,
    FlushReported: clients.flushed,
    FlushFailed: clients.failed,
    CheckpointReported: clients.checkpoint,
    ResumeReported: clients.resumed,
    Beat: clients.beat,
    DrillRequested: drills.request,
    AllTold: _all_told,
    CordonEnded: _cordon_ended,
    UncordonEnded: _uncordon_ended,
    DrainEnded: _drain_ended,
    AcknowledgeEnded: _acknowledge_ended,
}
"""What each event changes before the table is applied."""


class Machine:
    """The decision core, with the site's settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def handle(self, node: Node, event: Event, now: float) -> tuple[Node, list[Command]]:
        """Return the node after an event, and what is to be done.

        A node that nothing changed comes back as the same object.

        Args:
            node: what was known before.
            event: what happened.
            now: when, in seconds on the monotonic clock.
        """
        turn = Turn(node, now, self.settings)
        if node.observed_since is None:
            turn.change(observed_since=now)
        EVENTS[type(event)](turn, event)
        _advance_all(turn)
        clients.part(turn)
        _give_back(turn)
        return turn.node, turn.commands

    def wake_at(self, node: Node, now: float) -> float | None:
        """Return the next moment at which something is due though nothing happens."""
        moments = (moment for moment in self._moments(node) if now < moment < math.inf)
        return min(moments, default=None)

    def advice(self, node: Node, job: str, now: float) -> JobAdvice:
        """Return what is known of a job's next flush."""
        return clients.advice_for(node, job, now, self.settings)

    def _moments(self, node: Node) -> Iterator[float]:
        for notice in node.open_notices:
            yield notice.first_seen + (notice.lead.response.expires_seconds or math.inf)
            for claim in notice.claims:
                if claim.deadline is not None:
                    yield claim.deadline - (claim.response.act_before_seconds or 0.0)
            if notice.deadline is not None:
                yield notice.deadline
                yield _over_at(notice, self.settings) or math.inf
                if notice.told_at is not None:
                    yield flush_until(
                        notice.deadline, notice.told_at, self.settings.reserve_seconds
                    )
        if node.cordoned_for is not None and not node.giving_back:
            yield node.give_back_after
        for client in node.clients.values():
            if client.left_at is not None:
                yield client.left_at + clients.AWAY_SECONDS


def _advance_all(turn: Turn) -> None:
    """Apply the table until no row fires: one notice's step may make another's due."""
    before = None
    while turn.node is not before:
        before = turn.node
        for notice_id in before.notices:
            _advance(turn, notice_id)


def _advance(turn: Turn, notice_id: str) -> None:
    """Apply the table to one notice until no row fires."""
    while True:
        notice = turn.node.notices[notice_id]
        row = next((row for row in TABLE[notice.phase] if row.when(turn, notice)), None)
        if row is None:
            return
        after = row.then(turn, notice)
        turn.put_notice(replace(after, phase=row.to or notice.phase))


def _over_at(notice: Notice, settings: Settings) -> float | None:
    """Return when a notice ends by itself: what is told late still has its time to report."""
    if notice.deadline is None or notice.told_at is None or notice.stance is not Stance.FLUSH:
        return None
    return max(notice.deadline, notice.told_at) + settings.late_seconds


def _give_back(turn: Turn) -> None:
    """Lift our cordon once nothing that asked for it is reported any more."""
    if turn.node.cordoned_for is None or turn.node.giving_back:
        return
    if turn.now < turn.node.give_back_after:
        return
    for notice in turn.node.notices.values():
        if notice.told_at is not None and notice.drains and not notice.gone:
            return
    turn.change(giving_back=True)
    turn.do(Uncordon(turn.node.cordoned_for))


def _acknowledgeable(turn: Turn, notice: Notice) -> Iterator[tuple[str, str]]:
    for claim in notice.claims:
        sighting = claim.sighting
        if sighting.acknowledgeable and sighting.source in turn.settings.acknowledges:
            yield sighting.source, sighting.key
