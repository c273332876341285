"""Reads the lines that the probe prints: JSON objects, each of a type that is known or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from lastcall.core.gpu.model import Gpu, Look, NodeLook, XidSeen

LONGEST_BYTES = 65536
"""How long a line may be; a GPU's, with a thousand processes, has some ten thousand bytes."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The driver has taken the probe in.

    Attributes:
        pid: the probe's process.
        driver: version of the driver's library.
        nvml: version of NVML.
    """

    pid: int
    driver: str = ""
    nvml: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The driver did not take the probe in, which ends after that.

    Attributes:
        call: the call that failed.
        code: its return code (``nvmlReturn_t``).
        text: what it means.
    """

    call: str
    code: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class RoundOver:
    """Every GPU has been looked at once more.

    Attributes:
        at: when, on the monotonic clock.
        seconds: how long it took.
    """

    at: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamSaid:
    """The driver's stream of XID errors runs, or does not.

    Attributes:
        ok: whether it runs.
        code: the return code that stopped it (``nvmlReturn_t``).
        text: what it means.
    """

    ok: bool
    code: int = 0
    text: str = ""


Line = Hello | Failed | Look | NodeLook | XidSeen | RoundOver | StreamSaid

_Text = Annotated[str, Meta(max_length=1024)]
_Name = Annotated[str, Meta(max_length=128)]
_Count = Annotated[int, Meta(ge=0, le=2**31)]
_Code = Annotated[int, Meta(ge=0, le=2**31)]
_Pid = Annotated[int, Meta(ge=1, le=2**31)]


class _Gpu(msgspec.Struct, frozen=True):
    uuid: _Name
    index: Annotated[int, Meta(ge=-1, le=65535)] = -1
    name: _Name = ""
    pci: _Name = ""


class _Hello(msgspec.Struct, tag="hello"):
    pid: _Pid
    driver: _Name = ""
    nvml: _Name = ""

    def said(self) -> Hello:
        return Hello(self.pid, self.driver, self.nvml)


class _Failed(msgspec.Struct, tag="failed"):
    call: _Name
    code: _Code
    text: _Text = ""

    def said(self) -> Failed:
        return Failed(self.call, self.code, self.text)


class _Node(msgspec.Struct, tag="node"):
    at: float
    driver_count: _Count
    pci_count: _Count | None = None
    control_openable: bool | None = None
    driver: _Name = ""
    kernel_driver: _Name = ""

    def said(self) -> NodeLook:
        return NodeLook(
            at=self.at,
            driver_count=self.driver_count,
            pci_count=self.pci_count,
            control_openable=self.control_openable,
            driver=self.driver,
            kernel_driver=self.kernel_driver,
        )


class _Look(msgspec.Struct, tag="gpu"):
    at: float
    gpu: _Gpu
    code: _Code = 0
    call: _Name = ""
    values: dict[_Name, float] = {}
    codes: dict[_Name, _Code] = {}
    pids: tuple[_Pid, ...] | None = None

    def said(self) -> Look:
        gpu = self.gpu
        return Look(
            gpu=Gpu(gpu.uuid, gpu.index, gpu.name, gpu.pci),
            at=self.at,
            code=self.code,
            call=self.call,
            values=self.values,
            codes=self.codes,
            pids=self.pids,
        )


class _Round(msgspec.Struct, tag="round"):
    at: float
    seconds: float = 0.0

    def said(self) -> RoundOver:
        return RoundOver(self.at, self.seconds)


class _Xid(msgspec.Struct, tag="xid"):
    at: float
    uuid: _Name
    xid: _Count
    count: Annotated[int, Meta(ge=1, le=2**31)] = 1

    def said(self) -> XidSeen:
        return XidSeen(uuid=self.uuid, xid=self.xid, at=self.at, count=self.count)


class _Stream(msgspec.Struct, tag="stream"):
    ok: bool
    code: _Code = 0
    text: _Text = ""

    def said(self) -> StreamSaid:
        return StreamSaid(self.ok, self.code, self.text)


_Read = _Hello | _Failed | _Look | _Node | _Xid | _Round | _Stream

_DECODER = msgspec.json.Decoder(_Read)


def decode(line: bytes) -> Line | None:
    """Return what a line says; ``None`` where it is none of the probe's. Nothing is raised."""
    if len(line) > LONGEST_BYTES:
        return None
    try:
        read: _Read = _DECODER.decode(line)
    # What is no UTF-8 is a ValueError, and a depth beyond reason a RecursionError.
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return read.said()
