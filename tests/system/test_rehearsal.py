"""An operator rehearses on real processes: the agent, the example's loop, ``drill``, ``status``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import lastcall
from support.running_agent import RunningAgent

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_loop.py"


@pytest.fixture
async def agent(tmp_path) -> AsyncIterator[RunningAgent]:
    async with RunningAgent(tmp_path, "notices.provider=none", "flush.volatile_paths=[]") as agent:
        yield agent


async def operate(agent, *words):
    """Run one of an operator's commands; return its exit code and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lastcall", *words, "--socket", str(agent.socket_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def training(agent, checkpoint):
    """Run the example's loop, and wait until the agent knows of it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), str(checkpoint)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LASTCALL_SOCKET": str(agent.socket_path)},
    )
    try:
        await agent.wait(lambda: agent.logged("client_joined"))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_drill_flushes_the_loop_and_training_goes_on(agent, tmp_path):
    checkpoint = tmp_path / "checkpoint.json"
    async with training(agent, checkpoint) as process:
        code, out, err = await operate(agent, "drill", "--lead", "20")

        assert code == 0, out + err
        assert "all flushed in time" in out
        assert "example: the flush saved" in out
        assert str(checkpoint) in out
        assert json.loads(checkpoint.read_text())["step"] >= 1
        assert process.returncode is None
        assert await agent.metric('lastcall_drills_total{outcome="passed"}') == 1
        code, out, _ = await operate(agent, "status")
        assert code == 0
        assert "rehearsed" in out


async def test_a_real_notice_ends_the_loop_and_the_next_start_goes_on_from_there(tmp_path):
    checkpoint = tmp_path / "checkpoint.json"
    simulated = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lastcall", "simulate", "gcp"),
        *("--listen", "127.0.0.1:0", "--after", "2"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert simulated.stderr is not None
    try:
        first_line = (await simulated.stderr.readline()).decode()
        settings = [word for word in first_line.split() if word.startswith("notices.")]
        async with RunningAgent(tmp_path, *settings, "flush.volatile_paths=[]") as agent:
            async with training(agent, checkpoint) as process:
                assert await asyncio.wait_for(process.wait(), 15) == lastcall.EXIT_PREEMPTED
            saved = json.loads(checkpoint.read_text())["step"]
            async with training(agent, checkpoint) as again:
                assert again.stdout is not None
                assert await again.stdout.readline() == f"starting after step {saved}\n".encode()
    finally:
        simulated.send_signal(signal.SIGTERM)
        await simulated.communicate()


async def test_json_is_for_programs(agent):
    code, out, _ = await operate(agent, "status", "--json")

    view = json.loads(out)
    assert code == 0
    assert view["agent"]["node_name"] == "test-node"
    assert view["clients"] == []
