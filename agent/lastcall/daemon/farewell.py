"""Decides when the agent leaves: at once, or after what is under way, or when told twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import structlog

from lastcall.core.model import Node, Notice, Stance

STAY_SECONDS = 20.0
"""How long a stop may wait for what is under way. Kubernetes' limit lies above it; systemd's own is
shorter, and is put off for as long as we stay."""

LOOK_SECONDS = 0.05
"""Time between looks at what is under way."""


def under_way(node: Node, *, answering: bool) -> str:
    """Return what a stop would cut off, in words; "" where it would cut off nothing.

    Only what this process can still see through counts: a client that is not connected will find
    the next agent, and an early checkpoint that was asked for is nobody's last.

    Args:
        node: what the agent knows.
        answering: something that was decided is still being carried out.
    """
    told = [
        notice
        for notice in node.notices.values()
        if notice.told and notice.stance is Stance.FLUSH and not notice.gone
    ]
    flushes = sum(_connected_flushes(node, notice) for notice in told)
    drains = sum(notice.drain_began_at is not None and notice.drained is None for notice in told)
    words = sum(notice.acknowledged and notice.accepted is None for notice in told)
    parts = [
        _count(flushes, "flush", "flushes"),
        _count(drains, "drain", "drains"),
        _count(words, "answer of the provider", "answers of the provider"),
    ]
    named = ", ".join(part for part in parts if part)
    return named or ("what was decided last" if answering else "")


class Farewell:
    """Takes the signals that end the agent, and holds it for as long as its work asks for.

    Args:
        work: what is under way, in words; "" where nothing is.
        stay_seconds: how long it is waited for at the most.

    Attributes:
        leaving_at: when the agent leaves at the latest, in loop time; ``None`` until it is to stop.
    """

    def __init__(self, work: Callable[[], str], stay_seconds: float = STAY_SECONDS) -> None:
        self.leaving_at: float | None = None
        self._work = work
        self._stay_seconds = stay_seconds
        self._asked = asyncio.Event()
        self._asked_again = asyncio.Event()
        self._log = structlog.get_logger()

    def listen(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)
        loop.add_signal_handler(signal.SIGHUP, self._refuse_reload)

    def ask(self) -> None:
        """Take a request to stop; the second one waits for nothing."""
        if self._asked.is_set():
            self._asked_again.set()
        self._asked.set()

    async def wait(self) -> None:
        """Return once the agent is to leave."""
        await self._asked.wait()
        self.leaving_at = asyncio.get_running_loop().time() + self._stay_seconds
        work = self._work()
        if not work:
            return
        self._log.info("agent_stays", work=work, at_most_seconds=self._stay_seconds)
        try:
            async with asyncio.timeout_at(self.leaving_at):
                while self._work() and not self._asked_again.is_set():  # noqa: ASYNC110 - no event says it
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            pass
        if work := self._work():
            self._log.warning("agent_leaves_work", work=work)

    def _refuse_reload(self) -> None:
        self._log.warning("reload_ignored", detail="the configuration is read at the start alone")


def _connected_flushes(node: Node, notice: Notice) -> int:
    clients = (node.clients.get(flush.client) for flush in notice.unsettled)
    return sum(client is not None and client.session is not None for client in clients)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}" if number else ""
