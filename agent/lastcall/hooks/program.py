"""Runs one program of the site's own, for so long and no longer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from lastcall.hooks.output import Tail

TERM_SECONDS = 2.0
"""What a program whose time is up has to end by itself, after SIGTERM and before SIGKILL."""

KILL_SECONDS = 1.0
"""How long the end of a killed program is waited for: the kernel may hold it in a call."""

PATIENCE_SECONDS = 0.25
"""How long the last output of a program that has ended is read, where others hold its pipe."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a program.

    Attributes:
        outcome: ``ok``, ``failed``, ``timeout``, ``not_started`` or ``stopped``.
        code: its exit code, negative where a signal ended it; ``None`` where it has none.
        seconds: how long it ran.
        output: the end of what it printed, or why it was not started.
    """

    outcome: str
    code: int | None
    seconds: float
    output: str


async def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    content: bytes,
    timeout_seconds: float,
) -> Result:
    """Run a program and return what came of it; nothing is raised.

    When its time is up, or when this is cancelled (``stopped``), it is ended together with all that
    is still in its process group.

    Args:
        argv: the program and its arguments; no shell.
        environment: all of it.
        content: what it can read on standard input.
        timeout_seconds: how long it may run.
    """
    tail = Tail()
    try:
        try:
            process = await _start(argv, environment, content, tail)
        except (OSError, ValueError) as error:
            return Result("not_started", None, 0.0, _why(error))
        return await _see_to(process, tail, timeout_seconds)
    finally:
        tail.close()


async def _see_to(
    process: asyncio.subprocess.Process, tail: Tail, timeout_seconds: float
) -> Result:
    loop = asyncio.get_running_loop()
    began_at, outcome = loop.time(), ""
    try:
        async with asyncio.timeout(timeout_seconds):
            await process.wait()
    except TimeoutError:
        outcome = "timeout"
        await _end(process)
    except asyncio.CancelledError:
        # Whoever cancels waits for this, and nothing comes after it.
        outcome = "stopped"
        await _end(process)
    seconds = loop.time() - began_at
    await tail.end(PATIENCE_SECONDS)
    outcome = outcome or ("ok" if process.returncode == 0 else "failed")
    return Result(outcome, process.returncode, seconds, tail.text)


async def _start(
    argv: Sequence[str], environment: Mapping[str, str], content: bytes, tail: Tail
) -> asyncio.subprocess.Process:
    with ExitStack() as closing:
        # A file and no pipe: a program may read it, or not, and nobody waits for that.
        given = closing.enter_context(os.fdopen(os.memfd_create("notice"), "w+b"))
        given.write(content)
        given.seek(0)
        reading, writing = os.pipe()
        closing.callback(os.close, writing)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: tail, os.fdopen(reading, "rb", buffering=0))
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=given,
            stdout=writing,
            stderr=writing,
            env=environment,
            cwd="/",
            # A group of its own, so that what it has started ends with it.
            start_new_session=True,
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    # Whoever cancels this has no time left: it is killed now, and its end still seen to.
    with suppress(asyncio.CancelledError):
        await _wait(process, TERM_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    await _wait(process, KILL_SECONDS)


async def _wait(process: asyncio.subprocess.Process, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()


def _signal_group(group: int, number: int) -> None:
    # What runs as another user may not be signalled; then it goes on.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
