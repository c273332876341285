"""The pages for Prometheus, for probes and for programs: GET only, one request a connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from lastcall.config.forms import split_listen
from lastcall.serve.base import Status
from lastcall.serve.limits import Bucket

RETRY_SECONDS = 5.0
"""Between attempts to listen where the address cannot be had."""

CONNECTIONS_LIMIT = 64
"""Connections at one time; the oldest gives way to one more."""

CONNECTION_SECONDS = 15.0
"""How long a connection lasts at most, whatever happens on it."""

COSTLY_PER_SECOND = 10.0
"""Requests for pages that take time to make, over some seconds; probes are never refused."""

HEAD_BYTES = 4096
"""The longest line of a request's head."""

CLOSE_SECONDS = 0.5

BACKLOG = 32

_COSTLY = frozenset({"/metrics", "/status"})

_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Server": "lastcall",
    "X-Content-Type-Options": "nosniff",
}


class WebServer:
    """Serves the pages for as long as the agent runs; never a reason for it to stop.

    Args:
        listen: ``HOST:PORT``, an IPv6 host in brackets; "" serves nothing.
        metrics: answers ``/metrics``.
        healthy: whether the agent works, and why not, for ``/healthz``.
        ready: whether all that it waits for is there, and what is not, for ``/readyz``.
        status: the agent's view, for ``/status``.
        warn: told in one line, and once, why the address cannot be had.
    """

    def __init__(
        self,
        listen: str,
        *,
        metrics: Handler,
        healthy: Callable[[], tuple[bool, str]],
        ready: Callable[[], tuple[bool, Mapping[str, object]]],
        status: Status,
        warn: Callable[[str], None],
    ) -> None:
        self._listen = listen
        self._address = split_listen(listen) if listen else None
        self._metrics = metrics
        self._healthy = healthy
        self._ready = ready
        self._status = status
        self._warn = warn
        self._runner: web.AppRunner | None = None
        self._protocols: web.Server | None = None
        self._server: asyncio.Server | None = None
        self._costly: Bucket | None = None
        self._retrying: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, or else the one that was asked for; 0 for none."""
        if self._server is not None and self._server.sockets:
            return int(self._server.sockets[0].getsockname()[1])
        return self._address[1] if self._address else 0

    async def start(self) -> None:
        """Listen, or go on trying to in the background."""
        if self._address is None:
            return
        self._costly = Bucket(COSTLY_PER_SECOND, asyncio.get_running_loop().time())
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            shutdown_timeout=CLOSE_SECONDS,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            lingering_time=0.0,
        )
        await self._runner.setup()
        self._protocols = self._runner.server
        try:
            await self._open(*self._address)
        except OSError as error:
            self._warn(f"cannot listen on {self._listen}: {_words(error)}; trying on")
            self._retrying = asyncio.create_task(self._retry(*self._address), name="web listener")

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._retrying is not None:
            self._retrying.cancel()
            with suppress(asyncio.CancelledError):
                await self._retrying
            self._retrying = None
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._runner is not None:
            for connection in self._protocols.connections if self._protocols else ():
                _abort(connection)
            await self._runner.cleanup()
            self._runner = None

    async def _retry(self, host: str, port: int) -> None:
        while self._server is None:
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(OSError):
                await self._open(host, port)

    async def _open(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, host, port, backlog=BACKLOG)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._limit], client_max_size=HEAD_BYTES)
        application.on_response_prepare.append(_finish)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._answer_healthz)
        application.router.add_get("/readyz", self._answer_readyz)
        application.router.add_get("/status", self._answer_status)
        return application

    # --- connections ---------------------------------------------------------------------------

    def _connect(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, which will not last for ever."""
        if self._protocols is None:
            return asyncio.Protocol()
        open_now = self._protocols.connections
        for oldest in open_now[: max(0, len(open_now) - CONNECTIONS_LIMIT + 1)]:
            _abort(oldest)
        connection = self._protocols()
        asyncio.get_running_loop().call_later(CONNECTION_SECONDS, _abort, connection)
        return connection

    @web.middleware
    async def _limit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _COSTLY and self._costly is not None:
            now = asyncio.get_running_loop().time()
            if self._costly.wait_seconds(now) > 0:
                return web.Response(status=429, headers={"Retry-After": "1"})
            self._costly.spend(1)
        return await handler(request)

    # --- pages ---------------------------------------------------------------------------------

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        healthy, reason = self._healthy()
        return web.Response(status=200 if healthy else 503, text="ok\n" if healthy else reason)

    async def _answer_readyz(self, _request: web.Request) -> web.Response:
        ready, reasons = self._ready()
        content = {"ready": ready, "reasons": reasons}
        return web.json_response(content, status=200 if ready else 503)

    async def _answer_status(self, _request: web.Request) -> web.Response:
        return web.json_response(self._status())


async def _finish(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    response.force_close()
    response.headers.update(_HEADERS)


def _abort(connection: RequestHandler) -> None:
    if connection.transport is not None:
        connection.transport.abort()


def _words(error: OSError) -> str:
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error.strerror or error)
