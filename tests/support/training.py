"""A training process under a test's hand; see ``training_program``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("training_program.py")


class Training:
    """The process; made by :meth:`begun`.

    Attributes:
        child: the pid of the child that it has forked, if it was to.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.child: int | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(cls, socket_path: Path, *flags: str) -> AsyncIterator[Training]:
        """Start it, and wait until it trains under the agent."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROGRAM), *flags),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "LASTCALL_SOCKET": str(socket_path)},
        )
        training = cls(process)
        try:
            began = await training.says("training")
            assert began["connected"]
            training.child = began["child"]
            yield training
        finally:
            if training.child is not None:
                os.kill(training.child, signal.SIGKILL)
            if process.returncode is None:
                process.kill()
            await process.communicate(b"")

    async def says(self, event: str) -> dict[str, Any]:
        """Return the next thing that it says, which must be this."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 10)
        said: dict[str, Any] = json.loads(line)
        assert said["event"] == event, said
        return said

    def tell(self, words: str) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n".encode())
