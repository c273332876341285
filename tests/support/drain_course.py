"""A drain played through in virtual time: the plan decides, a scripted server answers at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from lastcall.core.commands import Drain
from lastcall.core.model import Kind
from lastcall.drain.kubernetes.drain_aim import Aim, DrainSettings, aim_of
from lastcall.drain.kubernetes.drain_outlook import View
from lastcall.drain.kubernetes.drain_past import NOTHING, Do, Past, Step, learn
from lastcall.drain.kubernetes.drain_result import Result, Tally, left_behind, result_of
from lastcall.drain.kubernetes.drain_run import REMEMBERED_SECONDS
from lastcall.drain.kubernetes.plan import Plan, plan
from lastcall.drain.kubernetes.pods import MARK_REASON, Disruption, Pod
from lastcall.drain.kubernetes.reply import Cause, Outcome, Reply

BEGAN_AT = 1000.0
OWN_UID = "own-uid"
UID = "1c4f2b6e-7a10-4d58-9c3b-0f6e5d4c3b2a"
"""Of the pod that :func:`told` makes."""

Answers = Callable[[Step, float], Reply]
"""The reply to a step at so many seconds after the drain began."""

OK = Reply(Outcome.OK, 201)
GONE = Reply(Outcome.GONE, 404, message="not found")
CONFLICT = Reply(Outcome.CONFLICT, 409, message="another UID")
BLOCKED = Reply(
    Outcome.BLOCKED,
    429,
    message="Cannot evict pod",
    causes=(Cause("DisruptionBudget", "The disruption budget db needs 1 healthy pods"),),
)
TWO_BUDGETS = Reply(Outcome.TWO_BUDGETS, 500, message="This pod has more than one budget")
THROTTLED = Reply(Outcome.THROTTLED, 429, message="Too many requests", retry_after_seconds=1.0)
NAMESPACE_TERMINATING = Reply(Outcome.NAMESPACE_TERMINATING, 403, message="being terminated")
FORBIDDEN = Reply(Outcome.FORBIDDEN, 403, message="pods is forbidden")
INVALID = Reply(Outcome.INVALID, 422, message="no such thing")
UNKNOWN = Reply(Outcome.UNKNOWN, 504, message="no answer within 3 s")
UNAUTHORIZED = Reply(Outcome.UNAUTHORIZED, 401, message="Unauthorized")


def a_pod(name: str = "web-1", **more: object) -> Pod:
    """Return a pod of a ReplicaSet with 30 s to end, unless told otherwise."""
    values: dict[str, object] = {
        "namespace": "apps",
        "name": name,
        "uid": f"uid-{name}",
        "node": "node-a",
        "owner": "ReplicaSet",
    }
    return Pod(**(values | more))  # type: ignore[arg-type]  # the tests name the fields


def cgroup_of(uid: str) -> str:
    """Return a control group of a pod whose UID is a real one."""
    return f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-1.scope"


GROUP = cgroup_of(UID)
OTHER_GROUP = GROUP.replace("cri-containerd-1", "cri-containerd-2")
"""Another container of the same pod."""


def trainer(name: str = "train-0", **more: object) -> Pod:
    """Return a training pod that is known by its accelerator."""
    return a_pod(name, owner="Job", uses_accelerator=True, **more)


def told(name: str = "train-0", **more: object) -> Pod:
    """Return a training pod that is known by its control group alone."""
    return a_pod(name, uid=UID, owner="Job", **more)


def refuses_evictions(reply: Reply) -> Answers:
    """Return a server that answers each eviction so, and grants all else."""
    return lambda step, at: reply if step.do is Do.EVICT else OK


def budget_until(seconds: float) -> Answers:
    """Return a server whose budget gives way after so many seconds."""
    return lambda step, at: BLOCKED if step.do is Do.EVICT and at < seconds else OK


def an_order(
    *,
    lead: float = 120.0,
    reserve: float = 10.0,
    training: Iterable[str] = (),
    waiting: Iterable[str] = (),
    name: str = "n-1",
) -> Drain:
    """Return an order from ``BEGAN_AT`` on; training and waiting are control groups."""
    deadline = BEGAN_AT + lead
    return Drain(
        id=name,
        kind=Kind.PREEMPTION,
        reason="spot",
        began_at=BEGAN_AT,
        flush_until=deadline - min(reserve, lead / 3),
        deadline=deadline,
        training=frozenset(training) | frozenset(waiting),
        waiting=frozenset(waiting),
    )


@dataclass(frozen=True)
class Call:
    """A call that was made, ``at`` seconds after the drain began."""

    at: float
    do: Do
    pod: str
    grace: int | None
    forced: bool


class Course:
    """The pods of a node, and a server whose answers a test decides.

    Args:
        pods: what is on the node.
        order: what is to be done.
        settings: how.
        answers: the reply to a step at so many seconds after the begin; all is granted by default.
        takes: how long a pod takes to end; never longer than its grace. ``None``: none ever does.
        cordoned_after: when the cordon was tried, seconds after the begin.
        is_listed: the pods are known.
        shows: whether the node's pods show what was accepted; ``False`` for a dead watch.
    """

    def __init__(
        self,
        *pods: Pod,
        order: Drain | None = None,
        settings: DrainSettings | None = None,
        answers: Answers = lambda step, at: OK,
        takes: float | None = 1.0,
        cordoned_after: float = 0.0,
        is_listed: bool = True,
        shows: bool = True,
    ) -> None:
        self.pods = {pod.uid: pod for pod in pods}
        self.order = order or an_order()
        self.settings = settings or DrainSettings()
        self.answers = answers
        self.takes = takes
        self.cordoned_after = cordoned_after
        self.is_listed = is_listed
        self.shows = shows
        self.now = BEGAN_AT
        self.calls: list[Call] = []
        self.reports: list[tuple[float, str, str]] = []
        self.details: dict[tuple[str, str], str] = {}
        self.ended_after: float | None = None
        self._pasts: dict[str, Past] = {}
        self._earlier: dict[str, Pod] = {}
        self._seen: set[str] = set()
        self._remembered: set[str] = set()
        self._tally = Tally()
        self._to_come: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    @property
    def aim(self) -> Aim:
        """What the order means."""
        return aim_of(self.order)

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen so many seconds after the begin."""
        heapq.heappush(self._to_come, (BEGAN_AT + seconds, next(self._numbers), happens))

    def change(self, name: str, **changes: object) -> None:
        """Change a pod, found by its name."""
        for pod in list(self.pods.values()):
            if pod.name == name:
                self.pods[pod.uid] = replace(pod, **changes)  # type: ignore[arg-type]  # as above

    def remove(self, uid: str) -> None:
        """Let a pod go."""
        self.pods.pop(uid, None)

    def plan(self) -> Plan:
        """Return the plan as of now."""
        return plan(self._view(), self._pasts)

    def run(self, until: float | None = None) -> Result:
        """Go on until the drain ends, or until so many seconds after its begin."""
        self.at(self.cordoned_after, lambda: None)
        for _ in range(20_000):
            while self._to_come and self._to_come[0][0] <= self.now:
                heapq.heappop(self._to_come)[2]()
            found = self._settled()
            if found.is_over:
                self.ended_after = self.now - BEGAN_AT
                for news in left_behind(found.outlooks, self._pasts):
                    self._report(news.pod, news.outcome, news.detail)
                return self.result()
            to_come = self._to_come[0][0] if self._to_come else found.look_at
            self.now = min(found.look_at, to_come)
            if until is not None and self.now > BEGAN_AT + until:
                self.now = BEGAN_AT + until
                return self.result()
        raise AssertionError("the plan never comes to rest")

    def result(self) -> Result:
        """Return what would be said now."""
        outlooks = self.plan().outlooks
        return result_of(outlooks, self._tally, is_listed=self.is_listed, list_trouble="no list")

    def made(self, do: Do | None = None, pod: str | None = None) -> list[Call]:
        """Return the calls that were made, of a kind, about a pod."""
        return [call for call in self.calls if do in (None, call.do) and pod in (None, call.pod)]

    def told(self, pod: str) -> list[str]:
        """Return what was reported of a pod."""
        return [outcome for _, name, outcome in self.reports if name == pod]

    def _view(self) -> View:
        cordoned_at = BEGAN_AT + self.cordoned_after
        return View(
            aim=self.aim,
            settings=self.settings,
            own_uid=OWN_UID,
            pods=self.pods if self.is_listed else {},
            now=self.now,
            is_cordoned=self.now >= cordoned_at,
            is_listed=self.is_listed,
            earlier=self._earlier,
            settled_at=self.aim.settled_at(cordoned_at, self.settings.settling_seconds),
            remembered=self._remembered,
            remembered_until=BEGAN_AT + REMEMBERED_SECONDS,
        )

    def _settled(self) -> Plan:
        """Carry out what is due until nothing is, and return the plan that is left."""
        for _ in range(50):
            for uid, pod in self.pods.items():
                if uid not in self._seen and pod.marked_by_us:
                    self._remembered.add(uid)
                self._seen.add(uid)
                if self._view().class_of(pod).leaves:
                    self._earlier[uid] = pod
            found = self.plan()
            for news in found.news:
                self._report(news.pod, news.outcome, news.detail)
            if not found.steps:
                return found
            for step in found.steps:
                self._carry_out(step)
        raise AssertionError(f"the same is done again and again: {self.calls[-3:]}")

    def _report(self, pod: Pod, outcome: str, detail: str) -> None:
        self._pasts[pod.uid] = self._pasts.get(pod.uid, NOTHING).saying(outcome)
        self.reports.append((self.now - BEGAN_AT, pod.name, outcome))
        self.details[pod.name, outcome] = detail

    def _carry_out(self, step: Step) -> None:
        pod, at = step.pod, self.now - BEGAN_AT
        self.calls.append(Call(at, step.do, pod.name, step.grace_seconds, step.forced))
        reply = self.answers(step, at)
        if reply.ok and step.do is Do.LOOK:
            reply = replace(reply, body=self._body(pod))
        lesson = learn(
            self._pasts.get(pod.uid, NOTHING),
            step,
            reply,
            aim=self.aim,
            may_force=self.settings.forces(self._view().class_of(pod)),
            now=self.now,
            spread=0.5,
        )
        self._pasts[pod.uid] = lesson.past
        if lesson.news is not None:
            self.reports.append((at, pod.name, lesson.news.outcome))
            self.details[pod.name, lesson.news.outcome] = lesson.news.detail
        if step.do in (Do.EVICT, Do.DELETE):
            self._tally = self._tally.counting(reply)
        if reply.ok and self.shows:
            self._take_effect(step)

    def _take_effect(self, step: Step) -> None:
        pod = self.pods.get(step.pod.uid)
        if pod is None or step.do is Do.LOOK:
            return
        if step.do is Do.MARK:
            self.pods[pod.uid] = replace(pod, disruption=Disruption(MARK_REASON, self.now))
            return
        grace = pod.grace_seconds if step.grace_seconds is None else step.grace_seconds
        running = pod.ending_grace_seconds
        if running is not None and running <= grace:
            return
        self.pods[pod.uid] = replace(pod, ends_at=self.now + grace, ending_grace_seconds=grace)
        if self.takes is not None and not pod.finalizers:
            self.at(self.now - BEGAN_AT + min(self.takes, grace), lambda: self.remove(pod.uid))

    def _body(self, pod: Pod) -> Mapping[str, object]:
        found = self.pods.get(pod.uid)
        ending = {"deletionTimestamp": "x"} if found and found.ends_at is not None else {}
        return {"metadata": {"uid": pod.uid, **ending}}
