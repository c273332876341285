"""A client written with nothing but a shell, socat and the protocol's page."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lastcall.simulate.aws import AwsMetadata
from support.needs import need_program
from support.running_agent import RunningAgent, request_drill
from support.watching_agent import agent_watching

CLIENT = Path(__file__).parents[2] / "examples" / "socat-client.sh"


@asynccontextmanager
async def shell_client(socket_path: Path, *command: str):
    """Run the example; what it saves is counted in a file."""
    process = await asyncio.create_subprocess_exec(
        *(str(CLIENT), "/mnt/shared/7", *command),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "LASTCALL_SOCKET": str(socket_path)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture(autouse=True)
def _tools():
    need_program("socat", "socat")
    need_program("bash", "bash")


async def test_a_shell_saves_at_a_drill_and_ends_at_a_notice(tmp_path):
    saves = tmp_path / "saves"
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata) as agent,
        shell_client(agent.socket_path, "sh", "-c", f"echo saved >>{saves}; echo 7") as client,
    ):
        await agent.wait(lambda: agent.logged("client_joined"))
        await request_drill(agent)
        await agent.wait(lambda: agent.logged("flush_settled"))
        assert client.returncode is None

        metadata.raise_notice("preemption", 120)

        assert await asyncio.wait_for(client.wait(), 5) == 143
        assert saves.read_text().splitlines() == ["saved", "saved"]
        assert [one["outcome"] for one in agent.logged("flush_settled")] == ["in_time"] * 2
        assert [one["drill"] for one in agent.logged("flush_settled")] == [True, False]
        series = 'lastcall_flushes_total{kind="preemption",outcome="in_time"}'
        assert await agent.metric(series) == 1


async def test_a_save_that_fails_is_reported_as_failed(tmp_path):
    async with (
        RunningAgent(tmp_path, "notices.provider=none") as agent,
        shell_client(agent.socket_path, "sh", "-c", "exit 3"),
    ):
        await agent.wait(lambda: agent.logged("client_joined"))
        await request_drill(agent)

        await agent.wait(lambda: agent.logged("flush_settled"))

        settled = agent.logged("flush_settled")[0]
        assert (settled["outcome"], settled["cause"]) == ("failed", "exit code 3")


async def test_a_notice_that_is_open_already_is_in_the_welcome(tmp_path):
    metadata = AwsMetadata()
    metadata.raise_notice("preemption", 120)
    async with agent_watching(tmp_path, metadata) as agent:
        await agent.wait(lambda: agent.logged("notice_told"))
        async with shell_client(agent.socket_path, "echo", "7") as client:
            assert await asyncio.wait_for(client.wait(), 5) == 143


async def test_without_an_agent_it_ends_and_says_so(tmp_path):
    async with shell_client(tmp_path / "agent.sock", "true") as client:
        _, err = await asyncio.wait_for(client.communicate(), 5)

    assert client.returncode == 1
    assert err.decode().endswith("the agent is gone\n")
