"""A crowd of bare sockets in a process of its own, which says when the last one had a message.

``python -m benchmarks.crowd SOCKET COUNT`` connects, reports every notice as flushed once all have
it, and prints one JSON object for each type of message that has come to all.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT

from lastcall.serve.limits import raise_descriptor_limit

HEAR_SECONDS = 30.0
READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Heard:
    """When the first and the last of a crowd had a message, on the monotonic clock."""

    first: float
    last: float


class Crowd:
    """The process, from the side of the benchmark; made by :meth:`gathered`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def gathered(cls, path: Path, count: int) -> AsyncIterator[Crowd]:
        """Have so many clients connected to an agent while the block runs."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.crowd", str(path), str(count)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        crowd = cls(process)
        try:
            await crowd.hears("welcome")
            yield crowd
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def hears(self, kind: str) -> Heard:
        """Return when all had the next message of a type."""
        assert self._process.stdout is not None
        async with asyncio.timeout(HEAR_SECONDS):
            while True:
                line = await self._process.stdout.readline()
                assert line, "the crowd is gone"
                said = json.loads(line)
                if said["type"] == kind:
                    return Heard(said["first"], said["last"])


def attend(path: str, count: int) -> None:
    """Connect the clients and listen until the agent hangs up."""
    raise_descriptor_limit()
    selector = selectors.DefaultSelector()
    crowd: list[socket.socket] = []
    for rank in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        _send(client, type="hello", protocol=[1, 1], job="crowd", rank=rank, world_size=count)
        selector.register(client, selectors.EVENT_READ)
        crowd.append(client)
    had: Counter[str] = Counter()
    first: dict[str, float] = {}
    while True:
        ready = selector.select()
        # All that are ready now could have been read at this moment.
        now = time.monotonic()
        for key, _ in ready:
            assert isinstance(key.fileobj, socket.socket)
            chunk = key.fileobj.recv(READ_BYTES)
            if not chunk:
                return
            for line in chunk.splitlines():
                kind = _kind(line)
                first.setdefault(kind, now)
                had[kind] += 1
                if had[kind] == count:
                    _tell(type=kind, first=first.pop(kind), last=now)
                    had[kind] = 0
                    if kind == "notice":
                        _flush(crowd, json.loads(line)["id"])


def _kind(line: bytes) -> str:
    """Return a message's type, which the agent writes first, without reading all of it."""
    return line.split(b'"', 4)[3].decode()


def _flush(crowd: list[socket.socket], notice_id: str) -> None:
    for client in crowd:
        _send(client, type="ack", id=notice_id)
        _send(client, type="flushed", id=notice_id, path="/checkpoints/1", step=1)


def _send(client: socket.socket, **fields: object) -> None:
    client.sendall(json.dumps(fields).encode() + b"\n")


def _tell(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    attend(sys.argv[1], int(sys.argv[2]))
