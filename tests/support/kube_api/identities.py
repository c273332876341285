"""Who asks the fake API server, and what each of them may do."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.kube_api.statuses import ApiError
from support.kube_api.targets import Target

AGENT_RIGHTS = frozenset(
    {
        "get nodes",
        "patch nodes",
        "patch nodes/status",
        "get pods",
        "list pods",
        "watch pods",
        "delete pods",
        "create pods/eviction",
        "patch pods/status",
        "create events",
        "patch events",
        "create events.events.k8s.io",
        "patch events.events.k8s.io",
        "get daemonsets.apps",
        "list poddisruptionbudgets.policy",
    }
)
NODE_RIGHTS = frozenset(
    {
        "get nodes",
        "watch nodes",
        "patch nodes",
        "patch nodes/status",
        "get pods",
        "list pods",
        "watch pods",
        "delete pods",
        "create pods/eviction",
        "patch pods/status",
        "create events",
        "patch events",
    }
)
REVIEWS = frozenset(
    {
        "create selfsubjectaccessreviews.authorization.k8s.io",
        "create selfsubjectrulesreviews.authorization.k8s.io",
        "create selfsubjectreviews.authentication.k8s.io",
    }
)


@dataclass(frozen=True)
class Identity:
    """One who asks.

    Attributes:
        user: the user name.
        rights: such as ``patch nodes/status`` or ``list poddisruptionbudgets.policy``.
        may_all: nothing is refused.
        node: the node that the token or the certificate is bound to; may be empty.
        pod: the pod that the token is bound to; may be empty.
        is_kubelet: it is the node's own identity, and held to its node.
    """

    user: str
    rights: frozenset[str] = field(default_factory=frozenset)
    may_all: bool = False
    node: str = ""
    pod: str = ""
    is_kubelet: bool = False


ADMIN = Identity("admin", may_all=True)
NOBODY = Identity("nobody", REVIEWS)
ANONYMOUS = Identity("system:anonymous")


def agent(node: str = "node-a", rights: frozenset[str] = AGENT_RIGHTS) -> Identity:
    """Return the agent's service account, with a token bound to its pod on a node."""
    user = "system:serviceaccount:lastcall:agent"
    return Identity(user, rights | REVIEWS, node=node, pod=f"agent-{node[-1]}")


def kubelet(node: str = "node-a") -> Identity:
    """Return a node's own identity."""
    return Identity(f"system:node:{node}", NODE_RIGHTS | REVIEWS, node=node, is_kubelet=True)


def right_of(verb: str, target: Target) -> str:
    """Return the right that a call needs."""
    return f"{verb} {target.qualified}"


def refusal(identity: Identity, verb: str, target: Target, note: str = "") -> ApiError:
    """Return the 403 of the authorizer."""
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    resource = target.resource + (f"/{target.subresource}" if target.subresource else "")
    plural = f"{target.resource}.{target.group}" if target.group else target.resource
    named = f'{plural} "{target.name}"' if target.name else plural
    details: dict[str, object] = {"name": target.name} if target.name else {}
    if target.group:
        details["group"] = target.group
    return ApiError(
        403,
        f'{named} is forbidden: User "{identity.user}" cannot {verb} resource "{resource}" '
        f'in API group "{target.group}" {where}{note}',
        "Forbidden",
        details | {"kind": target.resource},
    )
