"""A systemd of the test's own, on a bus of the test's own: units that stop when they are told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dbus_fast import Variant

from support.fake_bus import Fails, FakeService, Returns

SYSTEMD = "org.freedesktop.systemd1"
MANAGER = f"{SYSTEMD}.Manager"


@dataclass
class FakeUnit:
    """One unit.

    Attributes:
        stops_after_seconds: how long it takes to stop; ``None``: it never does.
        timeout_seconds: its TimeoutStopSec; ``None`` for infinity.
        refusal: the name of the error that it is not stopped with.
        told: how often it was told to stop.
    """

    name: str
    active: str = "active"
    sub: str = "running"
    load: str = "loaded"
    stops_after_seconds: float | None = 0.0
    timeout_seconds: float | None = 0.0
    refusal: str = ""
    told: int = 0

    def ends(self) -> None:
        """End by itself."""
        self.active, self.sub = "inactive", "dead"


class FakeSystemd(FakeService):
    """Lists units and stops them.

    Attributes:
        units: by name.
        aliases: other names of theirs.
        stopped: names in the order in which they were told to stop.
    """

    def __init__(self, *units: FakeUnit) -> None:
        """Have these units."""
        super().__init__(SYSTEMD)
        self.units = {unit.name: unit for unit in units}
        self.aliases: dict[str, str] = {}
        self.stopped: list[str] = []
        self._stopping: set[asyncio.Task[None]] = set()
        self.methods = {
            f"{MANAGER}.ListUnitsByNames": self._by_names,
            f"{MANAGER}.ListUnitsByPatterns": self._by_patterns,
            f"{MANAGER}.StopUnit": self._stop,
            "org.freedesktop.DBus.Properties.Get": self._get,
        }

    async def withdraw(self) -> None:
        """Leave the bus, and finish nothing."""
        for stopping in self._stopping:
            stopping.cancel()
        await super().withdraw()

    def _by_names(self, names: list[str]) -> Returns:
        known = [self.aliases.get(name, name) for name in names]
        absent = FakeUnit("", "inactive", "dead", "not-found")
        return _rows([(name, self.units.get(name, absent)) for name in known])

    def _by_patterns(self, _states: list[str], patterns: list[str]) -> Returns:
        return _rows(
            [
                (name, unit)
                for name, unit in self.units.items()
                if any(fnmatchcase(name, pattern.replace("\\\\", "\\")) for pattern in patterns)
            ]
        )

    def _stop(self, name: str, mode: str) -> Returns | Fails:
        assert mode == "replace"
        unit = self.units.get(name)
        if unit is None:
            return Fails(f"{SYSTEMD}.NoSuchUnit", f"Unit {name} not loaded.")
        unit.told += 1
        self.stopped.append(name)
        if unit.refusal:
            return Fails(unit.refusal, "Interactive authentication required.")
        unit.active, unit.sub = "deactivating", "stop-sigterm"
        if unit.stops_after_seconds is not None:
            task = asyncio.create_task(_end(unit, unit.stops_after_seconds))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
        return Returns("o", [f"/org/freedesktop/systemd1/job/{len(self.stopped)}"])

    def _get(self, interface: str, name: str) -> Returns | Fails:
        assert (interface, name) == (f"{SYSTEMD}.Service", "TimeoutStopUSec")
        seconds = self.units[bytes.fromhex(self.path.rpartition("/")[2]).decode()].timeout_seconds
        return Returns("v", [Variant("t", 2**64 - 1 if seconds is None else round(seconds * 1e6))])


async def _end(unit: FakeUnit, seconds: float) -> None:
    await asyncio.sleep(seconds)
    unit.ends()


def _rows(units: list[tuple[str, FakeUnit]]) -> Returns:
    rows: list[list[Any]] = [
        [
            name,
            "a unit",
            unit.load,
            unit.active,
            unit.sub,
            "",
            f"/org/freedesktop/systemd1/unit/{name.encode().hex()}",
            0,
            "",
            "/",
        ]
        for name, unit in units
    ]
    return Returns("a(ssssssouso)", [rows])
