"""What the node's condition says of its GPUs, and when it may be written. No I/O.

What stands on the node is compared with what was last heard, so an agent that starts again and
hears the same writes nothing. A fault is written at once. Anything else is written only once what
stands has been untrue for a while, and seldom: a GPU that is well and ill by turns costs hardly a
call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lastcall.core.facts import Fact, GpuHealth, GpuWatchSeen, NodeGpuHealth
from lastcall.core.gpu.model import Health, Recovery, WatchState
from lastcall.drain.kubernetes.allowance import Allowance
from lastcall.drain.kubernetes.node_condition import (
    Condition,
    camel_case,
    find_condition,
    node_condition,
    says_the_same,
)
from lastcall.drain.kubernetes.node_marks import Node

GPU_HEALTHY = "GPUHealthy"
"""The type of the condition; only a node that has GPUs ever gets one."""

DEGRADED = "Degraded"
"""The reason while it is ``True`` though something speaks against a GPU."""

FIRST_SECONDS = 1.0
"""How long a verdict waits, since the cordon for it is to be the first call."""

SETTLED_SECONDS = 30.0
"""How long what stands must have been untrue before anything but a fault is written."""

APART_SECONDS = 10.0
"""Two writes are no closer together than this."""

WORDS_SECONDS = 300.0
"""How long after a write other words may follow while the status stays."""

MOST_AT_ONCE = 4
EACH_SECONDS = 450.0
"""Writes after a pause, and how long until there is one more: in no hour are it more than 12."""

RECOVERIES = {
    Recovery.NONE: "",
    Recovery.RESTART_AGENT: "restart the agent",
    Recovery.RESET_WHEN_IDLE: "reset the GPU when it is idle",
    Recovery.RESET: "reset the GPU",
    Recovery.REBOOT: "reboot the machine",
    Recovery.REPLACE: "replace the machine",
}
"""What helps, in words."""

_STATUS = {Health.HEALTHY: True, Health.DEGRADED: True, Health.FAULTY: False, Health.UNKNOWN: None}
_TROUBLE = {Health.DEGRADED, Health.FAULTY}
_HEALTHY_MESSAGE = "nothing speaks against a GPU"


@dataclass(frozen=True, slots=True)
class _Words:
    """What is to stand there."""

    health: Health
    reason: str
    message: str


# What is said where nobody looks at the GPUs, and a condition of earlier stands.
_UNWATCHED = {
    WatchState.OFF: _Words(Health.UNKNOWN, "NotWatched", "GPUs are not watched"),
    WatchState.NO_GPU: _Words(Health.UNKNOWN, "NoGPU", "the machine has no GPU"),
}


class GpuReport:
    """Remembers how the node's GPUs are. Belongs to one node.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._verdict: _Words | None = None
        self._watch: WatchState | None = None
        self._words: _Words | None = None
        self._has_gpus = False
        self._status_since = 0.0
        self._status_untrue_since: float | None = None
        self._words_untrue_since: float | None = None
        self._written_at: float | None = None
        self._allowance = Allowance(MOST_AT_ONCE, EACH_SECONDS)

    def note(self, fact: Fact) -> float | None:
        """Take in what has become known.

        Returns:
            After how many seconds it may be time to write; ``None`` where it says nothing new.
        """
        match fact:
            case GpuHealth():
                self._has_gpus = self._has_gpus or bool(fact.gpu)
                return None
            case NodeGpuHealth():
                self._has_gpus = self._has_gpus or fact.health in _TROUBLE
                self._verdict = _words_of(fact)
            case GpuWatchSeen():
                self._watch = fact.state
            case _:
                return None
        return self._hear(self._unwatched or self._verdict)

    def condition(self, node: Node, at_unix: float) -> Condition | None:
        """Return the condition to set now; ``None`` where there is none to set, or not yet.

        Args:
            node: as it stands.
            at_unix: now, Unix seconds.
        """
        found, words = find_condition(node, GPU_HEALTHY), self._words
        is_due_here = self._has_gpus and self._unwatched is None
        if words is None or (found is None and not is_due_here):
            return None
        wanted = node_condition(
            GPU_HEALTHY,
            _STATUS[words.health],
            words.reason,
            words.message,
            at_unix=at_unix,
            before=found,
        )
        return wanted if self._is_time(found, wanted) else None

    def written(self) -> None:
        """Take note that it was written."""
        self._written_at = self._monotonic()
        self._allowance.spend(self._written_at)

    @property
    def _unwatched(self) -> _Words | None:
        """What is said where nobody looks at the GPUs; ``None`` where somebody does."""
        words = None if self._watch is None else _UNWATCHED.get(self._watch)
        if words is None:
            return None
        # The last GPU may have fallen off the bus: what was found wrong with it still is.
        is_fault = self._verdict is not None and self._verdict.health is Health.FAULTY
        return None if is_fault and self._watch is WatchState.NO_GPU else words

    def _hear(self, words: _Words | None) -> float | None:
        if words == self._words:
            return None
        now, before, self._words = self._monotonic(), self._words, words
        if words is None:
            return None
        self._words_untrue_since = _first(self._words_untrue_since, now)
        if before is None or _STATUS[words.health] is not _STATUS[before.health]:
            self._status_since = now
            self._status_untrue_since = _first(self._status_untrue_since, now)
        return max(FIRST_SECONDS, self._after_write(APART_SECONDS) - now)

    def _is_time(self, found: Condition | None, wanted: Condition) -> bool:
        now = self._monotonic()
        is_status_true = found is not None and found.get("status") == wanted["status"]
        is_true = says_the_same(found, wanted)
        status_since = None if is_status_true else _first(self._status_untrue_since, now)
        words_since = None if is_true else _first(self._words_untrue_since, now)
        self._status_untrue_since, self._words_untrue_since = status_since, words_since
        if is_true or now < self._after_write(APART_SECONDS):
            return False
        if found is None or (wanted["status"] == "False" and not is_status_true):
            return now >= self._status_since + FIRST_SECONDS and self._allowance.allows(now)
        # What is to be said may change all the time: what counts is how long what stands is untrue.
        untrue_since = words_since if status_since is None else status_since
        is_settled = untrue_since is not None and now >= untrue_since + SETTLED_SECONDS
        is_early = is_status_true and now < self._after_write(WORDS_SECONDS)
        return is_settled and not is_early and self._allowance.allows(now, spare=1)

    def _after_write(self, seconds: float) -> float:
        return 0.0 if self._written_at is None else self._written_at + seconds


def _first(since: float | None, now: float) -> float:
    return now if since is None else since


def _words_of(fact: NodeGpuHealth) -> _Words:
    if fact.health is Health.HEALTHY:
        return _Words(fact.health, "Healthy", _HEALTHY_MESSAGE)
    # Figures are left out: words that do not change are not written again after a restart.
    message = ", ".join(dict.fromkeys(fact.reasons))
    if recovery := RECOVERIES[fact.recovery]:
        message += f"; recommended: {recovery}"
    worst = camel_case(fact.reasons[0]) if fact.reasons else ""
    reason = DEGRADED if fact.health is Health.DEGRADED else worst
    return _Words(fact.health, reason or fact.health.value.capitalize(), message)
