"""Counts XID errors that two witnesses report: NVML's events and the kernel's log."""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto

from lastcall.core.gpu.model import XidSeen


class Witness(Enum):
    """Who reported an XID."""

    NVML = auto()
    KERNEL = auto()


class XidCounts:
    """Makes one count of what both saw.

    Each may miss some: NVML's events what came while no probe ran, the kernel's log what its buffer
    dropped. Neither invents any, so the higher count is nearer to the truth.
    """

    def __init__(self) -> None:
        self._seen: dict[Witness, Counter[tuple[str, int]]] = {each: Counter() for each in Witness}

    def take(self, seen: XidSeen, witness: Witness) -> int:
        """Return how many are new with this report; what came before the watch began is not."""
        if seen.past:
            return 0
        key = (seen.uuid, seen.xid)
        before = self._total(key)
        self._seen[witness][key] += seen.count
        return self._total(key) - before

    def _total(self, key: tuple[str, int]) -> int:
        return max(counts[key] for counts in self._seen.values())
