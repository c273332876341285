"""All rules by which GPUs are judged: those built in, changed as a site wishes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lastcall.core.gpu.model import Health, Recovery
from lastcall.core.gpu.signal_rules import SIGNALS, SignalRule
from lastcall.core.gpu.xids import UNLISTED, XIDS, Respond, XidRule

_HEALTH: Mapping[str, Health | None] = {
    "ignore": None,
    "degraded": Health.DEGRADED,
    "faulty": Health.FAULTY,
}


@dataclass(frozen=True, slots=True)
class XidOverride:
    """How a site wants one XID taken.

    Attributes:
        xid: its number.
        respond: a word of :class:`~lastcall.core.gpu.xids.Respond`.
        repeats: how many of it, in ``within_seconds``, say so.
        within_seconds: the time in which repeats are counted.
    """

    xid: int
    respond: str
    repeats: int = 1
    within_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class SignalOverride:
    """How a site wants one signal judged; what is ``None`` stays as built in.

    Attributes:
        name: the rule's.
        respond: ``ignore``, ``degraded`` or ``faulty``.
        limit: the figure from which on it holds.
        hits: how many of the last ``looks`` must say so.
        looks: how many looks are considered.
    """

    name: str
    respond: str | None = None
    limit: float | None = None
    hits: int | None = None
    looks: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules by which GPUs are judged.

    Attributes:
        xids: by number.
        signals: in the order in which they are judged.
        expected: how many GPUs there should be; 0: as many as stand on the PCI bus.
        look_seconds: time between two looks at a GPU; what comes much sooner after another is not
            counted as one more.
    """

    xids: Mapping[int, XidRule] = field(default_factory=lambda: XIDS)
    signals: tuple[SignalRule, ...] = SIGNALS
    expected: int = 0
    look_seconds: float = 5.0

    def xid(self, number: int) -> XidRule:
        """Return how an XID is taken; what the table does not list is worth an eye."""
        return self.xids.get(number, UNLISTED)


def make_rules(
    xids: Iterable[XidOverride] = (),
    signals: Iterable[SignalOverride] = (),
    *,
    expected: int = 0,
    look_seconds: float = 5.0,
) -> Rules:
    """Return the built-in rules as a site changes them.

    Args:
        xids: what it changes of XIDs.
        signals: what it changes of signals.
        expected: how many GPUs there should be; 0: as many as stand on the PCI bus.
        look_seconds: time between two looks at a GPU.

    Raises:
        ValueError: an override names no rule, or asks for what cannot be; its text is one line.
    """
    by_number = dict(XIDS)
    for xid in xids:
        by_number[xid.xid] = _changed_xid(xid)
    by_name = {rule.name: rule for rule in SIGNALS}
    for signal in signals:
        by_name[signal.name] = _changed_signal(signal, by_name)
    return Rules(by_number, tuple(by_name.values()), expected, look_seconds)


def _changed_xid(change: XidOverride) -> XidRule:
    try:
        respond = Respond(change.respond)
    except ValueError:
        known = ", ".join(Respond)
        raise ValueError(f"XID {change.xid}: {change.respond!r} is none of {known}") from None
    if change.repeats < 1:
        raise ValueError(f"XID {change.xid}: repeats is {change.repeats}, but must be at least 1")
    if not 0 < change.within_seconds < math.inf:
        raise ValueError(f"XID {change.xid}: within_seconds is {change.within_seconds}")
    built_in = XIDS.get(change.xid, UNLISTED)
    is_fault = respond in (Respond.RESET, Respond.REBOOT)
    repeated = change.repeats > 1
    return replace(
        built_in,
        respond=Respond.APP if repeated else respond,
        repeats=change.repeats,
        within_seconds=change.within_seconds,
        then=respond if repeated else None,
        # Who wants the driver asked says "ask".
        alone=is_fault,
        firm=is_fault,
    )


def _changed_signal(change: SignalOverride, rules: Mapping[str, SignalRule]) -> SignalRule:
    rule = rules.get(change.name)
    if rule is None:
        raise ValueError(f"no rule {change.name!r}; there are {', '.join(rules)}")
    if change.respond is not None:
        rule = _responding(rule, change.respond)
    if change.limit is not None:
        if not math.isfinite(change.limit):
            raise ValueError(f"rule {rule.name!r}: limit is {change.limit}")
        rule = replace(rule, limit=change.limit)
    hits = rule.hits if change.hits is None else change.hits
    looks = rule.looks if change.looks is None else change.looks
    if not 1 <= hits <= looks:
        raise ValueError(
            f"rule {rule.name!r}: hits is {hits}, but must be from 1 to looks, which is {looks}"
        )
    return replace(rule, hits=hits, looks=looks)


def _responding(rule: SignalRule, respond: str) -> SignalRule:
    if respond not in _HEALTH:
        raise ValueError(f"rule {rule.name!r}: {respond!r} is none of {', '.join(_HEALTH)}")
    health = _HEALTH[respond]
    recovery = rule.recovery
    if health is Health.FAULTY and recovery is Recovery.RESET_WHEN_IDLE:
        recovery = Recovery.RESET
    # What a site calls a fault is one, whatever the driver thinks of it.
    yields = rule.yields and health is not Health.FAULTY
    return replace(rule, health=health, recovery=recovery, yields=yields)
