"""One order being carried out on the units, from when it is given until it is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from lastcall.bus.messages import Answer
from lastcall.core.commands import Drain
from lastcall.core.events import DrainEnded, EvictionReported
from lastcall.drain.base import Post
from lastcall.drain.systemd.plan import aim_of, lies_in
from lastcall.drain.systemd.units import Look, Unit, UnitManager

CALL_SECONDS = 2.0
"""How long systemd may take to answer; a hang must leave time for another try."""

SHORTEST_CALL_SECONDS = 0.2
"""A call is given at least this long."""

STOPPING_LOOK_SECONDS = 0.1
"""How often units are looked at while some are stopping."""

IDLE_LOOK_SECONDS = 1.0
"""How often they are looked at otherwise: one may end by itself."""

RETRY_SECONDS = 1.0
"""How soon a unit that could not be told to stop, or does not begin to, is told again."""

_RUNNING = ("active", "activating", "reloading", "refreshing")


@dataclass(slots=True)
class Progress:
    """How far a unit has come.

    Attributes:
        unit: as it was seen last.
        told_at: when it was told to stop, and systemd took it up; ``None`` again once it is off.
        has_stopped: it was told to stop, and did.
        told_early: a flush in it was not over then.
        tried_at: when it was last tried to tell it.
        refusal: why it could not be told.
        outcome: what was reported of it; empty until then.
    """

    unit: Unit
    told_at: float | None = None
    has_stopped: bool = False
    told_early: bool = False
    tried_at: float | None = None
    refusal: str = ""
    outcome: str = ""

    @property
    def was_told(self) -> bool:
        """Whether it was told to stop, or is being told."""
        is_being_told = self.tried_at is not None and not self.refusal
        return self.has_stopped or self.told_at is not None or is_being_told


class UnitRun:
    """Carries out one order.

    Args:
        order: what is to be done.
        manager: the units.
        own_group: the agent's own control group; the unit it lies in is left alone.
        post: takes what is to be reported.
        monotonic: the clock of deadlines, seconds.
    """

    def __init__(
        self,
        order: Drain,
        *,
        manager: UnitManager,
        own_group: str,
        post: Post,
        monotonic: Callable[[], float],
    ) -> None:
        self._aim = aim_of(order)
        self._manager = manager
        self._own_group = own_group
        self._post = post
        self._monotonic = monotonic
        self._units: dict[str, Progress] = {}
        self._left_out: dict[str, str] = {}
        self._blind: Answer | None = None
        self._woken = asyncio.Event()
        self._log = structlog.get_logger()

    @property
    def told(self) -> list[str]:
        """The units that were told to stop, or are being told."""
        return [name for name, one in self._units.items() if one.was_told]

    def update(self, order: Drain) -> None:
        """Take up what has changed about the order."""
        self._aim = aim_of(order)
        self._woken.set()

    def rows(self) -> list[dict[str, Any]]:
        """Return how the units stand, ready for JSON."""
        now = self._monotonic()
        return [
            {
                "unit": name,
                "state": one.unit.state,
                "stops_in_seconds": round(max(0.0, self._stop_at(one.unit) - now), 3),
                "told": one.told_at is not None,
                "outcome": one.outcome,
            }
            for name, one in self._units.items()
        ]

    async def run(self) -> None:
        """Carry the order out and report how it ended."""
        is_first = True
        while True:
            self._woken.clear()
            look = await self._manager.look(self._call_seconds())
            if is_first and look.trouble is None:
                await self._manager.learn_stop_seconds(look.units, self._call_seconds())
                is_first = False
            self._take_in(look)
            if not (is_first or self._left()):
                break
            await asyncio.gather(*(self._tell(one) for one in self._due()))
            if self._monotonic() >= self._aim.end_at:
                # What was told just now may have stopped at once.
                self._take_in(await self._manager.look(self._call_seconds()))
                break
            await self._pause()
        self._end()

    def _take_in(self, look: Look) -> None:
        """Take in how the units stand; a look that saw nothing changes nothing."""
        self._blind = look.trouble
        for unit in look.units:
            if lies_in(self._own_group, unit.name):
                self._left_out[unit.name] = f"{unit.name} is the agent's own and left alone"
            elif not unit.is_known:
                self._left_out[unit.name] = f"there is no {unit.name}"
            elif unit.name in self._units:
                self._units[unit.name].unit = unit
            elif not unit.is_off:
                self._units[unit.name] = Progress(unit)
        for one in self._units.values():
            if one.unit.is_off and look.trouble is None:
                self._report_off(one)

    def _report_off(self, one: Progress) -> None:
        """Report once that a unit has stopped; one that comes back is told again."""
        if not one.outcome:
            if one.told_at is None:
                self._report(one, "gone", "it ended by itself")
            elif one.told_early:
                self._report(one, "forced", "stopped before its processes had flushed")
            else:
                self._report(one, "evicted")
        one.has_stopped = one.has_stopped or one.told_at is not None
        one.told_at = one.tried_at = None

    def _left(self) -> list[Progress]:
        """Return the units that still run."""
        return [one for one in self._units.values() if not one.unit.is_off]

    def _due(self) -> list[Progress]:
        """Return the units that are to be told now, in their order."""
        now = self._monotonic()
        return [one for one in self._left() if now >= self._tell_at(one)]

    def _tell_at(self, one: Progress) -> float:
        """Return when a unit is to be told next: once, unless it does not begin to stop."""
        if one.tried_at is None:
            return self._stop_at(one.unit)
        if one.told_at is None or one.unit.active in _RUNNING:
            return one.tried_at + RETRY_SECONDS
        return math.inf

    async def _tell(self, one: Progress) -> None:
        one.tried_at = self._monotonic()
        is_early = self._aim.waits(one.unit.name)
        answer = await self._manager.stop(one.unit, self._call_seconds())
        if answer.trouble is None:
            if one.told_at is None:
                one.told_at, one.told_early = one.tried_at, is_early
        elif answer.detail != one.refusal:
            one.refusal = answer.detail
            self._log.warning("unit_not_told_to_stop", unit=one.unit.name, detail=answer.detail)

    def _stop_at(self, unit: Unit) -> float:
        return self._aim.stop_at(unit.name, self._manager.stop_seconds(unit))

    def _call_seconds(self) -> float:
        left = self._aim.end_at - self._monotonic()
        return max(SHORTEST_CALL_SECONDS, min(CALL_SECONDS, left / 4))

    async def _pause(self) -> None:
        """Wait until something has changed or is due."""
        now = self._monotonic()
        left = self._left()
        is_stopping = any(one.told_at is not None for one in left)
        moments = [now + (STOPPING_LOOK_SECONDS if is_stopping else IDLE_LOOK_SECONDS)]
        moments.append(self._aim.end_at)
        moments += [self._tell_at(one) for one in left]
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(moments) - now)):
                await self._woken.wait()

    def _end(self) -> None:
        """Report what has come of it."""
        left = self._left()
        for one in left:
            self._report(one, "failed", self._why(one))
        words = [f"{one.unit.name}: {self._why(one)}" for one in left]
        words += self._left_out.values()
        outcome = "incomplete" if left else "drained"
        if self._blind is not None:
            outcome = "failed"
            words.insert(0, f"systemd does not answer: {self._blind.detail}")
        self._post(DrainEnded(self._aim.id, outcome, "; ".join(words)))

    def _why(self, one: Progress) -> str:
        """Return why a unit still runs."""
        if one.told_at is not None:
            seconds = self._monotonic() - one.told_at
            return f"{one.unit.state}, told to stop {seconds:.0f} s ago"
        if one.refusal:
            return f"{one.unit.state}, could not be told to stop: {one.refusal}"
        return one.unit.state

    def _report(self, one: Progress, outcome: str, detail: str = "") -> None:
        one.outcome = outcome
        self._post(EvictionReported(self._aim.id, one.unit.name, outcome, detail))
