"""A rehearsal on the real processes: a notice like any other, marked as a drill everywhere."""

from __future__ import annotations

from lastcall.core import incidents
from lastcall.core.commands import Confirm, Refuse
from lastcall.core.events import DrillRequested
from lastcall.core.model import Action, Kind, Response, Sighting, Stance
from lastcall.core.turn import Turn

SOURCE = "manual"

_ACTIONS = {
    Kind.PREEMPTION: Action.TERMINATE,
    Kind.TERMINATION: Action.TERMINATE,
    Kind.MAINTENANCE: Action.REBOOT,
    Kind.SHUTDOWN: Action.STOP,
}


def request(turn: Turn, event: DrillRequested) -> None:
    """Open a drill, unless there is something real to do or another drill is under way."""
    told = (notice for notice in turn.node.notices.values() if notice.told)
    hindrance = next((notice for notice in told if notice.stance is Stance.FLUSH), None)
    if hindrance is not None:
        message = f"no drill now: notice {hindrance.id} is open"
        turn.do(Refuse(event.session, "bad_message", message))
        return
    sighting = Sighting(
        source=SOURCE,
        scope="drill",
        key=f"{event.session}@{turn.now:.3f}",
        kind=event.kind,
        action=_ACTIONS.get(event.kind, Action.NONE),
        deadline=turn.now + event.lead_seconds,
        reason="drill asked for by an operator",
        cancellable=True,
        drill=True,
    )
    notice = incidents.sight(turn, sighting, Response(Stance.FLUSH, drain=event.drain))
    turn.do(Confirm(event.session, "drill", notice.id))
