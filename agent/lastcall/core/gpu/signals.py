"""Holds one look at a GPU against the rules on sampled signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from lastcall.core.gpu.belief import GOOD_LOOKS, GpuBelief, Past, Standing
from lastcall.core.gpu.checks import CHECKS, Case, Checked
from lastcall.core.gpu.codes import UNREADABLE
from lastcall.core.gpu.model import SEVERITY, Health, Look, Mark, Recovery
from lastcall.core.gpu.signal_rules import SignalRule

_NO_PAST = Past()

_Item = TypeVar("_Item")


class Sampled(NamedTuple):
    """What came of a look: the marks that stand, and what the rules are to know next time."""

    signals: Mapping[str, Standing]
    pasts: Mapping[str, Past]


def sample(
    belief: GpuBelief,
    look: Look,
    rules: tuple[SignalRule, ...],
    *,
    gpus: int,
    quiet: bool,
    counts: bool,
) -> Sampled:
    """Hold a look against the rules.

    Args:
        belief: what is known of the GPU; its recovery action is that of this look.
        look: the look, whose figures are all finite.
        rules: the rules.
        gpus: how many GPUs the node has.
        quiet: errors that ended processes cause say nothing now.
        counts: the look is one more of those that are counted.
    """
    signals, pasts = dict(belief.signals), dict(belief.pasts)
    for rule in rules:
        past = pasts.get(rule.name, _NO_PAST)
        checked = CHECKS[rule.check](Case(rule, look, past, gpus, belief.known))
        before = signals.get(rule.name)
        if checked is None:
            if before is not None and counts and _is_unreadable(rule, look):
                # Nothing would ever end it.
                _put(signals, rule.name, _spoken_against(before))
            continue
        if quiet and rule.noisy:
            # What happens meanwhile is not to be held against it afterwards either.
            pasts.pop(rule.name, None)
            continue
        holds, after = _often_enough(rule, checked, past, counts=counts)
        _put(pasts, rule.name, None if after == _NO_PAST else after)
        if holds:
            _put(signals, rule.name, _standing(before, _mark(belief, rule, checked, look.at)))
        elif before is not None and checked.holds:
            signals[rule.name] = replace(before, good=0)
        elif before is not None and counts and (checked.informed or not before.recalled):
            _put(signals, rule.name, _spoken_against(before))
    return Sampled(signals, pasts)


def _put(items: dict[str, _Item], name: str, item: _Item | None) -> None:
    if item is None:
        items.pop(name, None)
    else:
        items[name] = item


def _often_enough(
    rule: SignalRule, checked: Checked, past: Past, *, counts: bool
) -> tuple[bool, Past]:
    if checked.counted or rule.looks == 1:
        return checked.holds, checked.past
    recent = (*past.recent, checked.holds)[-rule.looks :] if counts else past.recent
    return sum(recent) >= rule.hits, replace(checked.past, recent=recent)


def _standing(before: Standing | None, mark: Mark | None) -> Standing | None:
    if before is None or mark is None:
        return None if mark is None else Standing(mark)
    old = before.mark
    if (old.reason, old.health, old.recovery) == (mark.reason, mark.health, mark.recovery):
        return Standing(old) if before.good else before
    return Standing(replace(mark, since=old.since))


def _is_unreadable(rule: SignalRule, look: Look) -> bool:
    return any(look.codes.get(name) in UNREADABLE for name in rule.reads)


def _spoken_against(standing: Standing) -> Standing | None:
    good = standing.good + 1
    return replace(standing, good=good) if good < GOOD_LOOKS else None


def _mark(belief: GpuBelief, rule: SignalRule, checked: Checked, at: float) -> Mark | None:
    health = rule.health
    if health is None:
        return None
    recovery = rule.recovery
    reason = rule.name
    if checked.answer is not None:
        health = min(health, checked.answer.health, key=SEVERITY.index)
        recovery, reason = checked.answer.recovery, checked.answer.reason
    elif rule.yields and belief.action == 0 and health is Health.FAULTY:
        health, recovery = Health.DEGRADED, Recovery.RESET_WHEN_IDLE
    words = rule.words.format(figure=checked.figure, text=checked.text)
    return Mark(reason=reason, health=health, recovery=recovery, detail=words, since=at)
