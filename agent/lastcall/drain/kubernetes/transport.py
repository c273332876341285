"""One HTTP call to the API server, and what can go wrong with it, as a value.

No proxy of the environment is used: a drain must not depend on one.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import aiohttp
from yarl import URL

from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.credentials import Credential, CredentialError
from lastcall.drain.kubernetes.reply import Outcome, Reply, read_reply, unknown
from lastcall.drain.kubernetes.tls import TlsContexts

BODY_LIMIT_BYTES = 64 * 1024 * 1024
"""A page of 500 pods has a few MiB."""

IDLE_SECONDS = 45.0
"""A connection idle for longer is not used again: something on the way may have forgotten it."""

CONNECTIONS = 96
"""At most this many at a time."""

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One call.

    Attributes:
        method: the verb.
        path: from the server's base on, with a slash first; quoted where it needs to be.
        query: the parameters, without ``timeout``.
        body: the JSON text; empty for none.
        content_type: what the body is.
        is_eviction: see :func:`lastcall.drain.kubernetes.reply.read_reply`.
    """

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes = b""
    content_type: str = "application/json"
    is_eviction: bool = False

    @property
    def asked(self) -> str:
        """What is said about it in messages."""
        return f"{self.method} {self.path}"


class Transport:
    """Speaks HTTP to one API server.

    Args:
        cluster: the server, and who the agent is to it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tls = TlsContexts(cluster)
        self._session: aiohttp.ClientSession | None = None
        self._fresh_session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Drop the connections and stop what goes on in the background."""
        sessions = (self._session, self._fresh_session)
        self._session = self._fresh_session = None
        for session in sessions:
            if session is not None:
                await session.close()
        await self._cluster.credentials.close()

    async def call(self, request: Request, timeout_seconds: float) -> Reply:
        """Make a call and return what came of it, by the time-out at the latest.

        The server is asked to give up a little before that, so that its 504 is still heard. A
        credential that is refused is renewed once. A connection that turns out to have been closed
        while it was idle is replaced once; the server may have seen the first try all the same.

        Args:
            request: the call.
            timeout_seconds: for all of it.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._authorized(request, timeout_seconds)
        except CredentialError as error:
            return Reply(Outcome.UNAUTHORIZED, message=str(error))
        except TimeoutError:
            return unknown(f"{request.asked}: no answer within {timeout_seconds:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return unknown(f"{request.asked}: {trouble(error)}")

    async def open_stream(self, request: Request, timeout_seconds: float) -> aiohttp.ClientResponse:
        """Return the response to a call whose body has no foreseeable end.

        Args:
            request: the call.
            timeout_seconds: until the response's head is there.

        Raises:
            CredentialError: there is no credential.
            TimeoutError: no head in time.
            aiohttp.ClientError: the connection failed.
            OSError: the connection failed.
        """
        async with asyncio.timeout(timeout_seconds):
            credential = await self._cluster.credentials.current()
            response = await self._send(request, credential, None)
            if response.status != 401:
                return response
            response.release()
            renewed = await self._cluster.credentials.renew(credential)
            return await self._send(request, renewed, None)

    async def _authorized(self, request: Request, timeout_seconds: float) -> Reply:
        credential = await self._cluster.credentials.current()
        reply = await self._exchange(request, credential, timeout_seconds)
        if reply.outcome is not Outcome.UNAUTHORIZED:
            return reply
        renewed = await self._cluster.credentials.renew(credential)
        if renewed == credential:
            return reply
        return await self._exchange(request, renewed, timeout_seconds)

    async def _exchange(
        self, request: Request, credential: Credential, timeout_seconds: float
    ) -> Reply:
        response = await self._send(request, credential, server_timeout(timeout_seconds))
        async with response:
            body = await _read(response)
        return read_reply(
            response.status,
            body,
            response.headers.get("Retry-After"),
            is_eviction=request.is_eviction,
        )

    async def _send(
        self, request: Request, credential: Credential, server_seconds: float | None
    ) -> aiohttp.ClientResponse:
        used = SimpleNamespace(again=False)
        try:
            return await self._send_on(
                self._opened(), request, credential, server_seconds, used=used
            )
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if not used.again or isinstance(error, aiohttp.ClientConnectorError):
                raise
        return await self._send_on(self._fresh(), request, credential, server_seconds, used=used)

    async def _send_on(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        credential: Credential,
        server_seconds: float | None,
        *,
        used: SimpleNamespace,
    ) -> aiohttp.ClientResponse:
        query = dict(request.query or {})
        if server_seconds is not None:
            query["timeout"] = f"{round(server_seconds * 1000)}ms"
        headers = {"Accept": "application/json"}
        if request.body:
            headers["Content-Type"] = request.content_type
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        context = await self._tls.current(credential)
        return await session.request(
            request.method,
            URL(self._cluster.server + request.path, encoded=True).with_query(query),
            data=request.body or None,
            headers=headers,
            ssl=True if context is None else context,
            server_hostname=self._cluster.server_name or None if context else None,
            allow_redirects=False,
            trace_request_ctx=used,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = _session(
                aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=IDLE_SECONDS), [trace]
            )
        return self._session

    def _fresh(self) -> aiohttp.ClientSession:
        """Return a session that never uses a connection twice."""
        if self._fresh_session is None:
            self._fresh_session = _session(
                aiohttp.TCPConnector(limit=CONNECTIONS, force_close=True), []
            )
        return self._fresh_session


def server_timeout(timeout_seconds: float) -> float:
    """Return when the server is asked to give up, so that it says so before the caller does."""
    return max(timeout_seconds - min(0.25, timeout_seconds / 10), 0.05)


def trouble(error: Exception) -> str:
    """Return what an error of the network or of its library means, in one line."""
    word = _word(error)
    for kind, text in _TROUBLES:
        if isinstance(error, kind):
            return text.format(word)
    return f"the call failed: {word}"


class _TooLongError(ValueError):
    """The body has more than anything that is asked for."""


_TROUBLES: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorCertificateError, "the server's certificate is refused: {}"),
    (aiohttp.ClientConnectorError, "cannot connect: {}"),
    (aiohttp.ClientPayloadError, "the answer breaks off"),
    (aiohttp.ClientResponseError, "the answer is no HTTP"),
    (aiohttp.ServerDisconnectedError, "the connection was closed with no answer"),
    (_TooLongError, "the answer has no end"),
    (ConnectionError, "the connection failed: {}"),
)


def _word(error: Exception) -> str:
    certificate_error = getattr(error, "certificate_error", None)
    if certificate_error is not None:
        return str(getattr(certificate_error, "verify_message", "") or certificate_error)
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in errno.errorcode:
        return os.strerror(number)
    return getattr(error, "strerror", None) or type(error).__name__


async def _note_reuse(
    session: aiohttp.ClientSession,
    context: SimpleNamespace,
    params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    del session, params
    context.trace_request_ctx.again = True


def _session(
    connector: aiohttp.TCPConnector, traces: list[aiohttp.TraceConfig]
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity", "User-Agent": "lastcall"},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        trust_env=False,
        trace_configs=traces,
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > BODY_LIMIT_BYTES:
            raise _TooLongError
    return bytes(body)
