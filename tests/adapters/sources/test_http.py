"""The one way to ask a metadata service, against servers that are well, ill and hostile."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack
from email.utils import formatdate

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.server import Service, serve
from lastcall.sources.base import SystemClock
from lastcall.sources.http import (
    BODY_LIMIT_BYTES,
    Answer,
    MetadataClient,
    MetadataError,
    require,
)
from support.hand_clocks import HandClocks
from support.raw_http import http_answer, raw_server

OK = http_answer(b"well")


def client_of(url: str) -> MetadataClient:
    return MetadataClient(url, SystemClock())


async def failure_of(url: str, timeout_seconds: float = 2.0) -> MetadataError:
    async with client_of(url) as client:
        with pytest.raises(MetadataError) as caught:
            await client.request("GET", "/a/path", timeout_seconds=timeout_seconds)
    return caught.value


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- what is asked and answered --------------------------------------------------------------


async def test_an_answer_has_all_that_was_sent_and_when_it_came():
    sent = http_answer(b"gone", "404 Not Found", "X-Note: seen")
    async with raw_server(lambda _: sent) as server, client_of(server.url) as client:
        before = SystemClock().monotonic()
        answer = await client.request("GET", "/a/path")

    assert (answer.status, answer.text(), answer.asked) == (404, "gone", "GET /a/path")
    assert answer.headers["x-note"] == "seen"
    assert before <= answer.received_at <= SystemClock().monotonic()


async def test_a_request_has_its_verb_path_query_headers_and_body():
    async with raw_server(lambda _: OK) as server, client_of(server.url + "/") as client:
        await client.request(
            "POST", "/a/path", headers={"X-Mine": "1"}, params={"q": "a b"}, json={"k": 1}
        )

    [head] = server.heads
    assert head.startswith("POST /a/path?q=a+b HTTP/1.1\r\n")
    assert "X-Mine: 1\r\n" in head
    assert "Content-Length: 8\r\n" in head
    assert "Accept-Encoding: identity\r\n" in head


async def test_cookies_are_not_kept():
    answer = http_answer(b"", "200 OK", "Set-Cookie: a=b; Path=/")
    async with raw_server(lambda _: answer) as server, client_of(server.url) as client:
        await client.request("GET", "/")
        await client.request("GET", "/")

    assert len(server.heads) == 2
    assert all("Cookie" not in head for head in server.heads)


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch):
    for name in (
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    async with raw_server(lambda _: OK) as server, client_of(server.url) as client:
        assert (await client.request("GET", "/")).text() == "well"


def has_ipv6_loopback() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6_loopback(), reason="needs an IPv6 loopback address")
async def test_an_ipv6_address_is_an_endpoint():
    async with serve(AwsMetadata(), host="::1") as url, client_of(url) as client:
        assert "[::1]" in url
        assert (await client.request("GET", "/latest/")).status == 401


# --- connections -----------------------------------------------------------------------------


async def test_a_connection_that_the_service_keeps_is_used_again():
    async with raw_server(lambda _: OK, keeps_open=True) as server, client_of(server.url) as client:
        for _ in range(5):
            await client.request("GET", "/")

    assert server.connections == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_a_service_that_closes_after_each_answer_costs_no_error_and_no_descriptor(announced):
    answer = http_answer(b"well", "200 OK", *(["Connection: close"] if announced else []))
    async with raw_server(lambda _: answer) as server, client_of(server.url) as client:
        await client.request("GET", "/")
        before = open_descriptors()
        for _ in range(300):
            assert (await client.request("GET", "/")).status == 200
        await asyncio.sleep(0)

        assert open_descriptors() <= before + 4


async def test_a_failed_exchange_leaves_no_descriptor():
    async with raw_server(lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx") as server:
        await failure_of(server.url)
        before = open_descriptors()
        for _ in range(50):
            await failure_of(server.url)

        assert open_descriptors() <= before + 4


async def test_a_closed_client_opens_again_when_it_is_asked():
    async with raw_server(lambda _: OK) as server, client_of(server.url) as client:
        await client.request("GET", "/")
        await client.close()
        await client.close()

        assert (await client.request("GET", "/")).status == 200


async def test_a_request_can_be_cancelled():
    async with raw_server(lambda _: None) as server, client_of(server.url) as client:
        asking = asyncio.create_task(client.request("GET", "/"))
        await server.asked.wait()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking


# --- what goes wrong -------------------------------------------------------------------------


async def test_silence_is_a_timeout_of_a_service_that_took_the_connection():
    async with raw_server(lambda _: None) as server:
        failure = await failure_of(server.url, timeout_seconds=0.05)

    assert failure.result == "timeout"
    assert failure.connected
    assert failure.detail == "GET /a/path: no answer in time"


async def test_an_answer_that_trickles_is_a_timeout():
    async with raw_server(lambda _: http_answer(b"x" * 10)[:-5], keeps_open=True) as server:
        failure = await failure_of(server.url, timeout_seconds=0.05)

    assert failure.result == "timeout"


async def test_an_address_that_swallows_connections_is_a_timeout_of_the_connection():
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # the queue of a listener that accepts nothing fills up
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        failure = await failure_of(url, timeout_seconds=0.2)

    assert failure.result == "timeout"
    assert not failure.connected
    assert failure.detail == "GET /a/path: no connection in time"


async def test_a_closed_port_is_an_error_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    failure = await failure_of(url)

    assert (failure.result, failure.connected) == ("error", False)
    assert failure.detail == "GET /a/path: cannot connect: Connection refused"


async def test_a_reset_is_an_error():
    metadata = AwsMetadata()
    metadata.faults.add("reset")
    async with serve(metadata) as url:
        failure = await failure_of(url)

    assert failure.result == "error"
    assert failure.connected


async def test_a_connection_closed_with_no_answer_is_an_error():
    async with raw_server(lambda _: b"") as server:
        failure = await failure_of(server.url)

    assert failure.result == "error"
    assert "closed" in failure.detail


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_what_is_no_whole_http_is_malformed(sent):
    async with raw_server(lambda _: sent) as server:
        failure = await failure_of(server.url)

    assert failure.result == "malformed"


@pytest.mark.parametrize("fault", ["redirect", "redirect-loop"])
async def test_a_redirect_is_refused_and_not_followed(fault):
    metadata = AwsMetadata()
    metadata.faults.add(fault)
    async with serve(metadata) as url:
        failure = await failure_of(url)
        assert len(metadata.log.recent) == 1

    assert failure.result == "malformed"
    assert failure.detail == "GET /a/path: a redirect (302) was refused"


async def test_a_body_of_the_longest_length_is_read():
    sent = http_answer(b"x" * BODY_LIMIT_BYTES)
    async with raw_server(lambda _: sent) as server, client_of(server.url) as client:
        assert len((await client.request("GET", "/")).body) == BODY_LIMIT_BYTES


@pytest.mark.parametrize(
    "sent",
    [
        http_answer(b"x" * (BODY_LIMIT_BYTES + 1)),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"x" * 0x4000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
    ],
    ids=["announced", "first of many chunks", "until the end"],
)
async def test_a_body_beyond_the_longest_length_is_not_read(sent):
    if b"chunked" in sent:
        sent += (b"\r\n4000\r\n" + b"x" * 0x4000) * 40
    async with raw_server(lambda _: sent) as server:
        failure = await failure_of(server.url)

    assert failure.result == "malformed"
    assert failure.detail == "GET /a/path: more than 65536 bytes"


async def test_the_service_that_comes_back_is_heard_again():
    service = Service(AwsMetadata())
    await service.start()
    url = service.url
    await service.stop()
    async with client_of(url) as client:
        with pytest.raises(MetadataError):
            await client.request("GET", "/latest/")
        service = Service(AwsMetadata(), port=service.port)
        await service.start()

        assert (await client.request("GET", "/latest/")).status == 401
        await service.stop()


# --- what an answer says ---------------------------------------------------------------------


def answer_with(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    return Answer(status, headers, body, 0.0, "GET /a/path")


def test_json_is_read_whatever_type_it_claims():
    answer = answer_with(b'\xef\xbb\xbf{"action": "stop"}', **{"Content-Type": "text/plain"})

    assert answer.json() == {"action": "stop"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"NaN",
        b"1e999",
        b"\xff\xfe",
        b'"\\ud800"',
        b"[" * 60_000,
        b"9" * 9000,
    ],
)
def test_what_is_no_json_is_malformed(body):
    with pytest.raises(MetadataError) as caught:
        answer_with(body).json()

    assert caught.value.result == "malformed"
    assert caught.value.detail.startswith("GET /a/path: the answer is no ")


def test_what_is_no_utf_8_is_malformed():
    with pytest.raises(MetadataError) as caught:
        answer_with(b"\xff").text()

    assert str(caught.value) == "malformed: GET /a/path: the answer is no UTF-8"


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (400, "error"),
        (401, "unauthorized"),
        (403, "unauthorized"),
        (404, "error"),
        (429, "throttled"),
        (500, "error"),
        (503, "error"),
    ],
)
def test_a_status_that_was_not_hoped_for_has_its_kind_of_trouble(status, result):
    with pytest.raises(MetadataError) as caught:
        require(answer_with(b"secret", status))

    assert caught.value.result == result
    assert caught.value.detail == f"GET /a/path: status {status}"


def test_a_status_that_was_hoped_for_passes():
    assert require(answer_with(status=200)).status == 200
    assert require(answer_with(status=404), 200, 404).status == 404


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 2 ", 2.0), ("-1", None), ("soon", None), ("٣", None), ("1e9", None)],
)
def test_the_wish_to_be_left_alone_is_read(value, seconds):
    with pytest.raises(MetadataError) as caught:
        require(answer_with(status=429, **{"Retry-After": value}))

    assert caught.value.retry_after_seconds == seconds


# --- the provider's clock --------------------------------------------------------------------


def dated(unix: float) -> bytes:
    return http_answer(b"", "200 OK", f"Date: {formatdate(unix, usegmt=True)}")


@pytest.fixture
def clock():
    return HandClocks(monotonic_seconds=50.0, wall_seconds=1.9e9)


@pytest.fixture
async def dated_client(clock):
    """A client that asks a service 300 seconds behind the node."""
    behind = dated(1.9e9 - 300)
    async with raw_server(lambda _: behind) as server, MetadataClient(server.url, clock) as client:
        yield client


async def test_a_provider_behind_the_node_shows_in_the_skew_and_in_deadlines(dated_client):
    await dated_client.request("GET", "/")

    assert dated_client.skew_seconds == pytest.approx(300.0, abs=0.51)
    # A header is up to a second old, so the deadline may be that much nearer, and never later.
    assert 169.0 <= dated_client.deadline(1.9e9 - 300 + 120) <= 170.0


async def test_a_node_whose_wall_clock_is_set_keeps_its_deadlines(dated_client, clock):
    await dated_client.request("GET", "/")
    before = dated_client.deadline(1.9e9 + 120)

    clock.wall_seconds += 3600

    assert dated_client.deadline(1.9e9 + 120) == before
    assert dated_client.skew_seconds == pytest.approx(3900.0, abs=0.51)


async def test_without_a_date_the_nodes_own_clock_counts(clock):
    async with raw_server(lambda _: OK) as server, MetadataClient(server.url, clock) as client:
        await client.request("GET", "/")

        assert client.skew_seconds is None
        assert client.deadline(1.9e9 + 120) == 170.0
