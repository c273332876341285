"""What each sign on the node object means, and what its marks say in detail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lastcall.core.model import Action, Kind, Sighting, Stance
from lastcall.core.policy import Policy
from lastcall.sources.node import NodeSource
from lastcall.sources.node_marks import Mark, Place
from lastcall.sources.node_signs import SIGNS, its_event, unix_time, written_time
from support.hand_clocks import HandClocks
from support.watched_source import Recorder

PAGE = Path(__file__).parents[3] / "docs/reference/node.md"

STATED_UNIX = 1_900_000_030.0
STATED = "Sun, 17 Mar 2030 17:47:10 GMT"
EVENT_ID = "40B7BD88-C56E-44E4-93F6-75CEDACE2869"


def node(
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Mapping[str, str | None] | None = None,
    conditions: Mapping[str, tuple[str, str]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a node object; taints as key and value, conditions as type, status and message."""
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "node-a", "labels": labels, "annotations": annotations},
        "spec": spec
        | {
            "taints": [
                {"key": key, "effect": "NoSchedule"} | ({} if value is None else {"value": value})
                for key, value in (taints or {}).items()
            ]
        },
        "status": {
            "conditions": [
                {
                    "type": name,
                    "status": status,
                    "reason": "SomeReason",
                    "message": message,
                    "lastHeartbeatTime": "2030-03-17T17:46:40Z",
                    "lastTransitionTime": "2030-03-17T17:46:00Z",
                }
                for name, (status, message) in (conditions or {}).items()
            ]
        },
    }


def seen(body: dict[str, Any]) -> tuple[Sighting, ...]:
    """Return what a source makes of a node object at first sight."""
    recorder = Recorder()
    NodeSource(recorder, HandClocks()).see(body)
    assert recorder.results("node") in (["ok"], ["notice"])
    return recorder.standing("node")


def aks(message: str, condition: str = "VMEventScheduled") -> dict[str, Any]:
    """Return a node of AKS whose node problem detector has something to say."""
    return node(conditions={condition: ("True", message)})


IMPENDING = "cloud.google.com/impending-node-termination"
PREEMPTION = "qos.coreweave.cloud/pending-preemption"
MAINTENANCE = "cloud.google.com/active-node-maintenance"
SCHEDULED = "cloud.google.com/scheduled-maintenance-time"
TERMINATION = "node.gke.io/machine-termination-datetime"
HEALTH = "sagemaker.amazonaws.com/node-health-status"
REMEDIATOR = "remediator.kubernetes.azure.com/unschedulable"
NTH = "aws-node-termination-handler/"
MORE = f"For more information, see https://example.com. EventId: {EVENT_ID}"

