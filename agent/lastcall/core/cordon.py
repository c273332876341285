"""The cordon, which belongs to the node and not to one notice: taken, tried again, given back.

Nobody's cordon but our own is ever lifted, and one that somebody lifts is not put back for the
same notice.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lastcall.core.commands import Cordon, Uncordon
from lastcall.core.events import (
    CordonEnded,
    CordonFound,
    CordonLifted,
    CordonMissing,
    UncordonEnded,
)
from lastcall.core.facts import Cordoned, CordonLost, Overruled, Uncordoned
from lastcall.core.model import Node, Notice
from lastcall.core.turn import Turn

CORDON_AGAIN_SECONDS = (1.0, 2.0, 5.0)
"""How long after a failure it is tried again to cordon the node: the first time, the second, …"""

GIVE_BACK_AGAIN_SECONDS = 10.0
"""How long after a failure it is tried again to lift our cordon."""

FOUND_SECONDS = 15.0
"""How long a cordon that was found stands at least: by then all that may have asked for it has been
looked at, since no source takes longer to its first look."""


def keep(turn: Turn) -> None:
    """Have the node cordoned while a notice wants it, and given back once none does."""
    node = turn.node
    if node.cordoning or node.giving_back or not turn.settings.acts:
        return
    wanting = [notice for notice in node.notices.values() if _wants(notice)]
    if wanting:
        notice = next((one for one in wanting if one.id == node.cordoned_for), wanting[0])
        says = (notice.id, notice.lead.sighting.kind.value, notice.deadline)
        if says != node.cordon_says and turn.now >= node.cordon_after:
            turn.change(cordoning=True, cordon_says=says)
            turn.do(Cordon(turn.view(notice)))
    elif node.cordoned_for is not None and turn.now >= _free_at(node) and _is_free(node):
        turn.change(giving_back=True)
        turn.do(Uncordon(node.cordoned_for))


def wake_at(node: Node) -> float | None:
    """Return when something is tried again; a moment that has passed is none."""
    if node.cordoning or node.giving_back:
        return None
    if any(_wants(notice) for notice in node.notices.values()):
        return node.cordon_after
    return None if node.cordoned_for is None else _free_at(node)


def ended(turn: Turn, event: CordonEnded) -> None:
    """Take in what came of the cordon; the same trouble again is no news."""
    trouble = ""
    turn.change(cordoning=False)
    if event.cordoned:
        since = turn.node.cordoned_at
        turn.change(
            cordoned_for=event.id,
            cordoned_at=turn.now if since is None else since,
            cordon_found=False,
            cordon_failures=0,
        )
    elif event.foreign:
        notice = turn.node.notices.get(event.id)
        if notice is not None:
            turn.put_notice(replace(notice, cordoned_before=True))
    else:
        trouble = event.detail
        failures = turn.node.cordon_failures
        pause = CORDON_AGAIN_SECONDS[min(failures, len(CORDON_AGAIN_SECONDS) - 1)]
        turn.change(cordon_says=None, cordon_failures=failures + 1, cordon_after=turn.now + pause)
    is_news = event.cordoned or event.foreign or trouble != turn.node.cordon_trouble
    turn.change(cordon_trouble=trouble)
    if is_news:
        turn.publish(Cordoned(event.id, event.cordoned, event.detail, event.foreign))


def given_back(turn: Turn, event: UncordonEnded) -> None:
    """Take in what came of lifting it; a notice that came meanwhile wants it back."""
    turn.change(giving_back=False)
    if event.uncordoned:
        _forget(turn)
    else:
        turn.change(give_back_after=turn.now + GIVE_BACK_AGAIN_SECONDS)
    turn.publish(Uncordoned(event.id, event.uncordoned, event.detail))


def found(turn: Turn, event: CordonFound) -> None:
    """Take in that a cordon of ours stands of which nothing is known: a journal was lost."""
    if turn.node.cordoned_for is None and not turn.node.cordoning:
        turn.change(cordoned_for=event.id, cordoned_at=turn.now, cordon_found=True)
        turn.publish(Cordoned(event.id, cordoned=True, detail=event.detail))


def lifted(turn: Turn, event: CordonLifted) -> None:
    """Take in that somebody lifted it: for the notices that stand, that is the last word."""
    if turn.node.cordoned_for != event.id or turn.node.giving_back:
        return
    _forget(turn)
    for notice in turn.node.open_notices:
        if _wants(notice):
            turn.put_notice(replace(notice, overruled=True))
    turn.publish(Overruled(event.id, event.by))


def missing(turn: Turn, event: CordonMissing) -> None:
    """Take in that it is gone though nobody lifted it; whoever wants it has it made again."""
    name = turn.node.cordoned_for
    if name is None or turn.node.cordoning or turn.node.giving_back:
        return
    _forget(turn)
    turn.publish(CordonLost(name, event.detail))


def _forget(turn: Turn) -> None:
    turn.change(cordoned_for=None, cordoned_at=None, cordon_says=None, cordon_found=False)


def _wants(notice: Notice) -> bool:
    """Whether a notice wants the node cordoned."""
    mine = notice.told and notice.drains and not notice.gone
    return mine and not notice.cordoned_before and not notice.overruled


def _is_free(node: Node) -> bool:
    """Whether nothing that asks for the cordon is reported any more.

    A cordon that was found says that there was a notice: only once each provider has been asked
    is it known that there is none.
    """
    for notice in node.notices.values():
        if notice.told_at is not None and notice.drains and not notice.gone:
            return False
    if not node.cordon_found:
        return True
    health = [node.sources.get(name) for name in node.providers]
    asked = all(one is not None and one.last_success is not None for one in health)
    return asked and bool(node.provider_detail) and all(one.up for one in node.sources.values())


def _free_at(node: Node) -> float:
    """Return the moment before which it is not tried to lift our cordon."""
    found_at = node.cordoned_at if node.cordon_found else None
    return max(node.give_back_after, -math.inf if found_at is None else found_at + FOUND_SECONDS)
