"""What is sent about events and rights, and what is read from reviews."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.events import EventText, ObjectRef, event_body, event_namespace
from lastcall.drain.kubernetes.reply import Outcome, Reply
from lastcall.drain.kubernetes.reviews import Right, access_review_body, is_allowed, node_name_of

TEXT = EventText(
    name="node-a.1",
    reason="PreemptionNotice",
    message="aws: terminates in 120 s",
    action="Flush",
    is_warning=True,
    at_unix=1_767_225_600.25,
    instance="agent-a",
)


def test_an_event_about_a_node_stands_in_default():
    about = ObjectRef("Node", "node-a", uid="u-1")
    body = event_body(about, TEXT)

    assert event_namespace(about) == "default"
    assert body["metadata"] == {"name": "node-a.1", "namespace": "default"}
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "node-a",
        "uid": "u-1",
    }
    assert (body["type"], body["firstTimestamp"]) == ("Warning", "2026-01-01T00:00:00Z")


def test_an_event_about_a_pod_stands_with_it():
    body = event_body(ObjectRef("Pod", "p-0", "training"), TEXT)

    assert body["metadata"] == {"name": "node-a.1", "namespace": "training"}
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p-0",
        "namespace": "training",
    }


def test_a_message_is_cut_where_the_server_would_refuse_it():
    long = EventText("n", "R", "x" * 2000, "A", is_warning=False, at_unix=0.0, instance="i" * 200)
    body = event_body(ObjectRef("Node", "node-a"), long)

    assert body["message"] == "x" * 1024
    assert body["reportingInstance"] == "i" * 128
    assert body["type"] == "Normal"


def test_a_right_is_asked_for_with_the_parts_it_has():
    body = access_review_body(Right("create", "pods", subresource="eviction"))

    assert body["spec"] == {
        "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction"}
    }
    assert str(Right("list", "poddisruptionbudgets", "policy")) == (
        "list poddisruptionbudgets.policy"
    )


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Reply(Outcome.OK, 201, {"status": {"allowed": True}}), True),
        (Reply(Outcome.OK, 201, {"status": {"allowed": False}}), False),
        (Reply(Outcome.OK, 201, {"status": "yes"}), None),
        (Reply(Outcome.UNKNOWN, 504, {"status": {"allowed": True}}), None),
    ],
)
def test_a_review_says_yes_no_or_nothing(reply, answer):
    assert is_allowed(reply) is answer


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"userInfo": 7},
        {"userInfo": {"extra": {}}},
        {"userInfo": {"extra": {"authentication.kubernetes.io/node-name": []}}},
    ],
)
def test_an_identity_bound_to_no_node_names_none(status):
    assert node_name_of(Reply(Outcome.OK, 201, {"status": status})) == ""
