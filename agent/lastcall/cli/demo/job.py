"""The launcher: starts the training processes, hears what they say, ends them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastcall.cli.demo.scenario import DemoError, Scenario, child_environment

TIMEOUT_SECONDS = 60.0
"""How long the next thing that must happen is waited for."""

Event = dict[str, Any]


@dataclass(slots=True)
class Heard:
    """What the processes of one start have said.

    Attributes:
        by_name: the events of each name, in the order they came; each holds its ``rank``.
    """

    by_name: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))

    def all(self, name: str, **facts: object) -> list[Event]:
        """Return the events of a name with these facts."""
        return [event for event in self.by_name[name] if facts.items() <= event.items()]


class Job:
    """The processes of one start of the job, one a rank.

    Attributes:
        heard: what they have said so far.
    """

    def __init__(self) -> None:
        self.heard = Heard()
        self._changed = asyncio.Event()
        self._processes: list[asyncio.subprocess.Process] = []
        self._listeners: list[asyncio.Task[None]] = []

    def add(self, process: asyncio.subprocess.Process) -> None:
        """Take in the process of the next rank."""
        listener = asyncio.create_task(self._listen(len(self._processes), process))
        self._processes.append(process)
        self._listeners.append(listener)

    async def wait_for(self, name: str, count: int = 1, **facts: object) -> Event:
        """Wait until so many such events were heard; return the last of them.

        Raises:
            DemoError: the processes ended before, or it took too long.
        """
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(found := self.heard.all(name, **facts)) < count:
                    if all(listener.done() for listener in self._listeners):
                        raise DemoError(f"the processes ended before {count} said {name!r}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise DemoError(f"the processes did not say {name!r} in time") from None
        return found[count - 1]

    async def wait(self) -> list[int]:
        """Wait until all have ended; return their exit codes, negative for signals."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await asyncio.gather(*self._listeners)
                return [await process.wait() for process in self._processes]
        except TimeoutError:
            raise DemoError("the processes did not end in time") from None

    def terminate(self) -> None:
        """Send each process SIGTERM, as a platform does that drains a node."""
        self._signal(signal.SIGTERM)

    async def close(self) -> None:
        """Kill what is left."""
        self._signal(signal.SIGKILL)
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for process in self._processes:
            await process.wait()

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(number)

    async def _listen(self, rank: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            async for line in process.stdout:
                event: Event = {"rank": rank, **json.loads(line)}
                self.heard.by_name[event["event"]].append(event)
                self._changed.set()
        finally:
            # Whoever waits must learn that this process says no more, once this task is done.
            asyncio.get_running_loop().call_soon(self._changed.set)


@asynccontextmanager
async def started(scenario: Scenario, place: Path, socket: Path, log: Path) -> AsyncIterator[Job]:
    """Start the job; whatever is left of it at the end of the block is killed.

    Args:
        scenario: what the job is like.
        place: where its checkpoints are.
        socket: the agent's; where none is, there is no agent.
        log: what the processes say on standard error is added to this file.
    """
    command = [
        sys.executable,
        "-m",
        "lastcall.cli.demo.trainer",
        f"--directory={place}",
        f"--collective={place / 'collective.sock'}",
        *scenario.trainer_options,
    ]
    job = Job()
    try:
        with log.open("ab") as errors:
            for rank in range(scenario.ranks):
                job.add(
                    await asyncio.create_subprocess_exec(
                        *command,
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.PIPE,
                        stderr=errors,
                        cwd=place,
                        env=_environment(rank, scenario.ranks, socket),
                        # Ctrl-C is the demo's to handle, not theirs.
                        start_new_session=True,
                    )
                )
        yield job
    finally:
        await job.close()


def _environment(rank: int, ranks: int, socket: Path) -> Mapping[str, str]:
    """Return what torchrun would set, and where the agent is."""
    return child_environment(
        LASTCALL_SOCKET=str(socket),
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(ranks),
    )
