"""The effects of the phase table: what is done when a notice goes on."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core import clients, flushes, incidents
from lastcall.core.commands import Acknowledge, CallOff, Tell
from lastcall.core.conditions import acknowledgeable
from lastcall.core.facts import FlushesOver, FlushOverdue, NoticeEnded, NoticeTold
from lastcall.core.model import Kind, Notice, Outcome, Phase, Stance
from lastcall.core.turn import Turn


def tell(turn: Turn, notice: Notice) -> Notice:
    """Tell every client."""
    notice = replace(notice, phase=Phase.TOLD, told_at=turn.now)
    if notice.stance is Stance.FLUSH and not notice.drill:
        weaker = tuple(other.id for other in turn.node.notices.values() if other.told)
        notice = replace(notice, supersedes=weaker)
        turn.change(interruptions=turn.node.interruptions + 1)
    notice = flushes.expect(turn, notice, turn.node.clients.values())
    shown, sessions = turn.view(notice), turn.sessions_of(notice.flushes)
    turn.do(Tell(shown, sessions))
    turn.publish(NoticeTold(shown, len(sessions)))
    clients.advise_of(turn, shown)
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
    if all(claim.sighting.started for claim in notice.claims):
        return call_off(turn, notice, "completed", "it is over, and the machine is still here")
    reason = "the provider withdrew it"
    if notice.lead.sighting.kind is Kind.GPU_FAULT:
        reason = "the trouble of the GPUs is over"
    return call_off(turn, notice, "withdrawn", reason)


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


def say_flushes_over(turn: Turn, notice: Notice) -> Notice:
    """Make known that no flush is waited for any more."""
    shown, outcomes = turn.view(notice), flushes.tally(notice)
    turn.publish(FlushesOver(shown, outcomes, len(notice.unsettled), notice.drained))
    return replace(notice, flushes_over=True)


def mark_overdue(turn: Turn, notice: Notice) -> Notice:
    """Say at the deadline who has not flushed: there may be no later moment to say it."""
    late = tuple(flush.client for flush in notice.unsettled)
    turn.publish(FlushOverdue(turn.view(notice), late))
    return replace(notice, overdue=True)


def acknowledge(turn: Turn, notice: Notice) -> Notice:
    """Tell the provider that we are done, and let a shutdown that waits for us go on."""
    done = tuple(acknowledgeable(turn, notice))
    for claim in done:
        turn.do(Acknowledge(notice.id, claim.sighting.source, claim.sighting.key))
    claims = tuple(
        replace(claim, acknowledged=True) if claim in done else claim for claim in notice.claims
    )
    return replace(notice, claims=claims, acknowledged=True)


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
