"""The agent's socket with a machine behind it that only greets, and plain clients for it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from lastcall.core.commands import Greet
from lastcall.core.events import ClientJoined, Event
from lastcall.core.model import Action, DeadlineQuality, Kind, Phase, Urgency
from lastcall.core.views import NoticeView
from lastcall.serve.socket import AgentSocket, SocketSettings

WAIT_SECONDS = 5.0
"""How long a test waits for what should come at once."""

E = TypeVar("E", bound=Event)


def view(key: str = "n-1", **changes: Any) -> NoticeView:
    """Return a preemption notice as the machine shows it, with some fields changed."""
    fields: dict[str, Any] = {
        "id": key,
        "phase": Phase.TOLD,
        "kind": Kind.PREEMPTION,
        "source": "aws",
        "sources": ("aws",),
        "action": Action.TERMINATE,
        "urgency": Urgency.NOW,
        "first_seen": 0.0,
        "deadline": None,
        "deadline_unix": None,
        "deadline_quality": DeadlineQuality.NONE,
        "flush_until": None,
        "cancellable": False,
        "drill": False,
        "reason": "spot instance interruption",
        "supersedes": (),
    }
    return NoticeView(**{**fields, **changes})


async def until(holds: Callable[[], Any]) -> Any:
    """Wait until something holds, for some seconds at most, and return its value."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (value := holds()):  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.002)
    return value


class Client:
    """A client that says what a test wants said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, kind: str, /, **fields: Any) -> None:
        """Send a message."""
        self.say_raw(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def say_raw(self, content: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(content)

    async def greet(self, **fields: Any) -> dict[str, Any]:
        """Say hello and return the welcome."""
        self.say("hello", protocol=[1, 1], **fields)
        return await self.hear("welcome")

    async def hear(self, kind: str | None = None) -> dict[str, Any]:
        """Return the next message, which must be of that type."""
        async with asyncio.timeout(WAIT_SECONDS):
            line = await self._reader.readline()
        if not line:
            raise EOFError("the agent has closed the connection")
        message: dict[str, Any] = json.loads(line)
        if kind is not None:
            assert message["type"] == kind, message
        return message

    async def hear_error(self, code: str) -> str:
        """Return the text of the next message, which must be this error."""
        message = await self.hear("error")
        assert message["code"] == code, message
        return str(message["message"])

    async def hear_all(self) -> list[dict[str, Any]]:
        """Return all messages until the agent closes the connection."""
        messages = []
        while True:
            try:
                messages.append(await self.hear())
            except (EOFError, ConnectionError):
                return messages

    async def sees_end(self) -> bool:
        """Wait until the agent has closed the connection, with nothing more said."""
        return await self.hear_all() == []

    def stop_writing(self) -> None:
        """Say that nothing more will come, and go on listening."""
        self._writer.write_eof()

    async def close(self) -> None:
        """Hang up, with nothing said that the agent does not take."""
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


class Door:
    """The socket in a directory of its own.

    Attributes:
        events: all that was posted.
        notices: what the welcome lists.
        greets: false: a hello is never answered.
    """

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.path = directory / "agent.sock"
        self.events: list[Event] = []
        self.notices: tuple[NoticeView, ...] = ()
        self.greets = True
        self.view: dict[str, Any] = {"summary": {"phase": "quiet"}}
        self.wall = 1_800_000_000.0
        self._clients: list[Client] = []
        self.socket = AgentSocket(
            SocketSettings(path=str(self.path), **settings),
            node_name="node-1",
            agent_version="0.0",
            post=self._post,
            status=lambda: self.view,
            monotonic=lambda: asyncio.get_running_loop().time(),
            wall=lambda: self.wall,
        )

    async def __aenter__(self) -> Self:
        await self.socket.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        await self.socket.close("the test is over")

    def _post(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ClientJoined) and self.greets:
            loop = asyncio.get_running_loop()
            loop.call_soon(self.socket.greet, Greet(event.session, self.notices))

    async def connect(self) -> Client:
        """Return a new connection."""
        client = Client(*await asyncio.open_unix_connection(str(self.path), limit=1 << 20))
        self._clients.append(client)
        return client

    async def join(self, **fields: Any) -> Client:
        """Return a new connection that has been welcomed."""
        client = await self.connect()
        await client.greet(**fields)
        return client

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def wait(self, kind: type[E], count: int = 1) -> E:
        """Wait until so many events of a type have come; return the last of them."""
        await until(lambda: len(self.all(kind)) >= count)
        return self.all(kind)[count - 1]


def short_directory() -> tempfile.TemporaryDirectory[str]:
    """Return a directory whose name leaves room for a socket's."""
    return tempfile.TemporaryDirectory(prefix="lc-")


@contextmanager
def program(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program while the block runs; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_line(process: subprocess.Popen[bytes]) -> str:
    """Return the next line that a program prints."""
    assert process.stdout is not None
    began = time.monotonic()
    line = process.stdout.readline().decode().strip()
    assert time.monotonic() - began < WAIT_SECONDS, "the program said nothing"
    return line
