"""From logind's word to the end of its wait: source, decision and drain over one shared bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lastcall.bus.system_bus import SystemBus
from lastcall.core.commands import Acknowledge, Drain, StopDrain, Tell
from lastcall.core.events import AcknowledgeEnded, Event
from lastcall.core.machine import Machine
from lastcall.core.model import Node
from lastcall.core.turn import Settings
from lastcall.drain.systemd.backend import SystemdDrain
from lastcall.sources.base import SystemClock
from lastcall.sources.shutdown import ShutdownSource
from support.fake_bus import FakeBus, a_bus
from support.fake_logind import FakeLogind
from support.fake_systemd import FakeSystemd, FakeUnit
from support.happenings import flushed, joined
from support.watched_source import until, watching

GROUP = "/system.slice/train.service"


class SmallAgent:
    """Source, decision core and drain, put together as the daemon does it."""

    def __init__(self, address: str) -> None:
        bus = SystemBus(address)
        self.clock = SystemClock()
        self.source = ShutdownSource(bus, self.post, self.clock)
        self.drain = SystemdDrain(
            bus,
            units=("train.service",),
            own_group="/system.slice/lastcall.service",
            post=self.post,
            monotonic=self.clock.monotonic,
        )
        self.machine = Machine(Settings(acknowledges=frozenset({"shutdown"})))
        self.node = Node()
        self.told: list[str] = []

    def post(self, event: Event) -> None:
        asyncio.get_running_loop().call_soon(self._handle, event)

    def _handle(self, event: Event) -> None:
        self.node, commands = self.machine.handle(self.node, event, self.clock.monotonic())
        for command in commands:
            match command:
                case Tell(notice=notice):
                    self.told.append(notice.id)
                case Drain():
                    self.drain.drain(command)
                case StopDrain(id=name):
                    self.drain.stop(name)
                case Acknowledge(id=name, key=key):
                    task = asyncio.create_task(self.source.acknowledge(key))
                    task.add_done_callback(
                        lambda done, name=name: self.post(AcknowledgeEnded(name, *done.result()))
                    )


@pytest.fixture
async def daemon() -> AsyncIterator[FakeBus]:
    async with a_bus() as daemon:
        yield daemon


async def test_the_machine_goes_when_training_has_flushed_and_its_unit_has_stopped(
    daemon: FakeBus,
) -> None:
    logind = FakeLogind()
    train = FakeUnit("train.service", stops_after_seconds=0.05, timeout_seconds=90)
    systemd = FakeSystemd(train)
    await logind.offer(daemon.address)
    await systemd.offer(daemon.address)
    agent = SmallAgent(daemon.address)
    async with watching(agent.source), watching(agent.drain):
        await until(lambda: len(logind.held) == 1)
        agent.post(replace(joined("s0"), cgroup=GROUP))

        await logind.shut_down("reboot")

        await until(lambda: bool(agent.told))
        assert len(logind.held) == 1
        assert train.told == 0
        agent.post(flushed("s0", agent.told[0]))
        await until(lambda: train.active == "inactive")
        await until(lambda: logind.held == [])
        await until(lambda: agent.node.notices[agent.told[0]].accepted is True)

    notice = agent.node.notices[agent.told[0]]
    assert (notice.drained, train.told) == ("drained", 1)
    await agent.drain.close()
    await systemd.withdraw()
    await logind.withdraw()
    logind.close()


async def test_a_shutdown_that_is_called_off_stops_no_unit(daemon: FakeBus) -> None:
    logind, train = FakeLogind(), FakeUnit("train.service", timeout_seconds=90)
    systemd = FakeSystemd(train)
    await logind.offer(daemon.address)
    await systemd.offer(daemon.address)
    agent = SmallAgent(daemon.address)
    async with watching(agent.source), watching(agent.drain):
        await until(lambda: len(logind.held) == 1)
        agent.post(replace(joined("s0"), cgroup=GROUP))
        await logind.shut_down()
        await until(lambda: bool(agent.told))

        await logind.call_off()

        await until(lambda: not agent.node.notices[agent.told[0]].open)
        await until(lambda: not agent.drain._tasks)
        assert train.told == 0
        assert len(logind.held) == 1
    await agent.drain.close()
    await systemd.withdraw()
    await logind.withdraw()
    logind.close()
