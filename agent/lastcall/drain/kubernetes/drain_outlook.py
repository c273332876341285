"""Where one pod stands in a drain, and what is next for it: the rules, pod by pod."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import inf

from lastcall.drain.kubernetes.drain_aim import Aim, DrainSettings
from lastcall.drain.kubernetes.drain_past import Do, Past, Step
from lastcall.drain.kubernetes.pods import Pod, PodClass, class_of
from lastcall.drain.kubernetes.reply import Outcome

MARK_STANDS_SECONDS = 90.0
"""A mark is set anew after this long. The disruption controller takes one for stale after 120 s
(Kubernetes, pkg/controller/disruption)."""

SHOWN_WITHIN_SECONDS = 2.0
"""What the server has accepted is seen in a watch by then, or the watch is not to be trusted."""

STUCK_AFTER_SECONDS = 10.0
"""A pod that is still there so long after the time it had to end is not waited for any longer."""

SHORTENED_FROM_SECONDS = 1.0
"""A pod's time to end is cut short where it exceeds what is left by more than this."""


class State(StrEnum):
    """Where a pod stands in a drain.

    Attributes:
        KEPT: it is to be left alone.
        FINISHED: it runs no more.
        GONE: it has left the node.
        WAITING: its time has not come.
        ASKING: it is being asked to leave.
        BLOCKED: a disruption budget holds it back.
        FAILED: the server denies what would move it.
        LEAVING: it ends.
        STUCK: it should have ended long ago.
    """

    KEPT = "kept"
    FINISHED = "finished"
    GONE = "gone"
    WAITING = "waiting"
    ASKING = "asking"
    BLOCKED = "blocked"
    FAILED = "failed"
    LEAVING = "leaving"
    STUCK = "stuck"

    @property
    def is_off(self) -> bool:
        """Whether nothing of the pod is left to be moved."""
        return self in (State.KEPT, State.FINISHED, State.GONE)


