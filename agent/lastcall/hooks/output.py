"""The end of what a program prints; the rest is read and let go, so that it is never held up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

KEPT_BYTES = 8192
"""How much of the end is kept."""

BREATH_SECONDS = 0.005
"""How long a program that prints more than is kept waits between two reads of the loop's."""


class Tail(asyncio.Protocol):
    """Reads a pipe and keeps the end of what came through it. Belongs to the running loop."""

    def __init__(self) -> None:
        self._kept = b""
        self._came_bytes = 0
        self._transport: asyncio.ReadTransport | None = None
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep the end of what came; a flood must not take the loop for itself."""
        self._came_bytes += len(data)
        self._kept = (self._kept + data)[-KEPT_BYTES:]
        if self._came_bytes > KEPT_BYTES and self._transport is not None:
            self._transport.pause_reading()
            loop = asyncio.get_running_loop()
            loop.call_later(BREATH_SECONDS, self._transport.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take in that nobody can print any more."""
        del exc
        self._ended.set()

    async def end(self, patience_seconds: float) -> None:
        """Read what is still to come, but only for so long: others may hold the pipe open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self._ended.wait()

    def close(self) -> None:
        """Read no more."""
        if self._transport is not None:
            self._transport.close()

    @property
    def text(self) -> str:
        """What was kept; an ellipsis stands for what was let go before it."""
        text = self._kept.decode(errors="replace").strip()
        return f"… {text}" if self._came_bytes > KEPT_BYTES else text
