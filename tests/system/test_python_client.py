"""The Python client in processes of their own, against the agent as a process."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lastcall.simulate.aws import AwsMetadata
from support.running_agent import request_drill, view_of
from support.training import Training
from support.watching_agent import agent_watching


def flushes(outcome: str, kind: str = "preemption") -> str:
    return f'lastcall_flushes_total{{kind="{kind}",outcome="{outcome}"}}'


def saves_for(kind: str):
    """Return whether a process saves for a notice of this kind, asked of the agent's view."""
    return lambda view: any(
        flush["will"] == "save"
        for notice in view["notices"]
        if notice["kind"] == kind
        for flush in notice["flushes"]
    )


@pytest.fixture
def metadata():
    return AwsMetadata()


@pytest.fixture
async def agent(tmp_path, metadata):
    async with agent_watching(tmp_path, metadata) as agent:
        yield agent


async def test_a_flush_in_time_ends_training(agent, metadata):
    async with Training.begun(agent.socket_path) as training:
        metadata.raise_notice("preemption", 120)
        assert (await training.says("flushing"))["kind"] == "preemption"

        training.tell("save /mnt/shared/7")

        assert await training.says("flushed") == {
            "event": "flushed",
            "recorded": True,
            "stop": True,
        }
        training.tell("leave")
        assert await training.process.wait() == 143
        assert await agent.metric(flushes("in_time")) == 1


async def test_an_interruption_during_the_flush_for_an_advice_needs_no_second_save(agent, metadata):
    async with Training.begun(agent.socket_path) as training:
        # given a flush for an advice
        metadata.raise_notice("rebalance")
        assert (await training.says("flushing"))["urgency"] == "soon"
        # when the machine is taken back meanwhile
        metadata.raise_notice("preemption", 120)
        await agent.wait_view(saves_for("preemption"))
        training.tell("save /mnt/shared/7")
        # then the same save is the answer to that, and training ends
        assert await training.says("flushed") == {
            "event": "flushed",
            "recorded": True,
            "stop": True,
        }
        assert await agent.metric(flushes("in_time")) == 1
        assert await agent.metric(flushes("withdrawn", "rebalance")) == 1
        training.tell("leave")
        assert await training.process.wait() == 143


async def test_training_goes_on_where_the_notice_is_withdrawn_during_the_flush(agent, metadata):
    async with Training.begun(agent.socket_path) as training:
        metadata.raise_notice("preemption", 120)
        await training.says("flushing")
        metadata.withdraw()
        await agent.wait(lambda: agent.logged("notice_ended"))

        training.tell("save /mnt/shared/7")

        assert not (await training.says("flushed"))["stop"]
        training.tell("stay")
        await training.says("training")
        assert training.process.returncode is None
        assert await agent.metric(flushes("withdrawn")) == 1


@pytest.mark.parametrize("saved", ["after the restart", "while the agent is down"])
async def test_a_flush_outlives_the_agent(agent, metadata, saved):
    async with Training.begun(agent.socket_path) as training:
        metadata.raise_notice("preemption", 120)
        notice = await training.says("flushing")
        await agent.end(signal.SIGKILL)
        if saved == "while the agent is down":
            training.tell("save /mnt/shared/7")
            assert not (await training.says("flushed"))["recorded"]
        await agent.start()
        if saved == "after the restart":
            # Whether it waits for the answer depends on when it has found the agent again.
            training.tell("save /mnt/shared/7")
            await training.says("flushed")

        await agent.wait(lambda: agent.logged("flush_settled"))

        (shown,) = (await view_of(agent))["notices"]
        assert shown["id"] == notice["id"]
        assert [flush["outcome"] for flush in shown["flushes"]] == ["in_time"]
        assert [flush["path"] for flush in shown["flushes"]] == ["/mnt/shared/7"]


async def test_a_rank_that_is_killed_has_missed_though_its_child_holds_the_connection(
    agent, metadata
):
    async with Training.begun(agent.socket_path, "--with-child") as training:
        metadata.raise_notice("preemption", 120)
        await training.says("flushing")

        training.process.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        await agent.wait(lambda: agent.logged("flush_settled"), 5)

        assert time.monotonic() - killed_at < 1
        assert training.child is not None
        os.kill(training.child, 0)
        assert agent.logged("flush_settled")[0]["outcome"] == "missed"
        assert await agent.metric(flushes("missed")) == 1


async def test_a_drill_is_a_drill_everywhere_and_training_goes_on(agent):
    async with Training.begun(agent.socket_path) as training:
        drill = await request_drill(agent)
        told = await training.says("flushing")
        assert (told["id"], told["kind"], told["drill"]) == (drill, "manual", True)

        training.tell("save /mnt/shared/7")

        assert not (await training.says("flushed"))["stop"]
        training.tell("stay")
        await training.says("training")
        await agent.wait(lambda: agent.logged("notice_ended"))
        assert all(line["drill"] for line in agent.log if line.get("notice_id") == drill)
        (shown,) = (await view_of(agent))["notices"]
        assert (shown["drill"], shown["ending"]) == (True, "rehearsed")
        assert await agent.metric(flushes("in_time", "manual")) == 1
        assert await agent.metric(flushes("in_time")) == 0


async def test_a_process_that_waits_for_its_agent_is_told_and_heard(agent, metadata):
    async with Training.begun(agent.socket_path) as training:
        # given a process whose agent was away for a while
        await agent.end(signal.SIGTERM)
        await agent.start()
        # when there is a notice, and its save fails
        metadata.raise_notice("preemption", 120)
        await training.says("flushing")
        training.tell("fail disk full")
        # then that is known, with its reason
        assert (await training.says("flushed"))["recorded"]
        await agent.wait(lambda: agent.logged("flush_settled"))
        settled = agent.logged("flush_settled")[0]
        assert (settled["outcome"], settled["cause"]) == ("failed", "disk full")
