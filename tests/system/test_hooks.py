"""The agent as a process runs the site's programs, and what they do never delays a notice."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from lastcall.simulate.aws import AwsMetadata
from support.running_agent import LineClient, RunningAgent
from support.watching_agent import agent_watching

RANK = {"job": "train", "rank": 0, "world_size": 1}
HOOKS = ("on_notice", "on_flushed", "on_drained", "on_withdrawn")


class Site:
    """A program of the site's own that leaves what it was told in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "told"
        self.folder.mkdir()
        self.program = folder / "record"
        here = shlex.quote(str(self.folder))
        # Complete files alone have the final name.
        self.program.write_text(
            f"#!/bin/sh\ncd {here} || exit 1\n"
            'name=$LASTCALL_EVENT.$LASTCALL_NOTICE_ID\nenv >"env.$name"\ncat >"tmp.$name"\n'
            'mv "tmp.$name" "$name"\necho "told of $LASTCALL_KIND"\n'
        )
        self.program.chmod(0o755)

    def settings(self, *hooks: str) -> tuple[str, ...]:
        command = json.dumps([[str(self.program)]])
        return tuple(f"hooks.{hook}={command}" for hook in hooks or HOOKS)

    @property
    def events(self) -> set[str]:
        names = {file.name.partition(".")[0] for file in self.folder.iterdir()}
        return names - {"env", "tmp"}

    def told(self, event: str) -> dict[str, Any]:
        """Return what the program was told on its standard input."""
        (file,) = self.folder.glob(f"{event}.*")
        content: dict[str, Any] = json.loads(file.read_text())
        return content

    def environment(self, event: str) -> dict[str, str]:
        (file,) = self.folder.glob(f"env.{event}.*")
        pairs = [line.partition("=") for line in file.read_text().splitlines()]
        return {name: value for name, _, value in pairs}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def ran(agent: RunningAgent, *hooks: str) -> None:
    """Wait until the agent has said what came of a program of each hook."""
    await agent.wait(lambda: {line["hook"] for line in agent.logged("hook_ran")} >= {*hooks})


async def test_programs_are_run_at_each_step_and_told_what_has_happened(
    tmp_path: Path, site: Site
) -> None:
    # given an agent with a program for each hook, a training process, and secrets around it
    metadata = AwsMetadata()
    secrets = {"AWS_SECRET_ACCESS_KEY": "s3cret", "LASTCALL_LOG__LEVEL": "info"}
    async with (
        agent_watching(tmp_path, metadata, settings=site.settings(), environment=secrets) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        # when notice is given
        metadata.raise_notice("preemption", 120)
        notice = await rank.receive("notice")
        # then the first program is run, and no other before the flush is over
        await ran(agent, "on_notice")
        assert site.events == {"on_notice"}
        told = site.told("on_notice")
        assert (told["notice_id"], told["kind"], told["node"]) == (
            notice["id"],
            "preemption",
            "test-node",
        )
        assert told["deadline_unix"] == pytest.approx(notice["deadline_unix"])
        assert 100 < told["remaining_seconds"] <= 120
        environment = site.environment("on_notice")
        assert environment["LASTCALL_NOTICE_ID"] == notice["id"]
        assert environment["PATH"] == os.environ["PATH"]
        assert not secrets.keys() & environment.keys()
        # when the process has flushed, then the next are; on this node nothing else is drained
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/54", step=54)
        await ran(agent, "on_flushed", "on_drained")
        assert site.told("on_flushed")["flushes"]["in_time"] == 1
        assert site.told("on_drained")["outcome"] == "none"
        # when the notice is withdrawn, then the last one is
        metadata.withdraw()
        await ran(agent, "on_withdrawn")
        assert site.told("on_withdrawn")["ending"] == "withdrawn"
        # and all of it is logged and counted
        assert {line["output"] for line in agent.logged("hook_ran")} == {"told of preemption"}
        for hook in HOOKS:
            series = f'lastcall_hooks_total{{hook="{hook}",outcome="ok"}}'
            assert await agent.metric(series) == 1


async def test_whatever_programs_do_the_processes_are_told_and_answered(tmp_path: Path) -> None:
    # given programs that hang, flood their output, ignore SIGTERM or are not there
    programs = [
        ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"],
        ["yes"],
        ["sh", "-c", "setsid sleep 5 & exit 0"],
        ["no-such-program"],
        *[["sleep", "60"]] * 20,
    ]
    settings = (f"hooks.on_notice={json.dumps(programs)}", "hooks.timeout_seconds=2")
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, settings=settings) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        before_bytes = agent.resident_bytes()
        # when notice is given
        metadata.raise_notice("preemption", 120)
        # then that comes through as if they were not there
        notice = await rank.receive("notice")
        rank.send(type="flushed", id=notice["id"], path="/mnt/shared/54", step=54)
        assert (await rank.receive("ok"))["id"] == notice["id"]
        assert (await agent.get("/healthz"))[0] == 200
        # and each ends in its own way
        await agent.wait(lambda: len(agent.logged("hook_ran")) == len(programs), 30)
        came = {line["index"]: line["outcome"] for line in agent.logged("hook_ran")}
        assert [came[index] for index in range(4)] == ["timeout", "timeout", "ok", "not_started"]
        assert {came[index] for index in range(4, len(programs))} == {"timeout"}
        assert agent.resident_bytes() - before_bytes < 30 * 1024 * 1024
        assert psutil.Process(agent.pid).children() == []


