"""What each kind of rule on a sampled signal makes of one look at a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from lastcall.core.gpu.answers import Answer, action_answer
from lastcall.core.gpu.belief import Past
from lastcall.core.gpu.links import expected_links, fabric_troubles, replays_a_minute
from lastcall.core.gpu.model import Look
from lastcall.core.gpu.signal_rules import Check, SignalRule, Throttle

BUSY_RATIO = 0.5
"""From this utilization on a GPU is at work, and its PCIe link is at what it can be."""

_SAMPLES = 12
"""So many samples are kept over the time that growth is taken over."""

_FABRIC_COMPLETED = 3
_FABRIC_ON_THE_WAY = (1, 2)

_THROTTLES = {
    Throttle.HW_SLOWDOWN: "hardware slowdown",
    Throttle.SW_THERMAL: "heat, by software",
    Throttle.HW_THERMAL: "heat, by hardware",
    Throttle.POWER_BRAKE: "power brake",
}


class Case(NamedTuple):
    """One rule, one look, and what else there is to know.

    Attributes:
        rule: the rule.
        look: the look.
        past: what earlier looks said to the rule.
        gpus: how many GPUs the node has.
        known: figures of this look and earlier ones, of those that are read seldom.
    """

    rule: SignalRule
    look: Look
    past: Past
    gpus: int
    known: Mapping[str, float]

    @property
    def figure(self) -> float | None:
        """What the rule reads, added up; ``None`` where the look did not read all of it."""
        values = self.look.values
        if any(name not in values for name in self.rule.reads):
            return None
        figure = sum(values[name] for name in self.rule.reads)
        return figure if math.isfinite(figure) else None

    @property
    def limit(self) -> float:
        """The rule's limit, infinite where it has none."""
        return math.inf if self.rule.limit is None else self.rule.limit

    @property
    def expected_links(self) -> float:
        """How many NVLinks the GPU should have active."""
        return expected_links(self.look.gpu.name, self.gpus, self.known)


class Checked(NamedTuple):
    """What a rule makes of one look.

    Attributes:
        holds: whether it holds.
        past: what it is to know at the next look.
        figure: the figure to be told.
        text: further words.
        answer: what the driver's own word makes of the GPU, where the rule reads one.
        counted: the rule has looked at enough of the past itself.
        informed: enough of the past is known to say that it does not hold.
    """

    holds: bool
    past: Past
    figure: float = 0.0
    text: str = ""
    answer: Answer | None = None
    counted: bool = False
    informed: bool = True


def _at_least(case: Case) -> Checked | None:
    figure = case.figure
    return None if figure is None else Checked(figure >= case.limit, case.past, figure)


def _near_zero(case: Case) -> Checked | None:
    figure = case.figure
    return None if figure is None else Checked(0 < figure <= case.limit, case.past, figure)


