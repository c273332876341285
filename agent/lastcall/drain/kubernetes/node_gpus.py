"""What the node's condition says of its GPUs, and when it may be written. No I/O.

What stands on the node is compared with what was last heard, so an agent that starts again and
hears the same writes nothing. What has become worse is written soon; anything else only once it
has held for a while, so that a GPU that is well and ill by turns costs hardly a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lastcall.core.facts import Fact, GpuHealth, GpuWatchSeen, NodeGpuHealth
from lastcall.core.gpu.model import SEVERITY, Health, Recovery, WatchState
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
"""How long a verdict that is no worse than what stands must have held."""

APART_SECONDS = 10.0
"""Two writes are no closer together than this."""

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
_HEALTHY_MESSAGE = "nothing speaks against a GPU"

# What is said where nobody looks at the GPUs, and a condition of earlier stands.
_UNWATCHED = {
    WatchState.OFF: ("NotWatched", "GPUs are not watched"),
    WatchState.NO_GPU: ("NoGPU", "the machine has no GPU"),
}


@dataclass(frozen=True, slots=True)
class _Words:
    """What is to stand there."""

    health: Health
    reason: str
    message: str


class GpuReport:
    """Remembers how the node's GPUs are. Belongs to one node.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._words: _Words | None = None
        self._has_gpus = False
        self._heard_at = 0.0
        self._health_since = 0.0
        self._written_at: float | None = None

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
                self._has_gpus = self._has_gpus or _is_trouble(fact.health)
                return self._hear(_words_of(fact))
            case GpuWatchSeen() if fact.state in _UNWATCHED and not self._is_trouble:
                return self._hear(_Words(Health.UNKNOWN, *_UNWATCHED[fact.state]))
        return None

    def condition(self, node: Node, at_unix: float) -> Condition | None:
        """Return the condition to set now; ``None`` where there is none to set, or not yet.

        Args:
            node: as it stands.
            at_unix: now, Unix seconds.
        """
        found = find_condition(node, GPU_HEALTHY)
        if self._words is None or (found is None and not self._has_gpus):
            return None
        words = self._words
        wanted = node_condition(
            GPU_HEALTHY,
            _STATUS[words.health],
            words.reason,
            words.message,
            at_unix=at_unix,
            before=found,
        )
        if says_the_same(found, wanted) or not self._is_time(found):
            return None
        return wanted

    def written(self) -> None:
        """Take note that a write is being made."""
        self._written_at = self._monotonic()

    @property
    def _is_trouble(self) -> bool:
        return self._words is not None and _is_trouble(self._words.health)

    def _hear(self, words: _Words) -> float | None:
        if words == self._words:
            return None
        now = self._monotonic()
        if self._words is None or words.health is not self._words.health:
            self._health_since = now
        self._words, self._heard_at = words, now
        return self._earliest() - now

    def _is_time(self, found: Condition | None) -> bool:
        now = self._monotonic()
        if now < self._earliest() or self._words is None:
            return False
        if found is None or (self._is_trouble and _is_worse(self._words.health, _health_of(found))):
            return True
        return now >= self._health_since + SETTLED_SECONDS

    def _earliest(self) -> float:
        apart = 0.0 if self._written_at is None else self._written_at + APART_SECONDS
        return max(self._heard_at + FIRST_SECONDS, apart)


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


def _is_trouble(health: Health) -> bool:
    return health in {Health.DEGRADED, Health.FAULTY}


def _is_worse(health: Health, than: Health) -> bool:
    return SEVERITY.index(health) > SEVERITY.index(than)


def _health_of(condition: Condition) -> Health:
    """Return the health that a condition speaks of."""
    if condition.get("status") == "False":
        return Health.FAULTY
    if condition.get("status") != "True":
        return Health.UNKNOWN
    return Health.DEGRADED if condition.get("reason") == DEGRADED else Health.HEALTHY
