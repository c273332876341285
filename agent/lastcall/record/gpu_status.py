"""The part of the status that shows the GPUs; its keys stand in ``docs/reference/status.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lastcall.core.gpu.model import GpuRecord, Holder, Mark
from lastcall.core.gpus import node_verdict, unregistered
from lastcall.core.model import Node
from lastcall.record.gpu_readings import SeenGpus

DETAIL_LENGTH = 300
"""Characters that are shown of what stands behind a mark, such as the kernel's line."""


def show(node: Node, seen: SeenGpus, *, now: float, to_unix: float) -> dict[str, Any]:
    """Return what the agent knows of the GPUs, ready for JSON.

    Args:
        node: what it knows.
        seen: the GPUs and their figures.
        now: the present on the clock of the node's times.
        to_unix: what makes Unix seconds of those times.
    """
    return _Gpus(node, seen, now, to_unix).whole()


class _Gpus:
    """One look at them, at one moment."""

    def __init__(self, node: Node, seen: SeenGpus, now: float, to_unix: float) -> None:
        self._node = node
        self._seen = seen
        self._now = now
        self._to_unix = to_unix

    def whole(self) -> dict[str, Any]:
        node, verdict = self._node, node_verdict(self._node)
        of_all = node.gpus.get("")
        marks = () if of_all is None else of_all.verdict.marks
        return {
            "watch": self._watch(),
            "kernel_log": self._seen.kernel_log,
            "event_stream_up": self._seen.event_stream_up,
            "health": verdict.health.value,
            "reasons": list(dict.fromkeys(verdict.reasons)),
            "recovery": verdict.recovery.value,
            "marks": [self._mark(mark) for mark in marks],
            "released_until_unix": self._unix(node.gpus_released_until),
            "gpus": [self._gpu(uuid, record) for uuid, record in self._seen.records.items()],
            "unregistered": [_holder(holder) for holder in unregistered(node)],
        }

    def _watch(self) -> dict[str, Any] | None:
        watch = self._node.gpu_watch
        if watch is None:
            return None
        return {
            "state": watch.state.value,
            "detail": watch.detail,
            "since_unix": self._unix(watch.since),
            "gpu": watch.gpu,
            "call": watch.call,
            "pid": watch.pid,
        }

    def _gpu(self, uuid: str, record: GpuRecord) -> dict[str, Any]:
        gpu, verdict = record.gpu, record.verdict
        last, fresh = self._seen.figures.get(uuid), self._seen.fresh(uuid)
        return {
            "gpu": gpu.uuid,
            "index": gpu.index if gpu.index >= 0 else None,
            "name": gpu.name,
            "pci": gpu.pci,
            "up": self._seen.is_up(uuid),
            "health": verdict.health.value,
            "reasons": list(verdict.reasons),
            "recovery": verdict.recovery.value,
            "marks": [self._mark(mark) for mark in verdict.marks],
            "sign_unix": self._unix(record.sign_at),
            "safe_unix": self._unix(record.safe_at),
            "lost_unix": self._unix(record.lost_at),
            "figures_age_seconds": None if last is None else _rounded(self._now - last.at),
            "idle_ratio": None if fresh is None else _rounded(fresh.idle_ratio),
            "figures": {} if fresh is None else _finite(fresh.values),
        }

    def _mark(self, mark: Mark) -> dict[str, Any]:
        return {
            "reason": mark.reason,
            "health": mark.health.value,
            "recovery": mark.recovery.value,
            "detail": mark.detail[:DETAIL_LENGTH],
            "since_unix": self._unix(mark.since),
            "xid": mark.xid,
        }

    def _unix(self, at: float | None) -> float | None:
        return None if at is None else _rounded(at + self._to_unix)


def _holder(holder: Holder) -> dict[str, Any]:
    return {"pid": holder.pid, "gpus": list(holder.gpus), "command": holder.command}


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    """Return figures that JSON can hold."""
    return {name: round(value, 3) for name, value in values.items() if math.isfinite(value)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
