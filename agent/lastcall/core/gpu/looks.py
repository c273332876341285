"""What one look at a GPU changes in what is known of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from lastcall.core.gpu import xid_signs
from lastcall.core.gpu.answers import CODES, Answer
from lastcall.core.gpu.belief import GOOD_LOOKS, GpuBelief, Standing
from lastcall.core.gpu.codes import NO_PERMISSION, UNCLEAR, UNSUPPORTED
from lastcall.core.gpu.model import Gpu, Look, Mark
from lastcall.core.gpu.rules import Rules
from lastcall.core.gpu.signal_rules import SignalRule
from lastcall.core.gpu.signals import sample

HANGS = "driver_unresponsive"
"""The reason of a GPU that a call hangs on; its first good answer ends it."""

_SELDOM = (
    "pcie_generation",
    "pcie_generation_max",
    "pcie_width",
    "pcie_width_max",
    "nvlink_present",
    "mig",
    "fabric_state",
)
"""Figures that other signals are judged by, and that not every look reads."""

_EARLY_RATIO = 0.8
"""Looks come a little early or late, and one that comes sooner than this is one on top."""


def look_at(belief: GpuBelief, look: Look, rules: Rules, *, gpus: int, quiet: bool) -> GpuBelief:
    """Return what is known after a look.

    Args:
        belief: what was known.
        look: the look.
        rules: the rules.
        gpus: how many GPUs the node has.
        quiet: errors that ended processes cause say nothing now.
    """
    look = _sound(look)
    code = _code(look)
    if code == 0 and look.is_empty:
        return _unanswered(belief, look)
    answer = CODES.get(code)
    may_pass = answer is not None and answer.in_a_row > 1
    counts = _counts(belief, look.at, rules.look_seconds)
    belief = replace(
        belief,
        gpu=_gpu(belief, look),
        answers=code == 0 or (belief.answers and may_pass),
        unclear=belief.unclear + counts if may_pass else 0,
        counted_at=look.at if counts else belief.counted_at,
    )
    if code:
        belief = replace(belief, action_is_new=False, codes=_refused(belief, look, code))
    else:
        belief = _read(belief, look, rules.signals, gpus=gpus, quiet=quiet, counts=counts)
    return _with_xids(belief, look, rules, answers=code == 0, counts=counts)


def _counts(belief: GpuBelief, at: float, look_seconds: float) -> bool:
    """Whether a look is one more of those that rules count.

    Errors bring looks forward, so that many come within a second, and they all see the same.
    """
    return not 0 <= at - belief.counted_at < look_seconds * _EARLY_RATIO


def _sound(look: Look) -> Look:
    """Return the look without figures that are none."""
    if all(math.isfinite(value) for value in look.values.values()):
        return look
    finite = {name: value for name, value in look.values.items() if math.isfinite(value)}
    return replace(look, values=finite)


def _code(look: Look) -> int:
    """Return the code that says something of the GPU itself.

    An unclear one says so only where nothing could be read: one call alone may fail with it for
    ever (distributed issue 5342).
    """
    if look.code in UNCLEAR and not look.is_empty:
        return 0
    return look.code


def _refused(belief: GpuBelief, look: Look, code: int) -> Mapping[str, Standing]:
    codes = {reason: Standing(standing.mark) for reason, standing in belief.codes.items()}
    answer = CODES.get(code)
    if answer is None or answer.reason in codes:
        return codes
    if answer.in_a_row > 1 and belief.unclear < answer.in_a_row:
        return codes
    words = f"{answer.words}: {look.call or 'a call'} answered {code}"
    return {**codes, answer.reason: Standing(_mark(answer, words, look.at))}


def _unanswered(belief: GpuBelief, look: Look) -> GpuBelief:
    """Return what is known after a look that could not read anything: nothing for or against."""
    codes = belief.codes
    answer = CODES[NO_PERMISSION]
    if answer.reason not in codes and _is_not_permitted(look):
        words = f"{answer.words}: its calls answered {NO_PERMISSION}"
        codes = {**codes, answer.reason: Standing(_mark(answer, words, look.at))}
    return replace(belief, gpu=_gpu(belief, look), answers=False, action_is_new=False, codes=codes)


def _is_not_permitted(look: Look) -> bool:
    """Whether most of what the GPU has may not be read."""
    refused = [code for code in look.codes.values() if code not in UNSUPPORTED]
    return refused.count(NO_PERMISSION) * 2 > len(refused)


def _gpu(belief: GpuBelief, look: Look) -> Gpu:
    return look.gpu if look.gpu.name else replace(look.gpu, name=belief.gpu.name)


def _mark(answer: Answer, words: str, at: float) -> Mark:
    return Mark(
        reason=answer.reason,
        health=answer.health,
        recovery=answer.recovery,
        detail=words,
        since=at,
        lost=answer.lost,
    )


def _read(
    belief: GpuBelief,
    look: Look,
    rules: tuple[SignalRule, ...],
    *,
    gpus: int,
    quiet: bool,
    counts: bool,
) -> GpuBelief:
    values = look.values
    action = belief.action
    if "recovery_action" in values:
        action = int(values["recovery_action"])
    elif look.codes.get("recovery_action") in UNSUPPORTED:
        action = None
    seldom = {name: values[name] for name in _SELDOM if name in values}
    belief = replace(
        belief,
        action=action,
        action_is_new="recovery_action" in values,
        known={**belief.known, **seldom} if seldom else belief.known,
    )
    sampled = sample(belief, look, rules, gpus=gpus, quiet=quiet, counts=counts)
    return replace(
        belief,
        signals=sampled.signals,
        pasts=sampled.pasts,
        codes=_answered(belief.codes, action, counts=counts),
    )


def _answered(
    codes: Mapping[str, Standing], action: int | None, *, counts: bool
) -> Mapping[str, Standing]:
    """Return what stands of refusals after a good answer.

    While the driver wants a recovery, that a call works says nothing (HAMi pull request 2213).
    """
    after: dict[str, Standing] = {}
    for reason, standing in codes.items():
        good = 0 if action else standing.good + counts
        if reason != HANGS and good < GOOD_LOOKS:
            after[reason] = replace(standing, good=good)
    return after


def _with_xids(
    belief: GpuBelief, look: Look, rules: Rules, *, answers: bool, counts: bool
) -> GpuBelief:
    if not belief.xids:
        return belief
    action = belief.action if belief.action_is_new else None
    xids = {
        number: after
        for number, sign in belief.xids.items()
        if (
            after := xid_signs.look(
                sign,
                rules.xid(number),
                look.at,
                answers=answers,
                action=action,
                counts=counts,
            )
        )
        is not None
    }
    return replace(belief, xids=xids)
