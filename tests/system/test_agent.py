"""The agent as a process, from a provider's notice to a flushed checkpoint."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.server import serve
from support.needs import long
from support.running_agent import LineClient, RunningAgent

RANK = {"job": "train", "rank": 0, "world_size": 1}


@pytest.fixture
async def aws() -> AsyncIterator[tuple[AwsMetadata, str]]:
    metadata = AwsMetadata()
    async with serve(metadata) as url:
        yield metadata, url


def watching(folder: Path, url: str, *more: str) -> RunningAgent:
    return RunningAgent(
        folder,
        "notices.provider=aws",
        f"notices.aws.endpoint={url}",
        "notices.aws.poll_seconds=0.05",
        *more,
    )


async def test_a_notice_becomes_a_flushed_checkpoint_and_is_measured(
    tmp_path: Path, aws: tuple[AwsMetadata, str]
) -> None:
    # given an agent and a training process that speaks bare lines
    metadata, url = aws
    async with (
        watching(tmp_path, url) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        assert (await rank.receive("welcome"))["notices"] == []
        # when the provider gives notice, and the process flushes
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        rank.send(type="ack", id=notice["id"], step=54)
        rank.send(type="intent", id=notice["id"], will="save", at_step=54)
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/54", step=54)
        answer = await rank.receive("ok")
        # then it was told all it needs, its word is on record, and the figures say so
        assert (notice["kind"], notice["urgency"]) == ("preemption", "now")
        assert 117 < notice["remaining_seconds"] <= 121
        assert notice["remaining_seconds"] - notice["budget_seconds"] == pytest.approx(10, abs=0.1)
        assert (answer["re"], answer["id"]) == ("flushed", notice["id"])
        series = 'lastcall_flushes_total{kind="preemption",outcome="in_time"}'
        assert await agent.metric(series) == 1
        assert await agent.metric("lastcall_signal_seconds_count") == 1
        assert (await agent.get("/readyz"))[0] == 200


@pytest.mark.parametrize("moment", [long("before_told"), "told", long("saving"), "flushed"])
async def test_killed_at_any_step_it_carries_on_with_the_same_notice(
    tmp_path: Path, aws: tuple[AwsMetadata, str], moment: str
) -> None:
    # given an agent that is killed at some step of a notice
    metadata, url = aws
    agent = watching(tmp_path, url)
    await agent.start()
    notice_id = ""
    if moment == "before_told":
        await agent.end(signal.SIGKILL)
        metadata.raise_notice("preemption", 120)
    else:
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            metadata.raise_notice("preemption", 120)
            notice_id = (await rank.receive("notice"))["id"]
            if moment != "told":
                rank.send(type="intent", id=notice_id, will="save", at_step=54)
            if moment == "flushed":
                rank.send(type="flushed", id=notice_id, path="/mnt/shared/54", step=54)
                await rank.receive("ok")
            await agent.wait(lambda: agent.logged("notice_told"))
            await asyncio.sleep(0.1)
            await agent.end(signal.SIGKILL)
    # when it is started again, and the same process comes back
    await agent.start()
    handled = [notice_id] if moment == "flushed" else []
    async with LineClient.connected(agent.socket_path, {**RANK, "handled": handled}) as rank:
        welcome = await rank.receive("welcome")
        if moment == "before_told":
            notice = welcome["notices"][0] if welcome["notices"] else await rank.receive("notice")
        else:
            notice = welcome["notices"][0]
        if moment != "flushed":
            rank.send(type="flushed", id=notice["id"], path="/mnt/shared/54", step=54)
            await rank.receive("ok")
        # then there is one notice, under one id, with one flush that was in time
        status = await _status(agent)
    await agent.end(signal.SIGTERM)
    assert notice_id in ("", notice["id"])
    assert [shown["id"] for shown in status["notices"]] == [notice["id"]]
    assert [flush["outcome"] for flush in status["notices"][0]["flushes"]] == ["in_time"]


async def test_a_notice_that_is_withdrawn_lets_training_go_on(
    tmp_path: Path, aws: tuple[AwsMetadata, str]
) -> None:
    metadata, url = aws
    async with (
        watching(tmp_path, url) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        metadata.withdraw()
        assert (await rank.receive("withdrawn"))["id"] == notice["id"]
        series = 'lastcall_notices_withdrawn_total{kind="preemption",source="aws"}'
        assert await agent.metric(series) == 1


async def test_a_second_agent_on_the_same_socket_is_refused_in_one_line(tmp_path: Path) -> None:
    async with RunningAgent(tmp_path, "notices.provider=none"):
        second = RunningAgent(tmp_path, "notices.provider=none")
        code = await _start_and_fail(second)
        assert code == 2
        assert len(second.other_lines) == 1
        assert "error:" in second.other_lines[0]


@pytest.mark.long
async def test_a_port_in_use_is_a_warning_and_the_socket_serves(tmp_path: Path) -> None:
    agent = RunningAgent(tmp_path, "notices.provider=none")
    taken = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", agent.port)
    async with taken:
        await agent.start()
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
        await agent.wait(lambda: agent.logged("http_not_served"))
    await agent.end(signal.SIGTERM)


async def test_a_state_directory_that_cannot_be_written_is_a_warning(
    tmp_path: Path, aws: tuple[AwsMetadata, str]
) -> None:
    metadata, url = aws
    blocked = tmp_path / "file"
    blocked.touch()
    async with (
        watching(tmp_path, url, f"state_dir={blocked}/state") as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/54", step=54)
        assert (await rank.receive("ok"))["id"] == notice["id"]


async def test_a_normal_stop_says_bye_and_logs_no_error(tmp_path: Path) -> None:
    agent = RunningAgent(tmp_path, "notices.provider=none")
    await agent.start()
    async with LineClient.connected(agent.socket_path, RANK) as rank:
        await rank.receive("welcome")
        ended = asyncio.create_task(agent.end(signal.SIGTERM))
        assert (await rank.receive("bye"))["reason"]
        assert await ended == 0
    assert agent.other_lines == []
    assert not [line for line in agent.log if line["level"] in ("error", "critical")]


async def _status(agent: RunningAgent) -> dict[str, list[dict[str, object]]]:
    async with LineClient.connected(agent.socket_path) as operator:
        operator.send(type="status")
        return await operator.receive("status")  # type: ignore[return-value]  # checked by use


async def _start_and_fail(agent: RunningAgent) -> int | None:
    with pytest.raises(AssertionError):
        await agent.start()
    process = agent.process
    assert process is not None
    async with asyncio.timeout(5):
        return await process.wait()
