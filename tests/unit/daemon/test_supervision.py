"""When the service manager hears that the agent is ready, how it is, and that it lives."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from lastcall.core.events import Tick
from lastcall.core.model import Node, SourceHealth
from lastcall.daemon.notify import ServiceManager
from lastcall.daemon.supervision import EXTENSION_SECONDS, READY_SECONDS, Supervision

pytestmark = pytest.mark.looptime


class ListeningManager(ServiceManager):
    """Keeps what it is told, or is out of reach for a while."""

    def __init__(self, watchdog_seconds: float | None = None) -> None:
        super().__init__("/nowhere", watchdog_seconds)
        self.reached = True
        self.heard: list[tuple[float, dict[str, str]]] = []

    def tell(self, **fields: str) -> bool:
        if self.reached:
            self.heard.append((asyncio.get_running_loop().time(), fields))
        return self.reached

    def when(self, name: str) -> list[float]:
        return [at for at, fields in self.heard if name in fields]

    def statuses(self) -> list[str]:
        return [fields["STATUS"] for _, fields in self.heard if "STATUS" in fields]


class Agent:
    """As much of the agent as the manager is told of."""

    def __init__(self, manager: ListeningManager) -> None:
        self.manager = manager
        self.node = Node()
        self.waits: dict[str, str] = {}
        self.handled_at: float | None = None
        self.stuck = False
        self.leaving_at: float | None = None
        self.posted: list[object] = []

    def post(self, event: object) -> None:
        self.posted.append(event)
        if not self.stuck:
            self.handled_at = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def supervised(self):
        supervision = Supervision(
            self.manager,
            post=self.post,
            handled_at=lambda: self.handled_at,
            node=lambda: self.node,
            waits=lambda: self.waits,
            stays_until=lambda: self.leaving_at,
        )
        running = asyncio.create_task(supervision.run())
        try:
            yield supervision
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def agent():
    return Agent(ListeningManager())


async def test_it_is_ready_once_nothing_is_waited_for(agent):
    agent.waits = {"provider": "still looking"}
    async with agent.supervised():
        await asyncio.sleep(2)
        assert agent.manager.when("READY") == []
        agent.waits = {}
        await asyncio.sleep(0.1)

    assert len(agent.manager.when("READY")) == 1


async def test_a_boot_does_not_wait_for_a_metadata_service_that_is_down(agent):
    agent.waits = {"aws": "has not answered: timeout"}
    async with agent.supervised():
        await asyncio.sleep(READY_SECONDS + 0.1)

    assert agent.manager.when("READY") == pytest.approx([READY_SECONDS], abs=0.1)
    assert "aws has not answered: timeout" in agent.manager.statuses()[-1]


async def test_a_word_that_did_not_go_out_is_said_again(agent):
    agent.manager.reached = False
    async with agent.supervised():
        await asyncio.sleep(3)
        agent.manager.reached = True
        await asyncio.sleep(1)

    assert len(agent.manager.when("READY")) == 1


async def test_the_status_is_said_only_when_it_is_news(agent):
    async with agent.supervised():
        await asyncio.sleep(5)
        agent.node = Node(sources={"aws": SourceHealth({"all": "timeout"}, "timeout")})
        await asyncio.sleep(5)

    assert agent.manager.statuses() == [
        "no notice; sources: none; clients: 0",
        "no notice; sources: aws (timeout); clients: 0",
    ]


async def test_the_watchdog_is_fed_while_events_are_handled(agent):
    agent.manager.watchdog_seconds = 10.0
    async with agent.supervised():
        await asyncio.sleep(21)

    assert agent.manager.when("WATCHDOG") == pytest.approx([5, 10, 15, 20], abs=0.1)
    assert set(map(type, agent.posted)) == {Tick}


async def test_a_decision_loop_that_is_stuck_starves_the_watchdog(agent):
    agent.manager.watchdog_seconds = 10.0
    async with agent.supervised():
        await asyncio.sleep(11)
        agent.stuck = True
        await asyncio.sleep(60)

    assert agent.manager.when("WATCHDOG") == pytest.approx([5, 10, 15], abs=0.1)


async def test_nobody_who_asks_for_no_watchdog_gets_ticks(agent):
    async with agent.supervised():
        await asyncio.sleep(60)

    assert agent.posted == []


async def test_a_stop_is_extended_while_something_is_under_way_and_final_only_then(agent):
    async with agent.supervised() as supervision:
        await asyncio.sleep(2)
        assert agent.manager.when("EXTEND_TIMEOUT_USEC") == []
        agent.leaving_at = 22.0
        await asyncio.sleep(10)
        extended = agent.manager.when("EXTEND_TIMEOUT_USEC")
        assert agent.manager.when("STOPPING") == []
        stays = agent.manager.statuses()[-1]
        supervision.leave()
        assert agent.manager.heard[-1][1] == {"STOPPING": "1", "STATUS": "stopping"}

    assert stays.startswith("asked to stop, and stays for what is under way")
    assert len(extended) == 10
    assert max(b - a for a, b in pairwise(extended)) < EXTENSION_SECONDS


async def test_where_nobody_listens_nothing_runs():
    agent = Agent(ListeningManager(10.0))
    agent.manager.listens = False
    async with agent.supervised():
        await asyncio.sleep(60)

    assert (agent.manager.heard, agent.posted) == ([], [])
