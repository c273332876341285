"""Judges the GPUs: takes in what is seen of them, and says how they are.

What counts, the strongest first: the return code of a call; the recovery action that the driver
wants; the class of an XID; counters. What cannot be read speaks neither for nor against a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from lastcall.core.gpu import codes, node_signs, rounds, xid_signs
from lastcall.core.gpu import incidents as gpu_incidents
from lastcall.core.gpu.answers import UNCLEAR_REASONS
from lastcall.core.gpu.belief import EMPTY, Belief, GpuBelief, Standing, XidSign
from lastcall.core.gpu.incidents import sightings
from lastcall.core.gpu.looks import HANGS, look_at
from lastcall.core.gpu.model import (
    NODE,
    SEVERITY,
    Gpu,
    Health,
    Look,
    Mark,
    NodeLook,
    Verdict,
    WatchState,
    XidSeen,
)
from lastcall.core.gpu.news import Moment, NoiseExpected, Remembered, Repaired, WatchSaid
from lastcall.core.gpu.node_signs import ACCESS_LOST, SEEING
from lastcall.core.gpu.recall import remember, repaired
from lastcall.core.gpu.rules import Rules
from lastcall.core.gpu.xids import NOISE, Respond

__all__ = ["EMPTY", "Belief", "News", "sightings", "take", "verdicts", "wake_at"]

News = Look | NodeLook | XidSeen | Moment | WatchSaid | NoiseExpected | Repaired | Remembered
"""What the judge is told."""

NAMELESS_CODES = (codes.IRQ_ISSUE, codes.GPU_IS_LOST, codes.RESET_REQUIRED)
"""Return codes of a GPU that is there, broken, and cannot say its name."""

_UNNAMED = "unnamed "
"""What the key of a GPU begins with whose UUID the driver does not tell."""

_XIDS = 64
"""So many numbers of XIDs are kept of one GPU; what comes on top of them adds nothing."""


def take(belief: Belief, news: News, rules: Rules) -> Belief:
    """Return what is believed after a piece of news; cheap where it is none."""
    match news:
        case XidSeen():
            after = _hear_xid(belief, news, rules)
        case Look():
            after = _look(belief, news, rules)
        case NodeLook():
            after = _look_at_node(belief, news, rules)
        case WatchSaid():
            after = _hear_watch(belief, news, rules)
        case NoiseExpected():
            after = replace(belief, noise_until=news.until)
        case Repaired():
            gpus = repaired(belief.gpus, news.at)
            after = rounds.unsettled(replace(belief, gpus=gpus), anew=True)
        case Remembered():
            after = _remember(belief, news)
        case Moment():
            after = belief
        case _:
            assert_never(news)
    if after is belief and isinstance(news, XidSeen):
        return belief
    advises = belief.settled or belief.was_settled
    after = _concluded(_due(after, news.at, rules), news.at, advises=advises)
    if isinstance(news, Repaired):
        after = replace(after, incidents=gpu_incidents.close(after.incidents))
    return after


def verdicts(belief: Belief) -> Mapping[str, tuple[Gpu, Verdict]]:
    """Return how each GPU is, by UUID; under the empty one what concerns all of them together."""
    return belief.judged


def wake_at(belief: Belief) -> float | None:
    """Return when a :class:`~lastcall.core.gpu.news.Moment` is due."""
    return min(_moments(belief), default=None)


def _moments(belief: Belief) -> Iterator[float]:
    absent_until = node_signs.absent_until(belief.node)
    if absent_until is not None:
        yield absent_until
    quiet_until = gpu_incidents.quiet_until(belief.incidents)
    if quiet_until is not None:
        yield quiet_until
    for gpu in belief.gpus.values():
        for sign in gpu.xids.values():
            if sign.waits_until is not None and sign.waits_until < math.inf:
                yield sign.waits_until


def _hear_xid(belief: Belief, seen: XidSeen, rules: Rules) -> Belief:
    gpu = belief.gpus.get(seen.uuid)
    sign = None if gpu is None else gpu.xids.get(seen.xid)
    rule = rules.xid(seen.xid)
    if sign is not None and xid_signs.is_repetition(sign, seen, rule):
        return belief
    if rule.respond is Respond.IGNORE or (rule.respond is Respond.APP and rule.then is None):
        return belief
    if seen.xid in NOISE and seen.at <= belief.noise_until:
        return belief
    if gpu is None:
        gpu = GpuBelief(gpu=replace(NODE, uuid=seen.uuid))
    if sign is None and len(gpu.xids) >= _XIDS:
        return belief
    can_ask = gpu.answers and gpu.action is not None and belief.node.watch is WatchState.WATCHING
    sign = xid_signs.hear(sign, seen, rule, can_ask=can_ask)
    return _with_gpu(belief, seen.uuid, replace(gpu, xids={**gpu.xids, seen.xid: sign}))


def _look(belief: Belief, look: Look, rules: Rules) -> Belief:
    if look.code in NAMELESS_CODES and not look.gpu.uuid:
        look = replace(look, gpu=_known(belief, look.gpu))
    key = look.gpu.uuid or f"{_UNNAMED}{look.gpu.pci or look.gpu.index}"
    if look.gpu.uuid and any(key.startswith(_UNNAMED) for key in belief.gpus):
        belief = _named(belief, look.gpu)
    gpu = belief.gpus.get(key, GpuBelief(gpu=look.gpu))
    gpu = look_at(
        gpu,
        look,
        rules,
        gpus=belief.node.count or len(belief.gpus),
        quiet=look.at <= belief.noise_until,
    )
    return rounds.looked_at(_with_gpu(belief, key, gpu), key)


def _known(belief: Belief, nameless: Gpu) -> Gpu:
    """Return the GPU that a nameless one must be: the only one in its place that is silent."""
    fitting = [
        gpu.gpu
        for gpu in belief.gpus.values()
        if gpu.gpu.uuid and not gpu.answers and _is_same_place(gpu.gpu, nameless)
    ]
    if len(fitting) != 1:
        return nameless
    (known,) = fitting
    return replace(known, index=nameless.index, pci=nameless.pci or known.pci)


def _is_same_place(gpu: Gpu, other: Gpu) -> bool:
    if gpu.pci and other.pci:
        return gpu.pci == other.pci
    return gpu.index >= 0 and gpu.index == other.index


def _remember(belief: Belief, news: Remembered) -> Belief:
    gpus, node = remember(belief.gpus, belief.node, news.verdicts, news.at)
    incidents = belief.incidents
    if belief.judged.keys() <= {""}:
        incidents = gpu_incidents.recall(news)
    return replace(belief, gpus=gpus, node=node, incidents=incidents, judged={})


def _named(belief: Belief, gpu: Gpu) -> Belief:
    """Return the belief without the nameless GPU that has a name now."""
    gone = {f"{_UNNAMED}{gpu.pci}", f"{_UNNAMED}{gpu.index}"}
    return replace(belief, gpus={key: old for key, old in belief.gpus.items() if key not in gone})


def _look_at_node(belief: Belief, look: NodeLook, rules: Rules) -> Belief:
    belief = replace(belief, node=node_signs.look_at_node(belief.node, look, rules.expected))
    nobody = belief.gpus.get("")
    if nobody is None:
        return belief
    # For the errors of no certain GPU, this is the look.
    at = Look(gpu=NODE, at=look.at, values={"driver_count": look.driver_count})
    after = look_at(nobody, at, rules, gpus=belief.node.count, quiet=False)
    return _with_gpu(belief, "", after)


def _hear_watch(belief: Belief, said: WatchSaid, rules: Rules) -> Belief:
    node = node_signs.hear_watch(belief.node, said, rules.expected)
    gpus = dict(belief.gpus)
    if said.state is not WatchState.WATCHING:
        gpus = {key: replace(gpu, answers=False) for key, gpu in gpus.items()}
    if said.state is WatchState.UNRESPONSIVE:
        for key in [said.gpu] if said.gpu else list(gpus):
            gpu = gpus.get(key, GpuBelief(gpu=replace(NODE, uuid=key)))
            # It does not answer: what waited to ask it waits no more.
            gpus[key] = _decided(gpu, rules)
        if said.gpu and HANGS not in gpus[said.gpu].codes:
            codes = gpus[said.gpu].codes
            mark = Standing(node_signs.hang(said))
            gpus[said.gpu] = replace(gpus[said.gpu], codes={**codes, HANGS: mark})
    after = replace(belief, node=node, gpus=gpus)
    return after if said.state is belief.node.watch else rounds.unsettled(after)


def _with_gpu(belief: Belief, key: str, gpu: GpuBelief) -> Belief:
    return replace(belief, gpus={**belief.gpus, key: gpu})


def _due(belief: Belief, at: float, rules: Rules) -> Belief:
    """Do what the time has come for."""
    node = node_signs.await_driver(belief.node, at)
    unclear = [gpu.unclear > 0 for key, gpu in belief.gpus.items() if key]
    are_all_unclear = bool(unclear) and all(unclear)
    node = node_signs.lose_access(node, at, are_all_unclear=are_all_unclear)
    if node is not belief.node:
        belief = replace(belief, node=node)
    for key, gpu in belief.gpus.items():
        if any(_is_due(sign, at) for sign in gpu.xids.values()):
            belief = _with_gpu(belief, key, _decided(gpu, rules, at))
    return belief


def _decided(gpu: GpuBelief, rules: Rules, at: float = math.inf) -> GpuBelief:
    """Return what is known once no XID waits any more that was to wait until ``at`` at most."""
    xids = {
        number: xid_signs.by_table(sign, rules.xid(number)) if _is_due(sign, at) else sign
        for number, sign in gpu.xids.items()
    }
    return replace(gpu, xids=xids)


def _is_due(sign: XidSign, at: float) -> bool:
    return sign.waits_until is not None and at >= sign.waits_until


def _concluded(belief: Belief, at: float, *, advises: bool) -> Belief:
    """Return the belief with what is made of it all."""
    judged: dict[str, tuple[Gpu, Verdict]] = {}
    node_marks = [standing.mark for standing in belief.node.marks.values()]
    is_shut_out = ACCESS_LOST in belief.node.marks
    for key, gpu in belief.gpus.items():
        marks = gpu.marks
        if is_shut_out:
            marks = tuple(mark for mark in marks if mark.reason not in UNCLEAR_REASONS)
        if gpu.gpu.uuid:
            is_well = gpu.answers and not is_shut_out
            judged[key] = gpu.gpu, _verdict(marks, is_well=is_well)
        else:
            node_marks += [replace(m, detail=_of(gpu.gpu, m)) for m in marks]
    is_well = belief.node.watch in SEEING and not node_signs.is_awaited(belief.node)
    judged[""] = NODE, _verdict(tuple(node_marks), is_well=is_well)
    if judged == belief.judged and not gpu_incidents.is_due(belief.incidents, at):
        return belief
    incidents = gpu_incidents.follow(belief.incidents, judged, at, advises=advises)
    return replace(belief, judged=judged, incidents=incidents)


def _of(gpu: Gpu, mark: Mark) -> str:
    where = gpu.pci or (f"GPU {gpu.index}" if gpu.index >= 0 else "")
    return f"{where}: {mark.detail}" if where else mark.detail


def _verdict(marks: tuple[Mark, ...], *, is_well: bool) -> Verdict:
    base = Health.HEALTHY if is_well else Health.UNKNOWN
    return Verdict(max([base, *(mark.health for mark in marks)], key=SEVERITY.index), marks)
