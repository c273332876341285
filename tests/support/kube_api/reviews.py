"""Answers about the one who asks: who it is, and what it may do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from support.kube_api.asking import Asking
from support.kube_api.identities import Identity
from support.kube_api.statuses import ApiError
from support.kube_api.store import Object
from support.kube_api.targets import Target


def review_access(asking: Asking, denied: Collection[str]) -> Object:
    """Answer a SelfSubjectAccessReview."""
    wanted = asking.body.get("spec", {}).get("resourceAttributes")
    if wanted is None:
        raise _nothing_asked()
    spec = {key: value for key, value in wanted.items() if value != ""}
    target = Target(
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
        wanted.get("subresource", ""),
    )
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": spec},
        "status": _status(asking.identity, f"{wanted.get('verb')} {target.qualified}", denied),
    }


def review_rules(asking: Asking) -> Object:
    """Answer a SelfSubjectRulesReview, one rule a right."""
    rules: list[Any] = []
    for right in sorted(asking.identity.rights):
        verb, resource = right.split(" ")
        resource, _, group = resource.partition(".")
        rules.append({"verbs": [verb], "apiGroups": [group], "resources": [resource]})
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": rules,
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/readyz", "/version"]}],
            "incomplete": False,
        },
    }


def review_identity(asking: Asking, creation: str) -> Object:
    """Answer a SelfSubjectReview."""
    identity = asking.identity
    user: Object = {"username": identity.user, "groups": ["system:authenticated"]}
    if identity.pod:
        prefix = "authentication.kubernetes.io"
        user |= {
            "uid": "33333333-3333-3333-3333-333333333333",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{identity.user.split(':')[2]}",
                "system:authenticated",
            ],
            "extra": {
                f"{prefix}/credential-id": ["JTI=44444444-4444-4444-4444-444444444444"],
                f"{prefix}/node-name": [identity.node],
                f"{prefix}/node-uid": ["55555555-5555-5555-5555-555555555555"],
                f"{prefix}/pod-name": [identity.pod],
                f"{prefix}/pod-uid": ["66666666-6666-6666-6666-666666666666"],
            },
        }
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": creation},
        "status": {"userInfo": user},
    }


def _status(identity: Identity, right: str, denied: Collection[str]) -> Object:
    if right in denied:
        return {"allowed": False}
    if identity.may_all:
        return {"allowed": True}
    if right not in identity.rights:
        return {"allowed": False}
    return {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "lastcall" of ClusterRole "lastcall" '
        'to ServiceAccount "agent/lastcall"',
    }


def _nothing_asked() -> ApiError:
    message = (
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes "
        "must be specified"
    )
    field = "spec.resourceAttributes"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": field}
    return ApiError(
        422,
        f'.authorization.k8s.io "" is invalid: {field}: {message}',
        "Invalid",
        {"group": "authorization.k8s.io", "causes": [cause]},
    )
