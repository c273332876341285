"""Clients that mean harm: ``hostile_program.py SOCKET WAY...``, until its input ends.

It prints a line once it is well on every way.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator

HELLO = b'{"type":"hello","protocol":[1,1],"job":"hostile"}\n'
HEARTBEATS = b'{"type":"heartbeat","step":1}\n' * 500
UNKNOWN = b'{"type":"nonsense"}\n' * 500
MEGABYTE = b"x" * 1_000_000

CONNECTIONS = 500


class Attacker:
    """Goes one way against one agent, again and again.

    Attributes:
        under_way: set once it has gone some way.
    """

    def __init__(self, path: str, ended: threading.Event) -> None:
        self.under_way = threading.Event()
        self._path = path
        self._ended = ended

    def go(self, way: str) -> None:
        """Go one of the ways below until the end."""
        while not self._ended.is_set():
            getattr(self, way)()
            self.under_way.set()

    def flood(self) -> None:
        """Say what is right, far too often."""
        self._push(20, HELLO, HEARTBEATS)

    def deaf(self) -> None:
        """Ask for answers and read none of them."""
        self._push(20, HELLO, UNKNOWN)

    def garbage(self) -> None:
        """Send lines that are no messages."""
        self._push(20, b"", os.urandom(20_000).replace(b"\xff", b"\n"))

    def long_line(self) -> None:
        """Send 10 MB without an end of the line."""
        for _ in range(10):
            self._push(1, HELLO, MEGABYTE)

    def half_lines(self) -> None:
        """Say hello, and then half of something, a byte now and then."""
        with self._connections(200) as connections:
            for byte in HELLO + b'{"type":"flushed","id":"':
                self._send(connections, bytes([byte]))
                if self._ended.wait(0.02):
                    return
                self.under_way.set()

    def idle(self) -> None:
        """Connect, and say no word, or hello alone."""
        with self._connections(CONNECTIONS) as connections:
            self._send(connections[: CONNECTIONS // 2], HELLO)
            self.under_way.set()
            self._ended.wait(2.5)

    def storm(self) -> None:
        """Connect, and be gone."""
        with self._connections(50):
            pass

    def _push(self, count: int, first: bytes, then: bytes) -> None:
        """Send as much as is taken within a while."""
        with self._connections(count) as connections:
            self._send(connections, first)
            for _ in range(20):
                if self._ended.is_set():
                    return
                _, ready, _ = select.select([], connections, [], 0.02)
                self._send(ready, then)

    @contextlib.contextmanager
    def _connections(self, count: int) -> Iterator[list[socket.socket]]:
        with contextlib.ExitStack() as opened:
            connections = []
            for _ in range(count):
                connection = opened.enter_context(socket.socket(socket.AF_UNIX))
                connection.setblocking(False)
                with contextlib.suppress(OSError):
                    connection.connect(self._path)
                    connections.append(connection)
            yield connections

    def _send(self, connections: list[socket.socket], content: bytes) -> None:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(content)


def attack() -> None:
    """Go all the ways that are named."""
    path, *ways = sys.argv[1:]
    ended = threading.Event()
    attackers = [Attacker(path, ended) for _ in ways]
    threads = [
        threading.Thread(target=attacker.go, args=(way,))
        for attacker, way in zip(attackers, ways, strict=True)
    ]
    for thread in threads:
        thread.start()
    for attacker in attackers:
        attacker.under_way.wait()
    sys.stdout.write("under way\n")
    sys.stdout.flush()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    attack()
