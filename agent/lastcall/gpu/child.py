"""Runs one probe as a child process: its lines, its trail, and its end, which may never come."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from lastcall.gpu import trail
from lastcall.gpu.lines import LONGEST_BYTES
from lastcall.gpu.trail import Step

PROGRAM = (sys.executable, "-P", "-m", "lastcall.gpu.probe")
"""The probe, but for its settings. ``-P``: nothing in the working folder passes for a module."""

TERM_SECONDS = 2.0
"""What a probe has to end after SIGTERM, and before SIGKILL."""

KILL_SECONDS = 2.0
"""How long the end of a killed probe is waited for: the kernel may hold it in a call."""

PATIENCE_SECONDS = 0.5
"""How long the last lines of an ended probe, or the end of one without output, are waited for."""

FLOOD_BYTES = 1 << 20
"""More than this within a second no probe has to say; the loop has others to serve."""

KEPT_ERROR_LINES = 20
"""Lines of standard error that are kept for the log."""

LONGEST_ERROR_BYTES = 1000
"""What is kept of each of them."""

_OUTPUT, _ERRORS = 1, 2


class Child(asyncio.SubprocessProtocol):
    """One running probe. Belongs to the running loop; :func:`start` makes it.

    Args:
        trail_fd: the file that the probe writes its steps to; closed with the child.
        heard: takes each line that the probe prints.
        changed: is called when :attr:`ended` or :attr:`fault` changed.

    Attributes:
        pid: its process id; 0 before it runs.
        fault: what it did that no probe does, for people; empty while it did nothing of the kind.
    """

    def __init__(
        self, trail_fd: int, heard: Callable[[bytes], None], changed: Callable[[], None]
    ) -> None:
        self.pid = 0
        self.fault = ""
        self._trail_fd = trail_fd
        self._heard = heard
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport | None = None
        self._output = LineSplitter(LONGEST_BYTES)
        self._errors = LineSplitter(LONGEST_ERROR_BYTES)
        self._last_errors: deque[str] = deque(maxlen=KEPT_ERROR_LINES)
        self._second_began_at = 0.0
        self._bytes_in_second = 0
        self._output_over = False
        self._exited = asyncio.Event()
        self._over = False

    @property
    def ended(self) -> str | None:
        """How it ended by now, for people; ``None`` while it runs or its last lines may come."""
        return self._how() if self._over else None

    @property
    def gone(self) -> bool:
        """Whether the process, with all of its threads, is no more."""
        return self._exited.is_set()

    @property
    def errors(self) -> tuple[str, ...]:
        """The last lines that it wrote to standard error."""
        return tuple(self._last_errors)

    def step(self) -> Step | None:
        """Return the driver call that it is in, as it says; the call is empty between two."""
        return trail.read(self._trail_fd)

    def ask(self) -> None:
        """Have it look at once; one that does not read what it is asked is asked no more."""
        if self._transport is None:
            return
        pipe = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        if not pipe.is_closing() and not pipe.get_write_buffer_size():
            pipe.write(b"look\n")

    async def end(
        self, term_seconds: float = TERM_SECONDS, kill_seconds: float = KILL_SECONDS
    ) -> bool:
        """End it, within the sum of both times, and let go of its pipes.

        Args:
            term_seconds: what it has after SIGTERM.
            kill_seconds: what the kernel has after SIGKILL.

        Returns:
            Whether it is gone. Otherwise it was left behind: it costs nothing any more, and
            :attr:`gone` tells when the kernel has let go of it.
        """
        try:
            gone = (
                self._exited.is_set()
                or await self._signalled(signal.SIGTERM, term_seconds)
                or await self._signalled(signal.SIGKILL, kill_seconds)
            )
        finally:
            self.drop()
        return gone

    def drop(self) -> None:
        """Kill it if it still runs, let go of it at once, and wait for nothing."""
        self._heard, self._changed = _nothing, _nothing
        if self._trail_fd >= 0:
            os.close(self._trail_fd)
            self._trail_fd = -1
        if self._transport is None:
            return
        if not self._exited.is_set():
            self._kill(signal.SIGKILL)
            # Else closing would reap it beside asyncio, or complain that it still runs. What waits
            # for its end is a daemon thread or a descriptor of asyncio's, and holds up nobody.
            self._transport.get_extra_info("subprocess").returncode = -signal.SIGKILL
        self._transport.close()

    async def _signalled(self, number: signal.Signals, seconds: float) -> bool:
        self._kill(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        return self._exited.is_set()

    def _kill(self, number: signal.Signals) -> None:
        # A number that is not known yet would be the agent's own group.
        if self.pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take in that it runs."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take in what it prints."""
        if fd == _ERRORS:
            for line in self._errors.more(data):
                self._last_errors.append(line.decode(errors="replace"))
            return
        if self._floods(len(data)):
            self._blame("printed without end")
            return
        for line in self._output.more(data):
            self._heard(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Take in that it prints nothing more."""
        del exc
        if fd != _OUTPUT:
            return
        self._output_over = True
        if self._exited.is_set():
            self._conclude()
        else:
            self._loop.call_later(PATIENCE_SECONDS, self._blame_silence)

    def process_exited(self) -> None:
        """Take in that it has ended; its last lines may still be in the pipe."""
        self._exited.set()
        if self._output_over:
            self._conclude()
        else:
            self._loop.call_later(PATIENCE_SECONDS, self._conclude)

    def _conclude(self) -> None:
        if not self._over:
            self._over = True
            self._changed()

    def _blame_silence(self) -> None:
        if not self._exited.is_set():
            self._blame("closed its output and went on")

    def _blame(self, fault: str) -> None:
        if not self.fault:
            self.fault = fault
            self._changed()

    def _floods(self, count: int) -> bool:
        now = self._loop.time()
        if now - self._second_began_at >= 1.0:
            self._second_began_at, self._bytes_in_second = now, 0
        self._bytes_in_second += count
        if self._bytes_in_second <= FLOOD_BYTES:
            return False
        if self._transport is not None:
            pipe = cast("asyncio.ReadTransport", self._transport.get_pipe_transport(_OUTPUT))
            pipe.pause_reading()
        return True

    def _how(self) -> str:
        code = None if self._transport is None else self._transport.get_returncode()
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


class LineSplitter:
    """Cuts bytes into lines.

    Args:
        longest_bytes: what is kept of a line; the rest of a longer one is let go.
    """

    def __init__(self, longest_bytes: int) -> None:
        self._longest_bytes = longest_bytes
        self._begun = b""

    def more(self, data: bytes) -> list[bytes]:
        """Return the lines that are whole now; one that is too long stays so, by one byte."""
        *whole, rest = data.split(b"\n")
        kept = self._longest_bytes + 1
        if not whole:
            self._begun = (self._begun + rest)[:kept]
            return []
        whole[0] = self._begun + whole[0]
        self._begun = rest[:kept]
        return [line[:kept] for line in whole]


async def start(
    program: Sequence[str],
    trail_fd: int,
    *,
    environment: Mapping[str, str] | None,
    heard: Callable[[bytes], None],
    changed: Callable[[], None],
) -> Child:
    """Start a probe in a session of its own, which inherits its trail and no other file.

    A cancellation in the middle waits for the start, which is soon over, and kills the probe:
    cancelled itself, asyncio's own call may wait for pipes that it never opened (CPython 3.11,
    ``asyncio.base_subprocess``).

    Args:
        program: the program and its arguments; no shell reads them.
        trail_fd: see :class:`Child`, which closes it in any case.
        environment: all of the probe's; ``None``: the agent's own.
        heard: see :class:`Child`.
        changed: see :class:`Child`.

    Raises:
        OSError: it cannot be run.
    """
    child = Child(trail_fd, heard, changed)
    starting = asyncio.ensure_future(_start(child, program, trail_fd, environment))
    try:
        await asyncio.shield(starting)
    except OSError:
        child.drop()
        raise
    except asyncio.CancelledError:
        with suppress(OSError):
            await starting
        child.drop()
        raise
    return child


async def _start(
    child: Child, program: Sequence[str], trail_fd: int, environment: Mapping[str, str] | None
) -> None:
    await asyncio.get_running_loop().subprocess_exec(
        lambda: child,
        *program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=None if environment is None else dict(environment),
        pass_fds=(trail_fd,),
        start_new_session=True,
    )


def _nothing(*_: object) -> None:
    """Take what nobody wants to know any more."""
