"""What can go wrong between the fake API server and its callers, to be switched on in tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from aiohttp import web

from support.kube_api.statuses import ApiError, store_timeout


class Fault(Enum):
    """One kind of trouble."""

    THROTTLED = auto()
    """429 as plain text, with one second to wait: not a budget."""

    STORE_TIMEOUT = auto()
    """504, JSON that calls itself plain text: the store gives no answer."""

    STORE_UNAVAILABLE = auto()
    """500 without a reason, as after half a minute of a frozen store."""

    CLOSED = auto()
    """The connection is closed with no answer."""

    CLOSED_AFTER_DOING = auto()
    """It is done all the same, but the connection is closed with no answer."""

    CLOSED_IF_USED_BEFORE = auto()
    """The connection is closed with no answer where it has served a call before."""

    HANGS = auto()
    """No answer ever comes."""

    HALF_AN_ANSWER = auto()
    """The answer breaks off."""

    NO_JSON = auto()
    """200 with a page of something else."""


@dataclass
class Trouble:
    """A fault, and the calls it befalls.

    Attributes:
        fault: what befalls them.
        method: their verb; empty for any.
        path_part: somewhere in their path; empty for any.
        times: how many are left to befall; ``None`` for all.
    """

    fault: Fault
    method: str = ""
    path_part: str = ""
    times: int | None = None

    def befalls(self, method: str, path: str) -> bool:
        """Whether it befalls a call; counts it if so."""
        is_meant = self.method in {"", method} and self.path_part in path
        if not is_meant or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True


async def suffer(fault: Fault, request: web.Request, *, used_before: bool) -> web.Response | None:
    """Answer as a fault has it; ``None`` to answer as usual.

    Raises:
        ApiError: the store is in trouble.
    """
    if fault is Fault.THROTTLED:
        return web.Response(
            status=429,
            text="Too many requests, please try again later.\n",
            headers={"Retry-After": "1"},
        )
    if fault is Fault.STORE_TIMEOUT:
        raise store_timeout()
    if fault is Fault.STORE_UNAVAILABLE:
        why = "keepalive ping failed to receive ACK within timeout"
        raise ApiError(500, f"rpc error: code = Unavailable desc = {why}")
    if fault is Fault.NO_JSON:
        return web.Response(text="<html>a captive portal</html>", content_type="text/html")
    if fault is Fault.HANGS:
        await asyncio.Event().wait()
    if fault is Fault.CLOSED or (fault is Fault.CLOSED_IF_USED_BEFORE and used_before):
        close(request)
    if fault is Fault.HALF_AN_ANSWER:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind"')
        close(request)
    return None


def close(request: web.Request) -> None:
    """Close the connection under a request."""
    if request.transport is not None:
        request.transport.close()
    raise asyncio.CancelledError