@dataclass(frozen=True)
class View:
    """What a plan is made from, besides the pods' own pasts.

    Attributes:
        aim: what the order means.
        settings: how pods are moved.
        own_uid: of the agent's own pod.
        pods: the node's pods, by UID.
        now: the monotonic clock.
        is_cordoned: the cordon was tried, so that what leaves is not at once replaced here.
        is_listed: it is known which pods there are; false until the first list.
        earlier: pods that were to leave since the drain began, by UID, as they last were.
        settled_at: from when on a node without pods is drained: one that was given to it before
            the cordon has come by then.
        remembered: UIDs of pods that bore our mark when they were first seen: this agent, before it
            was started anew, or another notice knew that they train.
        remembered_until: until when a process of such a pod has time to say so itself.
    """

    aim: Aim
    settings: DrainSettings
    own_uid: str
    pods: Mapping[str, Pod]
    now: float
    is_cordoned: bool = True
    is_listed: bool = True
    earlier: Mapping[str, Pod] = field(default_factory=dict)
    settled_at: float = -inf
    remembered: Container[str] = frozenset()
    remembered_until: float = -inf

    @cached_property
    def told(self) -> Mapping[str, bool | None]:
        """UIDs of pods told to flush, and whether a flush in each waits.

        A pod that is only remembered counts as one that was told and waits, and in the end as one
        that was told of nothing (``None``), which trains all the same.
        """
        may_wait = True if self.now < self.remembered_until else None
        remembered = {uid: may_wait for uid in self.pods if uid in self.remembered}
        return {**remembered, **self.aim.told(self.pods)}

    def class_of(self, pod: Pod) -> PodClass:
        """Return how a pod is treated."""
        return class_of(pod, self.told, self.own_uid)

    def may_end(self, pod: Pod) -> bool:
        """Whether processes in a pod may be told to end, so that its Job must know of the notice.

        In a pod that is to be left alone they are told like all others.
        """
        pod_class = self.class_of(pod)
        if pod_class is PodClass.OPTED_OUT:
            return pod.uid in self.told
        return pod_class is PodClass.TRAINING


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where one pod stands, and what is next.

    Attributes:
        pod: the pod.
        pod_class: how it is treated.
        state: where it stands.
        detail: for people; may be empty.
        step: what to do now; ``None`` for nothing.
        look_at: when something is due, if nothing changes before; infinite for never.
    """

    pod: Pod
    pod_class: PodClass
    state: State
    detail: str = ""
    step: Step | None = None
    look_at: float = inf


def outlook(pod: Pod, past: Past, view: View) -> Outlook:
    """Return where a pod stands, and what is next for it."""
    pod_class = view.class_of(pod)
    off = _off(pod, pod_class, past, view)
    if off is State.KEPT:
        return _with_mark(Outlook(pod, pod_class, off), past, view)
    if off is not None:
        return Outlook(pod, pod_class, off)
    if past.doubts:
        return _looking(Outlook(pod, pod_class, State.ASKING, past.trouble), past.again_at, view)
    if pod.ends_at is not None:
        return _ending(pod, pod_class, pod.ends_at, past, view)
    if past.accepted_at is not None:
        leaving = Outlook(pod, pod_class, State.LEAVING)
        shown_by = max(past.again_at, past.accepted_at + SHOWN_WITHIN_SECONDS)
        return _looking(leaving, shown_by, view)
    return _with_mark(_leaving(pod, pod_class, past, view), past, view)


def _off(pod: Pod, pod_class: PodClass, past: Past, view: View) -> State | None:
    """Return why nothing of a pod is to be moved; ``None`` where it is."""
    if pod_class is PodClass.FINISHED:
        return State.GONE if pod.uid in view.earlier else State.FINISHED
    if not pod_class.leaves:
        return State.KEPT
    return State.GONE if past.is_gone else None


def needs_mark(pod: Pod, view: View) -> bool:
    """Whether a pod must be marked, lest its Job takes its end for a failure."""
    if pod.ends_at is not None or not view.may_end(pod):
        return False
    if pod.disruption is None:
        return True
    return pod.marked_by_us and view.now >= pod.disruption.since + MARK_STANDS_SECONDS


def _with_mark(found: Outlook, past: Past, view: View) -> Outlook:
    """Return an outlook in which the pod's mark comes first, if only by one try."""
    pod, now = found.pod, view.now
    if now >= view.aim.end_at:
        return found
    if not needs_mark(pod, view):
        if not view.may_end(pod) or not pod.marked_by_us or pod.disruption is None:
            return found
        stale_at = pod.disruption.since + MARK_STANDS_SECONDS
        return _but(found, look_at=min(found.look_at, stale_at))
    if found.step is not None and past.marks:
        return found
    if now >= past.mark_again_at:
        return _but(found, step=Step(Do.MARK, pod))
    return _but(found, look_at=min(found.look_at, past.mark_again_at))


def _leaving(pod: Pod, pod_class: PodClass, past: Past, view: View) -> Outlook:
    """Return the outlook of a pod that nobody ends yet."""
    aim, now = view.aim, view.now
    state, detail = _standing(past)
    if now >= aim.over_at:
        return Outlook(pod, pod_class, state, detail or "no time was left")
    waits = view.told.get(pod.uid)
    due_at = aim.due_at(pod_class, pod.grace_seconds, waits)
    if now < due_at:
        what = "for its flush" if waits else "until only the time it needs to end is left"
        return Outlook(pod, pod_class, State.WAITING, what, look_at=due_at)
    if not view.is_cordoned:
        return Outlook(pod, pod_class, State.WAITING, "for the cordon")
    if now < past.again_at:
        return Outlook(pod, pod_class, state, detail, look_at=past.again_at)
    return Outlook(pod, pod_class, state, detail, step=_removal(pod, pod_class, past, view))


