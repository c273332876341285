"""One look at a path: whether a notice file is there, and what is in it. It may block."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

CONTENT_LIMIT_BYTES = 64 * 1024
"""No notice comes near this size."""


@dataclass(frozen=True, slots=True)
class Absent:
    """There is nothing at the path."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file is there.

    Attributes:
        content: all of it; ``None`` where it could not be read.
        changed_unix: when it appeared or was changed last, by the clock of its file system.
        result: what kept it from being read, in the words of ``lastcall_source_polls_total``.
        trouble: the same in full; empty where it was read.
    """

    content: bytes | None
    changed_unix: float
    result: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Whether a file is there could not be seen, or what is there is no file.

    Attributes:
        result: the kind of trouble, in the words of ``lastcall_source_polls_total``.
        detail: the trouble in full.
    """

    result: str
    detail: str


Seen = Absent | Found | Unclear


def look(path: str) -> Seen:
    """Return what is at a path; a link counts for what it leads to.

    Nothing but a plain file is ever opened: to open a pipe or a device has effects of its own.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Unclear("malformed", f"there is {_name(status.st_mode)}, no file")
        return _read(path, status)
    except FileNotFoundError:
        return Absent()
    except PermissionError as error:
        return Unclear("unauthorized", f"the path cannot be searched: {error.strerror}")
    except OSError as error:
        return Unclear("error", error.strerror or type(error).__name__)
    except ValueError as error:
        return Unclear("malformed", f"no path: {error}")


def _read(path: str, before: os.stat_result) -> Seen:
    try:
        # What has taken the file's place since may be a pipe, and must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except PermissionError as error:
        trouble = f"a file is there and cannot be read: {error.strerror}"
        return Found(None, before.st_ctime, "unauthorized", trouble)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Unclear("malformed", f"there is {_name(status.st_mode)}, no file")
        content = _content(descriptor)
    finally:
        os.close(descriptor)
    if len(content) > CONTENT_LIMIT_BYTES:
        trouble = f"a file of more than {CONTENT_LIMIT_BYTES} bytes is not read"
        return Found(None, status.st_ctime, "malformed", trouble)
    return Found(content, status.st_ctime)


def _content(descriptor: int) -> bytes:
    """Return the content, or as much of it as shows that it is too long."""
    content = bytearray()
    while len(content) <= CONTENT_LIMIT_BYTES:
        chunk = os.read(descriptor, CONTENT_LIMIT_BYTES + 1 - len(content))
        if not chunk:
            break
        content += chunk
    return bytes(content)


def _name(mode: int) -> str:
    names = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for holds, name in names if holds(mode)), "a device")
