"""What one probe has said so far, and whether it still makes its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lastcall.core.gpu.codes import NO_ACCESS
from lastcall.core.gpu.model import Look, NodeLook
from lastcall.gpu import lines
from lastcall.gpu.lines import Line, RoundOver
from lastcall.gpu.trail import Step

LATE_SECONDS = 2.0
"""More than this between two checks: the agent itself was held up, or the machine stood still."""

SLOW_SHARE = 1 / 6
"""The share of the time allowed for a call after which it is called slow."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A call that takes long, but not yet too long."""

    step: Step
    seconds: float


@dataclass(frozen=True, slots=True)
class Hanging:
    """Nothing came back in the time allowed.

    Attributes:
        step: the call that the probe is in, if it says so.
        seconds: the time allowed.
    """

    step: Step | None
    seconds: float


class Course:
    """What one probe has said, from its start to its end.

    Args:
        call_seconds: how long one call into the driver may take.
        poll_seconds: time between two rounds.
        now: the loop's time.
        monotonic: the clock of the trail.

    Attributes:
        garbage: lines that said nothing.
        good_since: when its first round was over, on the loop's clock; ``None``: not yet.
    """

    def __init__(
        self,
        *,
        call_seconds: float,
        poll_seconds: float,
        now: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.garbage = 0
        self.good_since: float | None = None
        self._call_seconds = call_seconds
        self._silence_seconds = call_seconds + poll_seconds
        self._monotonic = monotonic
        self._node: NodeLook | None = None
        self._codes: list[int] = []
        self._step: Step | None = None
        self._called_slow = False
        self._checked_at = now
        self._sign_at = now
        self._counts_from = monotonic()

    def take(self, data: bytes, now: float) -> Line | None:
        """Return what a line says, and keep in mind what matters here."""
        line = lines.decode(data)
        if line is None:
            self.garbage += 1
            return None
        self._sign_at = now
        match line:
            case NodeLook():
                self._node = line
            case Look():
                self._codes.append(line.code)
            case RoundOver() if self.good_since is None:
                self.good_since = now
        return line

    def begin_round(self) -> None:
        """Forget what the GPUs answered in the round before."""
        self._codes.clear()

    @property
    def sees_no_gpu(self) -> bool:
        """Whether neither the driver nor the PCI bus has a GPU."""
        node = self._node
        return node is not None and node.driver_count == 0 and not node.pci_count

    @property
    def lost_access(self) -> bool:
        """Whether every GPU of this round answered as where the device files are out of reach."""
        shut = self._node is not None and self._node.control_openable is False
        return shut and bool(self._codes) and NO_ACCESS.issuperset(self._codes)

    def check(self, step: Step | None, now: float) -> Slow | Hanging | None:
        """Tell, about once a second, whether something takes too long.

        Args:
            step: the call that the probe is in.
            now: the loop's time.
        """
        if now - self._checked_at > LATE_SECONDS:
            # The probe may have stood still as well: it gets its time anew.
            self._sign_at, self._counts_from = now, self._monotonic()
        self._checked_at = now
        if step != self._step:
            self._step, self._sign_at, self._called_slow = step, now, False
        return self._call_too_long(step) or self._silent_too_long(step, now)

    def _call_too_long(self, step: Step | None) -> Slow | Hanging | None:
        if step is None or not step.call:
            return None
        seconds = self._monotonic() - max(step.at, self._counts_from)
        if seconds > self._call_seconds:
            return Hanging(step, self._call_seconds)
        if seconds > self._call_seconds * SLOW_SHARE and not self._called_slow:
            self._called_slow = True
            return Slow(step, seconds)
        return None

    def _silent_too_long(self, step: Step | None, now: float) -> Hanging | None:
        if now - self._sign_at <= self._silence_seconds:
            return None
        return Hanging(step, self._silence_seconds)
