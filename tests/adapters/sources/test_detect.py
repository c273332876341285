"""Whose machine this is, by firmware and by who answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lastcall.core.events import Event, ProvidersFound
from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.gcp import GcpMetadata
from lastcall.simulate.server import Service, serve
from lastcall.sources import detect
from lastcall.sources.base import SystemClock
from lastcall.sources.detect import Found, detect_for_ever, find_providers
from support.raw_http import http_answer, raw_server
from support.watched_source import Recorder

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
async def services() -> AsyncIterator[Mapping[str, str]]:
    """Where each provider's service is to be found."""
    async with AsyncExitStack() as stack:
        yield {
            metadata.provider: await stack.enter_async_context(serve(metadata))
            for metadata in (AwsMetadata(), GcpMetadata(), AzureMetadata())
        }


def all_at(url: str) -> dict[str, str]:
    return dict.fromkeys(("aws", "gcp", "azure"), url)


async def find(endpoints: Mapping[str, str], root: Path) -> Found:
    return await find_providers(endpoints, SystemClock(), root)


def ec2_firmware(root: Path) -> None:
    (root / "sys_vendor").write_text("Amazon EC2\n")


# --- one look --------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
async def test_a_service_is_known_by_its_answer(services, tmp_path, provider):
    url = services[provider]

    found = await find(all_at(url), tmp_path)

    assert found == Found((provider,), f"{url} answers as {provider}")


async def test_the_firmware_is_believed_without_a_question(tmp_path):
    ec2_firmware(tmp_path)
    async with raw_server(lambda _: http_answer()) as server:
        found = await find(all_at(server.url), tmp_path)

    assert found == Found(("aws",), "DMI: sys_vendor says aws")
    assert server.heads == []


async def test_an_address_given_to_another_provider_is_asked_all_the_same(services, tmp_path):
    ec2_firmware(tmp_path)

    found = await find({"aws": NOBODY, "gcp": services["gcp"], "azure": NOBODY}, tmp_path)

    assert found.providers == ("aws", "gcp")
    assert found.detail == f"DMI: sys_vendor says aws; {services['gcp']} answers as gcp"


async def test_providers_have_a_fixed_order(services, tmp_path):
    found = await find(dict(reversed(services.items())), tmp_path)

    assert found.providers == ("aws", "gcp", "azure")


async def test_where_nothing_is_found_it_says_what_was_looked_at(tmp_path):
    (tmp_path / "product_name").write_text("Virtual Machine")

    found = await find(all_at(NOBODY), tmp_path)

    assert found == Found(
        (),
        "no provider found: DMI says Virtual Machine, nothing known answers at http://127.0.0.1:9",
    )


@pytest.mark.parametrize(
    "sent",
    [
        http_answer(b"<html><body>Welcome to the router</body></html>"),
        http_answer(b'{"Events":[],"DocumentIncarnation":1}'),
        http_answer(b"{}"),
        http_answer(b"[]"),
        http_answer(b""),
        http_answer(b"\xff\xff"),
        http_answer(b"not found", "404 Not Found"),
        http_answer(b'{"error": "no such route"}', "400 Bad Request"),
        http_answer(b"", "401 Unauthorized", "Server: nginx"),
        http_answer(b"", "302 Found", "Location: http://login.example/"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
async def test_any_other_server_is_nobodys(tmp_path, sent):
    async with raw_server(lambda _: sent) as server:
        found = await find(all_at(server.url), tmp_path)

    assert found.providers == ()


async def test_googles_answer_to_everything_is_no_token(tmp_path):
    sent = http_answer(b"TRUE", "200 OK", "Metadata-Flavor: Google")
    async with raw_server(lambda _: sent) as server:
        found = await find(all_at(server.url), tmp_path)

    assert found.providers == ("gcp",)


async def test_azure_is_known_by_its_complaint_about_the_version(tmp_path):
    sent = http_answer(b'{"error": "Bad request", "newest-versions": []}', "400 Bad Request")
    async with raw_server(lambda _: sent) as server:
        found = await find(all_at(server.url), tmp_path)

    assert found.providers == ("azure",)


async def test_silence_concludes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(detect, "ANSWER_SECONDS", 0.2)
    async with raw_server(lambda _: None) as server:
        found = await find(all_at(server.url), tmp_path)

    assert found.providers == ()


async def test_ec2_is_known_where_its_tokens_are_lost_on_their_way(tmp_path, monkeypatch):
    monkeypatch.setattr(detect, "ANSWER_SECONDS", 0.2)
    metadata = AwsMetadata()
    metadata.faults.add("hop-limit")
    async with serve(metadata) as url:
        found = await find(all_at(url), tmp_path)

    assert found.providers == ("aws",)


async def test_ec2_is_known_where_its_metadata_is_turned_off(tmp_path):
    metadata = AwsMetadata()
    metadata.faults.add("disabled")
    async with serve(metadata) as url:
        found = await find(all_at(url), tmp_path)

    assert found.providers == ("aws",)


# --- until one is found ----------------------------------------------------------------------


async def test_a_provider_that_is_there_is_settled_at_once(services, tmp_path):
    seen = Recorder()

    providers = await detect_for_ever(
        all_at(services["aws"]), post=seen, clock=SystemClock(), dmi_root=tmp_path
    )

    assert providers == ("aws",)
    assert seen.events == [ProvidersFound(("aws",), f"{services['aws']} answers as aws")]


async def test_a_service_that_comes_up_late_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(detect, "FIRST_WAIT_SECONDS", 0.01)
    service = Service(AwsMetadata())
    await service.start()
    await service.stop()
    seen = Recorder()
    looking = asyncio.create_task(
        detect_for_ever(all_at(service.url), post=seen, clock=SystemClock(), dmi_root=tmp_path)
    )
    await seen.until(lambda: seen.events)
    late = Service(AwsMetadata(), port=service.port)
    await late.start()

    assert await asyncio.wait_for(looking, 5) == ("aws",)

    await late.stop()
    none, found = (one for one in seen.events if isinstance(one, ProvidersFound))
    assert none.providers == ()
    assert none.detail.endswith(f"nothing known answers at {service.url}; looking again")
    assert found.providers == ("aws",)


@pytest.mark.looptime
async def test_it_looks_for_ever_at_longer_and_longer_waits_and_says_so_once(monkeypatch):
    looks: list[float] = []
    posted: list[Event] = []

    async def find_none(*_: object) -> Found:
        looks.append(asyncio.get_running_loop().time())
        return Found((), "no provider found")

    monkeypatch.setattr(detect, "find_providers", find_none)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(
            detect_for_ever({}, post=posted.append, clock=SystemClock()), timeout=3600
        )

    assert looks[:7] == pytest.approx([0, 1, 3, 7, 15, 31, 61])
    assert looks[7] - looks[6] == pytest.approx(30.0)
    assert posted == [ProvidersFound((), "no provider found; looking again")]
