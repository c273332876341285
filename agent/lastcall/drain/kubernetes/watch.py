"""A stream of changes from the API server, and how it ended, as values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from lastcall.drain.kubernetes.credentials import CredentialError
from lastcall.drain.kubernetes.reply import Outcome, Reply, read_failure, read_reply, unknown
from lastcall.drain.kubernetes.transport import Request, Transport, trouble

LINE_LIMIT_BYTES = 16 * 1024 * 1024
"""An object in the store has at most about 1.5 MiB."""

_BODY_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change.

    Attributes:
        type: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``; a bookmark's object
            holds nothing but a resource version.
        object: the object as it is now, or as it last was.
    """

    type: str
    object: Mapping[str, Any]


class Watch:
    """Changes as they come; to be used as ``async with``, then ``async for``.

    After the loop ``end`` says why it is over. Nothing is raised.

    Args:
        transport: the way to the server.
        request: the call that starts the stream.
        resource_version: where it starts.
        open_timeout_seconds: until the server takes it on.
        total_seconds: after this long it is over even if the server goes on.
        silence_seconds: after this long without a byte the connection is taken for dead.

    Attributes:
        resource_version: the last one seen; the next watch starts there.
        end: how it ended: ``OK`` when the server closed it in good order, ``EXPIRED`` when the
            pods must be listed anew, and so on; ``None`` while it goes on.
    """

    def __init__(
        self,
        transport: Transport,
        request: Request,
        *,
        resource_version: str,
        open_timeout_seconds: float,
        total_seconds: float,
        silence_seconds: float,
    ) -> None:
        self.resource_version = resource_version
        self.end: Reply | None = None
        self._transport = transport
        self._request = request
        self._open_timeout_seconds = open_timeout_seconds
        self._total_seconds = total_seconds
        self._silence_seconds = silence_seconds
        self._response: aiohttp.ClientResponse | None = None
        self._over_at = 0.0

    async def __aenter__(self) -> Self:
        self._over_at = asyncio.get_running_loop().time() + self._total_seconds
        try:
            self._response = await self._transport.open_stream(
                self._request, self._open_timeout_seconds
            )
            if self._response.status != 200:
                self.end = await self._refusal(self._response)
        except CredentialError as error:
            self.end = Reply(Outcome.UNAUTHORIZED, message=str(error))
        except TimeoutError:
            self.end = unknown(f"{self._request.asked}: the watch did not start in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.end = unknown(f"{self._request.asked}: {trouble(error)}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        if self._response is None or self.end is not None:
            return
        pending = bytearray()
        while self.end is None:
            chunk = await self._chunk(self._response)
            if not chunk:
                break
            pending += chunk
            if len(pending) > LINE_LIMIT_BYTES:
                self.end = unknown(f"{self._request.asked}: a line has no end")
                break
            if b"\n" not in chunk:
                continue
            *lines, pending = pending.split(b"\n")
            for line in lines:
                event = self._event(line)
                if event is None:
                    break
                yield event

    async def _chunk(self, response: aiohttp.ClientResponse) -> bytes:
        """Return what came; nothing when it is over, and then ``end`` says why."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(loop.time() + self._silence_seconds, self._over_at)):
                chunk = await response.content.readany()
        except TimeoutError:
            if loop.time() >= self._over_at:
                self.end = unknown(f"{self._request.asked}: the watch outlived its time")
            else:
                self.end = unknown(
                    f"{self._request.asked}: nothing came for {self._silence_seconds:g} s"
                )
            return b""
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.end = unknown(f"{self._request.asked}: {trouble(error)}")
            return b""
        if not chunk:
            self.end = Reply(Outcome.OK, response.status)
        return chunk

    def _event(self, line: bytearray) -> WatchEvent | None:
        """Return the event of a line; ``None`` when it is over, and then ``end`` says why."""
        try:
            content: object = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        found = content.get("object") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(found, dict):
            self.end = unknown(f"{self._request.asked}: a line is no watch event")
            return None
        if content.get("type") == "ERROR":
            code = found.get("code")
            self.end = read_failure(code if isinstance(code, int) else 500, found)
            return None
        metadata = found.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version:
            self.resource_version = version
        return WatchEvent(str(content.get("type")), found)

    async def _refusal(self, response: aiohttp.ClientResponse) -> Reply:
        async with asyncio.timeout(self._open_timeout_seconds):
            body = await response.content.read(_BODY_LIMIT_BYTES)
        return read_reply(response.status, body, response.headers.get("Retry-After"))