def _bits(case: Case) -> Checked | None:
    figure = case.figure
    if figure is None:
        return None
    rule, past = case.rule, case.past
    found = int(figure) & int(rule.limit or 0)
    minute = int(case.look.at // 60)
    minutes = tuple(each for each in past.minutes if minute - rule.looks < each <= minute)
    if found and minute not in minutes:
        minutes = (*minutes, minute)
    names = ", ".join(name for bit, name in _THROTTLES.items() if found & bit)
    holds = len(minutes) >= rule.hits
    since = case.look.at if past.since is None else past.since
    return Checked(
        holds,
        replace(past, minutes=minutes, since=since),
        len(minutes),
        names or f"{found:#x}",
        counted=True,
        informed=case.look.at - since >= rule.looks * 60.0,
    )


def _growth(case: Case, figure: float) -> tuple[float, float, Past]:
    """Return by how much a counter grew, in how many seconds, and what to know next time."""
    at, window_seconds, samples = case.look.at, case.rule.window_seconds, case.past.samples
    if samples and (figure < samples[-1][1] or at < samples[-1][0]):
        samples = ()  # the counter began anew
    while len(samples) > 1 and samples[1][0] <= at - window_seconds:
        samples = samples[1:]
    if not samples or at - samples[-1][0] >= window_seconds / _SAMPLES:
        samples = (*samples, (at, figure))
    began, base = samples[0]
    return figure - base, at - began, replace(case.past, samples=samples)


def _a_minute(case: Case, limit: float | None) -> Checked | None:
    figure = case.figure
    if figure is None:
        return None
    grown, seconds, after = _growth(case, figure)
    rate = grown * 60.0 / max(seconds, case.rule.window_seconds)
    informed = seconds >= case.rule.window_seconds
    return Checked(limit is not None and rate > limit, after, rate, informed=informed)


def _rate(case: Case) -> Checked | None:
    return _a_minute(case, case.rule.limit)


def _link_rate(case: Case) -> Checked | None:
    limit = case.rule.limit
    return _a_minute(case, replays_a_minute(case.known) if limit is None else limit)


def _grown(case: Case) -> Checked | None:
    figure = case.figure
    if figure is None:
        return None
    grown, seconds, after = _growth(case, figure)
    holds = grown >= case.limit and figure > case.rule.above
    return Checked(holds, after, grown, informed=seconds >= case.rule.window_seconds)


def _below(case: Case) -> Checked | None:
    now, most = case.rule.reads
    figure, full = case.look.values.get(now), case.known.get(most)
    if figure is None or full is None:
        return None
    if case.look.values.get("utilization_ratio", 0.0) < BUSY_RATIO:
        return None
    return Checked(figure < full * case.limit, case.past, figure)


def _links(case: Case) -> Checked | None:
    active = case.figure
    if active is None or case.known.get("mig"):
        return None
    best = max(case.past.best, active)
    expected = max(best, case.expected_links)
    first = active if case.past.first is None else case.past.first
    after = replace(case.past, best=best, first=first)
    # As many as were active before may be those that were left.
    informed = active >= case.known.get("nvlink_present", math.inf) or active > first
    return Checked(
        active < expected,
        after,
        expected - active,
        f"{expected:.0f}",
        informed=informed,
    )


def _fabric_wait(case: Case) -> Checked | None:
    state = case.figure
    if state is None:
        return None
    if state not in _FABRIC_ON_THE_WAY or not case.expected_links:
        return Checked(False, replace(case.past, since=None))
    since = case.look.at if case.past.since is None else case.past.since
    seconds = case.look.at - since
    return Checked(seconds >= case.limit, replace(case.past, since=since), seconds, informed=False)


def _fabric_status(case: Case) -> Checked | None:
    status, state = case.figure, case.look.values.get("fabric_state")
    if status is None or state is None:
        return None
    return Checked(state == _FABRIC_COMPLETED and status != 0, case.past, status)


def _fabric_health(case: Case) -> Checked | None:
    values = case.look.values
    if not any(name in values for name in case.rule.reads):
        return None
    if values.get("fabric_state", _FABRIC_COMPLETED) != _FABRIC_COMPLETED:
        return Checked(False, case.past)
    troubles = fabric_troubles(
        int(values.get("fabric_mask", 0)), int(values.get("fabric_summary", 0))
    )
    return Checked(bool(troubles), case.past, text=", ".join(troubles))


def _action(case: Case) -> Checked | None:
    action = case.figure
    if action is None:
        return None
    answer = action_answer(int(action))
    if answer is None:
        return Checked(False, case.past)
    return Checked(True, case.past, action, f"{answer.words} ({action:.0f})", answer)


def _code(case: Case) -> Checked | None:
    at, since = case.look.at, case.past.since
    if any(case.look.codes.get(name) == case.limit for name in case.rule.reads):
        return Checked(True, replace(case.past, since=at))
    if since is None:
        return None
    # A call that answers so is not made at every look.
    return Checked(at - since <= case.rule.window_seconds, case.past)


CHECKS: Mapping[Check, Callable[[Case], Checked | None]] = {
    Check.AT_LEAST: _at_least,
    Check.NEAR_ZERO: _near_zero,
    Check.BITS: _bits,
    Check.RATE: _rate,
    Check.LINK_RATE: _link_rate,
    Check.GROWTH: _grown,
    Check.BELOW: _below,
    Check.LINKS: _links,
    Check.FABRIC_WAIT: _fabric_wait,
    Check.FABRIC_STATUS: _fabric_status,
    Check.FABRIC_HEALTH: _fabric_health,
    Check.ACTION: _action,
    Check.CODE: _code,
}
"""By kind of rule: returns ``None`` where a look does not say anything to it."""
