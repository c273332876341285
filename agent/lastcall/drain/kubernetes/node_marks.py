"""What our marks on a node object say, and the patches that make and remove them. Pure.

A node that we cordoned says so itself: an agent that lost its journal, another tool and a person
can all read whose cordon it is. Nobody else's is ever touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lastcall.core.views import NoticeView
from lastcall.drain.base import Attempt

Node = Mapping[str, Any]
"""A node object, as the API server gave it."""

CORDONED_BY = "lastcall.dev/cordoned-by"
NOTICE_ID = "lastcall.dev/notice-id"
BOOT_ID = "lastcall.dev/boot-id"
DEADLINE = "lastcall.dev/deadline"

NOTICE = "lastcall.dev/notice"
"""Key of the label, and of the taint where one is wanted; the value is the notice's kind."""

OWNER = "lastcall"
"""The value of :data:`CORDONED_BY` while the cordon is ours."""

_ANNOTATIONS = (CORDONED_BY, NOTICE_ID, BOOT_ID, DEADLINE)


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """What a node object says of a cordon of ours.

    Attributes:
        is_ours: it says that we cordoned the node, whether or not that still holds.
        is_unschedulable: the node is cordoned, by whomever.
        notice_id: the notice that our cordon was made for.
        boot_id: the boot in which it was made.
        deadline: when the node was to go, RFC 3339.
        kind: the notice's.
        taints: the values of our taint; empty while it does not stand.
    """

    is_ours: bool
    is_unschedulable: bool
    notice_id: str
    boot_id: str
    deadline: str
    kind: str
    taints: tuple[str, ...]

    @property
    def is_our_cordon(self) -> bool:
        """Whether the node is cordoned, and by us."""
        return self.is_ours and self.is_unschedulable


@dataclass(frozen=True, slots=True)
class Wanted:
    """The marks that a cordon is to leave.

    Attributes:
        notice_id: the notice that it is made for.
        kind: the notice's.
        boot_id: this boot.
        deadline: when the node goes, RFC 3339; empty where that is not known.
        taint: a taint goes beside it.
    """

    notice_id: str
    kind: str
    boot_id: str
    deadline: str
    taint: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be written on a node as it was read, and what holds then.

    Attributes:
        attempt: what came of it, once the patch is accepted.
        patch: a merge patch, to be guarded by the version that was read; ``None`` where the
            attempt is over without one.
    """

    attempt: Attempt
    patch: Mapping[str, object] | None = None


def marks_of(node: Node) -> NodeMarks:
    """Return what a node object says of a cordon of ours."""
    metadata = _part(node, "metadata")
    annotations, spec = _part(metadata, "annotations"), _part(node, "spec")
    return NodeMarks(
        is_ours=annotations.get(CORDONED_BY) == OWNER,
        is_unschedulable=spec.get("unschedulable") is True,
        notice_id=str(annotations.get(NOTICE_ID, "")),
        boot_id=str(annotations.get(BOOT_ID, "")),
        deadline=str(annotations.get(DEADLINE, "")),
        kind=str(_part(metadata, "labels").get(NOTICE, "")),
        taints=tuple(str(taint.get("value", "")) for taint in _taints(node) if _is_ours(taint)),
    )


def wanted_marks(
    notice: NoticeView, *, boot_id: str, taint: bool, now: float, now_unix: float
) -> Wanted:
    """Return the marks that a cordon for a notice is to leave.

    Args:
        notice: what it is made for.
        boot_id: names this boot of the machine.
        taint: a taint goes beside it.
        now: on the monotonic clock.
        now_unix: the same moment, Unix seconds.
    """
    at_unix = notice.deadline_unix
    if at_unix is None and notice.deadline is not None:
        at_unix = now_unix + (notice.deadline - now)
    deadline = "" if at_unix is None else time_text(at_unix)
    return Wanted(notice.id, notice.kind.value, boot_id, deadline, taint)


def cordon_step(node: Node, wanted: Wanted) -> Step:
    """Return how a node is cordoned with our marks; somebody else's cordon is left alone.

    On one that we cordoned already, whatever our marks say of something else is replaced.
    """
    found = marks_of(node)
    if found.is_unschedulable and not found.is_ours:
        by = manager_of_cordon(node)
        detail = f"the node was cordoned already, by {by or 'somebody else'}"
        return Step(Attempt(done=False, detail=detail, foreign=True))
    if found.is_our_cordon and _says(found, wanted):
        return Step(Attempt(done=True))
    spec: dict[str, object] = {"unschedulable": True}
    if wanted.taint:
        spec["taints"] = [*_others_taints(node), _taint(wanted.kind)]
    metadata = {
        "annotations": {
            CORDONED_BY: OWNER,
            NOTICE_ID: wanted.notice_id,
            BOOT_ID: wanted.boot_id,
            DEADLINE: wanted.deadline or None,
        },
        "labels": {NOTICE: wanted.kind},
    }
    return Step(Attempt(done=True), {"metadata": metadata, "spec": spec})


def uncordon_step(node: Node, notice_id: str) -> Step:
    """Return how our cordon for a notice is lifted; any other one stays, and that is an end, too.

    One that was made for another notice is found anew once nobody believes in this one any more.
    """
    found = marks_of(node)
    if not found.is_ours:
        stays = "the node stays cordoned: that is no longer ours"
        return Step(Attempt(done=True, detail=stays if found.is_unschedulable else ""))
    if found.notice_id != notice_id:
        detail = f"the cordon stands for another notice, {found.notice_id}"
        return Step(Attempt(done=True, detail=detail))
    lifted = "" if found.is_unschedulable else "somebody had lifted it already"
    return Step(Attempt(done=True, detail=lifted), _removal(node, cordon=found.is_unschedulable))


def leftovers_patch(node: Node) -> Mapping[str, object] | None:
    """Return the merge patch that removes marks which speak of no cordon of ours; ``None``: none.

    Whether the node is cordoned stays as it is.
    """
    if marks_of(node).is_our_cordon:
        return None
    return _removal(node, cordon=False) or None


def guarded(patch: Mapping[str, object], node: Node) -> Mapping[str, object]:
    """Return a merge patch that is refused where the node is no longer what was read.

    The list of taints is one value to a merge patch: without the guard, what another had just
    added would be lost (seen on Kubernetes 1.36).
    """
    metadata = patch.get("metadata")
    below = metadata if isinstance(metadata, Mapping) else {}
    return {**patch, "metadata": {**below, "resourceVersion": version_of(node)}}


def version_of(node: Node) -> str:
    """Return a node's resource version; empty where it names none."""
    return str(_part(node, "metadata").get("resourceVersion", ""))


