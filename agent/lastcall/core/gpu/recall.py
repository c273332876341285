"""What is taken over from before, and what is forgotten once the GPUs were reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lastcall.core.gpu.answers import UNKNOWN_ACTION
from lastcall.core.gpu.belief import GpuBelief, NodeBelief, Past, Standing, XidSign
from lastcall.core.gpu.looks import HANGS
from lastcall.core.gpu.model import Gpu, Mark, Recovery, Verdict
from lastcall.core.gpu.node_signs import DRIVER_MISSING, MISSING, UPGRADE_PENDING
from lastcall.core.gpu.signal_rules import SIGNALS, Check

_RULE_OF = {rule.name: rule.name for rule in SIGNALS} | {UNKNOWN_ACTION.reason: "recovery_action"}
"""By reason: the rule whose mark it is."""

_BY_CODE = frozenset(rule.name for rule in SIGNALS if rule.check is Check.CODE)
"""Rules on what not every look asks for: what they said holds for a while."""

_NOT_BY_A_RESET = (Recovery.NONE, Recovery.REPLACE)
"""What a reset does not mend: heat, say, or a GPU that is worn out."""

_OF_NODE = (MISSING, DRIVER_MISSING, UPGRADE_PENDING, HANGS)


def remember(
    gpus: Mapping[str, GpuBelief],
    node: NodeBelief,
    verdicts: Mapping[str, tuple[Gpu, Verdict]],
    at: float,
) -> tuple[Mapping[str, GpuBelief], NodeBelief]:
    """Return what is known once the verdicts of an earlier run are.

    Their marks stand until looks speak against them; what has been seen since is newer.
    """
    after = dict(gpus)
    for uuid, (gpu, verdict) in verdicts.items():
        if uuid:
            after[uuid] = _recalled(after.get(uuid, GpuBelief(gpu=gpu)), verdict.marks, at)
    if "" in verdicts:
        node, nobody = _recalled_node(node, verdicts[""][1].marks, after.get(""), at)
        if nobody is not None:
            after[""] = nobody
    return after, node


def repaired(gpus: Mapping[str, GpuBelief], at: float) -> Mapping[str, GpuBelief]:
    """Return what is known once the GPUs were reset.

    What a reset does not repair stands; what it should have repaired and did not is seen again.
    """
    after = {}
    for uuid, gpu in gpus.items():
        if gpu.gpu.uuid:
            signals = {
                name: standing
                for name, standing in gpu.signals.items()
                if standing.mark.recovery in _NOT_BY_A_RESET
            }
            after[uuid] = GpuBelief(gpu=gpu.gpu, signals=signals, pasts=_pasts(signals, at))
    return after


def _pasts(signals: Iterable[str], at: float) -> Mapping[str, Past]:
    return {name: Past(since=at) for name in signals if name in _BY_CODE}


def _recalled(belief: GpuBelief, marks: Iterable[Mark], at: float) -> GpuBelief:
    codes, signals, xids = dict(belief.codes), dict(belief.signals), dict(belief.xids)
    for mark in marks:
        if mark.xid is not None:
            xids.setdefault(mark.xid, _sign(mark, mark.xid))
        elif mark.reason in _RULE_OF:
            signals.setdefault(_RULE_OF[mark.reason], Standing(mark, recalled=True))
        else:
            codes.setdefault(mark.reason, Standing(mark))
    pasts = {**_pasts(signals, at), **belief.pasts}
    return replace(belief, codes=codes, signals=signals, pasts=pasts, xids=xids)


def _recalled_node(
    node: NodeBelief, marks: Iterable[Mark], nobody: GpuBelief | None, at: float
) -> tuple[NodeBelief, GpuBelief | None]:
    of_node = dict(node.marks)
    of_nobody = [mark for mark in marks if mark.xid is not None]
    for mark in marks:
        if mark.reason in _OF_NODE:
            of_node.setdefault(mark.reason, Standing(mark))
    if of_nobody:
        nobody = _recalled(nobody or GpuBelief(gpu=Gpu("")), of_nobody, at)
    return replace(node, marks=of_node), nobody


def _sign(mark: Mark, number: int) -> XidSign:
    return XidSign(number=number, first_at=mark.since, last_at=mark.since, mark=mark)
