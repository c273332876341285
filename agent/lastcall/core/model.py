"""The words of the domain: what a source sees, what a notice is, who must flush, what came of it.

All times are seconds on one monotonic clock that starts with the machine, unless a name ends in
``_unix``. Nothing here changes once made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lastcall.core.estimates import JobHistory
from lastcall.core.gpu.model import GpuRecord, GpuWatch, Holder


class Kind(StrEnum):
    """What is about to happen."""

    PREEMPTION = "preemption"
    TERMINATION = "termination"
    MAINTENANCE = "maintenance"
    REBALANCE = "rebalance"
    SHUTDOWN = "shutdown"
    GPU_FAULT = "gpu_fault"
    MANUAL = "manual"


_STRENGTH = {Kind.REBALANCE: 0, Kind.MAINTENANCE: 1, Kind.GPU_FAULT: 2}
"""How much a kind says about the machine's end; all others say that it comes."""

_FINAL = (Kind.PREEMPTION, Kind.TERMINATION, Kind.SHUTDOWN)
"""Kinds by which the machine goes, whatever anybody on it wishes."""


class Action(StrEnum):
    """What it does to the machine."""

    TERMINATE = "terminate"
    STOP = "stop"
    HIBERNATE = "hibernate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    FREEZE = "freeze"
    MIGRATE = "migrate"
    NONE = "none"
    UNKNOWN = "unknown"


class Urgency(StrEnum):
    """Whether training ends here (``now``) or only a checkpoint is asked for (``soon``)."""

    NOW = "now"
    SOON = "soon"


class DeadlineQuality(StrEnum):
    """Who says when: the provider, an assumption of ours, or nobody."""

    PROVIDER = "provider"
    ASSUMED = "assumed"
    NONE = "none"


class Outcome(StrEnum):
    """What came of one client's flush for one notice."""

    IN_TIME = "in_time"
    LATE = "late"
    FAILED = "failed"
    MISSED = "missed"
    NOT_DURABLE = "not_durable"
    IGNORED = "ignored"
    WITHDRAWN = "withdrawn"


class Phase(StrEnum):
    """Where a notice stands."""

    SEEN = "seen"
    TOLD = "told"
    FLUSHING = "flushing"
    DRAINING = "draining"
    DONE = "done"
    WITHDRAWN = "withdrawn"


class Stance(StrEnum):
    """How the agent answers a sighting."""

    FLUSH = "flush"
    ADVISE = "advise"
    INFORM = "inform"


@dataclass(frozen=True, slots=True)
class Response:
    """What the policy wants done about one sighting.

    Attributes:
        stance: flush and stop, ask for an early checkpoint, or only show it.
        drain: whether the node is cordoned and drained for it.
        act_before_seconds: how long before the deadline it is told; ``None``: at first sight.
        expires_seconds: how long after the first sight it ends by itself; ``None``: never.
        assumed_lead_seconds: first sight to deadline where the provider names none.
    """

    stance: Stance
    drain: bool
    act_before_seconds: float | None = None
    expires_seconds: float | None = None
    assumed_lead_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One thing that a source says stands now.

    Attributes:
        source: the source's name, such as ``aws``.
        scope: the part of the source that was read whole, such as one metadata path.
        key: names the thing within the scope, the same at each look.
        code: the provider's own word for it, such as ``instance-retirement``.
        identity: tells one occurrence from the next under the same key, where the provider does.
        deadline: when it happens; ``None`` where the provider names no time.
        deadline_unix: the same as the provider stated it; only a change of it moves the deadline.
        acknowledgeable: the provider can be told that we are done with it.
        started: it is happening now; when it is gone it is over, and was not withdrawn.
    """

    source: str
    scope: str
    key: str
    kind: Kind
    action: Action
    code: str = ""
    identity: str = ""
    deadline: float | None = None
    deadline_unix: float | None = None
    reason: str = ""
    cancellable: bool = False
    drill: bool = False
    acknowledgeable: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A sighting that stands, since when, and what the policy makes of it.

    ``absences`` counts the looks in a row that did not find it; ``acknowledged`` says that its
    provider is being told, or was, that we are done with it.
    """

    sighting: Sighting
    response: Response
    first_seen: float
    absences: int = 0
    acknowledged: bool = False

    @property
    def deadline(self) -> float | None:
        """When it happens: as the provider says, else as assumed, else ``None``."""
        if self.sighting.deadline is not None:
            return self.sighting.deadline
        if self.response.assumed_lead_seconds is not None:
            return self.first_seen + self.response.assumed_lead_seconds
        return None

    @property
    def quality(self) -> DeadlineQuality:
        """Who says when."""
        if self.sighting.deadline is not None:
            return DeadlineQuality.PROVIDER
        if self.response.assumed_lead_seconds is not None:
            return DeadlineQuality.ASSUMED
        return DeadlineQuality.NONE


