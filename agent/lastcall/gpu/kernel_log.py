"""The kernel's own log, read for its lines about GPU errors.

It says what NVML's events leave out: the text of an error, and all errors since boot. It can be
read by whom the system allows it, mostly with ``CAP_SYSLOG``; without it, the watch goes on.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path

from lastcall.gpu.kernel_bursts import BURST_SECONDS, Bursts
from lastcall.gpu.kernel_lines import KernelLines, KernelXid, record

LINES_PER_TURN = 256
"""After so many lines everything else on the loop has its turn."""

LOOK_SECONDS = 0.5
"""Time between looks at a log that cannot be waited on: a plain file, a pipe nobody writes to."""

_READ_BYTES = 16384  # A read of /dev/kmsg fails where the record, 8 KiB at most, does not fit.
_LINE_BYTES = 65536


class _Ended(Enum):
    TURN = auto()
    DRAINED = auto()
    AT_END = auto()
    BROKEN = auto()


class KernelLog:
    """Reads the kernel's log: first what it holds since boot, then what comes.

    Args:
        path: the log, such as ``/dev/kmsg``.
        seen: takes the errors. One that comes many times within a second is handed on at once, and
            a second later with the count of the rest.
        said: takes a line for people where the log cannot be read, and what helps; once.
        monotonic: the monotonic clock, in seconds.
    """

    def __init__(
        self,
        path: Path,
        *,
        seen: Callable[[KernelXid], None],
        said: Callable[[str], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._path = path
        self._said = said
        self._monotonic = monotonic
        self._lines = KernelLines()
        self._bursts = Bursts(seen)
        self._fd: int | None = None
        self._past = True
        self._rest = b""
        self._watched = False
        self._next: asyncio.Handle | None = None
        self._flush: asyncio.Handle | None = None

    def start(self) -> None:
        """Open the log and begin to read it, in small pieces, on the running loop.

        Where it cannot be opened, that is said once, and all stays quiet.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            self._said(_why(self._path, error))
            return
        self._next = self._loop.call_soon(self._turn)

    def close(self) -> None:
        """End the reading, after what was counted is handed on; it may be called twice."""
        if self._fd is None:
            return
        self._unwatch()
        for handle in (self._next, self._flush):
            if handle is not None:
                handle.cancel()
        os.close(self._fd)
        self._fd = None
        self._bursts.flush()

    def _turn(self) -> None:
        if self._fd is None:
            return
        ended = self._read(self._fd)
        if ended is _Ended.BROKEN:
            return
        if ended is not _Ended.TURN and self._past:
            self._past = False
            self._bursts.flush()
        if self._bursts.waiting and self._flush is None:
            self._flush = self._loop.call_later(BURST_SECONDS, self._flush_bursts)
        if ended is _Ended.AT_END:
            self._unwatch()
            self._next = self._loop.call_later(LOOK_SECONDS, self._turn)
        elif ended is _Ended.DRAINED:
            self._watch()
        elif not self._watched:
            self._next = self._loop.call_soon(self._turn)

    def _read(self, fd: int) -> _Ended:
        lines = 0
        while lines < LINES_PER_TURN:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return _Ended.DRAINED
            except BrokenPipeError:
                # The kernel overwrote what was not read yet; the next read has the oldest it has.
                lines += 1
                continue
            except OSError as error:
                self._said(_why(self._path, error))
                self.close()
                return _Ended.BROKEN
            if not data:
                return _Ended.AT_END
            lines += self._take(data)
        return _Ended.TURN

    def _take(self, data: bytes) -> int:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _LINE_BYTES else b""
        now = self._monotonic()
        for line in lines:
            if b"NVRM:" in line:
                self._take_line(line.decode("ascii", "replace"), now)
        return len(lines)

    def _take_line(self, line: str, now: float) -> None:
        said = record(line)
        # The kernel's stamps drift from the monotonic clock; what comes live needs none.
        at = min(said.at, now) if self._past and said.at is not None else now
        for found in self._lines.take(said.text, at, past=self._past):
            self._bursts.take(found)

    def _flush_bursts(self) -> None:
        self._flush = None
        self._bursts.flush()

    def _watch(self) -> None:
        if self._watched or self._fd is None:
            return
        self._loop.add_reader(self._fd, self._turn)
        self._watched = True

    def _unwatch(self) -> None:
        if self._watched and self._fd is not None:
            self._loop.remove_reader(self._fd)
        self._watched = False


def _why(path: Path, error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return (
            f"the kernel's log at {path} may not be read: that needs CAP_SYSLOG, and leave to read"
            " the file (see docs/reference/gpu.md)"
        )
    if error.errno == errno.ENOENT:
        return (
            f"the kernel's log is not at {path}: in a container it must be mounted from the host"
            " (see docs/reference/gpu.md)"
        )
    return f"the kernel's log at {path} cannot be read: {error.strerror}"
