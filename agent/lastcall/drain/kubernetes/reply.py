"""What the Kubernetes API server answered, as one value with one meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec


class Outcome(StrEnum):
    """What an answer means for the one who asked.

    Attributes:
        OK: done as asked.
        GONE: there is no such object (404).
        CONFLICT: it is no longer the object that was meant: another UID, another resource version,
            or the name is taken (409).
        BLOCKED: a disruption budget does not allow the eviction now (429 with that cause).
        THROTTLED: the server is busy (429 without that cause).
        TWO_BUDGETS: more than one disruption budget selects the pod; asking again never helps.
        NAMESPACE_TERMINATING: nothing may be created in a namespace that is being deleted (403).
        FORBIDDEN: no right to do it, or an admission policy denies it (403).
        UNAUTHORIZED: the credentials are refused, or there are none (401).
        INVALID: the server cannot accept what was sent; a failed test of a JSON patch is one (422).
        EXPIRED: the resource version or the continuation is too old (410): list again.
        UNKNOWN: whether it was done cannot be told: no answer in time, a broken connection, 504 or
            another fault of the server. Look again before concluding anything.
    """

    OK = "ok"
    GONE = "gone"
    CONFLICT = "conflict"
    BLOCKED = "blocked"
    THROTTLED = "throttled"
    TWO_BUDGETS = "two_budgets"
    NAMESPACE_TERMINATING = "namespace_terminating"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    INVALID = "invalid"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the causes that a failure names.

    Attributes:
        reason: a machine's word, such as ``DisruptionBudget``; may be empty.
        message: for people; for a budget, which one and how many pods it lacks.
        field: what it is about, such as ``metadata.namespace``; may be empty.
    """

    reason: str = ""
    message: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one call.

    Attributes:
        outcome: what it means.
        status: the HTTP status; 0 where no answer came.
        body: the JSON object of the answer; empty where it had none.
        reason: the server's own word for a failure, such as ``AlreadyExists``; may be empty.
        message: why it failed, in one line; never holds a credential.
        causes: what the failure names as its causes.
        retry_after_seconds: how long the server asks to be left alone, where it says so.
    """

    outcome: Outcome
    status: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it was done as asked."""
        return self.outcome is Outcome.OK

    @property
    def cause_text(self) -> str:
        """The most telling line: the first cause that says something, else the message."""
        return next((cause.message for cause in self.causes if cause.message), self.message)


def unknown(message: str) -> Reply:
    """Return the reply for a call that got no answer."""
    return Reply(Outcome.UNKNOWN, message=message)


def read_reply(
    status: int, body: bytes, retry_after: str | None, *, is_eviction: bool = False
) -> Reply:
    """Return what an HTTP answer means.

    The content type is not asked: a 504 of the API server is JSON that calls itself plain text
    (seen on Kubernetes 1.36).

    Args:
        status: the HTTP status.
        body: all of the body.
        retry_after: the ``Retry-After`` header.
        is_eviction: it answers an eviction, where a 500 may tell of two budgets.
    """
    content = _json_object(body)
    if 200 <= status < 300:
        if content is None:
            return Reply(Outcome.UNKNOWN, status, message="the answer is no JSON object")
        return Reply(Outcome.OK, status, content)
    return read_failure(
        status, content or {}, _plain_line(body), retry_after, is_eviction=is_eviction
    )


def read_failure(
    status: int,
    content: Mapping[str, Any],
    plain_text: str = "",
    retry_after: str | None = None,
    *,
    is_eviction: bool = False,
) -> Reply:
    """Return what a failure means, told by a ``Status`` object or by plain text."""
    details = content.get("details")
    details = details if isinstance(details, Mapping) else {}
    causes = _causes(details)
    reason = _text(content.get("reason"))
    message = _text(content.get("message")) or plain_text or f"status {status}"
    outcome = _outcome(status, causes)
    if is_eviction and status == 500 and not reason and "PodDisruptionBudget" in message:
        # The shape alone does not tell: a store that fails answers 500 without a reason, too.
        outcome = Outcome.TWO_BUDGETS
    seconds = _seconds(retry_after)
    if seconds is None:
        seconds = _seconds(details.get("retryAfterSeconds"))
    return Reply(outcome, status, content, reason, message, causes, seconds)


_BY_STATUS = {
    400: Outcome.INVALID,
    401: Outcome.UNAUTHORIZED,
    403: Outcome.FORBIDDEN,
    404: Outcome.GONE,
    405: Outcome.INVALID,
    406: Outcome.INVALID,
    409: Outcome.CONFLICT,
    410: Outcome.EXPIRED,
    413: Outcome.INVALID,
    415: Outcome.INVALID,
    422: Outcome.INVALID,
    429: Outcome.THROTTLED,
}

_BY_CAUSE = {
    (403, "NamespaceTerminating"): Outcome.NAMESPACE_TERMINATING,
    (429, "DisruptionBudget"): Outcome.BLOCKED,
}


def _outcome(status: int, causes: tuple[Cause, ...]) -> Outcome:
    if status == 422 and any(cause.field == "metadata.uid" for cause in causes):
        # A patch that names a UID is answered so where the name belongs to another object by now.
        return Outcome.CONFLICT
    reasons = {cause.reason for cause in causes}
    for (cause_status, reason), outcome in _BY_CAUSE.items():
        if status == cause_status and reason in reasons:
            return outcome
    return _BY_STATUS.get(status, Outcome.UNKNOWN)


def _causes(details: Mapping[str, Any]) -> tuple[Cause, ...]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return ()
    return tuple(
        Cause(_text(cause.get("reason")), _text(cause.get("message")), _text(cause.get("field")))
        for cause in causes
        if isinstance(cause, Mapping)
    )


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        content: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _plain_line(body: bytes) -> str:
    lines = body[:500].decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """Return a number of seconds; the header's form with a date is not used by the API server."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return float(value)
    return None
