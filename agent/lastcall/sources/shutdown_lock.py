"""logind's delay lock: a file descriptor that keeps the machine from going while it is open."""

from __future__ import annotations

import os

from lastcall.bus.messages import Answer, Call, Trouble
from lastcall.bus.system_bus import SystemBus

SERVICE = "org.freedesktop.login1"
PATH = "/org/freedesktop/login1"
MANAGER = "org.freedesktop.login1.Manager"

_TERMS = ("shutdown", "lastcall", "Training saves its work first", "delay")
"""What, who, why and how: the values of ``Inhibit``, org.freedesktop.login1(5)."""


class DelayLock:
    """The lock, which may be held or not.

    Args:
        bus: the system bus.
    """

    def __init__(self, bus: SystemBus) -> None:
        self._bus = bus
        self._descriptor: int | None = None
        self._giver = ""

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self._descriptor is not None

    async def take(self, giver: str, seconds: float) -> Answer | None:
        """Take the lock, unless this very logind has given it already.

        A logind that was restarted knows of the old lock, for it keeps a note on disk; the old one
        is let go only once there is a new one.

        Args:
            giver: the unique name of the logind that is there now.
            seconds: how long it may take.

        Returns:
            ``None`` once it is held; else what logind answered.
        """
        if self.is_held and giver == self._giver:
            return None
        call = Call(SERVICE, PATH, MANAGER, "Inhibit", "ssss", _TERMS)
        answer = await self._bus.call(call, seconds)
        if answer.trouble is not None:
            return answer
        if not answer.descriptors:
            return Answer(trouble=Trouble.MALFORMED, detail="logind gave no file descriptor")
        self.release()
        self._descriptor, *others = answer.descriptors
        self._giver = giver
        for descriptor in others:
            os.close(descriptor)
        return None

    def release(self) -> None:
        """Let the machine go; nothing where the lock is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
