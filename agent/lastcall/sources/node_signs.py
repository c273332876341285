"""What other controllers put on a Kubernetes node before they take it away: a table as data.

Left out on purpose: ``spec.unschedulable`` and its taint (an administrator's cordon says nothing
about the machine), ``DeletionCandidateOfClusterAutoscaler`` (a thought, not yet a decision),
``node.cloudprovider.kubernetes.io/shutdown`` (set once the machine is off, and still there for a
while after it is back), ``node.kubernetes.io/out-of-service`` (an operator's word on a node that
is down already) and CoreWeave's node conditions (its documentation asks for no automation on them).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from lastcall.core.model import Action, Kind
from lastcall.sources.node_marks import Mark, Place

# --- how a mark is read ----------------------------------------------------------------------

_RFC_1123 = re.compile(
    r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} (?:GMT|UTC)\b"
)
_RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})")
_EVENT_ID = re.compile(r"EventId: ?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\b")
_UNIX_DIGITS = 10


def no_time(_: str) -> float | None:
    """Return ``None``: the value names no time at which the machine goes."""
    return None


def unix_time(value: str) -> float | None:
    """Return the Unix seconds that a value is."""
    plain = value.isascii() and value.isdigit() and len(value) <= _UNIX_DIGITS
    return float(value) if plain else None


def written_time(value: str) -> float | None:
    """Return in Unix seconds the first time in a value, as RFC 3339 or RFC 1123 write it."""
    try:
        if found := _RFC_1123.search(value):
            moment = parsedate_to_datetime(found[0].removesuffix("UTC").removesuffix("GMT"))
            return moment.replace(tzinfo=UTC).timestamp()
        if found := _RFC_3339.search(value):
            return datetime.fromisoformat(found[0]).timestamp()
    except (ValueError, OverflowError):
        return None
    return None


def its_value(mark: Mark) -> str:
    """Tell occurrences apart by the value."""
    return mark.value


def its_begin(mark: Mark) -> str:
    """Tell occurrences apart by when they began."""
    return mark.since


def its_event(mark: Mark) -> str:
    """Tell occurrences apart by Azure's event id.

    The condition's own time would not do: the node problem detector moves it whenever the message
    changes (public repository kubernetes/node-problem-detector, custom plugin monitor).
    """
    found = _EVENT_ID.search(mark.value)
    return found[1].lower() if found else ""


# --- the table -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One line of the table: a mark that means that the machine may go.

    Attributes:
        keys: the mark's key is one of these.
        values: its value matches one of these patterns.
        status: the status of a condition that means it.
        code: names what it means; marks of one code are one thing.
        reason: what is said of it to people.
        origin: where it is described.
        deadline: reads from the value when the machine goes, in Unix seconds.
        occurrence: tells one occurrence from the next; empty where nothing does.
        started: patterns of the value when it is happening already.
        cancellable: whoever put the mark there is known to take it back at times.
    """

    place: Place
    keys: tuple[str, ...]
    values: tuple[str, ...] = ("*",)
    status: str = "True"
    kind: Kind
    action: Action
    code: str
    reason: str
    origin: str
    deadline: Callable[[str], float | None] = no_time
    occurrence: Callable[[Mark], str] = its_begin
    started: tuple[str, ...] = ()
    cancellable: bool = False

    def speaks_of(self, mark: Mark) -> bool:
        """Whether it stands under this mark's name, whatever that says now."""
        return self.place is mark.place and mark.key in self.keys

    def matches(self, mark: Mark) -> bool:
        """Whether the mark means it."""
        if not self.speaks_of(mark):
            return False
        if mark.place is Place.CONDITION and mark.status != self.status:
            return False
        return _any(self.values, mark.value)

    def has_started(self, mark: Mark) -> bool:
        """Whether the mark says that it is happening already."""
        return _any(self.started, mark.value)