@pytest.mark.long
async def test_a_drill_runs_them_only_where_it_drains(tmp_path: Path, site: Site) -> None:
    async with RunningAgent(
        tmp_path, "notices.provider=none", *site.settings("on_notice", "on_withdrawn")
    ) as agent:
        for drains in (False, True):
            async with LineClient.connected(agent.socket_path) as operator:
                operator.send(type="drill", lead_seconds=20.0, drain=drains)
                drill_id = (await operator.receive("ok"))["id"]
        # With nobody to flush, each is over at once.
        await ran(agent, "on_notice", "on_withdrawn")

        assert len(agent.logged("hook_ran")) == 2
        assert site.told("on_notice")["drill"] is True
        assert site.told("on_notice")["notice_id"] == drill_id
        assert site.told("on_withdrawn")["ending"] == "rehearsed"


@pytest.mark.long
async def test_an_agent_that_only_watches_runs_none(tmp_path: Path, site: Site) -> None:
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, settings=("mode=observe", *site.settings())) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        metadata.raise_notice("preemption", 120)
        await rank.receive("notice")
        metadata.withdraw()
        await rank.receive("withdrawn")
        await asyncio.sleep(0.2)

        assert site.events == set()
        assert agent.logged("hook_ran") == []


async def test_a_restart_runs_what_is_still_to_come_and_nothing_twice(
    tmp_path: Path, site: Site
) -> None:
    # given an agent that is killed once the first program has run
    metadata = AwsMetadata()
    async with agent_watching(tmp_path, metadata, settings=site.settings()) as agent:
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            metadata.raise_notice("preemption", 120)
            notice_id = (await rank.receive("notice"))["id"]
            await ran(agent, "on_notice")
            await asyncio.sleep(0.1)
            await agent.end(signal.SIGKILL)
        # when it comes back, and the process flushes
        await agent.start()
        async with LineClient.connected(agent.socket_path, RANK) as rank:
            await rank.receive("welcome")
            rank.send(type="flushed", id=notice_id, path="/mnt/shared/54", step=54)
            await ran(agent, "on_flushed", "on_drained")

            hooks = [line["hook"] for line in agent.logged("hook_ran")]
            assert sorted(hooks) == ["on_drained", "on_flushed", "on_notice"]


async def test_an_agent_that_stops_ends_what_it_runs(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{shlex.quote(str(pid_file))}.tmp; mv {pid_file}.tmp {pid_file}; sleep 60"
    settings = (f"hooks.on_notice={json.dumps([['sh', '-c', script]])}",)
    metadata = AwsMetadata()
    async with agent_watching(tmp_path, metadata, settings=settings) as agent:
        metadata.raise_notice("preemption", 120)
        await agent.wait(pid_file.exists)

        assert await agent.end(signal.SIGTERM) == 0

        assert not psutil.pid_exists(int(pid_file.read_text()))
        assert agent.other_lines == []
