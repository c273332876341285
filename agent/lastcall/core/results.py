"""What came of the commands; what came of the cordon stands in ``cordon``."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core.events import (
    AcknowledgeEnded,
    AllTold,
    BackendChecked,
    DrainEnded,
    EvictionReported,
    HookEnded,
)
from lastcall.core.facts import (
    Acknowledged,
    AllClientsTold,
    BackendAnswered,
    HookRan,
    NodeDrained,
    PodMoved,
)
from lastcall.core.model import BackendHealth
from lastcall.core.turn import Turn


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


def drain_ended(turn: Turn, event: DrainEnded) -> None:
    """Take in what came of the drain."""
    notice = turn.node.notices.get(event.id)
    if notice is not None and notice.drain_began_at is not None and notice.drained is None:
        turn.put_notice(replace(notice, drained=event.outcome))
        seconds = turn.now - notice.drain_began_at
        shown = turn.view(notice)
        turn.publish(NodeDrained(event.id, event.outcome, seconds, event.detail, shown))


def eviction_reported(turn: Turn, event: EvictionReported) -> None:
    """Make known what became of a pod."""
    turn.publish(PodMoved(event.id, event.pod, event.outcome, event.detail, event.uid))


def hook_ended(turn: Turn, event: HookEnded) -> None:
    """Make known what came of a program of the site's own."""
    turn.publish(
        HookRan(
            id=event.id,
            hook=event.hook,
            index=event.index,
            program=event.program,
            outcome=event.outcome,
            code=event.code,
            seconds=event.seconds,
            output=event.output,
        )
    )


def backend_checked(turn: Turn, event: BackendChecked) -> None:
    """Take in how the scheduler answers; only a change is news."""
    known = turn.node.backend
    rights = known.rights if known else {}
    if event.rights is not None:
        rights = dict(event.rights)
    health = BackendHealth(event.up, event.detail, rights)
    if health != known:
        turn.change(backend=health)
        denied = tuple(name for name, allowed in rights.items() if not allowed)
        turn.publish(BackendAnswered(event.up, event.detail, denied))


def acknowledge_ended(turn: Turn, event: AcknowledgeEnded) -> None:
    """Take in what the provider said to our word."""
    notice = turn.node.notices.get(event.id)
    if notice is not None:
        turn.put_notice(replace(notice, accepted=event.accepted))
    turn.publish(Acknowledged(event.id, event.accepted, event.detail))
