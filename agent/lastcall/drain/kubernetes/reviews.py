"""Questions to the API server about the agent itself: who it is, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lastcall.drain.kubernetes.reply import Reply

ACCESS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
IDENTITY_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """Something one may be allowed to do; an empty part is left out of the question.

    Attributes:
        verb: such as ``patch``.
        resource: such as ``nodes``.
        group: the API group; empty for the core.
        subresource: such as ``status``.
        name: of the one object it is about.
        namespace: where; empty for everywhere.
    """

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{group}{subresource}"


def access_review_body(right: Right) -> dict[str, object]:
    """Return the SelfSubjectAccessReview that asks for a right."""
    attributes = {key: value for key, value in asdict(right).items() if value}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def is_allowed(review: Reply) -> bool | None:
    """Return what a SelfSubjectAccessReview says; ``None`` where it says nothing."""
    allowed = _object(review.body.get("status")).get("allowed") if review.ok else None
    return allowed if isinstance(allowed, bool) else None


def identity_review_body() -> dict[str, object]:
    """Return the SelfSubjectReview that asks who the server takes the agent for."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def node_name_of(review: Reply) -> str:
    """Return the node that a SelfSubjectReview's token is bound to; empty where it is to none."""
    user = _object(_object(review.body.get("status")).get("userInfo"))
    names = _object(user.get("extra")).get("authentication.kubernetes.io/node-name")
    return str(names[0]) if isinstance(names, list) and names else ""


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