SHOWN = [
    (node(taints={"ToBeDeletedByClusterAutoscaler": "1899999990"}), "termination", "terminate",
     "ToBeDeletedByClusterAutoscaler"),
    (node(taints={"karpenter.sh/disrupted": None}), "termination", "terminate",
     "karpenter.sh/disrupted"),
    (node(taints={"karpenter.sh/disruption": "disrupting"}), "termination", "terminate",
     "karpenter.sh/disrupted"),
    (node(taints={IMPENDING: ""}), "termination", "terminate", IMPENDING),
    (node(labels={MAINTENANCE: "ONGOING"}), "maintenance", "terminate", MAINTENANCE),
    (node(labels={MAINTENANCE: "passthrough"}), "maintenance", "terminate", MAINTENANCE),
    (node(taints={"cloud.google.com/maintenance-window-started": ""}), "maintenance", "terminate",
     MAINTENANCE),
    (node(labels={SCHEDULED: "1900000030"}), "maintenance", "terminate", SCHEDULED),
    (node(annotations={TERMINATION: "2030-03-17T17:47:10Z"}), "termination", "terminate",
     TERMINATION),
    (node(labels={PREEMPTION: "true"}), "preemption", "terminate", PREEMPTION),
    (node(labels={HEALTH: "UnschedulablePendingReplacement"}), "termination", "terminate",
     "UnschedulablePendingReplacement"),
    (node(labels={HEALTH: "UnschedulablePendingReboot"}), "maintenance", "reboot",
     "UnschedulablePendingReboot"),
    (aks(f"Preempt Scheduled: {STATED}. {MORE}"), "preemption", "terminate", "Preempt"),
    (aks("Preempt Started.", "PreemptionScheduled"), "preemption", "terminate", "Preempt"),
    (aks("in other words", "PreemptScheduled"), "preemption", "terminate", "Preempt"),
    (aks(f"Terminate Scheduled: {STATED}."), "termination", "terminate", "Terminate"),
    (aks(f"Reboot Scheduled: {STATED}."), "maintenance", "reboot", "Reboot"),
    (aks(f"Redeploy Scheduled: {STATED}."), "maintenance", "redeploy", "Redeploy"),
    (aks(f"Freeze Scheduled: {STATED}."), "maintenance", "freeze", "Freeze"),
    (aks(f"SpotRebalanceRecommendation Advisory: {STATED}.", "PreemptionScheduled"),
     "rebalance", "none", "SpotRebalanceRecommendation"),
    (aks("SpotEvictionIncoming", "PreemptionScheduled"), "rebalance", "none",
     "SpotRebalanceRecommendation"),
    (aks(f"Teleport Scheduled: {STATED}."), "maintenance", "unknown", "VMEventScheduled"),
    (node(taints={REMEDIATOR: None}), "maintenance", "unknown", REMEDIATOR),
    (node(taints={"remediator.aks.microsoft.com/unschedulable": None}), "maintenance", "unknown",
     REMEDIATOR),
    (node(conditions={"Ready": ("False", "[container runtime is fine, node is shutting down]")}),
     "shutdown", "stop", "NodeShutdown"),
    (node(taints={f"{NTH}spot-itn": "spot-itn-1"}), "preemption", "terminate", f"{NTH}spot-itn"),
    (node(taints={f"{NTH}asg-lifecycle-termination": "asg-1"}), "termination", "terminate",
     f"{NTH}asg-lifecycle-termination"),
    (node(taints={f"{NTH}scheduled-maintenance": "event-1"}), "maintenance", "unknown",
     f"{NTH}scheduled-maintenance"),
    (node(taints={f"{NTH}rebalance-recommendation": "rebalance-1"}), "rebalance", "none",
     f"{NTH}rebalance-recommendation"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "action", "code"), SHOWN, ids=[f"{code} {n}" for n, (*_, code) in
                                                    enumerate(SHOWN)]
)  # fmt: skip
def test_a_sign_is_seen_for_what_it_means(
    body: dict[str, Any], kind: str, action: str, code: str
) -> None:
    (sighting,) = seen(body)

    assert (sighting.kind, sighting.action, sighting.code) == (Kind(kind), Action(action), code)
    assert (sighting.source, sighting.scope, sighting.key) == ("node", "node", code)
    assert sighting.reason


def test_every_sign_has_a_case() -> None:
    assert {code for *_, code in SHOWN} == {sign.code for sign in SIGNS}


