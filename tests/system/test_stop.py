"""The agent is told to stop: at once where nothing is under way, else once it is seen through."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from lastcall.daemon.farewell import STAY_SECONDS
from lastcall.simulate.aws import AwsMetadata
from support.running_agent import LineClient, RunningAgent, join
from support.watching_agent import agent_watching

RANK = {"job": "train", "rank": 0, "world_size": 1}
CHART_VALUES = Path(__file__).resolve().parents[2] / "helm/lastcall/values.yaml"


def signal_agent(agent: RunningAgent, number: int) -> None:
    os.kill(agent.pid, number)


async def exit_code(agent: RunningAgent, seconds: float = 10.0) -> int:
    assert agent.process is not None
    async with asyncio.timeout(seconds):
        return await agent.process.wait()


async def told(agent: RunningAgent, metadata: AwsMetadata, rank: LineClient) -> str:
    """Give notice; return its id once a training process has begun to flush for it."""
    metadata.raise_notice("preemption", 120)
    notice_id = str((await rank.receive("notice"))["id"])
    rank.send(type="intent", id=notice_id, will="save", at_step=7)
    return notice_id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_without_a_notice_it_stops_at_once(tmp_path, number):
    async with RunningAgent(tmp_path, "notices.provider=none") as agent:
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")

            signal_agent(agent, number)

            await rank.receive("bye")
        assert await exit_code(agent) == 0
        assert not agent.logged("agent_stays")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_in_the_middle_of_a_flush_it_stays_until_that_is_on_record(tmp_path, number):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        # given a process in the middle of its flush
        await rank.receive("welcome")
        notice_id = await told(agent, metadata, rank)
        # when the agent is told to stop
        signal_agent(agent, number)
        await agent.wait(lambda: agent.logged("agent_stays"))
        # then it goes on answering, and others may come and are told
        assert notice_id in [one["id"] for one in (await join(agent, job="late"))["notices"]]
        rank.send(type="flushed", id=notice_id, path="/mnt/shared/7", step=7)
        assert (await rank.receive("ok"))["re"] == "flushed"
        # and once all is on record it says goodbye and ends well
        assert (await rank.receive("bye"))["reason"] == "the agent stops"
        assert await exit_code(agent) == 0
        (settled,) = agent.logged("flush_settled")
        assert settled["outcome"] == "in_time"
        assert not agent.logged("agent_leaves_work")


async def test_a_notice_withdrawn_while_it_stays_lets_it_go(tmp_path):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        await told(agent, metadata, rank)
        signal_agent(agent, signal.SIGTERM)
        await agent.wait(lambda: agent.logged("agent_stays"))

        metadata.withdraw()

        await rank.receive("withdrawn")
        await rank.receive("bye")
        assert await exit_code(agent) == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_told_twice_it_waits_for_nothing_and_its_successor_carries_on(tmp_path, second):
    metadata = AwsMetadata()
    async with agent_watching(tmp_path, metadata) as agent:
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            notice_id = await told(agent, metadata, rank)
            signal_agent(agent, signal.SIGTERM)
            await agent.wait(lambda: agent.logged("agent_stays"))
            # when it is told again, while the flush goes on
            signal_agent(agent, second)
            await rank.receive("bye")
            assert await exit_code(agent) == 0
        (left,) = agent.logged("agent_leaves_work")
        assert left["work"] == "1 flush"
        # then the next agent knows the notice and the flush
        await agent.start()
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            (notice,) = (await rank.receive("welcome"))["notices"]
            assert notice["id"] == notice_id
            rank.send(type="flushed", id=notice_id, path="/mnt/shared/7", step=7)
            await rank.receive("ok")
            # and counts it once
            (shown,) = (await agent.wait_view(lambda view: view["notices"]))["notices"]
        assert [flush["outcome"] for flush in shown["flushes"]] == ["in_time"]
        series = 'lastcall_flushes_total{kind="preemption",outcome="in_time"}'
        assert await agent.metric(series) == 1


async def test_a_process_that_is_not_connected_is_left_to_the_next_agent(tmp_path):
    metadata = AwsMetadata()
    async with agent_watching(tmp_path, metadata) as agent:
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            await told(agent, metadata, rank)
        await agent.wait_view(lambda view: not any(one["connected"] for one in view["clients"]))

        signal_agent(agent, signal.SIGTERM)

        assert await exit_code(agent) == 0
        assert not agent.logged("agent_leaves_work")


async def test_a_hangup_is_answered_by_a_line_and_changes_nothing(tmp_path):
    async with (
        RunningAgent(tmp_path, "notices.provider=none") as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")

        signal_agent(agent, signal.SIGHUP)

        await agent.wait(lambda: agent.logged("reload_ignored"))
        await join(agent, job="next")


def test_kubernetes_gives_it_the_time_to_stay():
    (grace,) = re.findall(
        r"^terminationGracePeriodSeconds: (\d+)$", CHART_VALUES.read_text(), re.MULTILINE
    )

    # Beside its stay: the goodbyes, and what is asked of the API server.
    assert int(grace) >= STAY_SECONDS + 8
