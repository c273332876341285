"""One flush: from the decision to save until the agent knows what came of it."""

from __future__ import annotations

import logging
import os
import time
from types import TracebackType
from typing import Self

from lastcall.client import values
from lastcall.client.ledger import Ledger
from lastcall.client.notice import Notice, precedence
from lastcall.client.outbox import Outbox, Report
from lastcall.wire.messages import Checkpoint, Failed, Flushed, Progress

ANSWER_SECONDS = 1.0
"""How long a report waits for the agent's ``ok``; a process that exits earlier may go unheard."""

PROGRESS_SECONDS = 0.1
"""Progress of one phase is told this often at most, so that a save may call it in a loop."""

_log = logging.getLogger("lastcall")


class Flush:
    """A flush under way; made by :meth:`Guard.flush` and :meth:`Guard.finish_inflight`.

    Used as a context manager around the save. An exception in the body is reported as a failure
    and goes on; a body that ends without :meth:`saved` or :meth:`failed` counts as failed. Without
    ``with``, the call of either ends it.

    A real notice that takes the place of an advice or a drill while this flush is under way is
    served by it too: what came of the flush is reported for both.
    """

    def __init__(
        self, notice: Notice, *, step: object, will: str, ledger: Ledger, outbox: Outbox
    ) -> None:
        self._notice = notice
        self._step = step
        self._ledger = ledger
        self._outbox = outbox
        self._began = time.monotonic()
        self._entered = False
        self._told: tuple[str, float] | None = None
        self._has_complained = False
        self._undertaking = ledger.begin(notice, will, step)

    @property
    def notice(self) -> Notice:
        """The notice that it was begun for."""
        return self._notice

    @property
    def stop(self) -> bool:
        """Whether the process should end now.

        True while a notice that this flush serves stands, is urgent and is no drill. False once it
        is withdrawn, for an advice and for a drill: training goes on.
        """
        return any(notice.ends_training for notice in self._ledger.served(self._undertaking))

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds to the deadline of the most urgent notice that this flush serves."""
        served = self._ledger.served(self._undertaking)
        notice = min(served, key=precedence, default=None)
        return notice.remaining_seconds if notice else None

    def saved(
        self,
        path: str | os.PathLike[str],
        step: int | None = None,
        *,
        bytes: int | None = None,  # noqa: A002 - the protocol's name
        stall_seconds: float | None = None,
        durable_seconds: float | None = None,
        format: str | None = None,  # noqa: A002 - the protocol's name
        durable: bool = True,
    ) -> bool:
        """Say that the checkpoint is complete and durable, and wait up to 1 s for the agent's word.

        Without a connection it is told as soon as there is one again.

        Args:
            path: where it is; what a resumed job would load.
            step: the step it holds; default: the flush's, else the last one polled.
            bytes: its size.
            stall_seconds: how long training stood still for it; default: since the flush began.
            durable_seconds: from its begin until it was durable; default: since the flush began.
            format: such as ``dcp`` or ``safetensors``.
            durable: false where the path is known to die with the node.

        Returns:
            Whether the agent has recorded it.
        """
        taken_seconds = time.monotonic() - self._began
        stall = values.seconds(stall_seconds)
        until_durable = values.seconds(durable_seconds)
        report = Flushed(
            id=self._notice.id,
            path=values.place(path),
            step=self._saved_step(step),
            bytes=values.whole(bytes),
            stall_seconds=taken_seconds if stall is None else stall,
            durable_seconds=taken_seconds if until_durable is None else until_durable,
            format=values.text_or_none(format),
            durable=bool(durable),
        )
        return self._settle(report)

    def failed(self, reason: object) -> bool:
        """Say that the flush did not succeed; waits like :meth:`saved` and returns the same."""
        return self._settle(Failed(self._notice.id, values.text(reason)))

    def progress(
        self,
        phase: str | None = None,
        bytes: int | None = None,  # noqa: A002 - the protocol's name
        total_bytes: int | None = None,
    ) -> None:
        """Say how far the save is; never waits, and may be called often.

        A phase that is no text, such as a size in its place, is not told: a warning is logged once
        for each flush, and the save goes on.

        Args:
            phase: such as ``staging``, ``writing`` or ``committing``.
            bytes: written so far.
            total_bytes: to be written in all.
        """
        if not _is_phase(phase):
            self._complain_of_phase(phase)
            return
        now = time.monotonic()
        name = values.text(phase or "")
        if self._told and self._told[0] == name and now < self._told[1] + PROGRESS_SECONDS:
            return
        self._told = (name, now)
        for notice in self._ledger.served(self._undertaking):
            if notice is not self._ledger.local:
                self._outbox.put(
                    Progress(
                        notice.id, name or None, values.whole(bytes), values.whole(total_bytes)
                    )
                )

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._undertaking.report is None:
            if error is None:
                self.failed("the flush ended without saved()")
            else:
                self.failed(values.describe(error))
        self._ledger.end(self._undertaking)

    def _complain_of_phase(self, phase: object) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        # Its type alone: to show a tensor's value can wait for the device.
        _log.warning(
            "progress() takes the phase first, a text, and was given a value of type %s: it is not "
            "told; give sizes by name: progress(bytes=…, total_bytes=…)",
            type(phase).__name__,
        )

    def _saved_step(self, step: object) -> int:
        for candidate in (step, self._step, self._ledger.step):
            number = values.whole(candidate)
            if number is not None:
                return number
        return 0

    def _settle(self, report: Report) -> bool:
        # A drill ends with its last flush: what was open is asked before the agent can answer.
        open_ids = self._ledger.open_ids
        told = self._ledger.settle(self._undertaking, report)
        if told is None:
            _log.warning(
                "the flush for notice %s is settled already; its second %s is not reported",
                self._notice.id,
                report.type,
            )
            return False
        if not self._entered:
            self._ledger.end(self._undertaking)
        if not told:
            self._tell_as_checkpoint(report)
            return False
        # A withdrawn notice lets training go on, so nothing need be waited for.
        standing = open_ids.intersection(told)
        return self._outbox.wait(standing, ANSWER_SECONDS) if standing else False

    def _tell_as_checkpoint(self, report: Report) -> None:
        """A signal's flush answers no notice that the agent knows; to it, it is a checkpoint."""
        if isinstance(report, Flushed) and report.durable:
            self._outbox.put(
                Checkpoint(
                    step=report.step,
                    path=report.path,
                    bytes=report.bytes,
                    stall_seconds=report.stall_seconds,
                    durable_seconds=report.durable_seconds,
                    format=report.format,
                )
            )


def _is_phase(value: object) -> bool:
    """Whether a caller gave a phase, whatever its type hints promise."""
    return value is None or isinstance(value, str)
