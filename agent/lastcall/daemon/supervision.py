"""What the service manager hears of the agent: that it is ready, how it is, that it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from lastcall.core.events import Event, Tick
from lastcall.core.model import Node, Phase
from lastcall.daemon.notify import ServiceManager

READY_SECONDS = 10.0
"""When the agent is ready at the latest: clients need its socket alone, and a boot waits for it."""

WORD_SECONDS = 1.0
"""Time between looks at what is to be said; only news is."""

EXTENSION_SECONDS = 5.0
"""How much longer a stop may take, asked for again and again while something is under way."""

_URGENCY = {Phase.DRAINING: 3, Phase.FLUSHING: 2, Phase.TOLD: 1}


class Supervision:
    """Tells the service manager, for as long as the agent runs.

    The watchdog is fed by the decision loop: an event of no consequence is queued like any other,
    and only once the loop has handled it does the manager hear that all is well.

    Args:
        manager: whom to tell.
        post: queues an event.
        handled_at: when the decision loop last handled an event, in loop time.
        node: what the agent knows.
        waits: what it still waits for before all of it works, by name.
        stays_until: when it leaves at the latest once it has been told to stop.
    """

    def __init__(
        self,
        manager: ServiceManager,
        *,
        post: Callable[[Event], None],
        handled_at: Callable[[], float | None],
        node: Callable[[], Node],
        waits: Callable[[], Mapping[str, str]],
        stays_until: Callable[[], float | None],
    ) -> None:
        self._manager = manager
        self._post = post
        self._handled_at = handled_at
        self._node = node
        self._waits = waits
        self._stays_until = stays_until
        self._ready = False
        self._said = ""

    async def run(self) -> None:
        """Tell until cancelled; returns at once where nobody listens."""
        if not self._manager.listens:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_telling())
            if self._manager.watchdog_seconds is not None:
                tasks.create_task(self._keep_feeding(self._manager.watchdog_seconds / 2))

    def leave(self) -> None:
        """Say that the agent ends now: nothing is under way any more, or nothing is waited for."""
        self._manager.tell(STOPPING="1", STATUS="stopping")

    async def _keep_telling(self) -> None:
        loop = asyncio.get_running_loop()
        ready_at = loop.time() + READY_SECONDS
        # Most of the time a provider settles within the first second: look closely until then.
        wait_seconds = WORD_SECONDS / 20
        while True:
            waits = self._waits()
            fields: dict[str, str] = {}
            if not self._ready and (not waits or loop.time() >= ready_at):
                fields["READY"] = "1"
            status = self._status(waits)
            if (fields or status != self._said) and self._manager.tell(**fields, STATUS=status):
                self._said = status
                self._ready = self._ready or bool(fields)
            if self._stays_until() is not None:
                self._manager.extend_stop(EXTENSION_SECONDS)
            if self._ready:
                wait_seconds = WORD_SECONDS
            await asyncio.sleep(wait_seconds)

    async def _keep_feeding(self, every_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            self._post(Tick())
            await asyncio.sleep(every_seconds)
            handled_at = self._handled_at()
            if handled_at is not None and handled_at >= asked_at:
                self._manager.tell(WATCHDOG="1")

    def _status(self, waits: Mapping[str, str]) -> str:
        node, until = self._node(), self._stays_until()
        parts = [_notices(node), *(f"{name} {why}" for name, why in waits.items())]
        if until is not None:
            parts.insert(0, "asked to stop, and stays for what is under way")
        if not waits:
            parts.append(f"sources: {', '.join(_sources(node)) or 'none'}")
        connected = sum(client.session is not None for client in node.clients.values())
        parts.append(f"clients: {connected}")
        return "; ".join(parts)


def _notices(node: Node) -> str:
    """Return the node's phase and the notice that it comes from."""
    notices = node.open_notices
    if not notices:
        return "no notice"
    first = max(notices, key=lambda notice: _URGENCY.get(notice.phase, 0))
    flushes = first.flushes.values()
    over = sum(flush.outcome is not None for flush in flushes)
    words = f"{first.phase} for {first.id}"
    if flushes:
        words += f", {over} of {len(flushes)} flushes over"
    if len(notices) > 1:
        words += f" (and {len(notices) - 1} more)"
    return words


def _sources(node: Node) -> list[str]:
    return [
        name if health.up else f"{name} ({health.result})" for name, health in node.sources.items()
    ]
