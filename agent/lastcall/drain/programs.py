"""Starts a program so that a cancellation at any moment leaves neither it nor the caller behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

REAP_SECONDS = 3.0
"""How long a killed program may take to be gone; a busy machine is slow to say so."""


async def start(*argv: str, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start a program in a group of its own, with pipes for what it prints and nothing to read.

    A cancellation in the middle waits for the start, which is soon over, and kills the group:
    cancelled itself, asyncio's own call may wait for pipes that it never opened (CPython 3.11,
    ``asyncio.base_subprocess``).

    Args:
        argv: the program and its arguments; no shell reads them.
        environment: the whole of its environment.

    Raises:
        OSError: it cannot be run.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            # So that what it has started ends with it.
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await end(await starting)
        raise


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs of a program that was started here, and reap it."""
    if process.returncode is not None:
        return
    kill(process)
    # What has left the group may hold the pipes open; it is not waited for.
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await process.communicate()


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a program that was started here, and all of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
