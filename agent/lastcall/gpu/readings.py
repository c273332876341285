"""The figures of each GPU as they were last read, for the metrics and the status."""

from __future__ import annotations

from collections.abc import Sequence

from lastcall.core.gpu.model import Figures, Look, NodeLook
from lastcall.gpu.idle import Idle

FRESH_LOOKS = 3
"""A figure is fresh for the time of so many looks."""

LEAST_FRESH_SECONDS = 15.0
"""However often the GPUs are looked at, a figure of this age is still fresh."""


class Readings:
    """Keeps the last value of each signal.

    A signal that is read now and then keeps its value between; one that can be read no more loses
    it.

    Args:
        poll_seconds: time between looks.
        expected: how many GPUs there should be; 0 where nobody said.

    Attributes:
        fresh_seconds: how old a figure of now may be.
    """

    def __init__(self, *, poll_seconds: float, expected: int) -> None:
        self.fresh_seconds = max(FRESH_LOOKS * poll_seconds, LEAST_FRESH_SECONDS)
        self._expected = expected
        self._node_look: NodeLook | None = None
        self._values: dict[str, dict[str, float]] = {}
        self._last: dict[str, Look] = {}
        self._idle: dict[str, Idle] = {}

    @property
    def expected(self) -> int:
        """How many GPUs there should be: as the site says, else as stand on the bus."""
        seen = self._node_look.pci_count if self._node_look else None
        return self._expected or seen or 0

    def take(self, look: Look) -> None:
        """Take in a look; one in which nothing was read is none of success."""
        uuid = look.gpu.uuid
        if look.code or not uuid or look.is_empty:
            return
        values = self._values.setdefault(uuid, {})
        for signal in look.codes:
            values.pop(signal, None)
        values.update(look.values)
        self._last[uuid] = look
        if (busy := look.values.get("utilization_ratio")) is not None:
            self._idle.setdefault(uuid, Idle()).add(look.at, busy)

    def take_node(self, look: NodeLook) -> None:
        """Take in a look at all GPUs together."""
        self._node_look = look

    def figures(self) -> Sequence[Figures]:
        """Return the figures of each GPU's last good look."""
        return [
            Figures(
                gpu=look.gpu,
                at=look.at,
                values=dict(self._values[uuid]),
                idle_ratio=self._idle[uuid].ratio(look.at) if uuid in self._idle else None,
            )
            for uuid, look in self._last.items()
        ]

    def node_look(self) -> NodeLook | None:
        """Return the last look at all GPUs together."""
        return self._node_look
