"""Whatever other clients do, a well-behaved one is told at once, and the agent does not grow."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager

import pytest

from lastcall.simulate.aws import AwsMetadata
from support import hostile_program
from support.needs import long
from support.running_agent import LineClient, join
from support.watching_agent import agent_watching

WAYS = ("flood", "deaf", "garbage", "long_line", "half_lines", "idle", "storm")
RANK = {"job": "train", "rank": 0, "world_size": 1}
IN_TIME_SECONDS = 3.0
"""Far more than it takes where the attack does no harm, on a busy machine too."""
MEMORY_BYTES = 30 * 1024 * 1024


@asynccontextmanager
async def under_attack(agent, *ways):
    """Have the agent attacked, and wait until that is well under way."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, hostile_program.__file__, str(agent.socket_path), *ways),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 20) == b"under way\n"
        yield
    finally:
        await asyncio.wait_for(process.communicate(b""), 10)


async def notice_comes_through(agent, metadata, rank):
    """Have notice given, the client told, its flush recorded and a newcomer told, all in time."""
    metadata.raise_notice("preemption", 120)
    raised_at = time.monotonic()
    notice = await rank.receive("notice")
    assert time.monotonic() - raised_at < IN_TIME_SECONDS
    rank.send(type="flushed", id=notice["id"], path="/mnt/shared/7", step=7)
    flushed_at = time.monotonic()
    await rank.receive("ok")
    assert time.monotonic() - flushed_at < IN_TIME_SECONDS
    assert [one["id"] for one in (await join(agent, job="late"))["notices"]] == [notice["id"]]
    assert (await agent.get("/healthz"))[0] == 200


@pytest.mark.parametrize("way", [one if one == "flood" else long(one) for one in WAYS])
async def test_a_notice_comes_through_and_the_agent_stays_small(tmp_path, way):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        before_bytes = agent.resident_bytes()
        async with under_attack(agent, way):
            await notice_comes_through(agent, metadata, rank)
            assert agent.resident_bytes() - before_bytes < MEMORY_BYTES


async def test_a_notice_comes_through_where_all_is_tried_at_once(tmp_path):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        async with under_attack(agent, *WAYS):
            await notice_comes_through(agent, metadata, rank)
