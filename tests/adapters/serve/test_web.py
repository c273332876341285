"""The pages over HTTP: what each answers, and what no visitor can do."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from lastcall.serve import web as pages
from lastcall.serve.web import WebServer
from support.agent_socket import until


class Site:
    """A server on a free port, with answers that a test sets."""

    def __init__(self, listen: str = "127.0.0.1:0") -> None:
        self.healthy = (True, "")
        self.ready: tuple[bool, dict[str, object]] = (True, {})
        self.status: dict[str, object] = {"summary": {"phase": "quiet"}}
        self.warnings: list[str] = []
        self._visitors: list[asyncio.StreamWriter] = []
        self.server = WebServer(
            listen,
            metrics=self._metrics,
            healthy=lambda: self.healthy,
            ready=lambda: self.ready,
            status=lambda: self.status,
            warn=self.warnings.append,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="lastcall_build_info 1\n")

    async def visit(self, content: bytes = b"") -> asyncio.StreamReader:
        """Return what is read on a connection on which bytes were sent as they are."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._visitors.append(writer)
        writer.write(content)
        return reader

    async def close(self) -> None:
        await self.server.close()
        for writer in self._visitors:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    await site.server.start()
    yield site
    await site.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server ends the connection, in whatever way."""
    content = bytearray()
    try:
        async with asyncio.timeout(5):
            while chunk := await reader.read(65536):
                content += chunk
    except ConnectionResetError:
        pass
    return bytes(content)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        yield session


# --- pages -----------------------------------------------------------------------------------


async def test_metrics_are_whatever_the_handler_answers(site, http):
    async with http.get(f"{site.url}/metrics") as answer:
        assert (answer.status, await answer.text()) == (200, "lastcall_build_info 1\n")


@pytest.mark.parametrize(
    ("healthy", "status", "text"),
    [((True, ""), 200, "ok\n"), ((False, "no event handled for 9 s"), 503, "no event handled")],
)
async def test_health_is_ok_or_says_why_not(site, http, healthy, status, text):
    site.healthy = healthy

    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == status
        assert text in await answer.text()


@pytest.mark.parametrize(
    ("ready", "status"), [((True, {}), 200), ((False, {"provider": "still looking"}), 503)]
)
async def test_readiness_says_what_is_waited_for(site, http, ready, status):
    site.ready = ready

    async with http.get(f"{site.url}/readyz") as answer:
        assert answer.status == status
        assert await answer.json() == {"ready": ready[0], "reasons": ready[1]}


async def test_the_status_is_json_and_kept_by_nobody(site, http):
    async with http.get(f"{site.url}/status") as answer:
        assert await answer.json() == site.status
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/status"])
async def test_the_head_alone_can_be_asked_for(site, http, path):
    async with http.head(site.url + path) as answer:
        assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_can_be_changed(site, http, method):
    async with http.request(method, f"{site.url}/status", data=b"x") as answer:
        assert answer.status == 405


async def test_other_paths_are_not_found(site, http):
    async with http.get(f"{site.url}/etc/passwd") as answer:
        assert answer.status == 404


async def test_a_page_that_fails_spoils_no_other(site, http, caplog):
    site.status = {"bad": object()}

    async with http.get(f"{site.url}/status") as answer:
        assert answer.status == 500
    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == 200


# --- visitors --------------------------------------------------------------------------------


async def test_a_connection_serves_one_request(site):
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    answer = await read_all(await site.visit(request * 2))

    assert answer.count(b"200 OK") == 1
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("content", [b"", b"GET /healthz HTT", b"GET / HTTP/1.1\r\nA: "])
async def test_a_visitor_that_says_nothing_or_half_is_ended(site, monkeypatch, content):
    monkeypatch.setattr(pages, "CONNECTION_SECONDS", 0.1)

    assert await read_all(await site.visit(content)) == b""


async def test_a_visitor_that_does_not_read_holds_up_nobody(site, http):
    site.status = {"long": "x" * 20_000_000}
    await site.visit(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.05)

    began = time.monotonic()
    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == 200
    assert time.monotonic() - began < 1


async def test_of_too_many_visitors_the_oldest_give_way(site, http):
    visitors = [await site.visit() for _ in range(pages.CONNECTIONS_LIMIT + 10)]

    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == 200

    assert await read_all(visitors[0]) == b""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(visitors[-1].read(), 0.05)


async def test_a_long_head_is_refused(site):
    reader = await site.visit(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n")

    assert b"400 Bad Request" in await read_all(reader)


@pytest.mark.parametrize("content", [b"\x00\xff\n\n", b"\r\n\r\n", b"GET\r\n\r\n", b"{}\n" * 100])
async def test_bytes_that_are_no_request_are_refused(site, http, content):
    await site.visit(content)

    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == 200


async def test_costly_pages_are_limited_and_probes_are_not(site, http):
    async def ask(path: str) -> int:
        async with http.get(site.url + path) as answer:
            return answer.status

    assert {await ask("/status") for _ in range(60)} == {200, 429}
    assert {await ask("/healthz") for _ in range(60)} == {200}


# --- listening -------------------------------------------------------------------------------


async def test_an_empty_address_serves_nothing():
    site = Site("")

    await site.server.start()

    assert site.server.port == 0
    assert not site.warnings
    await site.server.close()


async def test_an_ipv6_address_stands_in_brackets(http):
    site = Site("[::1]:0")
    await site.server.start()
    if site.warnings:
        pytest.skip("needs IPv6 on the loopback interface")

    async with http.get(f"http://[::1]:{site.server.port}/healthz") as answer:
        assert answer.status == 200
    await site.server.close()


async def test_a_port_in_use_is_warned_of_once_and_had_once_it_is_free(http, monkeypatch):
    monkeypatch.setattr(pages, "RETRY_SECONDS", 0.02)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        site = Site(f"127.0.0.1:{port}")
        await site.server.start()
        await asyncio.sleep(0.1)
        assert site.server.port == port
        assert site.warnings == [
            f"cannot listen on 127.0.0.1:{port}: Address already in use; trying on"
        ]

    await until(lambda: site.server._server)
    async with http.get(f"{site.url}/healthz") as answer:
        assert answer.status == 200
    assert len(site.warnings) == 1
    await site.server.close()


async def test_closing_while_the_port_is_in_use_is_quick():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        site = Site(f"127.0.0.1:{holder.getsockname()[1]}")
        await site.server.start()

        await asyncio.wait_for(site.server.close(), 1)


async def test_closing_ends_visitors_and_can_be_done_twice(site):
    visitor = await site.visit()
    await asyncio.sleep(0.02)

    await asyncio.wait_for(site.server.close(), 2)
    await site.server.close()

    assert await read_all(visitor) == b""


async def test_the_status_of_a_large_node_is_served_whole(site, http):
    site.status = {"clients": [{"client": "x" * 100} for _ in range(2000)]}

    async with http.get(f"{site.url}/status") as answer:
        assert json.loads(await answer.text()) == site.status
