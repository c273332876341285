"""The same GPU error many times over becomes few reports, and the counts stay exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lastcall.core.gpu.xid_lines import new_action, severity
from lastcall.core.gpu.xids import UNLISTED, XIDS
from lastcall.gpu.kernel_lines import KernelXid

BURST_SECONDS = 1.0
"""What comes within this time of the first is counted with it."""

_BURSTS = 256

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Burst:
    first: KernelXid
    more: int = 0


class Bursts:
    """Hands on the first of a burst at once, and later how many more there were.

    A driver in trouble can write some hundred thousand of the same line (NVSentinel issue 1120).

    Args:
        hand_on: takes the reports; the sum of their counts is the number of errors.
    """

    def __init__(self, hand_on: Callable[[KernelXid], None]) -> None:
        self._hand_on = hand_on
        self._bursts: dict[_Key, _Burst] = {}

    @property
    def waiting(self) -> bool:
        """Whether a burst is open, so that :meth:`flush` is due."""
        return bool(self._bursts)

    def take(self, found: KernelXid) -> None:
        """Take an error.

        Args:
            found: the error, as the log has it.
        """
        key = _key(found)
        burst = self._bursts.get(key)
        if burst is not None and found.at - burst.first.at <= BURST_SECONDS:
            burst.more += 1
            return
        if len(self._bursts) >= _BURSTS:
            self.flush()
        elif burst is not None:
            self._hand_on_rest(burst)
        self._bursts[key] = _Burst(found)
        self._hand_on(found)

    def flush(self) -> None:
        """Hand on what was counted, and end all bursts."""
        bursts = list(self._bursts.values())
        self._bursts.clear()
        for burst in bursts:
            self._hand_on_rest(burst)

    def _hand_on_rest(self, burst: _Burst) -> None:
        if burst.more:
            self._hand_on(replace(burst.first, count=burst.more))


def _key(found: KernelXid) -> _Key:
    # What sets two errors of one number apart must not be lost: a fatal one after a harmless one.
    return (
        found.pci,
        found.uuid,
        found.xid,
        found.past,
        severity(found.text),
        new_action(found.text) if XIDS.get(found.xid, UNLISTED).tells_action else None,
    )