def _any(patterns: tuple[str, ...], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


_AKS = (
    "Azure documentation, AKS: Node Problem Detector, and Node auto-drain; the message's form: "
    "public pull request Azure/karpenter-provider-azure 1829"
)
_NTH = "public repository aws/aws-node-termination-handler, README and pkg/node"
_GKE_RUNS = (
    "Google Cloud documentation, GKE: Manage disruption to GPU and TPU nodes; "
    "the value passthrough and the taint: public reports of maintenance runs"
)
_HYPERPOD = "Amazon SageMaker AI Developer Guide, HyperPod: Resilience-related Kubernetes labels"
_KARPENTER = "Karpenter documentation, Disruption"
_MAINTENANCE_CODE = "cloud.google.com/active-node-maintenance"
_MAINTENANCE_REASON = "GKE maintains this node's host and will stop it"
_KARPENTER_REASON = "Karpenter disrupts this node"


def _scheduled_event(name: str, kind: Kind, action: Action, reason: str) -> tuple[Sign, Sign]:
    """Return the signs of one type of Azure's scheduled events.

    The node problem detector of AKS writes type, status and time into the message of a condition
    for all types, or of one for preemptions; earlier versions had a condition for each type.
    """

    def sign(keys: tuple[str, ...], values: tuple[str, ...]) -> Sign:
        return Sign(
            place=Place.CONDITION,
            keys=keys,
            values=values,
            kind=kind,
            action=action,
            code=name,
            reason=reason,
            origin=_AKS,
            deadline=written_time,
            occurrence=its_event,
            started=(f"{name} Started*",),
            cancellable=True,
        )

    by_message = sign(("VMEventScheduled", "PreemptionScheduled"), (f"{name} *",))
    return by_message, sign((f"{name}Scheduled",), ("*",))


SIGNS: tuple[Sign, ...] = (
    *_scheduled_event(
        "Preempt", Kind.PREEMPTION, Action.TERMINATE, "Azure takes this spot machine back"
    ),
    *_scheduled_event(
        "Terminate", Kind.TERMINATION, Action.TERMINATE, "Azure is to delete this machine"
    ),
    Sign(
        place=Place.CONDITION,
        keys=("Ready",),
        values=("*node is shutting down*",),
        status="False",
        kind=Kind.SHUTDOWN,
        action=Action.STOP,
        code="NodeShutdown",
        reason="kubelet says that this machine is shutting down",
        origin="Kubernetes documentation, Node Shutdowns",
    ),
    Sign(
        place=Place.TAINT,
        keys=("cloud.google.com/impending-node-termination",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="cloud.google.com/impending-node-termination",
        reason="GKE is ending this node and deletes its pods",
        origin="public repository GoogleCloudPlatform/k8s-node-termination-handler, README",
    ),
    Sign(
        place=Place.LABEL,
        keys=("qos.coreweave.cloud/pending-preemption",),
        values=("true",),
        kind=Kind.PREEMPTION,
        action=Action.TERMINATE,
        code="qos.coreweave.cloud/pending-preemption",
        reason="CoreWeave takes this spot node back",
        origin="CoreWeave documentation, Spot Node Pools, and SUNK: Use Spot capacity",
    ),
    Sign(
        place=Place.TAINT,
        keys=("aws-node-termination-handler/spot-itn",),
        kind=Kind.PREEMPTION,
        action=Action.TERMINATE,
        code="aws-node-termination-handler/spot-itn",
        reason="the AWS node termination handler saw a Spot interruption and drains this node",
        origin=_NTH,
        occurrence=its_value,
    ),
    Sign(
        place=Place.TAINT,
        keys=("aws-node-termination-handler/asg-lifecycle-termination",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="aws-node-termination-handler/asg-lifecycle-termination",
        reason="an Auto Scaling group ends this instance, and its handler drains the node",
        origin=_NTH,
        occurrence=its_value,
    ),
    Sign(
        place=Place.ANNOTATION,
        keys=("node.gke.io/machine-termination-datetime",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="node.gke.io/machine-termination-datetime",
        reason="this machine was created to end at a set time",
        origin="public source of GKE's cluster autoscaler; seen on nodes of a reservation",
        deadline=written_time,
    ),
    *_scheduled_event(
        "Reboot", Kind.MAINTENANCE, Action.REBOOT, "Azure is to restart this machine"
    ),
    *_scheduled_event(
        "Redeploy", Kind.MAINTENANCE, Action.REDEPLOY, "Azure is to move this machine"
    ),
    *_scheduled_event(
        "Freeze", Kind.MAINTENANCE, Action.FREEZE, "Azure is to pause this machine for seconds"
    ),
    Sign(
        place=Place.TAINT,
        keys=("ToBeDeletedByClusterAutoscaler",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="ToBeDeletedByClusterAutoscaler",
        reason="Cluster Autoscaler is removing this node",
        origin="public repository kubernetes/autoscaler, cluster-autoscaler/FAQ.md, utils/taints",
        occurrence=its_value,
        cancellable=True,
    ),
    Sign(
        place=Place.TAINT,
        keys=("karpenter.sh/disrupted",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="karpenter.sh/disrupted",
        reason=_KARPENTER_REASON,
        origin=_KARPENTER,
        cancellable=True,
    ),
    Sign(
        place=Place.TAINT,
        keys=("karpenter.sh/disruption",),
        values=("disrupting",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="karpenter.sh/disrupted",
        reason=_KARPENTER_REASON,
        origin=f"{_KARPENTER}, versions before 1.0",
        cancellable=True,
    ),
    Sign(
        place=Place.LABEL,
        keys=("cloud.google.com/active-node-maintenance",),
        values=("ONGOING", "passthrough"),
        kind=Kind.MAINTENANCE,
        action=Action.TERMINATE,
        code=_MAINTENANCE_CODE,
        reason=_MAINTENANCE_REASON,
        origin=_GKE_RUNS,
    ),
    Sign(
        place=Place.TAINT,
        keys=("cloud.google.com/maintenance-window-started",),
        kind=Kind.MAINTENANCE,
        action=Action.TERMINATE,
        code=_MAINTENANCE_CODE,
        reason=_MAINTENANCE_REASON,
        origin=_GKE_RUNS,
    ),
    Sign(
        place=Place.LABEL,
        keys=("cloud.google.com/scheduled-maintenance-time",),
        kind=Kind.MAINTENANCE,
        action=Action.TERMINATE,
        code="cloud.google.com/scheduled-maintenance-time",
        reason="Google has scheduled maintenance of this node's host",
        origin="Google Cloud documentation, GKE: Manage disruption to GPU and TPU nodes",
        deadline=unix_time,
        cancellable=True,
    ),
    Sign(
        place=Place.LABEL,
        keys=("sagemaker.amazonaws.com/node-health-status",),
        values=("UnschedulablePendingReplacement",),
        kind=Kind.TERMINATION,
        action=Action.TERMINATE,
        code="UnschedulablePendingReplacement",
        reason="SageMaker HyperPod is to replace this node",
        origin=_HYPERPOD,
    ),
    Sign(
        place=Place.LABEL,
        keys=("sagemaker.amazonaws.com/node-health-status",),
        values=("UnschedulablePendingReboot",),
        kind=Kind.MAINTENANCE,
        action=Action.REBOOT,
        code="UnschedulablePendingReboot",
        reason="SageMaker HyperPod is to restart this node",
        origin=_HYPERPOD,
    ),
    Sign(
        place=Place.TAINT,
        keys=(
            "remediator.kubernetes.azure.com/unschedulable",
            "remediator.aks.microsoft.com/unschedulable",
        ),
        kind=Kind.MAINTENANCE,
        action=Action.UNKNOWN,
        code="remediator.kubernetes.azure.com/unschedulable",
        reason="AKS drains or repairs this node",
        origin="Azure documentation, AKS: Node auto-drain; AKS release notes",
    ),
    Sign(
        place=Place.TAINT,
        keys=("aws-node-termination-handler/scheduled-maintenance",),
        kind=Kind.MAINTENANCE,
        action=Action.UNKNOWN,
        code="aws-node-termination-handler/scheduled-maintenance",
        reason="the AWS node termination handler prepares this node for a scheduled event",
        origin=_NTH,
        occurrence=its_value,
        cancellable=True,
    ),
    Sign(
        place=Place.TAINT,
        keys=("aws-node-termination-handler/rebalance-recommendation",),
        kind=Kind.REBALANCE,
        action=Action.NONE,
        code="aws-node-termination-handler/rebalance-recommendation",
        reason="the AWS node termination handler saw a rebalance recommendation",
        origin=_NTH,
        occurrence=its_value,
    ),
    # Azure's advice, and whatever else this condition may come to say. A time in it is no deadline.
    Sign(
        place=Place.CONDITION,
        keys=("PreemptionScheduled",),
        kind=Kind.REBALANCE,
        action=Action.NONE,
        code="SpotRebalanceRecommendation",
        reason="Azure may take this spot machine back soon",
        origin=_AKS,
        occurrence=its_event,
    ),
    # An event of a type, or in words, that came after this was written.
    Sign(
        place=Place.CONDITION,
        keys=("VMEventScheduled",),
        kind=Kind.MAINTENANCE,
        action=Action.UNKNOWN,
        code="VMEventScheduled",
        reason="Azure has scheduled an event for this machine",
        origin=_AKS,
        deadline=written_time,
        occurrence=its_event,
        cancellable=True,
    ),
)
"""All signs, those of a certain end first. Of those that match a mark, the first holds."""
