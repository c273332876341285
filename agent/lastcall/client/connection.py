"""One connection to the agent: lines in and out of a socket that never blocks."""

from __future__ import annotations

import contextlib
import socket

from lastcall.client import lifecycle
from lastcall.wire.messages import AGENT_LINE_LIMIT

_CHUNK_BYTES = 64 * 1024


class Connection:
    """A stream socket to the agent, read and written by the reader thread alone.

    Made and kept under ``lifecycle.DESCRIPTORS``, so that a forked child knows of it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def open(self, path: str) -> None:
        """Connect.

        Raises:
            OSError: there is no agent, or it takes no more connections just now.
            ValueError: the path can be no socket's.
        """
        self._socket.connect(path)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    @property
    def idle(self) -> bool:
        """Whether everything sent has left this process."""
        return not self._outgoing

    def receive(self) -> list[bytes]:
        """Return the whole lines that have arrived, without waiting.

        Raises:
            OSError: the other side is gone, or its line is longer than the protocol allows.
        """
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return []
        if not chunk:
            raise ConnectionError("the agent closed the connection")
        self._incoming += chunk
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = rest
        if max(map(len, (*lines, rest))) >= AGENT_LINE_LIMIT:
            raise ConnectionError(f"the agent sent a line of more than {AGENT_LINE_LIMIT} bytes")
        return [bytes(line) for line in lines]

    def send(self, line: bytes) -> None:
        """Queue a line; :meth:`drain` sends it."""
        self._outgoing += line

    def drain(self) -> None:
        """Send what the socket takes now.

        Raises:
            OSError: the other side is gone.
        """
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing)
            except BlockingIOError:
                return
            del self._outgoing[:sent]

    def close(self) -> None:
        """End the connection for every process that holds a copy of it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with lifecycle.DESCRIPTORS:
            self._socket.close()

    def abandon(self) -> None:
        """Close this process's copy alone, in a child after a fork."""
        self._socket.close()
