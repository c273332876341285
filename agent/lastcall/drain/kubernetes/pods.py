"""What a drain needs to know of a pod: whose it is, what it uses, and how far its end has come."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

MARK_REASON = "LastcallNotice"
"""The reason that our own ``DisruptionTarget`` conditions carry."""

OPT_OUT_ANNOTATION = "lastcall.dev/drain"
"""Set to ``false`` on a pod that is to be left alone."""

DEFAULT_GRACE_SECONDS = 30
"""``terminationGracePeriodSeconds`` of a pod that names none (Kubernetes API reference, Pod v1)."""

ACCELERATORS = (
    "*/gpu",
    "*/gpu-*",
    "*/gpu.*",
    "*/vgpu*",
    "nvidia.com/mig-*",
    "nvidia.com/pgpu",
    "amd.com/?px_nps?",
    "gpu.intel.com/*",
    "habana.ai/*",
    "google.com/tpu",
    "aws.amazon.com/neuron*",
    "huawei.com/Ascend*",
    "cambricon.com/*mlu*",
    "tencent.com/vcuda-*",
)
"""Extended resources that are accelerators, as the device plugins of their vendors name them."""

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_HASH_ANNOTATION = "kubernetes.io/config.hash"

_POD_IN_CGROUP = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=/|\.slice|$)"
)


class PodClass(StrEnum):
    """How a drain treats a pod; only the last two are to leave.

    Attributes:
        MIRROR: a static pod's image on the server: the kubelet alone can end it.
        DAEMON: a DaemonSet's, which would put it back at once.
        OWN: the agent's own.
        OPTED_OUT: its annotation says that it is to be left alone.
        FINISHED: it runs no more.
        TRAINING: it was told to flush, or uses an accelerator.
        ORDINARY: any other.
    """

    MIRROR = "mirror"
    DAEMON = "daemonset"
    OWN = "own"
    OPTED_OUT = "opted out"
    FINISHED = "finished"
    TRAINING = "training"
    ORDINARY = "ordinary"

    @property
    def leaves(self) -> bool:
        """Whether a drain moves such pods."""
        return self in (PodClass.TRAINING, PodClass.ORDINARY)


@dataclass(frozen=True, slots=True)
class Disruption:
    """A ``DisruptionTarget`` condition that is true: a Job does not count the pod's end as failure.

    Attributes:
        reason: who has set it, in one word.
        since: when, on the monotonic clock.
    """

    reason: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod, as far as a drain cares.

    Attributes:
        namespace: where it is.
        name: there.
        uid: of this one; another of the same name has another.
        node: where it runs.
        version: its resource version; 0 where that is no number.
        owner: the kind of its controller; empty for a bare pod, which nothing recreates.
        is_mirror: the kubelet shows a static pod by it.
        opts_out: it is to be left alone.
        is_finished: its phase is Succeeded or Failed.
        grace_seconds: its own time to end.
        uses_accelerator: a container asks for one, or the pod has a resource claim.
        static_uid: how its control group names it where it is a mirror pod; else empty.
        finalizers: what must happen before it goes.
        ending_grace_seconds: the time it was given to end; ``None`` while nobody ends it.
        ends_at: when that time is over, on the monotonic clock; ``None`` while nobody ends it.
        disruption: that it is marked as disrupted; ``None`` where it is not.
    """

    namespace: str
    name: str
    uid: str
    node: str = ""
    version: int = 0
    owner: str = ""
    is_mirror: bool = False
    opts_out: bool = False
    is_finished: bool = False
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    uses_accelerator: bool = False
    static_uid: str = ""
    finalizers: tuple[str, ...] = ()
    ending_grace_seconds: int | None = None
    ends_at: float | None = None
    disruption: Disruption | None = None

    @property
    def full_name(self) -> str:
        """``NAMESPACE/NAME``."""
        return f"{self.namespace}/{self.name}"

    @property
    def marked_by_us(self) -> bool:
        """Whether the disruption it is marked with is the one of a notice."""
        return self.disruption is not None and self.disruption.reason == MARK_REASON


def class_of(pod: Pod, told: Container[str], own_uid: str) -> PodClass:
    """Return how a drain treats a pod.

    A resource claim may stand for something else than an accelerator. To take such a pod for
    training costs nothing but that it is moved late.

    Args:
        pod: the pod.
        told: UIDs of pods in which a process was told to flush.
        own_uid: of the agent's own pod; empty where it runs in none.
    """
    if pod.is_mirror:
        return PodClass.MIRROR
    if pod.owner == "DaemonSet":
        return PodClass.DAEMON
    if pod.uid == own_uid:
        return PodClass.OWN
    if pod.opts_out:
        return PodClass.OPTED_OUT
    if pod.is_finished:
        return PodClass.FINISHED
    is_training = pod.uses_accelerator or pod.uid in told
    return PodClass.TRAINING if is_training else PodClass.ORDINARY


