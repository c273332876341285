"""The agent is killed and comes back while its clients live on."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

from lastcall.simulate.aws import AwsMetadata
from support.running_agent import LineClient
from support.watching_agent import agent_watching

RANKS = 32


async def join_all(agent, stack, handled=()):
    """Connect all ranks; return them with their welcomes."""
    joined = []
    for rank in range(RANKS):
        hello = {"job": "train", "rank": rank, "world_size": RANKS, "handled": list(handled)}
        client = await stack.enter_async_context(LineClient.connected(agent.socket_path, hello))
        joined.append(client)
    return joined, await asyncio.gather(*(client.receive("welcome") for client in joined))


async def test_all_clients_get_the_same_notice_after_the_agent_was_killed(tmp_path):
    metadata = AwsMetadata()
    async with agent_watching(tmp_path, metadata) as agent, AsyncExitStack() as stack:
        # given clients that were told of a notice, half of which have flushed
        before, _ = await join_all(agent, stack)
        metadata.raise_notice("preemption", 120)
        notices = await asyncio.gather(*(client.receive("notice") for client in before))
        (notice_id,) = {notice["id"] for notice in notices}
        for rank, client in enumerate(before[: RANKS // 2]):
            client.send(type="flushed", id=notice_id, path=f"/mnt/shared/{rank}", step=7)
            await client.receive("ok")
        # when the agent is killed and started, and they come back
        await agent.end(signal.SIGKILL)
        await agent.start()
        after, welcomes = await join_all(agent, stack)
        # then it is the same notice for all, with the same deadline
        assert [[one["id"] for one in welcome["notices"]] for welcome in welcomes] == [
            [notice_id]
        ] * RANKS
        deadlines = {welcome["notices"][0]["deadline_unix"] for welcome in welcomes}
        assert deadlines == {notices[0]["deadline_unix"]}
        # and each has one flush, whoever reported before
        for client in after:
            client.send(type="flushed", id=notice_id, path="/mnt/shared/again", step=7)
            await client.receive("ok")
        view = await agent.wait_view(lambda view: view["notices"])
        (shown,) = view["notices"]
        assert [flush["outcome"] for flush in shown["flushes"]] == ["in_time"] * RANKS
        assert len({flush["rank"] for flush in shown["flushes"]}) == RANKS