@dataclass(frozen=True, slots=True)
class Flush:
    """One client's flush for one notice; it is over once it has an outcome."""

    client: str
    job: str
    rank: int | None = None
    cgroup: str = ""
    told_at: float | None = None
    acked_at: float | None = None
    begun_at: float | None = None
    will: str | None = None
    step: int | None = None
    phase: str | None = None
    bytes: int | None = None
    total_bytes: int | None = None
    path: str | None = None
    outcome: Outcome | None = None
    settled_at: float | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the node is told: one incident, held by every claim that points at it.

    Attributes:
        claims: the sightings that hold it up; the strongest names its source and kind.
        signalled: the last of the clients that were there has been told.
        supersedes: notices that this one took the place of.
        flushes: by client.
        flushes_over: it has been made known that every flush is over, or its time is up.
        drain_began_at: when work began to be moved off the node for it.
        drained: the drain's outcome, once there is one.
        cordoned_before: another had cordoned the node before us, and the cordon is left alone.
        overruled: somebody lifted our cordon while it stood; it is not put back.
        acknowledged: the provider is being told that we are done.
        accepted: what the provider said to that; ``None`` until it has.
        overdue: the deadline has come while flushes were not over.
        lost_jobs: jobs whose loss has been made known.
        gone: no source reports it any more; its last claims only name it.
        ending: why it is over: ``withdrawn``, ``completed``, ``superseded``, ``expired``,
            ``passed``, ``rehearsed`` or ``rebooted``.
    """

    id: str
    phase: Phase
    first_seen: float
    claims: tuple[Claim, ...]
    told_at: float | None = None
    signalled: bool = False
    supersedes: tuple[str, ...] = ()
    flushes: Mapping[str, Flush] = field(default_factory=dict)
    flushes_over: bool = False
    drain_began_at: float | None = None
    drained: str | None = None
    cordoned_before: bool = False
    overruled: bool = False
    acknowledged: bool = False
    accepted: bool | None = None
    overdue: bool = False
    lost_jobs: frozenset[str] = frozenset()
    gone: bool = False
    ended_at: float | None = None
    ending: str = ""

    @property
    def open(self) -> bool:
        """Whether it still stands."""
        return self.ended_at is None

    @property
    def told(self) -> bool:
        """Whether it stands and the clients know of it."""
        return self.open and self.told_at is not None

    @property
    def lead(self) -> Claim:
        """The claim that names it: the strongest, and of those the first."""
        return max(self.claims, key=lambda claim: _STRENGTH.get(claim.sighting.kind, 3))

    @property
    def nearest(self) -> Claim:
        """The claim whose deadline comes first; assumed deadlines count like stated ones.

        A GPU's fault sets none where anything else does: the machine is there until then.
        """
        dated = [claim for claim in self.claims if claim.deadline is not None]
        others = [claim for claim in dated if claim.sighting.kind is not Kind.GPU_FAULT]
        dated = others or dated
        return min(dated, key=lambda claim: claim.deadline or 0.0, default=self.lead)

    @property
    def deadline(self) -> float | None:
        """The earliest deadline of its claims."""
        return self.nearest.deadline

    @property
    def drill(self) -> bool:
        """Whether it is a rehearsal."""
        return self.lead.sighting.drill

    @property
    def stance(self) -> Stance:
        """How the agent answers it."""
        return self.lead.response.stance

    @property
    def urgency(self) -> Urgency:
        """What the clients are told of it."""
        return Urgency.NOW if self.stance is Stance.FLUSH else Urgency.SOON

    @property
    def drains(self) -> bool:
        """Whether any claim wants the node drained."""
        return any(claim.response.drain for claim in self.claims)

    @property
    def final(self) -> bool:
        """Whether the machine goes by it, whatever anybody on it wishes."""
        return self.lead.sighting.kind in _FINAL and not self.drill

    @property
    def unsettled(self) -> list[Flush]:
        """The flushes that are not over."""
        return [flush for flush in self.flushes.values() if flush.outcome is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A training process that has said hello.

    Attributes:
        key: names the process for as long as it lives, over reconnects of it and restarts of ours.
        identity: the process behind it, as the kernel names it where it can be seen.
        cgroup: the control group of that process, which tells the pod, unit or job it is of.
        session: the connection that speaks for it; ``None`` while it has none.
        handled: notices that it had dealt with before it came.
    """

    key: str
    identity: str
    session: str | None
    job: str
    joined_at: float
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    pid: int | None = None
    uid: int | None = None
    cgroup: str = ""
    command: str = ""
    library: str = ""
    step: int | None = None
    section: str | None = None
    heard_at: float = 0.0
    left_at: float | None = None
    handled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """What is known of a source.

    Attributes:
        troubles: what went wrong last, by scope; a scope that answers well is not in it.
        last_success: when a scope last answered well, on the monotonic clock.
        skew_seconds: the node's clock minus the provider's.
        clock_wrong: the skew is large, and has been made known.
    """

    troubles: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    last_success: float | None = None
    skew_seconds: float | None = None
    clock_wrong: bool = False

    @property
    def up(self) -> bool:
        """Whether all that was asked of it was answered well when last asked."""
        return not self.troubles