@pytest.mark.parametrize(
    "body",
    [
        node(),
        node(unschedulable=True, taints={"node.kubernetes.io/unschedulable": None}),
        node(taints={"node.kubernetes.io/not-ready": None}),
        node(taints={"node.kubernetes.io/out-of-service": "nodeshutdown"}),
        node(taints={"node.cloudprovider.kubernetes.io/shutdown": None}),
        node(taints={"DeletionCandidateOfClusterAutoscaler": "1899999990"}),
        node(taints={"kubernetes.azure.com/scalesetpriority": "spot"}),
        node(taints={"qos.coreweave.cloud/interruptable": "true"}),
        node(taints={"karpenter.sh/disruption": "something-else"}),
        node(taints={"lastcall.dev/notice": "preemption"}),
        node(labels={"lastcall.dev/notice": "preemption"}),
        node(annotations={"lastcall.dev/deadline": "2030-03-17T17:47:10Z"}),
        node(labels={PREEMPTION: "false"}),
        node(labels={MAINTENANCE: ""}),
        node(labels={HEALTH: "Schedulable"}),
        node(labels={HEALTH: "Unschedulable"}),
        node(annotations={IMPENDING: "", HEALTH: "UnschedulablePendingReboot"}),
        node(conditions={"InterruptionNotice": ("True", "Preempt Scheduled")}),
        node(conditions={"VMEventScheduled": ("False", "VM has no scheduled event")}),
        node(conditions={"PreemptionScheduled": ("Unknown", "Preempt Started.")}),
        node(conditions={"Ready": ("False", "container runtime network not ready")}),
        node(conditions={"Ready": ("True", "node is shutting down")}),
        node(conditions={"KernelDeadlock": ("True", "docker hung")}),
    ],
    ids=lambda body: str({**body["metadata"], **body["spec"], **body["status"]})[:80],
)
def test_what_is_no_sign_is_not_seen(body: dict[str, Any]) -> None:
    assert seen(body) == ()


@pytest.mark.parametrize(
    "body",
    [
        node(labels={SCHEDULED: "1900000030"}),
        node(annotations={TERMINATION: "2030-03-17T17:47:10Z"}),
        node(annotations={TERMINATION: "2030-03-17T18:47:10+01:00"}),
        aks(f"Preempt Scheduled: {STATED}. {MORE}", "PreemptionScheduled"),
        aks(f" \n Preempt  Scheduled:\t{STATED}."),
        aks("Reboot Scheduled: 2030-03-17T17:47:10Z."),
        aks("VM Scheduled for Redeploy at 2030-03-17T17:47:10.000Z", "RedeployScheduled"),
        aks(f"Teleport Scheduled: {STATED}."),
    ],
)
def test_a_deadline_is_read_where_there_is_one(body: dict[str, Any]) -> None:
    (sighting,) = seen(body)

    assert sighting.deadline_unix == STATED_UNIX
    assert sighting.deadline == 130.0


@pytest.mark.parametrize(
    "body",
    [
        node(taints={"ToBeDeletedByClusterAutoscaler": "1899999990"}),
        node(labels={SCHEDULED: ""}),
        node(labels={SCHEDULED: "soon"}),
        node(labels={SCHEDULED: "-1900000030"}),
        node(labels={SCHEDULED: "1899996399"}),
        node(labels={SCHEDULED: "1900000030000"}),
        node(labels={SCHEDULED: "9999999999"}),
        node(labels={SCHEDULED: "٣"}),
        node(annotations={TERMINATION: "2030-03-17"}),
        node(annotations={TERMINATION: "2030-13-17T17:47:10Z"}),
        aks("Preempt Scheduled. For more information, see https://example.com."),
        aks("Preempt Scheduled: Sat, 32 Mar 2030 17:47:10 GMT."),
        aks("Preempt Scheduled: Sun, 17 Mar 2030 17:47:10 PST."),
        aks("Preempt Scheduled: Sun, 17 Mar 1930 17:47:10 GMT."),
        aks(f"Preempt Started: {STATED}."),
        aks(f"SpotRebalanceRecommendation Advisory: {STATED}.", "PreemptionScheduled"),
    ],
)
def test_a_time_that_cannot_be_meant_is_no_deadline(body: dict[str, Any]) -> None:
    (sighting,) = seen(body)

    assert (sighting.deadline, sighting.deadline_unix) == (None, None)


@pytest.mark.parametrize(
    ("value", "unix"), [("0", 0.0), ("1900000030", STATED_UNIX), ("1e9", None)]
)
def test_unix_seconds_are_digits(value: str, unix: float | None) -> None:
    assert unix_time(value) == unix


def test_the_first_time_that_is_written_counts() -> None:
    assert written_time(f"from {STATED} to Sun, 17 Mar 2030 18:00:00 GMT") == STATED_UNIX


