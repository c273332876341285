"""The real agent as a process of its own, and a client that speaks bare lines to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

START_SECONDS = 15.0


def free_port() -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def plain_environment() -> dict[str, str]:
    """Return the test's own environment without what is meant for lastcall."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LASTCALL_")}


class RunningAgent:
    """``lastcall run`` with directories of its own; what it logs is kept line by line.

    Args:
        folder: where its socket and its journal are.
        settings: each ``table.key=value``.
        prefix: a command that runs the agent, in place of itself.
        environment: variables beside those of the test.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.socket_path = folder / "agent.sock"
        self.port = free_port()
        self.log: list[dict[str, Any]] = []
        self.other_lines: list[str] = []
        self.process: asyncio.subprocess.Process | None = None
        self._prefix = prefix
        self._environment = environment or {}
        self._settings = (
            f"socket.path={self.socket_path}",
            f"state_dir={folder / 'state'}",
            f"http.listen=127.0.0.1:{self.port}",
            "node_name=test-node",
            *settings,
        )
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.end(signal.SIGTERM)

    async def start(self, *, until: str = "provider_settled") -> None:
        """Start the agent and wait until it has logged an event."""
        seen = len(self.log)
        await self.begin()
        await self.wait(lambda: self.process is None or self.logged(until, seen), START_SECONDS)

    async def begin(self) -> None:
        """Start the agent and wait for nothing."""
        self.process = await asyncio.create_subprocess_exec(
            *(*self._prefix, sys.executable, "-m", "lastcall", "run", *self._arguments()),
            stderr=asyncio.subprocess.PIPE,
            env={**plain_environment(), **self._environment},
        )
        self._reading = asyncio.create_task(self._read(self.process))

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self.process is not None
        return self.process.pid

    def path_to(self, path: str | Path) -> Path:
        """Return how a path as the agent sees it is reached from here."""
        return Path(f"/proc/{self.pid}/root{path}")

    def resident_bytes(self) -> int:
        """Return how much memory it takes now."""
        return int(psutil.Process(self.pid).memory_info().rss)

    async def end(self, number: int) -> int | None:
        """Signal the agent, again where it would stay; return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return None
        ending = asyncio.create_task(process.wait())
        said = len(self.log)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        async with asyncio.timeout(10):
            while not ending.done() and not self.logged("agent_stays", said):
                await asyncio.wait([ending], timeout=0.02)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            code = await ending
        if self._reading is not None:
            await self._reading
        return code

    async def wait(self, holds: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until something holds; the agent's log is in the error when it does not."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    if self.process is not None and self.process.returncode is not None:
                        break
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pass
        said = [*map(str, self.log), *self.other_lines]
        assert holds(), "\n".join(["never held; the agent said:", *said])

    async def wait_view(
        self, holds: Callable[[dict[str, Any]], object], seconds: float = 10.0
    ) -> dict[str, Any]:
        """Wait until something holds for what the agent knows, and return that."""
        async with asyncio.timeout(seconds):
            while True:
                view = await view_of(self)
                if holds(view):
                    return view
                await asyncio.sleep(0.02)

    def logged(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """Return the lines that it logged of one event."""
        return [line for line in self.log[since:] if line.get("event") == event]

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and body of one of its pages."""
        url = f"http://127.0.0.1:{self.port}{path}"
        return await asyncio.to_thread(_fetch, url)

    async def metric(self, series: str) -> float | None:
        """Return the value of one series as it is written in the exposition."""
        status, text = await self.get("/metrics")
        assert status == 200, text
        for line in text.splitlines():
            if line.startswith(series + " "):
                return float(line.removeprefix(series).split()[0])
        return None

    def _arguments(self) -> list[str]:
        config = self.folder / "empty.toml"
        config.touch()
        flags = [flag for setting in self._settings for flag in ("--set", setting)]
        return ["--config", str(config), *flags]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            line = raw.decode().rstrip()
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.other_lines.append(line)


class LineClient:
    """Speaks the protocol by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, path: Path, hello: Mapping[str, object] | None = None
    ) -> AsyncIterator[LineClient]:
        """Connect, and say hello unless that is left to the test."""
        reader, writer = await asyncio.open_unix_connection(str(path), limit=128 * 1024)
        client = cls(reader, writer)
        try:
            if hello is not None:
                client.send(type="hello", protocol=[1, 1], **hello)
            yield client
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def send(self, **fields: object) -> None:
        """Send one message."""
        self._writer.write(json.dumps(fields).encode() + b"\n")

    async def receive(self, kind: str | None = None, seconds: float = 5.0) -> dict[str, Any]:
        """Return the next message, or the next of one type."""
        async with asyncio.timeout(seconds):
            while True:
                line = await self._reader.readline()
                assert line, "the agent hung up"
                message: dict[str, Any] = json.loads(line)
                if kind is None or message["type"] == kind:
                    return message


async def join(agent: RunningAgent, **hello: object) -> dict[str, Any]:
    """Say hello as often as it takes, as a process does that wants to train; return the welcome."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            # An agent that has just begun, or has many at its door, may send it away.
            with contextlib.suppress(OSError):
                async with LineClient.connected(agent.socket_path, hello) as client:
                    return await client.receive("welcome")
            await asyncio.sleep(0.02)


async def request_drill(agent: RunningAgent, lead_seconds: float = 20.0) -> str:
    """Ask for a rehearsal as an operator does; return the id of its notice."""
    async with LineClient.connected(agent.socket_path) as operator:
        operator.send(type="drill", lead_seconds=lead_seconds)
        return str((await operator.receive("ok"))["id"])


async def view_of(agent: RunningAgent) -> dict[str, Any]:
    """Return what the agent knows, as an operator is told it."""
    async with LineClient.connected(agent.socket_path) as operator:
        operator.send(type="status")
        return await operator.receive("status")


def _fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
