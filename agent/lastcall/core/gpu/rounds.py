"""What follows from a whole round of looks: what it does not show is over, or gone for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lastcall.core.gpu.belief import Belief, GpuBelief
from lastcall.core.gpu.model import Health, WatchState


def looked_at(belief: Belief, key: str) -> Belief:
    """Return the belief after a look at a GPU; a round is over when one is looked at again.

    This holds in any state of the watch: others are looked at while one GPU is left out.
    """
    if key not in belief.looked_at:
        return replace(belief, looked_at=belief.looked_at | {key})
    gpus = _still_there(belief)
    return replace(belief, gpus=gpus, looked_at=frozenset({key}), settled=True, was_settled=True)


def unsettled(belief: Belief, *, anew: bool = False) -> Belief:
    """Return the belief before the first round of looks since something changed.

    Args:
        belief: what is believed.
        anew: what was seen before does not count any more.
    """
    is_empty = belief.node.watch is WatchState.NO_GPU
    return replace(
        belief,
        gpus=_faulty(belief.gpus) if is_empty else belief.gpus,
        looked_at=frozenset(),
        settled=is_empty,
        was_settled=is_empty or (belief.was_settled and not anew),
    )


def _still_there(belief: Belief) -> Mapping[str, GpuBelief]:
    """Return the GPUs without those of which neither driver nor bus knows any more.

    One that is left out because a call hung on it is counted by both.
    """
    seen, node = belief.looked_at, belief.node
    are_named = all(belief.gpus[key].gpu.uuid for key in seen if key in belief.gpus)
    if not are_named or not len(seen) == node.count == node.pci_count:
        return belief.gpus
    gone = belief.gpus.keys() - seen - {""} - _faulty(belief.gpus).keys()
    if not gone:
        return belief.gpus
    return {key: gpu for key, gpu in belief.gpus.items() if key not in gone}


def _faulty(gpus: Mapping[str, GpuBelief]) -> Mapping[str, GpuBelief]:
    """Return those that are faulty: to fall off the bus does not make a GPU well."""
    return {
        key: gpu
        for key, gpu in gpus.items()
        if any(mark.health is Health.FAULTY for mark in gpu.marks)
    }
