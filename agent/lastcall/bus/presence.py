"""Whether this machine has a system bus at all."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

SOCKET = Path("/run/dbus/system_bus_socket")
"""Where the system bus listens unless the environment says otherwise (D-Bus Specification)."""

ADDRESS_VARIABLE = "DBUS_SYSTEM_BUS_ADDRESS"


def missing(environment: Mapping[str, str], socket: Path = SOCKET) -> str:
    """Return why there is no system bus to speak with; empty where there may be one.

    Args:
        environment: the agent's own.
        socket: where the bus listens.
    """
    if not environment.get(ADDRESS_VARIABLE) and not socket.exists():
        return f"this machine has no system bus: {socket} is not there"
    if find_spec("dbus_fast") is None:
        return "the package dbus-fast is not installed (lastcall[systemd])"
    return ""
