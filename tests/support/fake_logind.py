"""A logind of the test's own, on a bus of the test's own."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from support.fake_bus import Fails, FakeService, Returns, properties

PATH = "/org/freedesktop/login1"
MANAGER = "org.freedesktop.login1.Manager"


@dataclass
class Lock:
    """A lock that was handed out.

    Attributes:
        terms: what was asked for: what, who, why and mode.
    """

    terms: tuple[str, ...]
    reader: int

    @property
    def is_held(self) -> bool:
        """Whether anybody still has the other end open."""
        poller = select.poll()
        poller.register(self.reader, select.POLLHUP)
        return not poller.poll(0)


class FakeLogind(FakeService):
    """Hands out delay locks, and says when it prepares for a shutdown.

    Attributes:
        delay_max_seconds: the longest that a lock may delay; ``None`` for the largest number.
        is_preparing: whether a shutdown has begun.
        refusal: the name of the error that a lock is refused with; empty where it is given.
        has_metadata: whether it says what kind of shutdown it is, as systemd 255 and later do.
        locks: all locks that were handed out.
    """

    def __init__(self, delay_max_seconds: float | None = 60.0) -> None:
        """Be as a machine that nobody shuts down."""
        super().__init__("org.freedesktop.login1")
        self.delay_max_seconds = delay_max_seconds
        self.is_preparing = False
        self.refusal = ""
        self.has_metadata = True
        self.locks: list[Lock] = []
        self.methods[f"{MANAGER}.Inhibit"] = self._inhibit
        self.methods["org.freedesktop.DBus.Properties.GetAll"] = self._properties

    @property
    def held(self) -> list[Lock]:
        """The locks that are held."""
        return [lock for lock in self.locks if lock.is_held]

    async def shut_down(self, kind: str = "poweroff") -> None:
        """Begin a shutdown."""
        self.is_preparing = True
        await self.say(is_preparing=True, kind=kind)

    async def call_off(self) -> None:
        """Take the shutdown back."""
        self.is_preparing = False
        await self.say(is_preparing=False)

    async def say(self, *, is_preparing: bool, kind: str = "poweroff") -> None:
        """Say what stands, in the order of the real one: the signal with metadata first."""
        if self.has_metadata:
            metadata = {"type": Variant("s", kind)}
            name = f"{MANAGER}.PrepareForShutdownWithMetadata"
            await self.signal(PATH, name, "ba{sv}", is_preparing, metadata)
        await self.signal(PATH, f"{MANAGER}.PrepareForShutdown", "b", is_preparing)

    def close(self) -> None:
        """Forget all locks."""
        for lock in self.locks:
            os.close(lock.reader)
        self.locks.clear()

    def _inhibit(self, *terms: str) -> Returns | Fails:
        if self.is_preparing:
            return Fails(
                "org.freedesktop.login1.OperationInProgress",
                "The operation inhibition has been requested for is already running",
            )
        if self.refusal:
            return Fails(self.refusal)
        reader, writer = os.pipe()
        self.locks.append(Lock(terms, reader))
        return Returns("h", [0], [writer])

    def _properties(self, _interface: str) -> Returns:
        seconds = self.delay_max_seconds
        microseconds = 2**64 - 1 if seconds is None else round(seconds * 1e6)
        values: dict[str, Any] = {
            "InhibitDelayMaxUSec": Variant("t", microseconds),
            "PreparingForShutdown": Variant("b", self.is_preparing),
            "BlockInhibited": Variant("s", ""),
        }
        return properties(values)
