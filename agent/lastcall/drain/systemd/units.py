"""The units of this machine, as systemd tells of them over D-Bus (org.freedesktop.systemd1(5))."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from lastcall.bus.messages import Answer, Call, Trouble, get
from lastcall.bus.system_bus import SystemBus

SERVICE = "org.freedesktop.systemd1"
PATH = "/org/freedesktop/systemd1"
MANAGER = "org.freedesktop.systemd1.Manager"

DEFAULT_STOP_SECONDS = 90.0
"""``DefaultTimeoutStopSec``, systemd-system.conf(5); held for a unit's own where it is unknown."""

_FOREVER_USEC = 2**64 - 1
_STOPPABLE = ("Service", "Scope", "Socket", "Mount", "Swap")
"""Types whose units have processes of their own, and a time in which those must end."""

_UNIT_FIELDS = 10


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as it stands.

    Attributes:
        name: as systemd calls it, whatever alias it was asked for by.
        load: ``loaded``, ``not-found``, ``masked`` and the like.
        active: ``active``, ``inactive``, ``deactivating`` and the like.
        sub: the same in the words of its type, such as ``stop-sigterm``.
        path: its object on the bus.
    """

    name: str
    load: str
    active: str
    sub: str
    path: str

    @property
    def is_known(self) -> bool:
        """Whether there is such a unit."""
        return self.load != "not-found"

    @property
    def is_off(self) -> bool:
        """Whether nothing of it runs, or will by itself in a moment."""
        return self.active in ("inactive", "failed") and not self.sub.endswith("-auto-restart")

    @property
    def state(self) -> str:
        """How it stands, for people."""
        return f"{self.active} ({self.sub})"


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the units found.

    Attributes:
        units: by the name they were asked for, or their own where a template stands for them.
        trouble: why nothing could be seen; ``None`` where it could.
    """

    units: tuple[Unit, ...] = ()
    trouble: Answer | None = None


@dataclass(slots=True)
class UnitManager:
    """systemd, for the few things that are asked of it.

    Attributes:
        bus: the system bus.
        names: the units, in the order in which they are told to stop.
    """

    bus: SystemBus
    names: tuple[str, ...]
    _stop_seconds: dict[str, float] = field(default_factory=dict)

    async def look(self, seconds: float) -> Look:
        """Return how the units stand.

        A template such as ``train@.service`` stands for those of its units that there are.

        Args:
            seconds: how long each answer may take.
        """
        templates = [name for name in self.names if "@." in name]
        plain = [name for name in self.names if "@." not in name]
        units: list[Unit] = []
        patterns = [_pattern(name) for name in templates]
        for member, signature, body in (
            ("ListUnitsByNames", "as", (plain,)),
            ("ListUnitsByPatterns", "asas", ([], patterns)),
        ):
            if not body[-1]:
                continue
            call = Call(SERVICE, PATH, MANAGER, member, signature, body)
            answer = await self.bus.call(call, seconds)
            if answer.trouble is not None:
                return Look(trouble=answer)
            try:
                units += _units(answer)
            except ValueError as error:
                return Look(trouble=Answer(trouble=Trouble.MALFORMED, detail=str(error)))
        return Look(tuple({unit.name: unit for unit in units}.values()))

    async def stop(self, unit: Unit, seconds: float) -> Answer:
        """Tell a unit to stop; that it has is seen by looking."""
        call = Call(SERVICE, PATH, MANAGER, "StopUnit", "ss", (unit.name, "replace"))
        return await self.bus.call(call, seconds)

    async def learn_stop_seconds(self, units: Iterable[Unit], seconds: float) -> None:
        """Ask how long each unit may take to stop; what is not learned stays as it was."""
        await asyncio.gather(*(self._learn(unit, seconds) for unit in units))

    def stop_seconds(self, unit: Unit) -> float:
        """Return the longest that a unit may take to stop, as far as that is known."""
        if _interface(unit) is None:
            return 0.0
        return self._stop_seconds.get(unit.name, DEFAULT_STOP_SECONDS)

    async def _learn(self, unit: Unit, seconds: float) -> None:
        interface = _interface(unit)
        if interface is None or not unit.is_known:
            return
        answer = await self.bus.call(get(SERVICE, unit.path, interface, "TimeoutStopUSec"), seconds)
        match answer.body:
            case (int() as timeout,):
                known = math.inf if timeout == _FOREVER_USEC else timeout / 1e6
                self._stop_seconds[unit.name] = known


def _interface(unit: Unit) -> str | None:
    """Return the interface that tells a unit's time to stop, where its type has one."""
    kind = unit.name.rpartition(".")[2].capitalize()
    return f"{SERVICE}.{kind}" if kind in _STOPPABLE else None


def _pattern(template: str) -> str:
    """Return the pattern, as of glob(7), that the units of a template match."""
    return template.replace("\\", "\\\\").replace("@.", "@*.")


def _units(answer: Answer) -> list[Unit]:
    """Return the units in an answer.

    Raises:
        ValueError: it is none of systemd's.
    """
    units: list[Unit] = []
    match answer.body:
        case (list() as rows,):
            for row in rows:
                match row:
                    case [str(name), _, str(load), str(active), str(sub), _, str(path), *rest] if (
                        len(rest) == _UNIT_FIELDS - 7
                    ):
                        units.append(Unit(name, load, active, sub, path))
                    case _:
                        raise ValueError("systemd's list of units cannot be read")
        case _:
            raise ValueError("systemd's answer is no list of units")
    return units
