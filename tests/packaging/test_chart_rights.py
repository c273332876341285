"""The rights that the chart gives are those that the agent needs, and belong to the agent alone."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.rights import needed
from support.helm import refusal, render

EVICTING = {
    "get nodes",
    "watch nodes",
    "patch nodes",
    "patch nodes/status",
    "get pods",
    "list pods",
    "watch pods",
    "patch pods/status",
    "create pods/eviction",
    "delete pods",
    "create events",
}
STRICT = {"rbac": {"strict": True}}


def drain(**keys):
    return {"config": {"drain": {"kubernetes": keys}}}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, EVICTING),
        (STRICT, EVICTING - {"create pods/eviction"}),
        (drain(method="delete"), EVICTING - {"create pods/eviction"}),
        (drain(force="none"), EVICTING - {"delete pods"}),
        (drain(force="training"), EVICTING),
        ({**STRICT, **drain(force="none")}, EVICTING - {"create pods/eviction"}),
    ],
    ids=["default", "strict", "delete", "force none", "force training", "strict, force none"],
)
def test_the_role_grants_this_and_nothing_else(values, expected):
    assert render(values).rights == expected


@pytest.mark.parametrize("method", ["evict", "delete"])
@pytest.mark.parametrize("force", ["all", "training", "none"])
def test_the_role_grants_what_the_agent_says_it_needs(method, force):
    granted = render(drain(method=method, force=force)).rights
    assert granted == {str(right) for right in needed(method=method, force=force)}


def test_nothing_is_granted_to_an_agent_that_does_not_drain():
    rendered = render({"config": {"drain": {"backend": "none"}}})

    assert rendered.all("ClusterRole") == rendered.all("ClusterRoleBinding") == []
    assert rendered.all("ValidatingAdmissionPolicy") == []
    assert rendered.pod["automountServiceAccountToken"] is False


def test_roles_can_be_left_to_others():
    rendered = render({"rbac": {"create": False}})

    assert rendered.all("ClusterRole") == rendered.all("ClusterRoleBinding") == []
    assert rendered.pod["automountServiceAccountToken"] is True


def test_strict_mode_cannot_be_told_to_evict():
    said = refusal({**STRICT, **drain(method="evict")})
    assert "config.drain.kubernetes.method is evict, which rbac.strict gives no right for" in said


# A policy for an account of another name is silently off (NVIDIA dra-driver-nvidia-gpu#1317).
@pytest.mark.parametrize(
    ("values", "release", "namespace", "account"),
    [
        ({}, "lastcall", "lastcall", "lastcall"),
        ({}, "spot", "kube-system", "spot-lastcall"),
        ({"fullnameOverride": "agent"}, "lastcall", "ml", "agent"),
        ({"serviceAccount": {"name": "own"}}, "lastcall", "ml", "own"),
        ({"serviceAccount": {"create": False, "name": "own"}}, "lastcall", "ml", "own"),
    ],
    ids=["default", "release and namespace", "full name", "account", "account of others"],
)
def test_pod_binding_and_policies_are_about_the_same_account(values, release, namespace, account):
    rendered = render(values, release=release, namespace=namespace)

    (daemonset,) = rendered.all("DaemonSet")
    assert daemonset["spec"]["template"]["spec"]["serviceAccountName"] == account
    made = [one["metadata"]["name"] for one in rendered.all("ServiceAccount")]
    assert made == ([account] if values.get("serviceAccount", {}).get("create", True) else [])
    (binding,) = rendered.all("ClusterRoleBinding")
    assert [one["name"] for one in binding["subjects"]] == [account]
    conditions = [
        one["spec"]["matchConditions"] for one in rendered.all("ValidatingAdmissionPolicy")
    ]
    user = f"system:serviceaccount:{namespace}:{account}"
    assert [[one["expression"] for one in condition] for condition in conditions] == [
        [f"request.userInfo.username == '{user}'"]
    ] * 3
