"""A scripted agent on a real Unix socket, for tests of the training side.

It answers by the book unless told otherwise, writes down every message it is sent, and checks each
against the protocol. Everything it does in the background happens in threads, since the client
under test blocks.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lastcall.wire.codec import WireError, decode
from lastcall.wire.messages import CLIENT_LINE_LIMIT, CLIENT_MESSAGES

WAIT_SECONDS = 5.0
"""How long a test waits for what should come at once."""

Received = dict[str, Any]


def notice(key: str = "n-1", **changes: Any) -> Received:
    """Return a preemption notice as it stands on the wire, with some fields changed."""
    return {
        "type": "notice",
        "id": key,
        "kind": "preemption",
        "source": "aws",
        "action": "terminate",
        "urgency": "now",
        "deadline_unix": 1_800_000_000.0,
        "remaining_seconds": 120.0,
        "budget_seconds": 110.0,
        "deadline_quality": "provider",
        "cancellable": False,
        "drill": False,
        "reason": "spot instance interruption",
        "supersedes": [],
        **changes,
    }


def eventually(condition: Callable[[], Any], timeout_seconds: float = WAIT_SECONDS) -> Any:
    """Wait until a condition holds and return its value; fail the test where it never does."""
    until = time.monotonic() + timeout_seconds
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"never held within {timeout_seconds} s")
        time.sleep(0.002)
    return value


class FakeAgent:
    """An agent that does what a test says.

    Attributes:
        notices: what a welcome lists.
        welcomes: false: say nothing to a hello.
        answers: false: never send ``ok``.
        reads: false: take in nothing, as a stopped process would.
        received: every message so far, over all connections.
        hellos: the hellos among them.
        ended: how many connections the clients have ended.
        faults: what was no message by the protocol.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[Received] = []
        self.welcomes = True
        self.answers = True
        self.reads = True
        self.received: list[Received] = []
        self.ended = 0
        self.faults: list[str] = []
        self._changed = threading.Condition()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None

    def start(self) -> Self:
        """Listen, in the place of whatever lay there."""
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        listener.listen(16)
        self._listener = listener
        self._spawn(self._accept, listener)
        return self

    def stop(self) -> None:
        """End as a killed agent would: no bye, and the socket's file stays."""
        if self._listener is not None:
            _end(self._listener)
            self._listener = None
        self.drop()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        self._threads.clear()

    def drop(self) -> None:
        """End every connection, and go on listening."""
        with self._changed:
            connections = list(self._connections)
            self._connections.clear()
        for connection in connections:
            _end(connection)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def say(self, message: Received) -> None:
        """Send a message to every client."""
        self.say_raw(json.dumps(message).encode() + b"\n")

    def say_raw(self, content: bytes) -> None:
        """Send bytes to every client; one that has gone meanwhile misses them."""
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(content)

    def announce(self, key: str = "n-1", **changes: Any) -> None:
        """Send a notice, which from now on stands in welcomes too."""
        message = notice(key, **changes)
        self.notices = [*(known for known in self.notices if known["id"] != key), message]
        self.say(message)

    def withdraw(self, key: str = "n-1") -> None:
        """Withdraw a notice."""
        self.notices = [known for known in self.notices if known["id"] != key]
        self.say({"type": "withdrawn", "id": key, "reason": "the provider took it back"})

    @property
    def hellos(self) -> list[Received]:
        return self.all("hello")

    def all(self, kind: str, **fields: Any) -> list[Received]:
        """Return the messages of a type, with these fields, that have come so far."""
        with self._changed:
            return [
                message
                for message in self.received
                if message["type"] == kind and fields.items() <= message.items()
            ]

    def wait(self, kind: str, count: int = 1, **fields: Any) -> Received:
        """Wait until so many messages of a type, with these fields, have come; return the last."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self.all(kind, **fields)) >= count, WAIT_SECONDS
            ):
                types = [message["type"] for message in self.received]
                raise AssertionError(f"no {kind} with {fields} among {types}")
            return self.all(kind, **fields)[count - 1]

    def wait_for_end(self, count: int = 1) -> None:
        """Wait until clients have ended so many connections."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended >= count, WAIT_SECONDS):
                raise AssertionError(f"{self.ended} connections ended, not {count}")

    def _spawn(self, target: Callable[[socket.socket], None], argument: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with self._changed:
                    self._connections.append(connection)
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            for line in self._lines(connection):
                message = self._check(line)
                if message is not None:
                    self._answer(connection, message)
        with self._changed:
            self.ended += 1
            if connection in self._connections:
                self._connections.remove(connection)
            self._changed.notify_all()

    def _lines(self, connection: socket.socket) -> Iterator[bytes]:
        rest = b""
        while True:
            while not self.reads:
                time.sleep(0.005)
                if connection.fileno() < 0 or self._listener is None:
                    return
            try:
                chunk = connection.recv(65536)
            except OSError:
                return
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines

    def _check(self, line: bytes) -> Received | None:
        if len(line) >= CLIENT_LINE_LIMIT:
            self.faults.append(f"a line of {len(line)} bytes")
        try:
            decode(line, CLIENT_MESSAGES)
        except WireError as fault:
            self.faults.append(f"{fault}: {line[:200]!r}")
            return None
        message: Received = json.loads(line)
        return message

    def _answer(self, connection: socket.socket, message: Received) -> None:
        with self._changed:
            self.received.append(message)
            self._changed.notify_all()
        reply: Received | None = None
        if message["type"] == "hello" and self.welcomes:
            reply = {
                "type": "welcome",
                "protocol": 1,
                "agent": "0.0",
                "node": "node-1",
                "session": "s-1",
                "notices": self.notices,
            }
        elif message["type"] in {"flushed", "failed", "checkpoint", "resumed"} and self.answers:
            reply = {"type": "ok", "re": message["type"]}
            if "id" in message:
                reply["id"] = message["id"]
        if reply is not None:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(reply).encode() + b"\n")


def _end(sock: socket.socket) -> None:
    """Wake whoever waits on a socket, then close it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