def test_an_event_that_has_started_is_said_to_have() -> None:
    (scheduled,) = seen(aks(f"Redeploy Scheduled: {STATED}."))
    (started,) = seen(aks("Redeploy Started."))

    assert (scheduled.started, scheduled.cancellable) == (False, True)
    assert (started.started, started.cancellable) == (True, False)


def test_an_azure_event_is_named_by_its_id_in_any_case() -> None:
    marks = [
        Mark(Place.CONDITION, "X", f"EventId: {name}") for name in (EVENT_ID, EVENT_ID.lower())
    ]

    assert [its_event(mark) for mark in marks] == [EVENT_ID.lower()] * 2


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        (node(taints={"ToBeDeletedByClusterAutoscaler": "1899999990"}), "1899999990"),
        (node(taints={f"{NTH}spot-itn": "spot-itn-0a1b"}), "spot-itn-0a1b"),
        (aks(f"Preempt Scheduled: {STATED}. {MORE}"), EVENT_ID.lower()),
        (aks("Preempt Started."), ""),
        (node(conditions={"Ready": ("False", "node is shutting down")}), "2030-03-17T17:46:00Z"),
        (node(labels={PREEMPTION: "true"}), ""),
        (node(labels={SCHEDULED: "1900000030"}), ""),
        (node(taints={f"{NTH}spot-itn": "half a character: \ud800"}), ""),
        (node(taints={f"{NTH}spot-itn": "x" * 1000}), ""),
    ],
)
def test_an_occurrence_is_named_where_the_mark_names_it(
    body: dict[str, Any], identity: str
) -> None:
    (sighting,) = seen(body)

    assert sighting.identity == identity


def test_a_taint_that_says_when_it_was_put_there_is_named_by_that() -> None:
    body = node(taints={"karpenter.sh/disrupted": None})
    body["spec"]["taints"][0]["timeAdded"] = "2030-03-17T17:46:00Z"

    (sighting,) = seen(body)

    assert sighting.identity == "2030-03-17T17:46:00Z"


def test_ends_come_before_advices() -> None:
    body = node(
        taints={"karpenter.sh/disrupted": None, IMPENDING: ""}, labels={SCHEDULED: "1900000030"}
    )

    assert [one.code for one in seen(body)] == [IMPENDING, "karpenter.sh/disrupted", SCHEDULED]


def test_marks_of_one_code_are_one_sighting_with_the_earliest_deadline() -> None:
    body = node(
        conditions={
            "VMEventScheduled": ("True", "Preempt Scheduled: Sun, 17 Mar 2030 17:48:00 GMT."),
            "PreemptionScheduled": ("True", f"Preempt Scheduled: {STATED}. {MORE}"),
        }
    )

    (sighting,) = seen(body)

    assert (sighting.deadline_unix, sighting.identity) == (STATED_UNIX, EVENT_ID.lower())


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.code} {sign.keys[0]}")
def test_the_reference_names_every_sign(sign: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [key for key in (*sign.keys, sign.code) if f"`{key}" not in page] == []
    assert sign.origin


ANSWERS = {
    "Preempt": (Stance.FLUSH, True),
    "Terminate": (Stance.FLUSH, True),
    "NodeShutdown": (Stance.FLUSH, False),
    IMPENDING: (Stance.FLUSH, False),
    PREEMPTION: (Stance.FLUSH, False),
    f"{NTH}spot-itn": (Stance.FLUSH, False),
    f"{NTH}asg-lifecycle-termination": (Stance.FLUSH, False),
    TERMINATION: (Stance.FLUSH, True),
    "Reboot": (Stance.FLUSH, True),
    "Redeploy": (Stance.FLUSH, True),
    "Freeze": (Stance.INFORM, False),
}


@pytest.mark.parametrize(("body", "code"), [(body, code) for body, *_, code in SHOWN])
def test_only_a_certain_end_is_more_than_an_advice(body: dict[str, Any], code: str) -> None:
    (sighting,) = seen(body)

    response = Policy().respond(sighting)

    assert (response.stance, response.drain) == ANSWERS.get(code, (Stance.ADVISE, False))
    assert response.expires_seconds is None
