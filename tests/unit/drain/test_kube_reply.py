"""What each answer of an API server means."""

from __future__ import annotations

import json

import pytest

from lastcall.drain.kubernetes.reply import Outcome, Reply, read_reply
from support.kube_api.transcripts import read_transcripts

TRANSCRIPTS = read_transcripts()
ANSWERED = [
    name
    for name, recorded in TRANSCRIPTS.items()
    if "body" in recorded.response and not name.startswith("pods-watch") and "readyz" not in name
]

NOT_BY_STATUS = {
    "evict-500-two-pdbs": Outcome.TWO_BUDGETS,
    "throttled-429": Outcome.THROTTLED,
    "evict-403-namespace-terminating": Outcome.NAMESPACE_TERMINATING,
    "event-403-namespace-terminating": Outcome.NAMESPACE_TERMINATING,
}
BY_STATUS = {
    200: Outcome.OK,
    201: Outcome.OK,
    400: Outcome.INVALID,
    401: Outcome.UNAUTHORIZED,
    403: Outcome.FORBIDDEN,
    404: Outcome.GONE,
    406: Outcome.INVALID,
    409: Outcome.CONFLICT,
    415: Outcome.INVALID,
    422: Outcome.INVALID,
    429: Outcome.BLOCKED,
    500: Outcome.UNKNOWN,
    504: Outcome.UNKNOWN,
}


def recorded_reply(name: str) -> Reply:
    recorded = TRANSCRIPTS[name]
    body = recorded.response["body"]
    text = body if isinstance(body, str) else json.dumps(body)
    return read_reply(
        recorded.response["status"],
        text.encode(),
        recorded.response["headers"].get("Retry-After"),
        is_eviction="/eviction" in recorded.path,
    )


@pytest.mark.parametrize("name", ANSWERED)
def test_each_recorded_answer_has_its_meaning(name):
    reply = recorded_reply(name)

    assert reply.outcome is NOT_BY_STATUS.get(name, BY_STATUS[reply.status])
    assert reply.ok == (reply.status < 300)
    assert bool(reply.message) != reply.ok


def test_a_blocked_eviction_says_which_budget_and_no_time():
    reply = recorded_reply("evict-429-pdb-blocked")

    assert reply.cause_text == "The disruption budget db needs 1 healthy pods and has 1 currently"
    assert reply.causes[0].reason == "DisruptionBudget"
    assert reply.retry_after_seconds is None


def test_a_budget_not_yet_looked_at_says_when_to_come_back():
    reply = recorded_reply("evict-429-pdb-not-yet-observed")

    assert (reply.outcome, reply.retry_after_seconds) == (Outcome.BLOCKED, 10.0)


def test_a_busy_server_says_when_to_come_back():
    reply = recorded_reply("throttled-429")

    assert reply.retry_after_seconds == 1.0
    assert reply.message == "Too many requests, please try again later."
    assert reply.causes == ()


def test_a_name_that_is_taken_is_told_by_its_reason():
    assert recorded_reply("event-duplicate-409").reason == "AlreadyExists"


def test_a_patch_for_another_uid_is_a_conflict():
    cause = {"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "is immutable"}
    body = json.dumps({"kind": "Status", "details": {"causes": [cause]}, "code": 422})

    assert read_reply(422, body.encode(), None).outcome is Outcome.CONFLICT


def test_two_budgets_are_told_from_evictions_alone():
    two_budgets = json.dumps(TRANSCRIPTS["evict-500-two-pdbs"].response["body"]).encode()

    assert read_reply(500, two_budgets, None).outcome is Outcome.UNKNOWN


def test_a_failing_store_is_not_taken_for_two_budgets():
    failing = json.dumps(TRANSCRIPTS["etcd-frozen-patch-no-timeout"].response["body"]).encode()

    assert read_reply(500, failing, None, is_eviction=True).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("status", [418, 500, 502, 503, 599, 301])
def test_any_other_status_leaves_open_what_was_done(status):
    reply = read_reply(status, b"<html>\nnothing to say</html>", "soon")

    assert reply == Reply(Outcome.UNKNOWN, status, {}, "", "<html>")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b'{"a":', b"[" * 100_000])
def test_a_success_that_is_no_object_leaves_open_what_was_done(body):
    assert read_reply(200, body, None).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b'{"details": 7, "message": []}', b'{"details": {"causes": [1, 7]}}']
)
def test_a_failure_that_is_garbled_still_has_its_status(body):
    reply = read_reply(403, body, None)

    assert (reply.outcome, reply.causes) == (Outcome.FORBIDDEN, ())
    assert reply.message


@pytest.mark.parametrize("value", ["", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"])
def test_a_retry_after_that_is_no_number_of_seconds_is_left_out(value):
    assert read_reply(429, b"", value).retry_after_seconds is None
