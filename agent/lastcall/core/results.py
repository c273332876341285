"""What came of the commands, and the cordon, which belongs to the node and not to one notice."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core.commands import Uncordon
from lastcall.core.events import (
    AcknowledgeEnded,
    AllTold,
    CordonEnded,
    DrainEnded,
    UncordonEnded,
)
from lastcall.core.facts import Acknowledged, AllClientsTold, Cordoned, NodeDrained, Uncordoned
from lastcall.core.turn import Turn

GIVE_BACK_AGAIN_SECONDS = 10.0
"""How long after a failure it is tried again to lift our cordon."""


def all_told(turn: Turn, event: AllTold) -> None:
    """Take in that the last client has been told."""
    notice = turn.node.notices.get(event.id)
    if notice is None or notice.told_at is None or notice.signalled:
        return
    turn.put_notice(replace(notice, signalled=True))
    # A notice that was kept back until its time is measured from then.
    waited = notice.lead.response.act_before_seconds is not None
    since = notice.told_at if waited else notice.first_seen
    turn.publish(AllClientsTold(turn.view(notice), event.clients, turn.now - since))


def cordon_ended(turn: Turn, event: CordonEnded) -> None:
    """Take in what came of the cordon."""
    if event.cordoned:
        turn.change(cordoned_for=event.id)
    turn.publish(Cordoned(event.id, event.cordoned, event.detail))


def uncordon_ended(turn: Turn, event: UncordonEnded) -> None:
    """Take in what came of lifting it; a notice that came meanwhile wants it back."""
    turn.change(giving_back=False)
    if event.uncordoned:
        turn.change(cordoned_for=None)
        for notice in turn.node.open_notices:
            if notice.told:
                turn.cordon(notice)
    else:
        turn.change(give_back_after=turn.now + GIVE_BACK_AGAIN_SECONDS)
    turn.publish(Uncordoned(event.id, event.uncordoned, event.detail))


def drain_ended(turn: Turn, event: DrainEnded) -> None:
    """Take in what came of the drain."""
    notice = turn.node.notices.get(event.id)
    if notice is not None and notice.drain_began_at is not None and notice.drained is None:
        turn.put_notice(replace(notice, drained=event.outcome))
        seconds = turn.now - notice.drain_began_at
        turn.publish(NodeDrained(event.id, event.outcome, seconds, event.detail))


def acknowledge_ended(turn: Turn, event: AcknowledgeEnded) -> None:
    """Take in what the provider said to our word."""
    notice = turn.node.notices.get(event.id)
    if notice is not None:
        turn.put_notice(replace(notice, accepted=event.accepted))
    turn.publish(Acknowledged(event.id, event.accepted, event.detail))


def give_back(turn: Turn) -> None:
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
