"""The systemd backend: units of this machine are stopped once their processes have flushed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from lastcall.bus.system_bus import SystemBus
from lastcall.core.commands import Drain, Mark
from lastcall.core.events import BackendChecked, DrainEnded
from lastcall.core.facts import Fact
from lastcall.core.views import NoticeView
from lastcall.drain.base import Post
from lastcall.drain.systemd.plan import lies_in
from lastcall.drain.systemd.run import CALL_SECONDS, UnitRun
from lastcall.drain.systemd.units import MANAGER, PATH, SERVICE, Look, UnitManager

CHECK_SECONDS = 60.0
"""How often it is seen whether systemd answers and has the units."""

_ENDED_ORDERS = 64


class SystemdDrain:
    """Stops units. There is nothing to keep new work off: systemd starts what it is told to.

    Args:
        bus: the system bus.
        units: their names; stopped in this order where several are due at once.
        own_group: the agent's own control group, ``/system.slice/lastcall.service``; a unit that it
            lies in is never stopped.
        post: takes the events.
        monotonic: the clock of deadlines, seconds.
    """

    name = "systemd"

    def __init__(
        self,
        bus: SystemBus,
        *,
        units: tuple[str, ...],
        own_group: str,
        post: Post,
        monotonic: Callable[[], float],
    ) -> None:
        self._bus = bus
        self._manager = UnitManager(bus, units)
        self._own_group = own_group
        self._post = post
        self._monotonic = monotonic
        self._runs: dict[str, UnitRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped: set[asyncio.Task[None]] = set()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._last_look = Look()
        self._owner = ""
        self._woken = asyncio.Event()
        self._log = structlog.get_logger()
        bus.watch(
            SERVICE,
            path=PATH,
            interface=MANAGER,
            came_or_went=self._came_or_went,
            heard=lambda _member, _body: None,
        )

    async def run(self) -> None:
        """See again and again whether systemd answers and has the units, until cancelled."""
        async with self._bus.in_use():
            if not self._owner:
                await self._woken.wait()
            while True:
                self._woken.clear()
                await self._check()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._woken.wait()

    async def cordon(self, notice: NoticeView) -> None:
        """Attempt nothing."""
        del notice

    async def uncordon(self, notice_id: str) -> None:
        """Attempt nothing."""
        del notice_id

    def drain(self, order: Drain) -> None:
        """Stop the units, or take up what has changed about that.

        Each unit that ran is reported once (:class:`EvictionReported`): ``evicted`` when it has
        stopped, ``forced`` where a flush in it was not over when it was told to, ``gone`` where it
        ended by itself, ``failed`` where it still runs at the end. The end is reported once, by
        half a margin before the deadline (:class:`DrainEnded`).
        """
        if order.id in self._ended:
            return
        known = self._runs.get(order.id)
        if known is not None:
            known.update(order)
            return
        if not self._manager.names:
            self._forget_later(order.id)
            self._post(DrainEnded(order.id, "none", "no unit is named in drain.systemd.units"))
            return
        run = self._runs[order.id] = UnitRun(
            order,
            manager=self._manager,
            own_group=self._own_group,
            post=self._post,
            monotonic=self._monotonic,
        )
        task = self._tasks[order.id] = asyncio.create_task(run.run(), name="systemd-drain")
        task.add_done_callback(partial(self._over, order.id, run))

    def mark(self, command: Mark) -> None:
        """Mark nothing: no process that ends here counts as failed for it."""
        del command

    def stop(self, notice_id: str) -> None:
        """Stop no more units for a notice; those that were told to stop stay stopped."""
        self._ended.pop(notice_id, None)
        run, task = self._runs.pop(notice_id, None), self._tasks.pop(notice_id, None)
        if run is None or task is None:
            return
        task.cancel()
        self._stopped.add(task)
        task.add_done_callback(self._stopped.discard)
        if run.told:
            self._log.warning("units_stay_stopped", notice_id=notice_id, units=run.told)

    async def marked(self, notice_id: str) -> None:
        """Wait for nothing: systemd counts the end of a unit that it stops as no failure."""
        del notice_id

    def note(self, fact: Fact) -> None:
        """Pass nothing on."""
        del fact

    def status(self) -> Mapping[str, Any]:
        """Return how the units stand: in the latest drain that goes on, else as last seen."""
        if self._runs:
            return {"units": next(reversed(self._runs.values())).rows()}
        return {"units": [{"unit": u.name, "state": u.state} for u in self._last_look.units]}

    async def close(self) -> None:
        """Stop no more; what was told to stop does so."""
        tasks = [*self._tasks.values(), *self._stopped]
        self._tasks.clear()
        self._runs.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _came_or_went(self, owner: str) -> None:
        self._owner = owner
        self._woken.set()

    async def _check(self) -> None:
        absence = self._bus.absence
        if absence is not None:
            self._post(BackendChecked(up=False, detail=absence.detail))
            return
        look = await self._manager.look(CALL_SECONDS)
        if look.trouble is not None:
            self._post(BackendChecked(up=False, detail=look.trouble.detail))
            return
        self._last_look = look
        await self._manager.learn_stop_seconds(look.units, CALL_SECONDS)
        missing = [unit.name for unit in look.units if not unit.is_known]
        own = [unit.name for unit in look.units if lies_in(self._own_group, unit.name)]
        words = [f"there is no {name}" for name in missing]
        words += [f"{name} is the agent's own and left alone" for name in own]
        self._post(BackendChecked(up=True, detail="; ".join(words)))

    def _over(self, notice_id: str, run: UnitRun, task: asyncio.Task[None]) -> None:
        """Note that an order is over; one that was stopped has been forgotten before."""
        if self._runs.get(notice_id) is not run:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("drain_failed", notice_id=notice_id, exc_info=error)
            self._post(DrainEnded(notice_id, "failed", f"a fault in the agent: {error!r}"))
        self._forget_later(notice_id)
        del self._runs[notice_id], self._tasks[notice_id]

    def _forget_later(self, notice_id: str) -> None:
        self._ended[notice_id] = None
        while len(self._ended) > _ENDED_ORDERS:
            self._ended.popitem(last=False)
