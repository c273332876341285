"""Speaks to the service manager as sd_notify(3) has it: one datagram of ``NAME=VALUE`` lines."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """Whoever started this process and wants to know how it is, if anybody does.

    Nothing here waits and nothing raises: the manager is told where it can be.

    Attributes:
        listens: somebody wants to know.
        watchdog_seconds: how often it must be told that all is well; ``None``: it does not ask.
    """

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        # A leading @ stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.listens = self._address.startswith(("/", "\0"))
        self.watchdog_seconds = watchdog_seconds if self.listens else None

    @classmethod
    def named_in(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Return the manager that the environment names, and take it out of there.

        What this process starts is not to speak for it.
        """
        address, microseconds, pid = (environment.pop(name, "") for name in _VARIABLES)
        watchdog_seconds = None
        if microseconds.isdecimal() and int(microseconds) and pid in ("", str(os.getpid())):
            watchdog_seconds = int(microseconds) / 1e6
        return cls(address, watchdog_seconds)

    def tell(self, **fields: str) -> bool:
        """Send fields, each as ``NAME=VALUE``; return whether they went out.

        A value is one line; what would end it becomes a space.
        """
        if not self.listens:
            return False
        lines = (f"{name}={' '.join(value.split())}" for name, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except (OSError, ValueError):
            # Its queue is full, or it is being restarted: the next word will reach it.
            return False
        return True

    def extend_stop(self, seconds: float) -> None:
        """Ask for so much time from now before the manager kills a process that it has stopped."""
        self.tell(EXTEND_TIMEOUT_USEC=str(round(seconds * 1e6)))
