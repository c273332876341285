"""What training is told: one notice, with how much time is left by this process's own clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from lastcall.wire import messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something is about to happen to this node.

    A copy does not change: an update by the agent comes as another ``Notice`` of the same ``id``.

    Attributes:
        id: names the notice, on every process of the node alike.
        kind: what happens, such as ``preemption`` or ``maintenance``.
        source: who says so, such as ``aws``; ``signal`` for the signal fallback's own.
        action: what it does to the machine, such as ``terminate`` or ``freeze``.
        urgency: ``now``: save and end here; ``soon``: save early, training goes on.
        deadline_unix: when, as Unix seconds; for logs, since wall clocks step.
        deadline_quality: who says when: ``provider``, ``assumed`` or ``none``.
        cancellable: whether it may still be withdrawn.
        drill: whether it is a rehearsal.
        reason: the provider's words or ours.
        supersedes: ids of notices that this one took the place of.
        deadline_monotonic: when, on ``time.monotonic()`` of this process; ``None`` where nobody
            says.
        budget_monotonic: until when a flush should be durable: the deadline less the agent's
            reserve.
    """

    id: str
    kind: str
    source: str
    action: str = "unknown"
    urgency: str = "now"
    deadline_unix: float | None = None
    deadline_quality: str = "none"
    cancellable: bool = False
    drill: bool = False
    reason: str = ""
    supersedes: tuple[str, ...] = ()
    deadline_monotonic: float | None = None
    budget_monotonic: float | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds from now to the deadline, 0 once it has passed; ``None`` where nobody says."""
        return _left(self.deadline_monotonic)

    @property
    def budget_seconds(self) -> float | None:
        """Seconds from now in which a flush should be durable; ``None`` where nobody says."""
        return _left(self.budget_monotonic)

    @property
    def ends_training(self) -> bool:
        """Whether the process should end for it: it is urgent, and no drill."""
        return self.urgency == "now" and not self.drill


def received(notice: messages.Notice, now: float) -> Notice:
    """Return a notice as training sees it; its clock runs from ``now``, the moment of receipt."""
    return Notice(
        id=notice.id,
        kind=notice.kind,
        source=notice.source,
        action=notice.action,
        urgency=notice.urgency,
        deadline_unix=notice.deadline_unix,
        deadline_quality=notice.deadline_quality,
        cancellable=notice.cancellable,
        drill=notice.drill,
        reason=notice.reason,
        supersedes=notice.supersedes,
        deadline_monotonic=_after(now, notice.remaining_seconds),
        budget_monotonic=_after(now, notice.budget_seconds),
    )


def precedence(notice: Notice) -> tuple[bool, bool, float]:
    """Return a key that sorts the most urgent notice first: now, real, and the earliest."""
    deadline = notice.deadline_monotonic
    return (notice.urgency != "now", notice.drill, math.inf if deadline is None else deadline)


def _after(now: float, duration_seconds: float | None) -> float | None:
    return None if duration_seconds is None else now + duration_seconds


def _left(moment: float | None) -> float | None:
    return None if moment is None else max(0.0, moment - time.monotonic())
