"""One way to ask a metadata service: straight to it, bounded in time and size, plain in its faults.

Whatever goes wrong between here and the service becomes a :class:`MetadataError`; nothing foreign
leaves this file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import aiohttp
import msgspec
from yarl import URL

from lastcall.sources.base import Clock
from lastcall.sources.skew import ProviderClock

Trouble = Literal["timeout", "error", "throttled", "unauthorized", "malformed"]
"""What can be wrong with an answer, in the words of ``lastcall_source_polls_total``."""

BODY_LIMIT_BYTES = 64 * 1024
"""No document that is asked for comes near this size."""

CONNECT_SECONDS = 1.0
"""The service is one hop away: what does not take the connection within this will not take it."""

_CHUNK_BYTES = 16 * 1024


class MetadataError(Exception):
    """The service could not be asked, or answered with nothing of use.

    Attributes:
        result: the kind of trouble.
        detail: what was asked and what came of it; never holds a token or a body.
        retry_after_seconds: how long the service asks to be left alone, where it says so.
        connected: the service took the connection before things went wrong.
    """

    def __init__(
        self,
        result: Trouble,
        detail: str,
        retry_after_seconds: float | None = None,
        *,
        connected: bool = True,
    ) -> None:
        super().__init__(result, detail)
        self.result: Trouble = result
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        self.connected = connected

    def __str__(self) -> str:
        return f"{self.result}: {self.detail}"


@dataclass(frozen=True)
class Answer:
    """One answer, whatever its status.

    Attributes:
        headers: by name; case does not count.
        body: all of it.
        received_at: when it came, on the monotonic clock.
        asked: the verb and the path, for what is said about it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    received_at: float
    asked: str = ""

    def text(self) -> str:
        """Return the body as text, whatever content type it claims.

        Raises:
            MetadataError: it is no UTF-8.
        """
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise MetadataError("malformed", f"{self.asked}: the answer is no UTF-8") from None

    def json(self) -> object:
        """Return the body's content as JSON, whatever content type it claims.

        Raises:
            MetadataError: it is no JSON.
        """
        try:
            content: object = msgspec.json.decode(self.text())
        except (msgspec.DecodeError, RecursionError):
            raise MetadataError("malformed", f"{self.asked}: the answer is no JSON") from None
        return content


def require(answer: Answer, *statuses: int) -> Answer:
    """Return the answer if it has one of these statuses; 200 where none is named.

    Raises:
        MetadataError: it has another one.
    """
    status = answer.status
    if status in (statuses or (200,)):
        return answer
    result: Trouble = "error"
    if status == 429:
        result = "throttled"
    elif status in (401, 403):
        result = "unauthorized"
    raise MetadataError(result, f"{answer.asked}: status {status}", _retry_after_seconds(answer))


class MetadataClient:
    """Asks one service, and learns its clock from what it answers.

    No proxy is ever used, no redirect followed, no cookie kept. The connection is kept where the
    service keeps it.

    Args:
        endpoint: the base URL, such as ``http://169.254.169.254``.
        clock: the node's clocks.
    """

    def __init__(self, endpoint: str, clock: Clock) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._clock = clock
        self._provider_clock = ProviderClock()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connections; another request would open new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def skew_seconds(self) -> float | None:
        """The node's wall clock minus the provider's; ``None`` until an answer has shown it."""
        offset_seconds = self._provider_clock.offset_seconds
        if offset_seconds is None:
            return None
        return self._clock.wall() - self._clock.monotonic() - offset_seconds

    def deadline(self, unix: float) -> float:
        """Return the earliest monotonic moment that a provider's wall time may be.

        The node's own wall clock counts only while no answer has shown the provider's.
        """
        offset_seconds = self._provider_clock.latest_offset_seconds
        if offset_seconds is None:
            offset_seconds = self._clock.wall() - self._clock.monotonic()
        return unix - offset_seconds

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: object = None,
        timeout_seconds: float = 2.0,
    ) -> Answer:
        """Ask once and return the answer, whatever its status.

        Args:
            method: the verb.
            path: from the endpoint on, with a slash first.
            headers: in addition to what every request has.
            params: the query.
            json: the body's content; ``None`` for no body.
            timeout_seconds: for all of it, the connection included.

        Raises:
            MetadataError: no answer came in time, or none that HTTP allows, or a redirect, or more
                than ``BODY_LIMIT_BYTES``.
        """
        asked = f"{method} {path}"
        try:
            answer = await self._exchange(
                method,
                path,
                headers=headers,
                params=params,
                json=json,
                timeout=aiohttp.ClientTimeout(
                    total=timeout_seconds, sock_connect=min(CONNECT_SECONDS, timeout_seconds / 2)
                ),
            )
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise _trouble(asked, error) from error
        if 300 <= answer.status < 400:
            raise MetadataError("malformed", f"{asked}: a redirect ({answer.status}) was refused")
        return answer

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        json: object,
        timeout: aiohttp.ClientTimeout,
    ) -> Answer:
        asked_at = self._clock.monotonic()
        async with self._opened().request(
            method,
            URL(self.endpoint + path),
            headers=headers,
            params=params,
            json=json,
            timeout=timeout,
            allow_redirects=False,
        ) as response:
            received_at = self._clock.monotonic()
            self._provider_clock.learn(response.headers.get("Date"), asked_at, received_at)
            body = await _read(response, f"{method} {path}")
        return Answer(response.status, response.headers, body, received_at, f"{method} {path}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", "User-Agent": "lastcall"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


async def _read(response: aiohttp.ClientResponse, asked: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > BODY_LIMIT_BYTES:
            raise MetadataError("malformed", f"{asked}: more than {BODY_LIMIT_BYTES} bytes")
    return bytes(body)


# The first that fits counts. ``{}`` is the system's own word for it.
_FAULTS: tuple[tuple[type[Exception], Trouble, str], ...] = (
    (aiohttp.ConnectionTimeoutError, "timeout", "no connection in time"),
    (TimeoutError, "timeout", "no answer in time"),
    (aiohttp.ClientConnectorError, "error", "cannot connect: {}"),
    (aiohttp.ClientPayloadError, "malformed", "the answer breaks off"),
    (aiohttp.ClientResponseError, "malformed", "the answer is no HTTP"),
    (aiohttp.ServerDisconnectedError, "error", "the connection was closed with no answer"),
    (Exception, "error", "the connection failed: {}"),
)

_NOT_CONNECTED = (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError)


def _trouble(asked: str, error: Exception) -> MetadataError:
    """Return what an error of the network or of its library means."""
    result, text = next((r, text) for kind, r, text in _FAULTS if isinstance(error, kind))
    connected = not isinstance(error, _NOT_CONNECTED)
    return MetadataError(result, f"{asked}: {text.format(_word(error))}", connected=connected)


def _word(error: Exception) -> str:
    """Return the system's word for an error; asyncio puts others of its own before it."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in errno.errorcode:
        return os.strerror(number)
    return getattr(error, "strerror", None) or type(error).__name__


def _retry_after_seconds(answer: Answer) -> float | None:
    """Return the seconds of a ``Retry-After`` header; the form with a date is not used here."""
    value = answer.headers.get("Retry-After", "").strip()
    return float(value) if value.isascii() and value.isdecimal() else None
