"""The listening side: puts a simulated service on the network and has its faults happen there."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web

from lastcall.simulate.base import Metadata, Reply, Seen
from lastcall.simulate.faults import Fault

_SHUTDOWN_SECONDS = 1.0


@asynccontextmanager
async def serve(metadata: Metadata, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve while the block runs; yields the base URL, such as ``http://127.0.0.1:1338``.

    Args:
        metadata: the service's state.
        host: a name or an address to listen on.
        port: 0 for any that is free.

    Raises:
        OSError: the address cannot be listened on.
    """
    service = Service(metadata, host, port)
    await service.start()
    try:
        yield service.url
    finally:
        await service.stop()


class Service:
    """A simulated service on one address; serves until :meth:`stop`.

    Attributes:
        host: what it listens on.
        port: the one it got, once started.
    """

    def __init__(self, metadata: Metadata, host: str = "127.0.0.1", port: int = 0) -> None:
        self.metadata = metadata
        self.host = host
        self.port = port
        self._listener: asyncio.Server | None = None
        self._protocol: web.Server | None = None
        self._faults_changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The base URL, with no slash at its end."""
        host = _reachable(self.host)
        authority = f"[{host}]" if ":" in host else host
        return f"http://{authority}" + (f":{self.port}" if self.port != 80 else "")

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._open()
        self._faults_changed.set()
        self.metadata.faults.listen(self._faults_changed.set)
        self._keeper = asyncio.create_task(self._keep_open(), name=f"simulate {self.url}")

    async def stop(self) -> None:
        """Stop listening and drop every connection; hanging requests get no answer."""
        if self._keeper is not None:
            self.metadata.faults.unlisten(self._faults_changed.set)
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        await self._close()

    async def _keep_open(self) -> None:
        """Listen whenever the service is not meant to be down."""
        while True:
            down = self.metadata.faults.find("down")
            if down is None and self._listener is None:
                await self._open()
            elif down is not None and self._listener is not None:
                await self._close()
            timeout = None if down is None or math.isinf(down.number) else down.number
            try:
                await asyncio.wait_for(self._faults_changed.wait(), timeout)
            except TimeoutError:
                if down is not None:
                    self.metadata.faults.remove(down)
            self._faults_changed.clear()

    async def _open(self) -> None:
        self._protocol = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(
            self._protocol, self.host, self.port
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._protocol is not None:
            for connection in self._protocol.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await self._protocol.shutdown(_SHUTDOWN_SECONDS)
            self._protocol = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(
            request.method, request.path, request.query_string, tuple(request.headers.items())
        )
        self.metadata.log.arrive(seen)
        try:
            response = await self._respond(request)
            seen.status = response.status
        except asyncio.CancelledError:
            seen.abandoned = True
            raise
        finally:
            self.metadata.log.leave(seen)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        faults, path = self.metadata.faults, request.path
        if slow := faults.take("slow", path):
            await asyncio.sleep(slow.number)
        if faults.take("hang", path):
            await asyncio.Event().wait()
        if faults.take("reset", path):
            await _reset(request)
        for kind, instead in _INSTEAD.items():
            if fault := faults.take(kind, path):
                return self._response(instead(fault, request))
        reply = await self.metadata.answer(request)
        if faults.take("cut", path):
            reply = replace(reply, body=_first_half(reply.body))
        if faults.take("truncated", path):
            return await self._truncated(reply, request)
        return self._response(reply)

    def _response(self, reply: Reply) -> web.Response:
        headers = self.metadata.reply_headers(reply)
        response = web.Response(status=reply.status, body=reply.body, headers=headers)
        if self.metadata.closes_connections:
            response.force_close()
        return response

    async def _truncated(self, reply: Reply, request: web.BaseRequest) -> web.StreamResponse:
        headers = self.metadata.reply_headers(reply)
        response = web.StreamResponse(status=reply.status, headers=headers)
        response.content_length = max(len(reply.body), 2)
        response.force_close()
        await response.prepare(request)
        await response.write(_first_half(reply.body) or b"?")
        return response


def _reachable(host: str) -> str:
    """Return what a client on this host can connect to where the service listens on ``host``."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            return "127.0.0.1" if address.version == 4 else "::1"
    return host


async def _reset(request: web.BaseRequest) -> None:
    transport = request.transport
    if transport is not None:
        # A linger time of zero makes the kernel send RST where it would send FIN.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
    await asyncio.Event().wait()


def _first_half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _status(fault: Fault, _request: web.BaseRequest) -> Reply:
    code = int(fault.number)
    with suppress(ValueError):
        return Reply(code, HTTPStatus(code).phrase.encode())
    return Reply(code)


def _throttle(fault: Fault, _request: web.BaseRequest) -> Reply:
    headers = {"Retry-After": f"{math.ceil(fault.number)}"}
    return Reply(429, b"Too Many Requests", headers=headers)


def _redirect(fault: Fault, _request: web.BaseRequest) -> Reply:
    return Reply(302, headers={"Location": fault.text})


def _redirect_loop(_fault: Fault, request: web.BaseRequest) -> Reply:
    return Reply(302, headers={"Location": request.path_qs})


def _garbled(_fault: Fault, _request: web.BaseRequest) -> Reply:
    # The first byte makes sure that it is no UTF-8.
    return Reply(200, b"\xff" + os.urandom(63))


def _empty(_fault: Fault, _request: web.BaseRequest) -> Reply:
    return Reply(200)


def _huge(fault: Fault, _request: web.BaseRequest) -> Reply:
    return Reply(200, b"9" * int(fault.number))


_INSTEAD: Mapping[str, Callable[[Fault, web.BaseRequest], Reply]] = {
    "status": _status,
    "throttle": _throttle,
    "redirect": _redirect,
    "redirect-loop": _redirect_loop,
    "garbled": _garbled,
    "empty": _empty,
    "huge": _huge,
}
"""The faults whose answer does not depend on the service's own: it is not even asked."""
