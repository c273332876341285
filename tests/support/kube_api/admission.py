"""What stands between a right and its use: admission policies, and the kubelet's own limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.kube_api.asking import Asking
from support.kube_api.statuses import ApiError, forbidden
from support.kube_api.store import Object


@dataclass(frozen=True)
class Policy:
    """A validating admission policy.

    Attributes:
        name: of the policy and of its binding.
        denial: why a request is denied, given the object before and after; ``None`` to let it pass.
        reason: without ``Forbidden`` a denial is answered with 422.
    """

    name: str
    denial: Callable[[Asking, Object, Object], str | None]
    reason: str = "Forbidden"


def admit(policies: list[Policy], asking: Asking, old: Object, new: Object) -> None:
    """Let a request pass, or not.

    Raises:
        ApiError: a policy denies it, or it reaches beyond the kubelet's own node.
    """
    if asking.identity.is_kubelet:
        _restrict_node(asking, old, new)
    for policy in policies:
        why = policy.denial(asking, old, new)
        if why is not None:
            raise _denied(policy, asking, why)


def _denied(policy: Policy, asking: Asking, why: str) -> ApiError:
    named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{policy.name}'"
    text = f"{named} denied request: {why}"
    target = asking.target
    denial = forbidden(target.resource, target.name, text, [{"message": text}])
    if policy.reason != "Forbidden":
        denial.code = denial.body["code"] = 422
        denial.body["reason"] = "Invalid"
    return denial


def _restrict_node(asking: Asking, old: Object, new: Object) -> None:
    me, target = asking.identity.node, asking.target
    if target.resource == "nodes":
        if target.name != me:
            why = f'node "{me}" is not allowed to modify node "{target.name}"'
            raise forbidden("nodes", target.name, why)
        if old["spec"].get("taints") != new["spec"].get("taints"):
            raise forbidden("nodes", target.name, f'node "{me}" is not allowed to modify taints')
    elif target.resource == "pods" and old.get("spec", {}).get("nodeName") != me:
        why = f'node "{me}" can only delete pods with spec.nodeName set to itself'
        if target.subresource == "eviction":
            why = f"node {me} can only evict pods with spec.nodeName set to itself"
        raise forbidden("pods", target.name, why)


def _is_agent(asking: Asking) -> bool:
    return asking.identity.user == "system:serviceaccount:lastcall:agent"


def _nodes(asking: Asking, old: Object, new: Object) -> str | None:
    del old
    if not _is_agent(asking) or asking.target.resource != "nodes":
        return None
    me = asking.identity.node
    if not me:
        return "token carries no node name"
    name = new["metadata"]["name"]
    return None if name == me else f"agent on {me} may not change node {name}"


def _pod_denial(asking: Asking, old: Object) -> bool:
    me = asking.identity.node
    return not me or old["spec"].get("nodeName") != me


def _pod_delete(asking: Asking, old: Object, new: Object) -> str | None:
    del new
    is_delete = asking.verb == "delete" and asking.target.full == "pods"
    if _is_agent(asking) and is_delete and _pod_denial(asking, old):
        return "agent may only delete pods on its own node"
    return None


def _pod_status(asking: Asking, old: Object, new: Object) -> str | None:
    del new
    if _is_agent(asking) and asking.target.full == "pods/status" and _pod_denial(asking, old):
        return "agent may only change the status of pods on its own node"
    return None


def _eviction(asking: Asking, old: Object, new: Object) -> str | None:
    del old, new
    if not _is_agent(asking) or asking.target.full != "pods/eviction":
        return None
    name = asking.target.name
    return f"eviction object seen by the policy: kind Eviction name {name} has spec: false"


def _no_forbidden_annotation(asking: Asking, old: Object, new: Object) -> str | None:
    del asking, old
    if "forbidden" not in new.get("metadata", {}).get("annotations", {}):
        return None
    return (
        "failed expression: !has(object.metadata.annotations) || "
        "!('forbidden' in object.metadata.annotations)"
    )


PINNED_TO_NODE = [
    Policy("lastcall-nodes", _nodes),
    Policy("lastcall-pod-delete", _pod_delete),
    Policy("lastcall-pod-status", _pod_status),
]
"""What the chart ships: the agent changes its own node and the pods on it, and no others."""

EVICTION_BY_NODE = Policy("lastcall-eviction", _eviction)
"""The attempt to pin evictions too, which denies all of them: the object names no node."""

WITHOUT_REASON = Policy("nr", _no_forbidden_annotation, reason="")
"""A policy for everybody that does not say ``Forbidden``."""
