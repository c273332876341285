"""Wakes the reader thread out of its wait for the socket; safe from any thread."""

from __future__ import annotations

import contextlib
import socket


class Bell:
    """A pair of sockets, one end of which the reader waits on."""

    def __init__(self) -> None:
        self._ear, self._hammer = socket.socketpair()
        self._ear.setblocking(False)
        self._hammer.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._ear.fileno()

    def ring(self) -> None:
        """Wake the reader; of no effect once closed."""
        # A full pair means that it has been rung already.
        with contextlib.suppress(OSError):
            self._hammer.send(b"!")

    def hush(self) -> None:
        """Take back every ring so far."""
        with contextlib.suppress(OSError):
            while self._ear.recv(4096):
                pass

    def close(self) -> None:
        """Give back this process's descriptors."""
        self._ear.close()
        self._hammer.close()
