"""Counts XIDs that come in floods: each is told at once, and the same again once a second.

A GPU was seen to report one XID 800,000 times (NVSentinel issue 1120). All are counted; what is
kept is one number for each GPU and XID of the last second.
"""

from dataclasses import dataclass

TOGETHER_SECONDS = 1.0
"""The same XIDs that come within this time of the last that was told are told together."""


@dataclass(frozen=True, slots=True)
class Burst:
    """XIDs that are told together.

    Attributes:
        uuid: the GPU's; empty where it is not known.
        xid: the number.
        count: how often.
    """

    uuid: str
    xid: int
    count: int


class Bursts:
    """What was told within the last second, and how often it came since."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, int], float] = {}
        self._untold: dict[tuple[str, int], int] = {}

    def add(self, uuid: str, xid: int, at: float) -> Burst | None:
        """Count an XID.

        Returns:
            What is to be told at once; ``None``: it is told with others, see :meth:`over`.
        """
        key = (uuid, xid)
        if key in self._until:
            self._untold[key] = self._untold.get(key, 0) + 1
            return None
        self._until[key] = at + TOGETHER_SECONDS
        return Burst(uuid, xid, 1)

    def over(self, at: float) -> list[Burst]:
        """Return what is to be told now that its second is over."""
        told = []
        for key in [key for key, until in self._until.items() if at >= until]:
            if count := self._untold.pop(key, 0):
                told.append(Burst(*key, count))
                self._until[key] = at + TOGETHER_SECONDS
            else:
                del self._until[key]
        return told

    def rest(self) -> list[Burst]:
        """Return all that was not told yet, and forget all."""
        told = [Burst(*key, count) for key, count in self._untold.items()]
        self._until.clear()
        self._untold.clear()
        return told

    def wait_seconds(self, at: float) -> float | None:
        """Return how long until something may be to tell; ``None``: nothing is open."""
        if not self._until:
            return None
        return max(0.0, min(self._until.values()) - at)
