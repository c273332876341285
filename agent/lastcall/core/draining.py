"""What is to leave the node, and who of it may not leave yet: the drain's orders.

An order is what holds now and not a step: it is derived from what is known, and given again as a
whole whenever it differs from what it was. Whoever carries it out may lose it and be given it anew.
"""

from __future__ import annotations

from dataclasses import replace

from lastcall.core.commands import Drain, StopDrain
from lastcall.core.deadlines import flush_until
from lastcall.core.model import Node, Notice
from lastcall.core.turn import Settings, Turn


def orders(node: Node, settings: Settings) -> dict[str, Drain]:
    """Return the orders that hold, by notice."""
    if not settings.acts:
        return {}
    return {
        notice.id: order
        for notice in node.notices.values()
        if (order := _order(notice, settings)) is not None
    }


def issue(turn: Turn, before: Node) -> None:
    """Give the orders that differ from what they were, and take back those that hold no more."""
    if turn.node.notices is before.notices:
        return
    old, new = orders(before, turn.settings), orders(turn.node, turn.settings)
    for name, order in new.items():
        if name not in old:
            notice = turn.node.notices[name]
            turn.put_notice(replace(notice, drain_began_at=order.began_at))
        if order != old.get(name):
            turn.do(order)
    for name in old:
        notice_now = turn.node.notices.get(name)
        if name not in new and (notice_now is None or notice_now.drained is None):
            turn.do(StopDrain(name))


def _order(notice: Notice, settings: Settings) -> Drain | None:
    """Return what holds for a notice.

    An admin who took the node back has the last word, unless the machine goes whatever is wished.
    """
    if not (notice.told and notice.drains) or notice.gone or notice.drained is not None:
        return None
    if notice.deadline is None or notice.told_at is None:
        return None
    if notice.overruled and not notice.final:
        return None
    flushes = [flush for flush in notice.flushes.values() if flush.cgroup]
    return Drain(
        id=notice.id,
        kind=notice.lead.sighting.kind,
        reason=notice.lead.sighting.reason,
        began_at=notice.told_at if notice.drain_began_at is None else notice.drain_began_at,
        flush_until=flush_until(notice.deadline, notice.told_at, settings.reserve_seconds),
        deadline=notice.deadline,
        training=frozenset(flush.cgroup for flush in flushes),
        waiting=frozenset(flush.cgroup for flush in flushes if flush.outcome is None),
    )
