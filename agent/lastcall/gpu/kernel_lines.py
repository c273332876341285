"""What the kernel's log says of GPU errors, taken out of its lines.

The shapes of the lines are those of NVIDIA's open kernel modules (``krcReportXid``,
``rm_is_supported_device``) and of NVIDIA's XID catalog; the shape of a record is that of the
kernel's ``Documentation/ABI/testing/dev-kmsg``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lastcall.gpu.presence import normal_pci

OFF_THE_BUS = 79
"""The XID of a GPU that has fallen off the bus."""

_TEXT_CHARACTERS = 400
_SAME_FALL_SECONDS = 300.0
_SAME_MESSAGE_SECONDS = 5.0
_REMEMBERED = 1024

_HEADER = re.compile(r"(\d{1,10}),\d{1,20},(\d{1,18}),[^;]*;", re.ASCII)
_FACILITY_SHIFT = 3

_ESCAPED = re.compile(r"\\x([0-7][0-9a-f])")
_DMESG_STAMP = re.compile(r"^\s*(?:\[\s*[0-9]{1,10}\.[0-9]{1,6}\]\s*)?")

_XID = re.compile(r"NVRM:\s+Xid\s*\(([^()]{1,200})\)[^:]{0,100}:\s*([0-9]{1,5})(?![0-9])")
_ADDRESS = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?![0-9a-f])", re.IGNORECASE
)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the kernel's log.

    Attributes:
        text: what it says; it may have several lines.
        at: seconds since boot, which is nearly the monotonic clock; ``None`` where none is given.
    """

    text: str
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelXid:
    """An XID error in the kernel's log.

    Attributes:
        xid: its number.
        pci: the GPU's address, as :func:`~lastcall.gpu.presence.normal_pci` writes it; empty where
            the line names none.
        uuid: the GPU's UUID, where the line names it.
        at: when, in seconds on the monotonic clock.
        text: the kernel's own line, cut short.
        count: how many of it came together.
        past: it was in the log already when that was first read.
    """

    xid: int
    pci: str
    at: float
    text: str
    uuid: str = ""
    count: int = 1
    past: bool = False


def record(line: str) -> Record:
    """Take a line of ``/dev/kmsg`` apart; a line of any other log is taken as it is.

    Args:
        line: the line, without its end.

    Returns:
        What it says, and when.
    """
    header = _HEADER.match(line)
    if header is None:
        return Record(line)
    text = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), line[header.end() :])
    # Whoever may write to the log does so in another facility's name: the kernel's own is 0.
    is_the_kernels = int(header[1]) >> _FACILITY_SHIFT == 0
    return Record(text if is_the_kernels else "", int(header[2]) / 1e6)


class KernelLines:
    """Finds XIDs in the kernel's messages, one message after the other.

    It remembers a little, for two reasons. A GPU that has fallen off the bus is reported in a line
    without a number too, which counts only where none with the number came before it. And what the
    driver says when it finds no GPU at an address spreads over three lines.
    """

    def __init__(self) -> None:
        self._fallen: dict[str, float] = {}
        self._begun = ("", float("-inf"))

    def take(self, text: str, at: float, *, past: bool = False) -> tuple[KernelXid, ...]:
        """Find what a message says; it never fails, whatever the message is.

        Args:
            text: the message, of one line or several.
            at: when it was written, in seconds on the monotonic clock.
            past: whether it was in the log already when that was first read.

        Returns:
            The XIDs in it.
        """
        # Anchored, so that a program's name within another message cannot pass for an error.
        lines = (_DMESG_STAMP.sub("", line, count=1) for line in text.split("\n"))
        found = (self._line(line, at) for line in lines if line.startswith("NVRM:"))
        return tuple(replace(xid, past=True) if past else xid for xid in found if xid)

    def _line(self, line: str, at: float) -> KernelXid | None:
        return self._numbered(line, at) or self._fallen_off(line, at)

    def _numbered(self, line: str, at: float) -> KernelXid | None:
        match = _XID.match(line)
        if match is None or int(match[2]) == 0:
            return None
        xid = int(match[2])
        address, uuid = _ADDRESS.search(match[1]), _UUID.search(match[1])
        pci = normal_pci(address[0]) if address else ""
        if xid == OFF_THE_BUS:
            self._remember_fall(pci, at)
        return KernelXid(
            xid=xid,
            pci=pci,
            at=at,
            text=_printable(line),
            uuid=f"GPU-{uuid[0][4:].lower()}" if uuid else "",
        )

    def _fallen_off(self, line: str, at: float) -> KernelXid | None:
        address = _ADDRESS.search(line)
        pci = normal_pci(address[0]) if address else ""
        if "fallen off the bus" not in line:
            if "The NVIDIA GPU" in line:
                self._begun = (pci, at)
            return None
        begun, begun_at = self._begun
        if not pci and at - begun_at <= _SAME_MESSAGE_SECONDS:
            pci = begun
        if at - self._fallen.get(pci, float("-inf")) <= _SAME_FALL_SECONDS:
            return None
        return KernelXid(xid=OFF_THE_BUS, pci=pci, at=at, text=_printable(line))

    def _remember_fall(self, pci: str, at: float) -> None:
        if len(self._fallen) >= _REMEMBERED:
            self._fallen.clear()
        self._fallen[pci] = self._fallen[""] = at


def _printable(line: str) -> str:
    short = line[:_TEXT_CHARACTERS]
    return short if short.isprintable() else "".join(c for c in short if c.isprintable())