def uid_of(node: Node) -> str:
    """Return a node's UID; empty where it names none."""
    return str(_part(node, "metadata").get("uid", ""))


def is_older(node: Node, other: Node) -> bool:
    """Whether a node object is an earlier version than another.

    A watch may still tell what was before our own patch, and equality alone cannot show which of
    two came first. Versions may be compared as whole numbers (Kubernetes enhancement 5504, stable
    in 1.35; servers before it number them so, too). Those that are no numbers are never older.
    """
    mine, others = version_of(node), version_of(other)
    if not (_is_number(mine) and _is_number(others)):
        return False
    return int(mine) < int(others)


def manager_of_cordon(node: Node) -> str:
    """Return who made a node unschedulable; empty where the object does not tell."""
    for entry in _managers(node):
        spec = _part(_part(entry, "fieldsV1"), "f:spec")
        if "f:unschedulable" in spec:
            return str(entry.get("manager", ""))
    return ""


def lifted_by(node: Node) -> str:
    """Return who seems to have undone our cordon; empty where nothing points to anybody.

    Nobody owns a field that is gone, so this is a guess unless another's cordon stands: the last
    one to write, since we did, what is not the status. The controller manager is left out, as it
    always writes after a cordon was made or lifted.
    """
    owner = manager_of_cordon(node)
    if owner and owner != OWNER:
        return owner
    entries = _managers(node)
    since = max((_time(entry) for entry in entries if entry.get("manager") == OWNER), default="")
    others = [
        entry
        for entry in entries
        if entry.get("manager") not in {OWNER, "kube-controller-manager", "kubelet"}
        and _time(entry) >= since
    ]
    if not others:
        return ""
    return f"perhaps {max(others, key=_time).get('manager', '')}"


def time_text(at_unix: float) -> str:
    """Return a time, Unix seconds, as RFC 3339 in UTC; empty where no calendar has it."""
    try:
        return datetime.fromtimestamp(at_unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""


def _says(found: NodeMarks, wanted: Wanted) -> bool:
    said = (found.notice_id, found.boot_id, found.deadline, found.kind)
    is_tainted = not wanted.taint or found.taints == (wanted.kind,)
    return is_tainted and said == (wanted.notice_id, wanted.boot_id, wanted.deadline, wanted.kind)


def _removal(node: Node, *, cordon: bool) -> dict[str, object]:
    metadata = _part(node, "metadata")
    found = _part(metadata, "annotations")
    annotations = {key: None for key in _ANNOTATIONS if key in found}
    if found.get(CORDONED_BY) != OWNER:
        annotations.pop(CORDONED_BY, None)
    below: dict[str, object] = {}
    if annotations:
        below["annotations"] = annotations
    if NOTICE in _part(metadata, "labels"):
        below["labels"] = {NOTICE: None}
    spec: dict[str, object] = {"unschedulable": None} if cordon else {}
    if marks_of(node).taints:
        spec["taints"] = _others_taints(node)
    patch: dict[str, object] = {"metadata": below} if below else {}
    if spec:
        patch["spec"] = spec
    return patch


def _taint(kind: str) -> dict[str, str]:
    return {"key": NOTICE, "value": kind, "effect": "NoSchedule"}


def _is_ours(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == NOTICE and taint.get("effect") == "NoSchedule"


def _others_taints(node: Node) -> list[Mapping[str, Any]]:
    return [taint for taint in _taints(node) if not _is_ours(taint)]


def _taints(node: Node) -> list[Mapping[str, Any]]:
    return _objects(_part(node, "spec").get("taints"))


def _managers(node: Node) -> list[Mapping[str, Any]]:
    """Return who wrote what of a node, without those who wrote its status alone."""
    entries = _objects(_part(node, "metadata").get("managedFields"))
    return [entry for entry in entries if entry.get("subresource") != "status"]


def _time(entry: Mapping[str, Any]) -> str:
    return str(entry.get("time", ""))


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = value.get(key)
    return part if isinstance(part, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()