def pod_uids(cgroup: str) -> tuple[str, ...]:
    """Return the UIDs of the pods that a control group lies in, the outermost first.

    The kubelet names a pod's group ``pod<UID>`` with the cgroupfs driver and
    ``kubepods-…-pod<UID>.slice`` with systemd's, there with underscores; a static pod's UID is a
    hash without dashes (Kubernetes, pkg/kubelet/cm). More than one is found where a node is itself
    a container.
    """
    return tuple(uid.replace("_", "-") for uid in _POD_IN_CGROUP.findall(cgroup))


def read_pod(
    content: Mapping[str, Any], *, now: float, unix_now: float, known: Pod | None = None
) -> Pod | None:
    """Return what matters of a pod object; ``None`` where it is none.

    When a pod's end is seen to begin, its time counts from then on the own clock, so that a node
    whose clock is wrong does not give up on it. Only where it had begun before is the server's
    time taken.

    Args:
        content: the object.
        now: the monotonic clock.
        unix_now: Unix seconds at the same moment.
        known: the same pod as it was before.
    """
    metadata = _object(content.get("metadata"))
    spec, status = _object(content.get("spec")), _object(content.get("status"))
    name, namespace, uid = (_text(metadata.get(key)) for key in ("name", "namespace", "uid"))
    if not (name and namespace and uid):
        return None
    owner = _owner(metadata)
    annotations = _object(metadata.get("annotations"))
    ending_grace_seconds = None
    if "deletionTimestamp" in metadata:
        ending_grace_seconds = _whole(metadata.get("deletionGracePeriodSeconds"), 0)
    is_mirror = _MIRROR_ANNOTATION in annotations or owner == "Node"
    return Pod(
        namespace=namespace,
        name=name,
        uid=uid,
        node=_text(spec.get("nodeName")),
        version=_version(metadata),
        owner=owner,
        is_mirror=is_mirror,
        opts_out=annotations.get(OPT_OUT_ANNOTATION) == "false",
        is_finished=status.get("phase") in ("Succeeded", "Failed"),
        grace_seconds=_whole(spec.get("terminationGracePeriodSeconds"), DEFAULT_GRACE_SECONDS),
        uses_accelerator=_uses_accelerator(spec),
        static_uid=_text(annotations.get(_HASH_ANNOTATION)) if is_mirror else "",
        finalizers=tuple(_text(one) for one in _list(metadata.get("finalizers"))),
        ending_grace_seconds=ending_grace_seconds,
        ends_at=_ends_at(metadata, ending_grace_seconds, known, now=now, unix_now=unix_now),
        disruption=_disruption(status, now=now, unix_now=unix_now),
    )


def _owner(metadata: Mapping[str, Any]) -> str:
    owners = [_object(one) for one in _list(metadata.get("ownerReferences"))]
    controllers = (one for one in owners if one.get("controller") is True)
    # A mirror pod's reference to its node names no controller on old servers.
    nodes = (one for one in owners if one.get("kind") == "Node")
    owner = next(controllers, None) or next(nodes, {})
    return _text(owner.get("kind"))


def _uses_accelerator(spec: Mapping[str, Any]) -> bool:
    if _list(spec.get("resourceClaims")):
        return True
    return any(
        _is_some(quantity) and any(fnmatchcase(resource, one) for one in ACCELERATORS)
        for resource, quantity in _asked_for(spec)
    )


def _asked_for(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for kind in ("containers", "initContainers"):
        for container in _list(spec.get(kind)):
            resources = _object(_object(container).get("resources"))
            for bound in ("limits", "requests"):
                for resource, quantity in _object(resources.get(bound)).items():
                    # What has no domain is Kubernetes' own: CPU, memory, pages.
                    if "/" in resource:
                        yield resource, quantity


def _is_some(quantity: object) -> bool:
    return str(quantity).strip() not in ("", "0")


def _ends_at(
    metadata: Mapping[str, Any],
    grace_seconds: int | None,
    known: Pod | None,
    *,
    now: float,
    unix_now: float,
) -> float | None:
    if grace_seconds is None:
        return None
    if known is not None:
        before = known.ending_grace_seconds
        was_shortened = before is not None and grace_seconds < before
        if known.ends_at is None or was_shortened:
            return now + grace_seconds
        return known.ends_at
    ends_unix = _unix(metadata.get("deletionTimestamp"))
    if ends_unix is None:
        return now + grace_seconds
    return now + min(ends_unix - unix_now, grace_seconds)


def _disruption(status: Mapping[str, Any], *, now: float, unix_now: float) -> Disruption | None:
    for condition in map(_object, _list(status.get("conditions"))):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            since_unix = _unix(condition.get("lastTransitionTime"))
            age_seconds = 0.0 if since_unix is None else max(0.0, unix_now - since_unix)
            return Disruption(_text(condition.get("reason")), now - age_seconds)
    return None


def _version(metadata: Mapping[str, Any]) -> int:
    version = _text(metadata.get("resourceVersion"))
    return int(version) if version.isascii() and version.isdecimal() else 0


def _unix(value: object) -> float | None:
    try:
        at = datetime.fromisoformat(_text(value))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _whole(value: object, otherwise: int) -> int:
    """Return a number of seconds; the server makes 1 of a negative one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return value if value >= 0 else 1


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
