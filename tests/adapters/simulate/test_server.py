"""The listening side: each general fault as a client meets it, many clients, a clean end."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.gcp import GcpMetadata
from lastcall.simulate.server import Service, serve

EVENTS = "/metadata/scheduledevents"
PATH = f"{EVENTS}?api-version=2020-07-01"
HEADER = {"Metadata": "true"}
RAW_REQUEST = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n".encode()
IDLE = {"DocumentIncarnation": 1, "Events": []}


@pytest.fixture
def azure() -> AzureMetadata:
    return AzureMetadata()


@pytest.fixture
async def url(azure: AzureMetadata) -> AsyncIterator[str]:
    async with serve(azure) as base:
        yield base


async def read(http: aiohttp.ClientSession, url: str, **options) -> tuple[int, bytes]:
    async with http.get(url + PATH, headers=HEADER, **options) as answer:
        return answer.status, await answer.read()


async def until_answered(http: aiohttp.ClientSession, url: str, *, answered: bool) -> None:
    async with asyncio.timeout(5):
        while await is_answered(http, url) != answered:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)


async def is_answered(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        return (await read(http, url))[0] == 200
    except aiohttp.ClientConnectionError:
        return False


# --- faults ----------------------------------------------------------------------------------


async def test_slow_answers_late_and_right(http, url, azure):
    azure.faults.add("slow", 0.1)

    began = time.monotonic()
    status, body = await read(http, url)

    assert time.monotonic() - began >= 0.1
    assert (status, json.loads(body)) == (200, IDLE)


async def test_hang_never_answers_and_holds_up_nobody_else(http, url, azure, until):
    azure.faults.add("hang", requests=1)
    hanging = asyncio.create_task(read(http, url))
    await until(lambda: azure.log.open == 1)

    others = await asyncio.gather(*(read(http, url) for _ in range(10)))

    assert [status for status, _ in others] == [200] * 10
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


async def test_reset_ends_the_connection_with_rst(url, azure):
    azure.faults.add("reset")
    host, port = url.removeprefix("http://").split(":")

    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(RAW_REQUEST)

    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


@pytest.mark.parametrize("code", [400, 404, 410, 429, 500, 502, 503, 599])
async def test_status_answers_with_the_code(http, url, azure, code):
    azure.faults.add("status", code)

    status, body = await read(http, url)

    assert status == code
    assert b"DocumentIncarnation" not in body


async def test_throttle_says_when_to_come_back(http, url, azure):
    azure.faults.add("throttle", 7)

    async with http.get(url + PATH, headers=HEADER) as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "7"


async def test_garbled_is_200_with_what_is_no_text(http, url, azure):
    azure.faults.add("garbled")

    status, body = await read(http, url)

    assert status == 200
    with pytest.raises(UnicodeDecodeError):
        body.decode()


async def test_empty_is_200_with_no_body(http, url, azure):
    azure.faults.add("empty")

    assert await read(http, url) == (200, b"")


async def test_huge_is_200_with_ten_million_bytes(http, url, azure):
    azure.faults.add("huge")

    status, body = await read(http, url)

    assert (status, len(body)) == (200, 10_000_000)


async def test_truncated_announces_more_than_it_sends(http, url, azure, raw):
    azure.faults.add("truncated")
    whole = len(json.dumps(IDLE))

    answer = await raw(url, RAW_REQUEST)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {whole}".encode() in head
    assert 0 < len(body) < whole
    with pytest.raises(aiohttp.ClientPayloadError):
        await read(http, url)


async def test_cut_is_whole_for_http_and_half_for_json(http, url, azure):
    azure.faults.add("cut")

    status, body = await read(http, url)

    assert status == 200
    assert json.dumps(IDLE).encode().startswith(body)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


async def test_cut_leaves_an_override_whole(http, url, azure):
    azure.override(EVENTS, b"0123456789")
    azure.faults.add("cut", requests=2)

    assert [(await read(http, url))[1] for _ in range(3)] == [b"01234", b"01234", b"0123456789"]


async def test_redirect_points_to_another_host(http, url, azure):
    azure.faults.add("redirect")

    async with http.get(url + PATH, headers=HEADER, allow_redirects=False) as answer:
        assert answer.status == 302
        assert answer.headers["Location"] == "http://metadata.invalid/"


async def test_a_redirect_loop_has_no_end(http, url, azure):
    azure.faults.add("redirect-loop")

    with pytest.raises(aiohttp.TooManyRedirects):
        await read(http, url, max_redirects=20)
    assert azure.log.count(status=302) == 20


async def test_down_refuses_connections_and_then_comes_back_on_the_same_port(http, url, azure):
    azure.faults.add("down", 0.2)

    await until_answered(http, url, answered=False)
    await until_answered(http, url, answered=True)
    assert not azure.faults.find("down")


async def test_down_ends_early_when_it_is_switched_off(http, url, azure):
    azure.faults.add("down", 3600)
    await until_answered(http, url, answered=False)

    azure.faults.clear("down")

    await until_answered(http, url, answered=True)


async def test_down_drops_those_who_wait(http, url, azure, until):
    azure.faults.add("hang")
    hanging = asyncio.create_task(read(http, url))
    await until(lambda: azure.log.open == 1)

    azure.faults.add("down", 3600)

    with pytest.raises(aiohttp.ClientConnectionError):
        await hanging


async def test_a_fault_for_some_requests_passes(http, url, azure):
    azure.faults.add("status", 503, requests=2)

    assert [(await read(http, url))[0] for _ in range(3)] == [503, 503, 200]


async def test_a_fault_for_a_path_leaves_the_others_alone(http, url, azure):
    azure.faults.add("status", 500, path="/metadata/instance")

    assert (await read(http, url))[0] == 200
    query = {"api-version": "2021-02-01"}
    async with http.get(f"{url}/metadata/instance", params=query, headers=HEADER) as answer:
        assert answer.status == 500


async def test_faults_add_up(http, url, azure):
    azure.faults.add("slow", 0.05)
    azure.faults.add("status", 503)

    began = time.monotonic()
    assert (await read(http, url))[0] == 503
    assert time.monotonic() - began >= 0.05


async def test_a_fault_answers_a_wait_at_once(http):
    gcp = GcpMetadata()
    gcp.faults.add("status", 503)
    async with (
        serve(gcp) as url,
        http.get(
            f"{url}/computeMetadata/v1/instance/preempted?wait_for_change=true",
            headers={"Metadata-Flavor": "Google"},
        ) as answer,
    ):
        assert answer.status == 503
        assert answer.headers["Metadata-Flavor"] == "Google"


# --- the service -----------------------------------------------------------------------------


async def test_stopping_does_not_wait_for_those_who_wait(http, until):
    gcp = GcpMetadata()
    service = Service(gcp)
    await service.start()
    watchers = [
        asyncio.create_task(
            http.get(
                f"{service.url}/computeMetadata/v1/instance/preempted?wait_for_change=true",
                headers={"Metadata-Flavor": "Google"},
            )
        )
        for _ in range(5)
    ]
    await until(lambda: gcp.waiting == 5)

    began = time.monotonic()
    await service.stop()

    assert time.monotonic() - began < 0.5
    assert gcp.waiting == 0
    results = await asyncio.gather(*watchers, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientConnectionError) for result in results)


async def test_a_stopped_service_gives_its_port_back(azure, http):
    service = Service(azure)
    await service.start()
    await service.stop()

    with pytest.raises(aiohttp.ClientConnectionError):
        await read(http, service.url)
    again = Service(azure, port=service.port)
    await again.start()
    assert (await read(http, again.url))[0] == 200
    await again.stop()


async def test_a_port_in_use_is_an_error(azure):
    async with serve(azure) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with serve(AzureMetadata(), port=port):
                pass


async def test_any_address_is_served_and_named_by_one_that_can_be_reached(azure, http):
    async with serve(azure, host="0.0.0.0") as url:
        assert url.startswith("http://127.0.0.1:")
        assert (await read(http, url))[0] == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this host")
@pytest.mark.parametrize("host", ["::1", "::"])
async def test_ipv6_is_served_and_named_in_brackets(azure, http, host):
    async with serve(azure, host=host) as url:
        assert url.startswith("http://[::1]:")
        assert (await read(http, url))[0] == 200


def test_the_url_leaves_the_usual_port_out(azure):
    assert Service(azure, "169.254.169.254", 80).url == "http://169.254.169.254"


async def test_requests_are_logged_whole(azure, http, url, until):
    await read(http, url)
    azure.faults.add("hang", requests=1)
    with pytest.raises(TimeoutError):
        await read(http, url, timeout=aiohttp.ClientTimeout(total=0.05))
    await until(lambda: azure.log.open == 0)

    answered, given_up = azure.log.recent
    assert (answered.method, answered.path, answered.query) == (
        "GET",
        EVENTS,
        "api-version=2020-07-01",
    )
    assert (answered.status, answered.abandoned) == (200, False)
    assert answered.header("metadata") == ["true"]
    assert (given_up.status, given_up.abandoned) == (None, True)
    assert azure.log.count(path=EVENTS) == 2
    assert azure.log.count(status=200) == 1
    assert azure.log.peak_open == 1


async def test_two_addresses_can_show_one_state(azure, http):
    async with serve(azure) as one, serve(azure) as other:
        azure.raise_notice("preempt")
        assert await read(http, one) == await read(http, other)
