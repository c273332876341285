"""From what sources see to notices: duplicates fold, the earliest deadline wins, absence ends.

Only the source that raised a claim can let it go: a report covers one scope of one source, and
what another source says, or an answer that was no report, changes nothing here.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from lastcall.core.commands import CallOff, Tell
from lastcall.core.events import SourceReported
from lastcall.core.facts import NoticeChanged, NoticeCleared, NoticeSeen
from lastcall.core.model import Claim, Notice, Phase, Response, Sighting, Stance
from lastcall.core.turn import Turn

MOVED_SECONDS = 1.0
"""A deadline that a provider restates by less than this has not moved."""

KEPT_ENDED = 32
"""Ended notices remembered, besides those that a source still reports."""


def report(turn: Turn, event: SourceReported) -> None:
    """Take in all that stands in one scope of a source."""
    seen = {sighting.key: sighting for sighting in event.sightings}
    for notice in list(turn.node.notices.values()):
        if not notice.gone:
            _compare(turn, notice, event, seen)
    for sighting in seen.values():
        sight(turn, sighting, turn.settings.policy.respond(sighting))
    _forget(turn)


def sight(turn: Turn, sighting: Sighting, response: Response) -> Notice:
    """Take in a sighting that no notice holds yet: fold it into one, or open one for it."""
    claim = Claim(sighting, response, turn.now)
    incident = told_incident(turn)
    if incident is not None and not sighting.drill and _acts_now(turn, claim):
        return absorb(turn, incident, (claim,))
    notice = Notice(
        id=_name(turn, sighting), phase=Phase.SEEN, first_seen=turn.now, claims=(claim,)
    )
    deadline = notice.deadline
    lead_seconds = None if deadline is None else max(0.0, deadline - turn.now)
    turn.publish(NoticeSeen(turn.view(notice), lead_seconds))
    return turn.put_notice(notice)


def absorb(turn: Turn, incident: Notice, claims: tuple[Claim, ...]) -> Notice:
    """Return the incident held up by further claims as well."""
    return _changed(turn, incident, replace(incident, claims=(*incident.claims, *claims)))


def told_incident(turn: Turn) -> Notice | None:
    """Return the real notice that the node is going by, if the clients know of one."""
    for notice in turn.node.notices.values():
        if notice.told and notice.stance is Stance.FLUSH and not notice.drill and not notice.gone:
            return notice
    return None


def is_due(turn: Turn, claim: Claim) -> bool:
    """Whether the time has come to tell of a claim."""
    act_before_seconds = claim.response.act_before_seconds
    if claim.response.stance is Stance.INFORM:
        return False
    if act_before_seconds is None:
        return True
    return claim.deadline is not None and turn.now >= claim.deadline - act_before_seconds


def _acts_now(turn: Turn, claim: Claim) -> bool:
    return claim.response.stance is Stance.FLUSH and is_due(turn, claim)


def _compare(turn: Turn, notice: Notice, event: SourceReported, seen: dict[str, Sighting]) -> None:
    """Hold a notice against the report; what it accounts for is taken out of ``seen``."""
    claims: list[Claim] = []
    for claim in notice.claims:
        old = claim.sighting
        if (old.source, old.scope) != (event.source, event.scope):
            claims.append(claim)
            continue
        new = seen.get(old.key)
        if new is None:
            if claim.absences + 1 < event.absences_to_withdraw:
                claims.append(replace(claim, absences=claim.absences + 1))
        elif not _another(notice, old, new):
            del seen[old.key]
            claims.append(_renewed(turn, claim, new))
    if not claims:
        turn.put_notice(replace(notice, gone=True))
        if notice.ending == "passed":
            # Its deadline came and the machine is still there: whoever waits may go on.
            told = turn.sessions_of(notice.flushes)
            turn.do(CallOff(notice.id, "no source reports it any more", told))
            turn.publish(NoticeCleared(turn.view(notice)))
    elif tuple(claims) != notice.claims:
        _changed(turn, notice, replace(notice, claims=tuple(claims)))


def _another(notice: Notice, old: Sighting, new: Sighting) -> bool:
    """Whether a sighting is a new event under a key that a notice already holds."""
    if new.identity != old.identity:
        return True
    if notice.open or old.deadline_unix is None or new.deadline_unix is None:
        return False
    return new.deadline_unix > old.deadline_unix + MOVED_SECONDS


def _renewed(turn: Turn, claim: Claim, new: Sighting) -> Claim:
    """Return the claim as it is seen now; a deadline moves only when the provider moves it."""
    old = claim.sighting
    moved = old.deadline is None or (
        old.deadline_unix is not None
        and new.deadline_unix is not None
        and abs(new.deadline_unix - old.deadline_unix) > MOVED_SECONDS
    )
    if new.deadline is None or not moved:
        new = replace(new, deadline=old.deadline, deadline_unix=old.deadline_unix)
    if new == old and not claim.absences:
        return claim
    response = claim.response
    if (new.kind, new.action, new.code) != (old.kind, old.action, old.code):
        response = turn.settings.policy.respond(new)
    return replace(claim, sighting=new, response=response, absences=0)


def _changed(turn: Turn, before: Notice, after: Notice) -> Notice:
    """Keep a notice whose claims changed, and tell those whom it concerns."""
    if after.final and not before.final:
        # Whoever lifted the cordon did so for less than the machine's end.
        after = replace(after, overruled=False)
    turn.put_notice(after)
    old, new = turn.view(before), turn.view(after)
    # Other words for the same are no news to anybody.
    if replace(old, reason=new.reason) == new or not after.open:
        return after
    turn.publish(NoticeChanged(new))
    waiting = [flush.client for flush in after.unsettled]
    shown = replace(new, sources=old.sources, drains=old.drains, reason=old.reason)
    if after.told and waiting and shown != old:
        turn.do(Tell(new, turn.sessions_of(waiting)))
    return after


def _name(turn: Turn, sighting: Sighting) -> str:
    """Return an id that is the same after a lost journal wherever the provider names the event."""
    stated = sighting.identity or sighting.deadline_unix or turn.now
    content = f"{sighting.source}|{sighting.scope}|{sighting.key}|{stated}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    name = f"{sighting.source}-{sighting.kind}-{digest}"
    count = 1
    while name in turn.node.notices:
        count += 1
        name = f"{sighting.source}-{sighting.kind}-{digest}-{count}"
    return name


def _forget(turn: Turn) -> None:
    """Drop the oldest ended notices; one that is still reported must be known, or it comes back."""
    ended = [n for n in turn.node.notices.values() if not n.open and n.gone]
    if len(ended) > KEPT_ENDED:
        ended.sort(key=lambda notice: notice.ended_at or 0.0)
        old = {notice.id for notice in ended[:-KEPT_ENDED]}
        kept = {key: notice for key, notice in turn.node.notices.items() if key not in old}
        turn.change(notices=kept)
