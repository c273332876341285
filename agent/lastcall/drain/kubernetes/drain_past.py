"""What was done about one pod, and what each of the server's answers changes about that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Any

from lastcall.drain.kubernetes.drain_aim import Aim
from lastcall.drain.kubernetes.pods import Pod
from lastcall.drain.kubernetes.reply import Outcome, Reply

BLOCKED_AGAIN_SECONDS = (1.0, 2.0)
"""After this long a pod that a budget protects is asked again, spread by chance: a budget frees one
pod after the other, so that what another node waits for is not known here."""

REFUSED_AGAIN_SECONDS = 5.0
"""After this long it is tried again where it was denied: an admission webhook may deny an eviction
until its operator has moved the pod itself."""

TWO_BUDGETS_AGAIN_SECONDS = 10.0
"""After this long it is tried again where two budgets forbid it; only a person can help there."""

UNANSWERED_AGAIN_SECONDS = (0.25, 0.5, 1.0, 2.0)
"""After this long it is tried again where there was no answer: the first time, the second, …"""

LOOK_AGAIN_SECONDS = 3.0
"""After this long it is looked again whether a pod is still there."""

MARK_AGAIN_SECONDS = 5.0
"""After this long a mark that was set and is not seen is set again."""

LEAVES = ("evicted", "forced", "gone")
"""What is reported of a pod that leaves or has left; each pod is counted once among these."""

_RETRY_AFTER_SHARE = 1 / 3


class Do(StrEnum):
    """One kind of call about a pod."""

    MARK = "mark"
    EVICT = "evict"
    DELETE = "delete"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Step:
    """A call to make now.

    Attributes:
        do: which.
        pod: about which pod.
        grace_seconds: the time to end that it is given; ``None`` for its own.
        forced: a budget, or whoever denies the eviction, is not asked any more.
    """

    do: Do
    pod: Pod
    grace_seconds: int | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered about one pod for one order.

    Attributes:
        asked: how often it was asked to leave.
        asked_by: how, the last time.
        again_at: not before then is it asked, or looked after, again.
        unanswered: how often in a row there was no answer.
        refusal: what the last answer was, where it was none that helped.
        trouble: that answer in the server's words.
        refused: what the server denies.
        two_budgets: an eviction never succeeds.
        namespace_ends: its namespace is being deleted, which leaves only deletion.
        accepted_at: when it was accepted that it leaves.
        counted_to: the end of the time that its grace was counted to, then.
        doubts: its name may belong to another pod by now.
        is_gone: the server has no such pod.
        marks: how often marking it was answered.
        mark_again_at: not before then is it marked again.
        mark_refused: why it cannot be marked; empty where it can.
        said: outcomes that have been reported.
    """

    asked: int = 0
    asked_by: Do | None = None
    again_at: float = -inf
    unanswered: int = 0
    refusal: Outcome | None = None
    trouble: str = ""
    refused: frozenset[Do] = frozenset()
    two_budgets: bool = False
    namespace_ends: bool = False
    accepted_at: float | None = None
    counted_to: float | None = None
    doubts: bool = False
    is_gone: bool = False
    marks: int = 0
    mark_again_at: float = -inf
    mark_refused: str = ""
    said: frozenset[str] = frozenset()

    def saying(self, outcome: str) -> Past:
        """Return the past in which an outcome was reported."""
        return replace(self, said=self.said | {outcome})

    @property
    def leave_is_said(self) -> bool:
        """Whether it was reported that the pod leaves or has left."""
        return not self.said.isdisjoint(LEAVES)


NOTHING = Past()
"""Nothing was done yet."""


