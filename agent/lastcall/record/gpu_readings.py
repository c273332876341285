"""What the figures of the GPUs are read from at the moment of the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lastcall.core.gpu.model import Figures, Gpu, GpuRecord, NodeLook
from lastcall.core.model import Node


class GpuReadings(Protocol):
    """The figures of the GPUs, each of its last good look however long ago that was."""

    @property
    def expected(self) -> int:
        """How many GPUs there should be; 0: as many as stand on the PCI bus."""
        ...

    @property
    def fresh_seconds(self) -> float:
        """The age up to which a figure still says how a GPU is."""
        ...

    @property
    def kernel_log(self) -> str:
        """Whether the kernel's log is ``read``, ``off``, or why it cannot be read."""
        ...

    @property
    def event_stream_up(self) -> bool | None:
        """Whether the driver's own word of errors is heard; ``None``: not known."""
        ...

    def figures(self) -> Sequence[Figures]:
        """Return the last figures of each GPU: of each signal those that were read last."""
        ...

    def node_look(self) -> NodeLook | None:
        """Return the last look at all GPUs together."""
        ...


class SeenGpus:
    """The GPUs of a node at one moment: what was made of each, and its figures.

    Attributes:
        records: what is kept of each GPU, by UUID, in the driver's order.
        figures: the last of each, by UUID, old ones too.
        event_stream_up: whether the driver's own word of errors is heard; ``None``: not known.
        kernel_log: whether the kernel's log is ``read``, ``off``, or why it cannot be read.
    """

    def __init__(self, node: Node, readings: GpuReadings | None, now: float) -> None:
        """Look at them.

        Args:
            node: what the agent knows.
            readings: where the figures are; ``None`` where there are none.
            now: the present on the clock of the node's times.
        """
        self.event_stream_up = None if readings is None else readings.event_stream_up
        self.kernel_log = "off" if readings is None else readings.kernel_log
        last = () if readings is None else readings.figures()
        self.figures: Mapping[str, Figures] = {one.gpu.uuid: one for one in last if one.gpu.uuid}
        self._oldest_at = now - (0.0 if readings is None else readings.fresh_seconds)
        records = {uuid: GpuRecord(gpu=one.gpu) for uuid, one in self.figures.items()}
        records |= {uuid: record for uuid, record in node.gpus.items() if uuid}
        in_order = sorted(records.items(), key=lambda item: (_place(item[1].gpu), item[0]))
        self.records: Mapping[str, GpuRecord] = dict(in_order)
        watch = node.gpu_watch
        self._hanging = "" if watch is None or not watch.call else watch.gpu

    def fresh(self, uuid: str) -> Figures | None:
        """Return a GPU's figures where they still say how it is."""
        figures = self.figures.get(uuid)
        return figures if figures is not None and figures.at >= self._oldest_at else None

    def is_up(self, uuid: str) -> bool:
        """Whether a GPU answers: lately, and neither it is lost nor a call to it hangs."""
        lost = self.records[uuid].verdict.lost
        return self.fresh(uuid) is not None and not lost and uuid != self._hanging


def _place(gpu: Gpu) -> int:
    """Return where a GPU stands in the driver's order; one that it no longer counts comes last."""
    return gpu.index if gpu.index >= 0 else 1 << 16
