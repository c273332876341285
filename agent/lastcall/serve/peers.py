"""Who is on the other end of a connection, as the kernel says."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from asyncio.trsock import TransportSocket
from contextlib import suppress
from dataclasses import dataclass

SO_PEERPIDFD = 77
"""Linux 6.5 and later, ``include/uapi/asm-generic/socket.h``; Python has no name for it yet."""

_CREDENTIALS = struct.Struct("iII")
CGROUP_LENGTH = 4096
"""Characters of a control group's path, at most as many as of any path."""

_START_TIME_FIELD = 22
"""In ``/proc/PID/stat``, counted from 1 (proc(5), Linux man-pages)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected; ``pid`` is 0 where it is in a pid namespace we cannot see."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of a process.

    Attributes:
        start_ticks: when it started, in clock ticks since boot; with the pid it names a process
            for as long as the machine runs. ``None`` where that cannot be read.
        pidfd: readable once the process is dead; whoever gets this object must close it.
        dead: it is known to be gone already.
    """

    pid: int
    start_ticks: int | None
    pidfd: int | None
    dead: bool

    @property
    def name(self) -> str | None:
        """What the kernel alone knows it by, or ``None``."""
        return None if self.start_ticks is None else f"{self.pid}:{self.start_ticks}"


def credentials(connection: socket.socket) -> Peer:
    """Return who connected (``SO_PEERCRED``): a forked child that writes is not seen in it.

    Raises:
        OSError: the socket is none that has a peer.
    """
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return Peer(pid, uid)


def look_behind(connection: TransportSocket | None, peer: Peer) -> Process:
    """Return the process behind a connection, which may have ended meanwhile."""
    if connection is None:
        return look_up(peer.pid)
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ESRCH:
            return Process(peer.pid, None, None, dead=True)
        return look_up(peer.pid)
    return _process(peer.pid, pidfd)


def look_up(pid: int) -> Process:
    """Return the process that has a pid now."""
    if pid <= 0:
        return Process(pid, None, None, dead=False)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return Process(pid, None, None, dead=True)
    except OSError:
        return Process(pid, _start_ticks(pid), None, dead=False)
    return _process(pid, pidfd)


def _process(pid: int, pidfd: int) -> Process:
    start_ticks = _start_ticks(pid) if pid > 0 else None
    # Only while it lives is it sure that what was read under its pid was its own.
    dead = _is_readable(pidfd)
    return Process(pid, None if dead else start_ticks, pidfd, dead)


def _start_ticks(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The second field is the program's name in brackets, which may hold brackets and spaces.
        after_name = file.read().rpartition(b")")[2].split()
        return int(after_name[_START_TIME_FIELD - 3])
    return None


def control_group(pid: int) -> str:
    """Return the control group of a process as the kernel names it; empty where that is unseen.

    It tells what the process belongs to: a pod, a unit, a job. Under version 1 there is one for
    each controller, of which the deepest says most (cgroups(7), Linux man-pages).
    """
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            paths = [line.rstrip("\n").split(":", 2)[-1] for line in file]
    except OSError:
        return ""
    deepest = max(paths, key=lambda path: path.count("/"), default="")
    return "" if deepest == "/" else deepest[:CGROUP_LENGTH]


def _is_readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))
