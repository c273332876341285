"""When a unit is told to stop: the rules, as arithmetic.

The times, on the monotonic clock, D being the order's deadline and M a tenth of the lead time, at
most 5 s: until ``over_at`` = D - M units have their time to stop; at ``end_at`` = D - M/2 the drain
says what has come of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lastcall.core.commands import Drain

MARGIN_SECONDS = 5.0
"""At most this much is kept free before the deadline."""

MARGIN_SHARE = 1 / 10
"""The most of a lead time that is kept free before the deadline."""


@dataclass(frozen=True, slots=True)
class Aim:
    """An order, with its times worked out.

    Attributes:
        id: the notice.
        began_at: when the drain began.
        flush_until: until when flushes have their time.
        over_at: until when units have their time to stop.
        end_at: when the drain ends at the latest.
        training: control groups of the processes that were told to flush.
        waiting: those of them in which a flush is not over.
    """

    id: str
    began_at: float
    flush_until: float
    over_at: float
    end_at: float
    training: frozenset[str]
    waiting: frozenset[str]

    def trains(self, unit: str) -> bool:
        """Whether a process of the unit was told to flush."""
        return any(lies_in(group, unit) for group in self.training)

    def waits(self, unit: str) -> bool:
        """Whether a flush of one of its processes is not over."""
        return any(lies_in(group, unit) for group in self.waiting)

    def stop_at(self, unit: str, stop_seconds: float) -> float:
        """Return when a unit is told to stop.

        Args:
            unit: its name.
            stop_seconds: the longest that it may take to stop; infinite where it has no bound.
        """
        if self.trains(unit) and not self.waits(unit):
            return self.began_at
        last_at = self.over_at - stop_seconds
        if self.waits(unit):
            last_at = max(last_at, self.flush_until)
        return max(self.began_at, min(last_at, self.over_at))


def aim_of(order: Drain) -> Aim:
    """Return what an order means."""
    lead_seconds = max(0.0, order.deadline - order.began_at)
    margin_seconds = min(MARGIN_SECONDS, lead_seconds * MARGIN_SHARE)
    return Aim(
        id=order.id,
        began_at=order.began_at,
        flush_until=order.flush_until,
        over_at=order.deadline - margin_seconds,
        end_at=order.deadline - margin_seconds / 2,
        training=order.training,
        waiting=order.waiting,
    )


def lies_in(group: str, unit: str) -> bool:
    """Whether a control group is a unit's, or lies within it.

    systemd names a unit's group as it names the unit, escaped characters included, and sets an
    underscore before a name that the kernel has a use for, such as ``memory.service``.
    """
    return not {unit, f"_{unit}"}.isdisjoint(group.split("/"))
