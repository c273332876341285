"""The system bus for all who use it: one connection, made anew whenever it is lost."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from lastcall.bus.messages import Answer, BusError, Call, Signal, Trouble

if TYPE_CHECKING:
    from lastcall.bus.connection import Connection

SHORTEST_BACK_OFF_SECONDS = 0.2
LONGEST_BACK_OFF_SECONDS = 60.0
"""A bus that is not there is looked for again at least this often."""

SUBSCRIBE_SECONDS = 5.0
"""How long the bus may take to note what we listen for."""

_BUS = "org.freedesktop.DBus"
_BUS_PATH = "/org/freedesktop/DBus"


@dataclass(slots=True)
class Watched:
    """A service that somebody listens to.

    Attributes:
        name: the service's well-known name.
        path: the object whose signals are listened for.
        interface: the interface that they are of.
        came_or_went: takes the unique name of whoever offers the service now, empty for nobody.
        heard: takes a signal's member and body.
        owner: the unique name of whoever offers it.
        changes: how often the bus has said that another offers it.
    """

    name: str
    path: str
    interface: str
    came_or_went: Callable[[str], None]
    heard: Callable[[str, tuple[Any, ...]], None]
    owner: str = ""
    changes: int = 0


class SystemBus:
    """The system bus. It is connected to while anybody uses it.

    Args:
        address: a D-Bus address; empty for the system's own bus.
    """

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._watched: list[Watched] = []
        self._users = 0
        self._keeping: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._absence = Answer(trouble=Trouble.NO_BUS, detail="the system bus was not asked yet")

    def watch(
        self,
        name: str,
        *,
        path: str,
        interface: str,
        came_or_went: Callable[[str], None],
        heard: Callable[[str, tuple[Any, ...]], None],
    ) -> None:
        """Listen to a service, from the next connection on; call it before the bus is in use.

        Signals are passed on only where they come from whoever owns the name: anybody on the
        machine may send one that looks the same. ``came_or_went`` is called whenever that changes,
        and whenever a connection came or went, the first attempt that fails included.
        """
        self._watched.append(Watched(name, path, interface, came_or_went, heard))

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Keep the bus connected while the block runs, whoever else uses it."""
        self._users += 1
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="system-bus")
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                keeping, self._keeping = self._keeping, None
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    async def call(self, call: Call, seconds: float) -> Answer:
        """Call a method; without a connection the answer is why there is none.

        Args:
            call: what is asked of whom.
            seconds: how long the answer may take.
        """
        connection = self._connection
        return self._absence if connection is None else await connection.call(call, seconds)

    @property
    def absence(self) -> Answer | None:
        """Why there is no connection; ``None`` while one stands."""
        return self._absence if self._connection is None else None

    async def _keep(self) -> None:
        """Connect, again and again, whatever happens."""
        failures = 0
        while True:
            try:
                connection = await self._open()
                failures = 0
                absence = await self._until_lost(connection)
            except BusError as error:
                absence = Answer(trouble=error.trouble, detail=str(error))
            except Exception:  # noqa: BLE001 - ended by a fault, it would never be there again
                structlog.get_logger().exception("bus_restarted")
                absence = Answer(trouble=Trouble.NO_BUS, detail="a fault of the agent's own")
            self._lost(absence)
            step_seconds = SHORTEST_BACK_OFF_SECONDS * 2.0 ** min(failures, 16)
            failures += 1
            await asyncio.sleep(min(LONGEST_BACK_OFF_SECONDS, step_seconds))

    async def _until_lost(self, connection: Connection) -> Answer:
        """Return why a connection has ended, once it has."""
        try:
            detail = await connection.ended()
        finally:
            self._connection = None
            await connection.close()
        return Answer(trouble=Trouble.NO_BUS, detail=detail)

    async def _open(self) -> Connection:
        """Return a connection on which all is listened for.

        Raises:
            BusError: it cannot be had.
        """
        try:
            module = await asyncio.to_thread(importlib.import_module, "lastcall.bus.connection")
        except ImportError as error:
            detail = f"dbus-fast is not installed ({error}): pip install 'lastcall[systemd]'"
            raise BusError(detail) from error
        connection: Connection = module.Connection(self._hear)
        await connection.open(self._address)
        try:
            for watched in self._watched:
                await self._subscribe(connection, watched)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        for watched in self._watched:
            watched.came_or_went(watched.owner)
        return connection

    async def _subscribe(self, connection: Connection, watched: Watched) -> None:
        """Listen first and ask afterwards, so that nothing is missed in between."""
        name, path, interface = watched.name, watched.path, watched.interface
        of_name = f"member='NameOwnerChanged',arg0='{name}'"
        rules = (
            f"type='signal',sender='{_BUS}',path='{_BUS_PATH}',interface='{_BUS}',{of_name}",
            f"type='signal',sender='{name}',path='{path}',interface='{interface}'",
        )
        for rule in rules:
            answer = await connection.call(_to_bus("AddMatch", rule), SUBSCRIBE_SECONDS)
            if answer.trouble is not None:
                raise BusError(f"the bus lets us not listen to {name}: {answer.detail}")
        changes = watched.changes
        answer = await connection.call(_to_bus("GetNameOwner", name), SUBSCRIBE_SECONDS)
        if answer.trouble not in (None, Trouble.NO_SERVICE):
            raise BusError(f"the bus does not say who is {name}: {answer.detail}")
        if watched.changes == changes:
            watched.owner = answer.body[0] if answer.trouble is None else ""

    def _lost(self, absence: Answer) -> None:
        self._absence = absence
        for watched in self._watched:
            watched.owner = ""
            watched.came_or_went("")

    def _hear(self, signal: Signal) -> None:
        if signal.sender == _BUS:
            self._hear_of_owner(signal)
            return
        for watched in self._watched:
            said_by_owner = signal.sender == watched.owner
            place = (signal.path, signal.interface) == (watched.path, watched.interface)
            if said_by_owner and place:
                watched.heard(signal.member, signal.body)

    def _hear_of_owner(self, signal: Signal) -> None:
        if signal.member != "NameOwnerChanged":
            return
        name, _, owner = signal.body
        for watched in self._watched:
            if watched.name == name:
                watched.owner = owner
                watched.changes += 1
                if self._connection is not None:
                    watched.came_or_went(owner)


def _to_bus(member: str, argument: str) -> Call:
    return Call(_BUS, _BUS_PATH, _BUS, member, "s", (argument,))
