"""The training side's public interface: connect once, poll at every step, flush when told."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from lastcall._version import __version__
from lastcall.client import lifecycle, values
from lastcall.client.bell import Bell
from lastcall.client.flush import Flush
from lastcall.client.identity import DEFAULT_SOCKET, Identity, identify
from lastcall.client.ledger import Ledger
from lastcall.client.link import Link
from lastcall.client.notice import Notice
from lastcall.client.outbox import Outbox
from lastcall.client.signals import SignalFallback
from lastcall.wire.messages import PROTOCOL, Advice, Checkpoint, Hello, Resumed

WELCOME_WAIT_SECONDS = 0.2
"""How long `connect` waits for an agent whose socket is there, so that the first poll knows all."""

CLOSE_SECONDS = 1.0
EXIT_SECONDS = 0.2
"""How long saying bye may take: when asked to close, and at the end of the process."""

_log = logging.getLogger("lastcall")


def connect(
    job: str | None = None,
    rank: int | None = None,
    local_rank: int | None = None,
    world_size: int | None = None,
    socket: str | os.PathLike[str] | None = None,
) -> Guard:
    """Connect this training process to the node's agent.

    Without an agent the guard does nothing, and goes on looking for one; training runs the same.
    Where the agent's socket exists, this waits up to 0.2 s for its welcome, so that the first poll
    knows of a notice that is open already.

    Call it in the process that trains, after any fork: a forked child's copy is disabled.

    Args:
        job: names the job in metrics and reports; default: ``LASTCALL_JOB``, else the scheduler's
            or the launcher's id of it.
        rank: default: ``RANK``, else ``SLURM_PROCID``.
        local_rank: default: ``LOCAL_RANK``, else ``SLURM_LOCALID``.
        world_size: default: ``WORLD_SIZE``, else ``SLURM_NTASKS``.
        socket: the agent's socket; default: ``LASTCALL_SOCKET``, else
            ``/run/lastcall/agent.sock``.
    """
    identity = identify(
        os.environ, job=job, rank=rank, local_rank=local_rank, world_size=world_size
    )
    path = os.fsdecode(socket or os.environ.get("LASTCALL_SOCKET") or DEFAULT_SOCKET)
    return Guard(identity, path)


class Guard:
    """A training process's line to the agent; made by :func:`connect`.

    Every method may be called from any thread, returns at once unless it says otherwise, and
    raises nothing for want of an agent. As a context manager it closes itself.

    Attributes:
        identity: who this process is within its job.
    """

    def __init__(self, identity: Identity, path: str) -> None:
        self.identity = identity
        self._bell = Bell()
        self._outbox = Outbox(self._bell)
        self._ledger = Ledger(self._outbox)
        self._link = Link(path, self._hello, self._ledger, self._outbox, self._bell)
        self._fallbacks: list[SignalFallback] = []
        self._closed = False
        lifecycle.watch(self, in_child=self._abandon, at_exit=self._leave)
        try:
            self._link.start()
        except RuntimeError as error:
            _log.warning("no thread for lastcall (%s); training goes on without it", error)
            self._bell.close()
            return
        if os.path.exists(path):
            self._link.tried.wait(WELCOME_WAIT_SECONDS)

    def poll(self, step: int | None = None) -> Notice | None:
        """Return the most urgent notice that nobody has dealt with, or ``None``.

        Meant for every step: without a notice it reads a flag, no more. What it returns is known to
        this process alone, so it must not decide whether to enter a collective; other ranks may not
        know yet.

        Args:
            step: the step just done, for the agent's view of where training stands.
        """
        ledger = self._ledger
        if step is not None:
            ledger.step = step
        return ledger.choose() if ledger.pending else None

    def flush(self, notice: Notice, step: int | None = None) -> Flush:
        """Begin a flush for a notice; use it with ``with`` around the save.

        Tells the agent at once that training has decided to save. From here on :meth:`poll` does
        not return this notice again.

        Args:
            notice: what :meth:`poll` returned.
            step: the step that is saved; default: the last one polled.
        """
        return self._flush(notice, step, "save")

    def finish_inflight(self, notice: Notice, step: int | None = None) -> Flush:
        """Begin to wait for an asynchronous save that is under way already, instead of a new one.

        For when too little time is left for a save from the start. Use it like :meth:`flush`.

        Args:
            notice: what :meth:`poll` returned.
            step: the step that the save under way holds; default: the last one polled.
        """
        return self._flush(notice, step, "finish_inflight")

    def ignore(self, notice: Notice) -> None:
        """Tell the agent that training will do nothing about a notice; it is not polled again."""
        self._ledger.ignore(notice, self._ledger.step)

    def checkpoint(
        self,
        step: int,
        path: str | os.PathLike[str] | None = None,
        *,
        bytes: int | None = None,  # noqa: A002 - the protocol's name
        stall_seconds: float | None = None,
        durable_seconds: float | None = None,
        format: str | None = None,  # noqa: A002 - the protocol's name
    ) -> None:
        """Tell the agent of a routine checkpoint that is durable now.

        From these it learns how long a flush will take and how often to advise one. Without an
        agent only the newest is kept until there is one.

        Args:
            step: the step it holds.
            path: where it is.
            bytes: its size.
            stall_seconds: how long training stood still for it.
            durable_seconds: from its begin until it was durable.
            format: such as ``dcp`` or ``safetensors``.
        """
        number = values.whole(step)
        if number is None:
            _log.warning("a checkpoint's step must be a number, not %r; it is not told", step)
            return
        self._outbox.put(
            Checkpoint(
                step=number,
                path=values.place_or_none(path),
                bytes=values.whole(bytes),
                stall_seconds=values.seconds(stall_seconds),
                durable_seconds=values.seconds(durable_seconds),
                format=values.text_or_none(format),
            )
        )

    def resumed(
        self,
        step: int,
        saved_unix: float | None = None,
        lost_steps: int | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Tell the agent that the job came back, and what it had lost.

        Args:
            step: the step it goes on from.
            saved_unix: when the checkpoint it loaded was saved, as Unix seconds.
            lost_steps: steps that must be done again.
            path: the checkpoint it loaded.
        """
        number = values.whole(step)
        if number is None:
            _log.warning("a resumed job's step must be a number, not %r; it is not told", step)
            return
        self._ledger.step = number
        self._outbox.put(
            Resumed(
                step=number,
                saved_unix=values.seconds(saved_unix),
                lost_steps=values.whole(lost_steps),
                path=values.place_or_none(path),
            )
        )

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Name what the loop is doing, such as ``eval`` or ``compile``, for the body's duration.

        It tells the agent why a notice may be answered late.
        """
        before = self._ledger.section
        self._ledger.section = name
        try:
            yield
        finally:
            self._ledger.section = before

    @property
    def advice(self) -> Advice | None:
        """What the agent said last about this job's checkpoints; ``None`` before it has."""
        return self._ledger.advice

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds to the deadline of the most urgent notice, dealt with or not.

        ``None`` where there is no notice, or nobody says when.
        """
        notice = self._ledger.most_urgent()
        return notice.remaining_seconds if notice else None

    @property
    def connected(self) -> bool:
        """Whether an agent is there at this moment."""
        return self._link.connected

    def install_signal_fallback(self, signum: int = signal.SIGTERM) -> None:
        """Have a signal count as a notice, where no agent is there to send one.

        The handler only sets a flag; :meth:`poll` then returns a notice of source ``signal``
        without a deadline. It comes once, and not on top of an agent's notice that is being dealt
        with. The handler before it is called too, and put back by :meth:`close`.

        Raises:
            RuntimeError: not called in the main thread, or the signal has a handler that was not
                installed from Python.
            ValueError: no such signal.
            OSError: the signal cannot be caught.
        """
        if all(fallback.signum != signum for fallback in self._fallbacks):
            self._fallbacks.append(SignalFallback(signum, self._ledger))

    def close(self, reason: str | None = None) -> None:
        """Say bye to the agent, after what it must still be told; takes 1 s at most.

        Args:
            reason: why this process leaves, for the agent's log.
        """
        self._close(reason, CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(kind.__name__ if kind else None)

    # --- inside ------------------------------------------------------------------------------

    def _flush(self, notice: Notice, step: int | None, will: str) -> Flush:
        if step is None:
            step = values.whole(self._ledger.step)
        else:
            self._ledger.step = step
        return Flush(notice, step=step, will=will, ledger=self._ledger, outbox=self._outbox)

    def _hello(self) -> Hello:
        # What the agent has no record of is still owed to it, and it must know of whom.
        unrecorded = self._outbox.unrecorded
        return Hello(
            protocol=(PROTOCOL, PROTOCOL),
            job=self.identity.job,
            rank=self.identity.rank,
            local_rank=self.identity.local_rank,
            world_size=self.identity.world_size,
            pid=os.getpid(),
            client=f"lastcall-py/{__version__}",
            handled=tuple(key for key in self._ledger.handled if key not in unrecorded),
        )

    def _close(self, reason: str | None, timeout_seconds: float) -> None:
        if self._closed:
            return
        self._closed = True
        until = time.monotonic() + timeout_seconds
        lifecycle.forget(self)
        # Three quarters for what the agent must record, the rest for saying bye.
        self._outbox.wait(None, 0.75 * timeout_seconds)
        self._link.close(values.text_or_none(reason), max(0.0, until - time.monotonic()))
        self._outbox.close()
        self._ledger.close()
        for fallback in self._fallbacks:
            fallback.restore()

    def _leave(self) -> None:
        self._close("exit", EXIT_SECONDS)

    def _abandon(self) -> None:
        self._closed = True
        self._outbox.abandon()
        self._ledger.abandon()
        self._link.abandon()
        for fallback in self._fallbacks:
            fallback.restore()
