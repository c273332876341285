"""What is to leave the node, and who of it may not leave yet: the drain's orders.

An order is what holds now and not a step: it is derived from what is known, and given again as a
whole whenever it differs from what it was. Whoever carries it out may lose it and be given it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lastcall.core.commands import Drain, Mark, StopDrain
from lastcall.core.deadlines import flush_until
from lastcall.core.facts import NodeDrained
from lastcall.core.model import Flush, Node, Notice, Stance
from lastcall.core.turn import Settings, Turn


def orders(node: Node, settings: Settings) -> dict[str, Drain | Mark]:
    """Return the orders that hold, by notice."""
    if not settings.acts:
        return {}
    return {
        notice.id: order
        for notice in node.notices.values()
        if (order := _drain(notice, settings) or _mark(notice)) is not None
    }


def issue(turn: Turn, before: Node) -> None:
    """Give the orders that differ from what they were, and take back those that hold no more."""
    if turn.node.notices is before.notices:
        return
    old, new = orders(before, turn.settings), orders(turn.node, turn.settings)
    for name, order in old.items():
        notice = turn.node.notices.get(name)
        has_ended = notice is not None and notice.drained is not None
        if isinstance(order, Drain):
            is_taken_back = not isinstance(new.get(name), Drain) and not has_ended
        else:
            is_taken_back = name not in new
        if is_taken_back:
            turn.do(StopDrain(name))
            if isinstance(order, Drain):
                _say_stopped(turn, order, notice)
    for name, order in new.items():
        if order != old.get(name):
            turn.do(order)
        notice = turn.node.notices[name]
        if isinstance(order, Drain) and notice.drain_began_at is None:
            turn.put_notice(replace(notice, drain_began_at=order.began_at))


def _say_stopped(turn: Turn, order: Drain, notice: Notice | None) -> None:
    """Make known that a drain did not come to its end."""
    stands = notice is not None and notice.open
    why = "somebody lifted the cordon" if stands else "its notice stands no more"
    turn.publish(NodeDrained(order.id, "stopped", turn.now - order.began_at, why))


def _drain(notice: Notice, settings: Settings) -> Drain | None:
    """Return what is to be moved for a notice.

    An admin who took the node back has the last word, unless the machine goes whatever is wished.
    """
    if not (notice.told and notice.drains) or notice.gone or notice.drained is not None:
        return None
    if notice.deadline is None or notice.told_at is None:
        return None
    if notice.overruled and not notice.final:
        return None
    return Drain(
        id=notice.id,
        kind=notice.lead.sighting.kind,
        reason=notice.lead.sighting.reason,
        began_at=notice.told_at if notice.drain_began_at is None else notice.drain_began_at,
        flush_until=flush_until(notice.deadline, notice.told_at, settings.reserve_seconds),
        deadline=notice.deadline,
        training=_groups(notice.flushes.values()),
        waiting=_groups(notice.unsettled),
    )


def _mark(notice: Notice) -> Mark | None:
    """Return which processes may end for a notice that moves nothing, or nothing any more.

    They may do so for as long as it is reported, after its deadline too.
    """
    stands = notice.told or notice.ending == "passed"
    if not stands or notice.gone or notice.drill or notice.stance is not Stance.FLUSH:
        return None
    training = _groups(notice.flushes.values())
    return Mark(notice.id, notice.lead.sighting.kind, training) if training else None


def _groups(flushes: Iterable[Flush]) -> frozenset[str]:
    return frozenset(flush.cgroup for flush in flushes if flush.cgroup)
