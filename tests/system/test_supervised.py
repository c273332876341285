"""The agent as a process under a service manager: ready, alive, and leaving when it says so."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastcall.simulate.aws import AwsMetadata
from support.running_agent import LineClient, RunningAgent
from support.watching_agent import agent_watching

RANK = {"job": "train", "rank": 0, "world_size": 1}


class Manager:
    """The end of the socket that a service manager reads."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)

    def close(self) -> None:
        self._socket.close()

    async def hear(self, name: str, seconds: float = 15.0) -> dict[str, str]:
        """Return the next word that has a field of this name."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            while True:
                text = (await loop.sock_recv(self._socket, 4096)).decode()
                fields = dict(line.split("=", 1) for line in text.splitlines())
                if name in fields:
                    return fields


@pytest.fixture
def manager(tmp_path) -> Iterator[Manager]:
    manager = Manager(tmp_path)
    yield manager
    manager.close()


async def test_it_is_ready_when_the_socket_listens_and_its_sources_have_answered(tmp_path, manager):
    metadata = AwsMetadata()
    async with agent_watching(
        tmp_path, metadata, environment={"NOTIFY_SOCKET": manager.address}
    ) as agent:
        ready = await manager.hear("READY")

        assert ready == {"READY": "1", "STATUS": "no notice; sources: aws; clients: 0"}
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            assert (await manager.hear("STATUS"))["STATUS"].endswith("clients: 1")


async def test_it_feeds_the_watchdog_with_nothing_to_do(tmp_path, manager):
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"}
    async with RunningAgent(tmp_path, "notices.provider=none", environment=variables) as agent:
        for _ in range(3):
            await manager.hear("WATCHDOG")
        # Ticks that changed nothing leave no trace on disk.
        before = (tmp_path / "state/journal.jsonl").stat().st_size
        for _ in range(3):
            await manager.hear("WATCHDOG")
        assert (tmp_path / "state/journal.jsonl").stat().st_size == before
        assert await agent.end(signal.SIGTERM) == 0
    await manager.hear("STOPPING")


async def test_while_it_stays_for_a_flush_it_asks_for_time_and_says_it_stops_only_after(
    tmp_path, manager
):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, environment={"NOTIFY_SOCKET": manager.address}) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        notice_id = (await rank.receive("notice"))["id"]

        os.kill(agent.pid, signal.SIGTERM)

        asked = await manager.hear("EXTEND_TIMEOUT_USEC")
        assert asked == {"EXTEND_TIMEOUT_USEC": "5000000"}
        rank.send(type="flushed", id=notice_id, path="/mnt/shared/7", step=7)
        await rank.receive("bye")
        assert await manager.hear("STOPPING") == {"STOPPING": "1", "STATUS": "stopping"}
