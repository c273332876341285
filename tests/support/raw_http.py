"""A server that answers with bytes as they are, for what no well-behaved server sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Respond = Callable[[str], bytes | None]
"""Gives the answer to a request's head; ``None`` for none at all."""


@dataclass
class RawServer:
    """What the server is and has seen.

    Attributes:
        url: its address, such as ``http://127.0.0.1:1338``.
        heads: the heads of all requests so far.
        connections: how many it has taken.
        asked: a request has come.
    """

    url: str = ""
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def raw_server(respond: Respond, *, keeps_open: bool = False) -> AsyncIterator[RawServer]:
    """Serve while the block runs.

    Args:
        respond: gives the answers.
        keeps_open: takes further requests on a connection, where each is closed otherwise.
    """
    server = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                server.heads.append(head)
                server.asked.set()
                answer = respond(head)
                if answer is None:
                    await asyncio.Event().wait()
                    return
                writer.write(answer)
                await writer.drain()
                if not keeps_open:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


def http_answer(body: bytes = b"", status: str = "200 OK", *headers: str) -> bytes:
    """Return an answer with its length and these headers, such as ``Date: …``."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body
