"""What becomes of the XIDs of one number on one GPU: one decision a burst.

Where the driver can still be asked, an XID that calls for a reset or a reboot waits a moment for
the next look, and what the recovery action says then is stronger than the number.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lastcall.core.gpu.answers import action_answer
from lastcall.core.gpu.belief import GOOD_LOOKS, QUIET_SECONDS, Run, XidSign
from lastcall.core.gpu.model import EFFORT, Health, Mark, Recovery, XidSeen
from lastcall.core.gpu.xid_lines import FATAL, NONFATAL, new_action, severity
from lastcall.core.gpu.xids import Respond, XidRule

ASK_SECONDS = 1.0
"""How long an XID waits for the next look at its GPU."""

SAME_SECONDS = 1.0
"""The same XID again within this time changes nothing, where the number of it does not matter."""

_RUNS = 20
"""Into so many parts is the time divided in which repeats are counted."""

_TEXT_CHARACTERS = 200

_STRENGTH = ("", NONFATAL, FATAL)

_RECOVERY = {Respond.RESET: Recovery.RESET, Respond.REBOOT: Recovery.REBOOT}


def is_repetition(sign: XidSign, seen: XidSeen, rule: XidRule) -> bool:
    """Whether an XID says nothing that is not known, and need not be taken in."""
    return (
        not rule.then
        and not rule.tells_action
        and not seen.past
        and not sign.past
        and 0 <= seen.at - sign.last_at < SAME_SECONDS
        and (not seen.text or severity(seen.text) in ("", sign.word))
    )


def hear(sign: XidSign | None, seen: XidSeen, rule: XidRule, *, can_ask: bool) -> XidSign:
    """Take in an XID.

    Args:
        sign: what is known of this number on this GPU.
        seen: the XID.
        rule: how it is taken.
        can_ask: the GPU answers, and its recovery action can be read.
    """
    if sign is None:
        sign = XidSign(number=seen.xid, first_at=seen.at, last_at=seen.at, past=seen.past)
    if seen.past and not sign.past:
        return sign  # what is known of now is newer
    waits_until = None if sign.past else sign.waits_until
    if seen.past:
        waits_until = math.inf  # the next good look decides, whenever that is
    sign = replace(
        sign,
        last_at=max(sign.last_at, seen.at),
        runs=_counted(sign.runs, seen, rule) if rule.then else (),
        word=max(sign.word, severity(seen.text), key=_STRENGTH.index),
        text=_text(sign, seen, rule),
        past=seen.past,
        waits_until=waits_until,
        good=0,
    )
    if seen.past:
        return sign
    return _decide(sign, seen.at, rule, can_ask=can_ask)


def look(
    sign: XidSign,
    rule: XidRule,
    at: float,
    *,
    answers: bool,
    action: int | None,
    counts: bool,
) -> XidSign | None:
    """Hold what is known against a look at the GPU.

    Args:
        sign: what is known of the number.
        rule: how it is taken.
        at: when the look was.
        answers: the GPU answered.
        action: the recovery action that this look read; ``None``: it could not be read.
        counts: the look is one more of those that must speak against a mark.

    Returns:
        What is known then; ``None`` where it matters no more.
    """
    if sign.waits_until is not None:
        return _waited(sign, rule, at, action if answers else None, answers=answers)
    if sign.mark is None:
        is_spent = at - sign.last_at > max(rule.within_seconds, QUIET_SECONDS)
        return None if is_spent else sign
    if not answers:
        return replace(sign, good=0) if sign.good else sign
    return _age(sign, sign.mark, rule, at, action, counts=counts)


def by_table(sign: XidSign, rule: XidRule) -> XidSign:
    """Decide by the number alone: the driver cannot be asked, or did not answer in time."""
    respond = _respond(sign, rule)
    if respond is Respond.ASK:
        action = new_action(sign.text) if rule.tells_action else None
        if action is not None:
            return _by_action(replace(sign, mark=None), rule, action)
        respond = Respond.WATCH
    return _stand(sign, rule, respond)


def _waited(
    sign: XidSign, rule: XidRule, at: float, action: int | None, *, answers: bool
) -> XidSign | None:
    """Decide by the look that was waited for."""
    if at < sign.asked_at:
        return sign
    if sign.past:
        return _decide_past(sign, rule, at, action) if answers else sign
    if action is None:
        return by_table(sign, rule)
    if rule.tells_action:
        return replace(sign, waits_until=None, mark=None)  # the action itself was read
    return _by_action(sign, rule, action)


def _decide(sign: XidSign, at: float, rule: XidRule, *, can_ask: bool) -> XidSign:
    respond = _respond(sign, rule)
    if respond in (Respond.IGNORE, Respond.APP):
        return sign
    if respond is Respond.WATCH:
        return sign if sign.mark is not None else _stand(sign, rule, respond)
    if sign.mark is not None and sign.mark.health is Health.FAULTY and not rule.tells_action:
        wanted = _RECOVERY.get(respond, Recovery.NONE)
        if EFFORT.index(wanted) <= EFFORT.index(sign.mark.recovery) or sign.by_action:
            return sign
    is_certain = rule.alone or (sign.word == FATAL and rule.respond is Respond.ASK)
    if is_certain or not can_ask:
        return by_table(sign, rule)
    if sign.waits_until is not None:
        return sign
    return replace(sign, asked_at=at, waits_until=at + ASK_SECONDS)


def _respond(sign: XidSign, rule: XidRule) -> Respond:
    respond = rule.after(_count(sign.runs))
    if respond is Respond.ASK and sign.word == FATAL:
        return Respond.RESET
    if respond is Respond.ASK and sign.word == NONFATAL:
        return Respond.WATCH
    return respond


def _stand(sign: XidSign, rule: XidRule, respond: Respond) -> XidSign:
    """Return the sign with the mark that an answer calls for, where it has none as bad."""
    sign = replace(sign, waits_until=None)
    if respond in (Respond.IGNORE, Respond.APP):
        return sign
    recovery = _RECOVERY.get(respond, Recovery.NONE)
    health = Health.FAULTY if respond in _RECOVERY else Health.DEGRADED
    if health is Health.DEGRADED and sign.mark is not None:
        return sign
    return replace(sign, mark=_mark(sign, rule, health, recovery), by_action=False)


def _by_action(sign: XidSign, rule: XidRule, action: int) -> XidSign:
    answer = action_answer(action)
    if answer is None:
        return _stand(sign, rule, Respond.IGNORE if rule.tells_action else Respond.WATCH)
    mark = _mark(sign, rule, answer.health, answer.recovery)
    return replace(sign, waits_until=None, mark=mark, by_action=True)


def _decide_past(sign: XidSign, rule: XidRule, at: float, action: int | None) -> XidSign | None:
    """Decide about what came before the watch began: the GPU may have been reset since."""
    respond = _respond(sign, rule)
    is_fresh = at - sign.last_at < QUIET_SECONDS
    sign = replace(sign, past=False, first_at=min(sign.first_at, at))
    if rule.tells_action and action is not None:
        return None  # the action itself was read
    if respond in (Respond.IGNORE, Respond.APP):
        return replace(sign, waits_until=None) if is_fresh else None
    if action:
        return _by_action(sign, rule, action)
    if is_fresh:
        return by_table(sign, rule) if action is None else _stand(sign, rule, Respond.WATCH)
    if action == 0 or respond not in _RECOVERY:
        return None
    # Nobody can say, so it is neither healthy nor worth a node.
    mark = _mark(sign, rule, Health.DEGRADED, _RECOVERY[respond])
    return replace(sign, waits_until=None, mark=mark)


def _age(
    sign: XidSign, mark: Mark, rule: XidRule, at: float, action: int | None, *, counts: bool
) -> XidSign | None:
    needs_recovery = mark.recovery is not Recovery.NONE
    if action is None and needs_recovery:
        return sign  # only a reset, a reboot or an operator ends this
    if action:
        return _follow(sign, mark, rule, action)
    if needs_recovery and rule.firm:
        return sign
    sign = replace(sign, good=min(sign.good + counts, GOOD_LOOKS))
    if sign.good < GOOD_LOOKS:
        return sign
    if needs_recovery:
        weaker = _mark(sign, rule, Health.DEGRADED, Recovery.NONE)
        sign = replace(sign, mark=weaker, by_action=False)
    return sign if at - sign.last_at < QUIET_SECONDS else None


def _follow(sign: XidSign, mark: Mark, rule: XidRule, action: int) -> XidSign:
    answer = action_answer(action)
    if answer is None or not sign.by_action:
        return replace(sign, good=0) if sign.good else sign
    if (mark.health, mark.recovery) != (answer.health, answer.recovery):
        mark = _mark(sign, rule, answer.health, answer.recovery)
    return replace(sign, mark=mark, good=0)


def _mark(sign: XidSign, rule: XidRule, health: Health, recovery: Recovery) -> Mark:
    number = sign.number
    words = f"XID {number}: {rule.meaning}"
    return Mark(
        reason=f"xid_{number}",
        health=health,
        recovery=recovery,
        detail=f"{words} ({sign.text})" if sign.text else words,
        since=sign.first_at,
        xid=number,
        lost=rule.lost and health is Health.FAULTY,
    )


def _text(sign: XidSign, seen: XidSeen, rule: XidRule) -> str:
    texts = (seen.text, sign.text) if rule.tells_action else (sign.text, seen.text)
    return (texts[0] or texts[1])[:_TEXT_CHARACTERS]


def _counted(runs: tuple[Run, ...], seen: XidSeen, rule: XidRule) -> tuple[Run, ...]:
    """Return how many came when; those close together are counted as of the first of them."""
    is_kernel = bool(seen.text)
    kept = [run for run in runs if seen.at - run.at <= rule.within_seconds]
    for place, run in enumerate(kept):
        near = abs(seen.at - run.at) < rule.within_seconds / _RUNS
        if run.is_kernel == is_kernel and near:
            kept[place] = run._replace(xids=run.xids + seen.count)
            return tuple(kept)
    return (*kept, Run(seen.at, seen.count, is_kernel))[-4 * _RUNS :]


def _count(runs: tuple[Run, ...]) -> int:
    """Return how many there were: NVML and the kernel's log report the same, and neither all."""
    return max(
        sum(run.xids for run in runs if run.is_kernel is is_kernel) for is_kernel in (True, False)
    )