def _removal(pod: Pod, pod_class: PodClass, past: Past, view: View) -> Step:
    """Return how a pod is made to leave now."""
    aim, now = view.aim, view.now
    grace_seconds = aim.grace_to_send(pod.grace_seconds, now)
    if view.settings.method == "delete" or past.namespace_ends:
        return Step(Do.DELETE, pod, grace_seconds)
    is_late = bool(past.asked) and now >= aim.escalate_at(pod.grace_seconds)
    if view.settings.forces(pod_class) and (is_late or past.two_budgets):
        only_evict = Do.DELETE in past.refused and Do.EVICT not in past.refused
        if not only_evict:
            return Step(Do.DELETE, pod, grace_seconds, forced=True)
    return Step(Do.EVICT, pod, grace_seconds)


def _ending(pod: Pod, pod_class: PodClass, ends_at: float, past: Past, view: View) -> Outlook:
    """Return the outlook of a pod that ends, by whose will ever."""
    now = view.now
    if now >= ends_at + STUCK_AFTER_SECONDS:
        held = f", held by {', '.join(pod.finalizers)}" if pod.finalizers else ""
        late = f"{now - ends_at:.0f} s past the time it had to end{held}"
        return Outlook(pod, pod_class, State.STUCK, late)
    found = Outlook(
        pod,
        pod_class,
        State.LEAVING,
        f"{max(0.0, ends_at - now):.0f} s to end",
        look_at=ends_at + STUCK_AFTER_SECONDS,
    )
    shortening = _shortening(pod, pod_class, ends_at, past, view)
    if isinstance(shortening, Step):
        return _but(found, step=shortening)
    seen_off_by = max(past.again_at, ends_at + SHOWN_WITHIN_SECONDS)
    looking = _looking(found, seen_off_by, view)
    return _but(looking, look_at=min(looking.look_at, shortening))


def _shortening(
    pod: Pod, pod_class: PodClass, ends_at: float, past: Past, view: View
) -> Step | float:
    """Return the call that cuts a pod's time to end down to what is left, or when it is due.

    A second request with a shorter grace shortens the first one; a budget is not asked (seen on
    Kubernetes 1.36).
    """
    aim, now = view.aim, view.now
    is_counted = past.counted_to is not None and aim.over_at > past.counted_to - 1
    if is_counted or now >= aim.over_at or ends_at <= aim.over_at + SHORTENED_FROM_SECONDS:
        return inf
    waits = view.told.get(pod.uid)
    # Its time has begun: only a flush that waits keeps it from being cut short.
    due_at = aim.due_at(pod_class, pod.grace_seconds, waits) if waits else aim.began_at
    if not view.is_cordoned:
        return inf
    if now < max(due_at, past.again_at):
        return max(due_at, past.again_at)
    return _removal(pod, pod_class, past, view)


def _looking(found: Outlook, due_at: float, view: View) -> Outlook:
    """Return an outlook in which the pod is looked after once that is due."""
    if view.now >= view.aim.end_at:
        return found
    if view.now >= due_at:
        return _but(found, step=Step(Do.LOOK, found.pod))
    return _but(found, look_at=min(found.look_at, due_at))


def _standing(past: Past) -> tuple[State, str]:
    """Return where a pod stands that nobody ends yet."""
    if not past.asked:
        return State.ASKING, ""
    if past.refusal in (Outcome.BLOCKED, Outcome.TWO_BUDGETS):
        return State.BLOCKED, past.trouble
    if past.refusal in (Outcome.FORBIDDEN, Outcome.INVALID):
        return State.FAILED, past.trouble
    return State.ASKING, past.trouble


def _but(found: Outlook, *, step: Step | None = None, look_at: float | None = None) -> Outlook:
    return Outlook(
        found.pod,
        found.pod_class,
        found.state,
        found.detail,
        found.step if step is None else step,
        found.look_at if look_at is None else look_at,
    )