@dataclass(frozen=True, slots=True)
class News:
    """Something to report of a pod; ``outcome`` is one of an ``EvictionReported``."""

    pod: Pod
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an answer teaches: the past as it is then, and what is to be reported of it."""

    past: Past
    news: News | None = None


def learn(
    past: Past, step: Step, reply: Reply, *, aim: Aim, may_force: bool, now: float, spread: float
) -> Lesson:
    """Return what an answer changes.

    Args:
        past: what was.
        step: what was asked.
        reply: the answer.
        aim: what the order means.
        may_force: the pod may be deleted over the head of its budget.
        now: the monotonic clock.
        spread: between 0 and 1, by chance.
    """
    if step.do is Do.MARK:
        return Lesson(_marked(past, reply, now))
    if step.do is Do.LOOK:
        return Lesson(_looked(past, step.pod, reply, now))
    past = replace(past, asked=past.asked + 1, asked_by=step.do)
    news = _news(past, step, reply, may_force=may_force)
    past = _asked(past, step, reply, aim=aim, may_force=may_force, now=now, spread=spread)
    return Lesson(past if news is None else past.saying(news.outcome), news)


def _marked(past: Past, reply: Reply, now: float) -> Past:
    match reply.outcome:
        case Outcome.OK:
            return replace(
                past, marks=past.marks + 1, mark_again_at=now + MARK_AGAIN_SECONDS, mark_refused=""
            )
        case Outcome.GONE:
            return replace(past, is_gone=True)
        case Outcome.CONFLICT:
            return replace(
                past,
                marks=past.marks + 1,
                mark_again_at=now + _unanswered_seconds(past.marks + 1),
                doubts=True,
                again_at=now,
            )
        case Outcome.FORBIDDEN | Outcome.INVALID:
            return replace(
                past,
                marks=past.marks + 1,
                mark_again_at=now + REFUSED_AGAIN_SECONDS,
                mark_refused=reply.cause_text,
            )
    wait_seconds = max(_unanswered_seconds(past.marks), reply.retry_after_seconds or 0.0)
    return replace(
        past,
        marks=past.marks + 1,
        mark_again_at=now + min(wait_seconds, UNANSWERED_AGAIN_SECONDS[-1]),
    )


def _looked(past: Past, pod: Pod, reply: Reply, now: float) -> Past:
    past = replace(past, again_at=now + LOOK_AGAIN_SECONDS)
    if reply.outcome is Outcome.GONE:
        return replace(past, is_gone=True)
    if not reply.ok:
        return replace(past, again_at=now + UNANSWERED_AGAIN_SECONDS[-1])
    metadata = _object(reply.body.get("metadata"))
    if metadata.get("uid") != pod.uid:
        return replace(past, is_gone=True)
    if "deletionTimestamp" in metadata:
        return replace(past, doubts=False)
    # Nobody ends it, whatever was answered before: it is asked again.
    again_at = now + UNANSWERED_AGAIN_SECONDS[0]
    return replace(past, doubts=False, accepted_at=None, again_at=again_at)


def _asked(
    past: Past, step: Step, reply: Reply, *, aim: Aim, may_force: bool, now: float, spread: float
) -> Past:
    """Return what the answer to a request to leave changes."""
    outcome = reply.outcome
    if outcome is Outcome.OK:
        return replace(
            past,
            accepted_at=now,
            counted_to=aim.over_at,
            again_at=now,
            unanswered=0,
            refusal=None,
            trouble="",
        )
    if outcome is Outcome.GONE:
        return replace(past, is_gone=True)
    if outcome is Outcome.CONFLICT:
        # A server that was busy with the pod answers so, too.
        return replace(past, doubts=True, again_at=now)
    is_heard = outcome not in (Outcome.UNKNOWN, Outcome.UNAUTHORIZED, Outcome.EXPIRED)
    past = replace(
        past,
        refusal=outcome,
        trouble=reply.cause_text,
        unanswered=0 if is_heard else past.unanswered + 1,
    )
    if outcome is Outcome.NAMESPACE_TERMINATING and step.do is Do.EVICT:
        return replace(past, namespace_ends=True, again_at=now)
    if outcome is Outcome.TWO_BUDGETS:
        past = replace(past, two_budgets=True)
        if may_force and Do.DELETE not in past.refused:
            return replace(past, again_at=now)
    if outcome in (Outcome.FORBIDDEN, Outcome.INVALID):
        past = replace(past, refused=past.refused | {step.do})
    again_at = now + _wait_seconds(past, reply, aim.left(now), spread)
    if may_force and step.do is Do.EVICT and Do.DELETE not in past.refused:
        # Then it is not asked again but deleted.
        again_at = min(again_at, max(now, aim.escalate_at(step.pod.grace_seconds)))
    return replace(past, again_at=again_at)


def _news(past: Past, step: Step, reply: Reply, *, may_force: bool) -> News | None:
    """Return what is to be reported of the answer to a request to leave; each outcome once."""
    if step.pod.ends_at is not None:
        # It was to end before it was asked: only that it has gone is news.
        return None
    outcome, cause = "", reply.cause_text
    match reply.outcome:
        case Outcome.OK if not past.leave_is_said:
            outcome, cause = ("forced" if step.forced else "evicted"), _how(past, step)
        case Outcome.BLOCKED | Outcome.FORBIDDEN | Outcome.INVALID:
            outcome = "blocked"
        case Outcome.TWO_BUDGETS if not may_force:
            outcome = "blocked"
    if not outcome or outcome in past.said:
        return None
    return News(step.pod, outcome, cause)


def _how(past: Past, step: Step) -> str:
    """Return what is said of a pod that leaves."""
    parts = []
    if step.do is Do.DELETE:
        why = past.trouble or "no eviction was to be had"
        parts.append(f"not evicted: {why}" if step.forced else "deleted")
    if step.grace_seconds is not None:
        parts.append(f"{step.grace_seconds} s to end instead of {step.pod.grace_seconds}")
    if not step.pod.owner:
        parts.append("bare, nothing recreates it")
    return "; ".join(parts)


def _wait_seconds(past: Past, reply: Reply, left: float, spread: float) -> float:
    """Return how long to wait before the pod is asked again."""
    outcome, asked_for = reply.outcome, reply.retry_after_seconds
    if outcome is Outcome.TWO_BUDGETS:
        return TWO_BUDGETS_AGAIN_SECONDS
    if outcome in (Outcome.FORBIDDEN, Outcome.INVALID):
        return REFUSED_AGAIN_SECONDS
    if outcome in (Outcome.BLOCKED, Outcome.THROTTLED):
        shortest, longest = BLOCKED_AGAIN_SECONDS
        if asked_for is not None and asked_for < left * _RETRY_AFTER_SHARE:
            return max(asked_for, shortest) * (1 + spread / 10)
        return shortest + (longest - shortest) * spread
    return _unanswered_seconds(past.unanswered) * (1 + spread / 4)


def _unanswered_seconds(times: int) -> float:
    last = len(UNANSWERED_AGAIN_SECONDS) - 1
    return UNANSWERED_AGAIN_SECONDS[min(max(times - 1, 0), last)]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
