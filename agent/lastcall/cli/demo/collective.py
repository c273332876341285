"""All-reduce among the ranks of a job on one machine, as a training framework brings its own."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_SECONDS = 20.0
"""How long a rank waits for the others."""

RETRY_SECONDS = 0.01


class Collective:
    """The ranks of one job, connected through rank 0.

    Every rank must make the same calls in the same order, as with any collective.

    Args:
        path: rank 0's socket, which it makes.
        rank: this process's, from 0.
        world_size: how many there are.

    Raises:
        OSError: the others did not come, or one of them has gone.
    """

    def __init__(self, path: Path, rank: int, world_size: int) -> None:
        self._is_hub = rank == 0
        self._peers: list[socket.socket] = []
        self._readers: list[BufferedReader] = []
        if self._is_hub:
            self._accept(path, world_size - 1)
        else:
            self._connect(path)

    def sum(self, value: int) -> int:
        """Return the sum of all ranks' values."""
        return self._reduce(value, sum)

    def any(self, flag: bool) -> bool:
        """Return whether any rank's flag is set: the maximum."""
        return bool(self._reduce(int(flag), max))

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._reduce(0, max)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for reader in self._readers:
            reader.close()
        for peer in self._peers:
            peer.close()

    def _reduce(self, value: int, reduce: Callable[[Iterable[int]], int]) -> int:
        if not self._is_hub:
            self._send(self._peers[0], value)
            return self._receive(self._readers[0])
        result = reduce([value, *map(self._receive, self._readers)])
        for peer in self._peers:
            self._send(peer, result)
        return result

    def _accept(self, path: Path, count: int) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.settimeout(TIMEOUT_SECONDS)
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen(max(count, 1))
            for _ in range(count):
                self._keep(listener.accept()[0])

    def _connect(self, path: Path) -> None:
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                peer.connect(str(path))
                self._keep(peer)
                return
            peer.close()
            if time.monotonic() > until:
                raise TimeoutError("rank 0 did not come")
            time.sleep(RETRY_SECONDS)

    def _keep(self, peer: socket.socket) -> None:
        peer.settimeout(TIMEOUT_SECONDS)
        self._peers.append(peer)
        self._readers.append(peer.makefile("rb"))

    @staticmethod
    def _send(peer: socket.socket, value: int) -> None:
        peer.sendall(json.dumps(value).encode() + b"\n")

    @staticmethod
    def _receive(reader: BufferedReader) -> int:
        line = reader.readline()
        if not line:
            raise ConnectionError("another rank has gone")
        return int(json.loads(line))
