"""What a drain does now: from the pods, the order, what was done and the time to the next calls.

Nothing here waits, asks a clock or speaks to the server. A plan is derived from what is known each
time anew; only what the pods do not show is remembered (:class:`Past`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastcall.drain.kubernetes.drain_outlook import Outlook, State, View, outlook
from lastcall.drain.kubernetes.drain_past import NOTHING, Do, News, Past, Step
from lastcall.drain.kubernetes.pods import PodClass


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now.

    Attributes:
        outlooks: where each pod stands, also those that have left.
        steps: the calls to make now, the most urgent first.
        news: what is to be reported.
        look_at: when to plan again, if nothing changes before.
        is_over: nothing is left to do or to wait for.
    """

    outlooks: tuple[Outlook, ...]
    steps: tuple[Step, ...]
    news: tuple[News, ...]
    look_at: float
    is_over: bool


def plan(view: View, pasts: Mapping[str, Past]) -> Plan:
    """Return what to do now."""
    outlooks = [outlook(pod, pasts.get(uid, NOTHING), view) for uid, pod in view.pods.items()]
    for uid, pod in view.earlier.items():
        if uid not in view.pods:
            outlooks.append(Outlook(pod, view.class_of(pod), State.GONE))
    steps = [one.step for one in outlooks if one.step is not None]
    steps.sort(key=lambda step: (step.do is not Do.MARK, -step.pod.grace_seconds))
    due = (one.look_at for one in outlooks)
    turns = (view.aim.over_at, view.aim.end_at, view.settled_at, view.remembered_until)
    times = [at for at in (*turns, *due) if at > view.now]
    return Plan(
        outlooks=tuple(outlooks),
        steps=tuple(steps),
        news=tuple(_news(outlooks, pasts)),
        look_at=min(times, default=view.now),
        is_over=_is_over(outlooks, view),
    )


def _news(outlooks: list[Outlook], pasts: Mapping[str, Past]) -> list[News]:
    """Return what the pods show that was not reported: who has left, who was heard after all."""
    news = []
    for one in outlooks:
        past = pasts.get(one.pod.uid, NOTHING)
        if past.leave_is_said:
            continue
        if one.state is State.GONE:
            news.append(News(one.pod, "gone", _how_it_went(one, past)))
        elif one.state in (State.LEAVING, State.STUCK) and past.asked and past.unanswered:
            outcome = "forced" if past.asked_by is Do.DELETE else "evicted"
            news.append(News(one.pod, outcome, f"seen to end, though {past.trouble}"))
    return news


def _how_it_went(one: Outlook, past: Past) -> str:
    if one.pod_class is PodClass.FINISHED:
        return "it has finished by itself"
    return "another has ended it" if one.pod.ends_at is not None and not past.asked else ""


def _is_over(outlooks: list[Outlook], view: View) -> bool:
    if view.now >= view.aim.end_at:
        return True
    if not (view.is_listed and view.is_cordoned and view.now >= view.settled_at):
        return False
    return all(one.state.is_off or one.state is State.STUCK for one in outlooks)
