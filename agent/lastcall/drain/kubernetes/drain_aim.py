"""What an order to drain means for each pod: by when it leaves, and how long it has for that.

The times, on the monotonic clock, D being the order's deadline and M a tenth of the lead time, at
most 5 s: until ``over_at`` = D - M pods are moved and have their time to end; ``latest_at``, a
tenth of the way before that and at most 3 s, is the last moment for a first request; at ``end_at``
= D - M/2 the drain says what has come of it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal

from lastcall.core.commands import Drain, Mark
from lastcall.drain.kubernetes.api import CALL_SECONDS
from lastcall.drain.kubernetes.pods import PodClass, pod_uids

MARGIN_SECONDS = 5.0
"""At most this much is kept free before the deadline."""

MARGIN_SHARE = 1 / 10
"""The most of a lead time that is kept free before the deadline."""

BUDGET_SHARE = 1 / 3
"""The least of the time for which a disruption budget is heeded."""

SHORTEST_CALL_SECONDS = 0.5
"""A call is given at least this long."""

SPARE_SECONDS = 0.5
"""At most so much earlier than its own time to end asks for is a pod asked to leave: what the call
takes is not taken from that time, which is counted in whole seconds."""

SETTLING_SHARE = 1 / 10
"""The most of the time left for which a node without pods is looked at before it is drained."""

_CALLS_SHARE = 1 / 10
_SPARE_SHARE = 1 / 10


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """How pods are moved.

    Attributes:
        method: ``evict``, which heeds disruption budgets; or ``delete`` for an agent without the
            right to evict: each pod is marked as disrupted and deleted.
        force: which pods are deleted once only the time they need to end is left, though a budget
            protects them still.
        calls_in_flight: how many pods are asked to leave at a time.
        settling_seconds: for so long after the cordon, at most, a pod may still come that had been
            given to the node before; no node is called drained sooner.
    """

    method: Literal["evict", "delete"] = "evict"
    force: Literal["all", "training", "none"] = "all"
    calls_in_flight: int = 16
    settling_seconds: float = 1.0

    def forces(self, pod_class: PodClass) -> bool:
        """Whether a pod of a class may be deleted over the head of its budget."""
        return self.force == "all" or (self.force == "training" and pod_class is PodClass.TRAINING)


@dataclass(frozen=True, slots=True)
class Aim:
    """An order, with its times worked out.

    Attributes:
        id: the notice.
        kind: of the notice.
        began_at: when the drain began.
        flush_until: until when flushes have their time.
        over_at: until when pods are moved.
        end_at: when the drain ends at the latest.
        latest_at: the last moment at which a pod may still be asked to leave and be heard.
        groups: for each control group that was told to flush, the pods it lies in, the outermost
            first, and whether its flush is not over.
    """

    id: str
    kind: str
    began_at: float
    flush_until: float
    over_at: float
    end_at: float
    latest_at: float
    groups: tuple[tuple[tuple[str, ...], bool], ...]

    def left(self, now: float) -> float:
        """Return the seconds in which pods may still be moved; negative once they are over."""
        return self.over_at - now

    def told(self, known: Container[str]) -> Mapping[str, bool]:
        """Return the UIDs of pods that were told to flush, and whether one of its flushes waits.

        Args:
            known: UIDs of the node's pods. The outermost of a group's that is among them is meant:
                what a pod calls the groups inside its own says nothing about other pods.
        """
        pods: dict[str, bool] = {}
        for uids, waits in self.groups:
            uid = next((uid for uid in uids if uid in known), None)
            if uid is not None:
                pods[uid] = waits or pods.get(uid, False)
        return pods

    def due_at(self, pod_class: PodClass, grace_seconds: int, waits: bool | None) -> float:
        """Return when a pod is asked to leave.

        Args:
            pod_class: of the pod.
            grace_seconds: its own time to end.
            waits: whether a flush in it is not over; ``None`` where it was told of none.
        """
        if pod_class is not PodClass.TRAINING or waits is False:
            return self.began_at
        last_at = self._last_at(grace_seconds)
        if waits:
            last_at = max(last_at, self.flush_until)
        return min(last_at, self.latest_at)

    def escalate_at(self, grace_seconds: int) -> float:
        """Return from when on a pod is not left to its budget any more."""
        heeded_until = self.began_at + (self.over_at - self.began_at) * BUDGET_SHARE
        return min(max(self._last_at(grace_seconds), heeded_until), self.latest_at)

    def grace_to_send(self, grace_seconds: int, now: float) -> int | None:
        """Return the time to end that a pod is given, whole seconds; ``None`` for its own."""
        left = self.left(now)
        return None if grace_seconds <= left else max(1, math.floor(left))

    def call_seconds(self, now: float) -> float:
        """Return how long a call may take now."""
        return max(SHORTEST_CALL_SECONDS, min(CALL_SECONDS, self.left(now) / 4))

    def settled_at(self, now: float, settling_seconds: float) -> float:
        """Return from when on a node without pods is drained, where it was cordoned now."""
        return now + min(settling_seconds, max(0.0, self.left(now)) * SETTLING_SHARE)

    def _last_at(self, grace_seconds: int) -> float:
        """Return when a pod must be asked to leave to have its own time to end."""
        spare_seconds = min(SPARE_SECONDS, (self.over_at - self.began_at) * _SPARE_SHARE)
        return self.over_at - grace_seconds - spare_seconds


def aim_of(order: Drain) -> Aim:
    """Return what an order means."""
    lead_seconds = max(0.0, order.deadline - order.began_at)
    margin_seconds = min(MARGIN_SECONDS, lead_seconds * MARGIN_SHARE)
    over_at = order.deadline - margin_seconds
    return Aim(
        id=order.id,
        kind=order.kind.value,
        began_at=order.began_at,
        flush_until=order.flush_until,
        over_at=over_at,
        end_at=order.deadline - margin_seconds / 2,
        latest_at=over_at - min(CALL_SECONDS, (over_at - order.began_at) * _CALLS_SHARE),
        groups=_groups(order.training, order.waiting),
    )


def aim_of_mark(command: Mark) -> Aim:
    """Return what it means that processes may end for a notice: nothing is moved, for no end."""
    return Aim(
        id=command.id,
        kind=command.kind.value,
        began_at=-math.inf,
        flush_until=math.inf,
        over_at=math.inf,
        end_at=math.inf,
        latest_at=math.inf,
        groups=_groups(command.training, command.training),
    )


def _groups(
    training: frozenset[str], waiting: frozenset[str]
) -> tuple[tuple[tuple[str, ...], bool], ...]:
    found = ((pod_uids(cgroup), cgroup in waiting) for cgroup in sorted(training))
    return tuple((uids, waits) for uids, waits in found if uids)
