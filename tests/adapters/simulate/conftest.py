"""Clients for the simulated services, a clock set by hand, and EC2's service on that clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp
import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.server import serve
from support.metadata_clients import AwsReader, HandClock, aws_token

Raw = Callable[[str, bytes], Awaitable[bytes]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        yield session


@pytest.fixture
def raw() -> Raw:
    """Send bytes to a base URL and return all that comes back until the end."""

    async def exchange(url: str, request: bytes) -> bytes:
        target = urlsplit(url)
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()

    return exchange


@pytest.fixture
def until() -> Until:
    """Wait until something holds, for five seconds at most."""

    async def wait(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.002)

    return wait


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1_935_520_000.0)  # 2031-05-02T20:26:40Z


@pytest.fixture
def monotonic() -> HandClock:
    return HandClock(0.0)


@pytest.fixture
def aws(clock: HandClock, monotonic: HandClock) -> AwsMetadata:
    return AwsMetadata(clock=clock, monotonic=monotonic)


@pytest.fixture
async def aws_url(aws: AwsMetadata) -> AsyncIterator[str]:
    async with serve(aws) as base:
        yield base


@pytest.fixture
async def aws_reader(http: aiohttp.ClientSession, aws_url: str) -> AwsReader:
    return AwsReader(http, aws_url, await aws_token(http, aws_url))