@dataclass(frozen=True, slots=True)
class BackendHealth:
    """What is known of the scheduler that the node is drained through.

    Attributes:
        up: it answered when last asked.
        detail: what is wrong with it, or with what may be done there; empty where nothing is.
        rights: what the agent may do there, by the right's name.
    """

    up: bool
    detail: str = ""
    rights: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything that the agent knows, and all that it decides from.

    Attributes:
        cordoned_for: the notice that our cordon, while it stands, was made for.
        cordoned_at: since when it stands, or has been known to.
        cordon_says: what our cordon was last asked to say of its notice: id, kind and deadline.
        cordoning: the node is being cordoned.
        cordon_trouble: why that did not succeed, the last time; empty where it did.
        cordon_failures: how often in a row it did not.
        cordon_after: before this moment it is not tried again to cordon it.
        cordon_found: the cordon was found on the node, made by an agent whose journal is lost.
        giving_back: the cordon is being lifted.
        give_back_after: before this moment it is not tried again to lift it.
        backend: the scheduler, once it has been asked.
        gpus: the GPUs by UUID; under the empty one what is said of all of them together.
        gpu_watch: how it stands with the watch over them, once it has begun.
        gpu_holders: processes that compute on them.
        gpu_xids: when each XID was last seen, by GPU and number.
        gpu_reboots: by GPU and reason, how many reboots in a row did not help.
        gpus_repaired_at: when an operator last said that they were reset.
        gpus_released_until: they are let go until then; ``None`` while they are watched.
    """

    notices: Mapping[str, Notice] = field(default_factory=dict)
    clients: Mapping[str, Client] = field(default_factory=dict)
    sessions: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, SourceHealth] = field(default_factory=dict)
    jobs: Mapping[str, JobHistory] = field(default_factory=dict)
    providers: tuple[str, ...] = ()
    provider_detail: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    observed_since: float | None = None
    interruptions: int = 0
    cordoned_for: str | None = None
    cordoned_at: float | None = None
    cordon_says: tuple[str, str, float | None] | None = None
    cordoning: bool = False
    cordon_trouble: str = ""
    cordon_failures: int = 0
    cordon_after: float = 0.0
    cordon_found: bool = False
    giving_back: bool = False
    give_back_after: float = 0.0
    backend: BackendHealth | None = None
    gpus: Mapping[str, GpuRecord] = field(default_factory=dict)
    gpu_watch: GpuWatch | None = None
    gpu_holders: tuple[Holder, ...] = ()
    gpu_xids: Mapping[str, float] = field(default_factory=dict)
    gpu_reboots: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    gpus_repaired_at: float | None = None
    gpus_released_until: float | None = None

    @property
    def open_notices(self) -> list[Notice]:
        """The notices that still stand, in the order of their first sight."""
        return [notice for notice in self.notices.values() if notice.open]
