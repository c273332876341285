"""The session with the driver: begun once, and which GPUs it has.

NVML is initialised once in a process and never ended: programs that did so for each look ran out
of file descriptors (all-smi issue 118).
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from lastcall.core.gpu.codes import UNINITIALIZED
from lastcall.gpu.presence import normal_pci
from lastcall.gpu.probe.calls import Calls, Refused, text
from lastcall.gpu.probe.settings import by_index

_NO_GPUS = 1
"""``NVML_INIT_FLAG_NO_GPUS``: a machine without GPUs is no failure."""


class Device:
    """A GPU of this session. What it is called is kept: once lost, it cannot tell any more.

    Attributes:
        index: the driver's, which does not change within a session.
        handle: what the driver's calls take; ``None`` while it cannot be had.
        uuid: its UUID; empty before the driver told it, like the two that follow.
        name: its model.
        pci: its PCI address, as :func:`~lastcall.gpu.presence.normal_pci` writes it.
        code: why not, ``nvmlReturn_t``.
        call: the call that said so.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self.uuid = ""
        self.name = ""
        self.pci = ""
        self.code = 0
        self.call = ""


class Versions(NamedTuple):
    """Versions of the driver and of its library; empty where they cannot be had."""

    driver: str
    nvml: str


class Session:
    """Which GPUs the driver has.

    Args:
        calls: how the driver is called.
        skip: GPUs that are never touched: PCI addresses, or ``index:3`` where the address is not
            known, since the call that would tell it hangs.

    Attributes:
        devices: the GPUs that are looked at.
        driver_count: how many the driver counts.
    """

    def __init__(self, calls: Calls, skip: Collection[str] = ()) -> None:
        self._calls = calls
        self._skip = {normal_pci(entry) or entry for entry in skip}
        self._met: dict[int, Device] = {}
        self._skipped: set[int] = set()
        self._counted = False
        self.devices: tuple[Device, ...] = ()
        self.driver_count = 0

    def begin(self) -> Versions:
        """Load the driver's library and begin.

        Raises:
            Refused: there is no driver, or it cannot be used.
        """
        self._calls("nvmlInitWithFlags", _NO_GPUS)
        return Versions(
            self._optional("nvmlSystemGetDriverVersion"), self._optional("nvmlSystemGetNVMLVersion")
        )

    def meet(self) -> None:
        """Count the GPUs, and get a handle for each that has none yet.

        Raises:
            Refused: they cannot be counted and never were, or the session is over.
        """
        self._count()
        for index in range(self.driver_count):
            if index in self._skipped or by_index(index) in self._skip:
                continue
            device = self._met.setdefault(index, Device(index))
            if device.handle is None:
                self._reach(device)
        self._calls.rest()
        self.devices = tuple(
            device
            for index, device in sorted(self._met.items())
            if index not in self._skipped and (device.handle or index < self.driver_count)
        )

    def _count(self) -> None:
        self._calls.about()
        try:
            self.driver_count = int(self._calls("nvmlDeviceGetCount"))
            self._counted = True
        except Refused as refused:
            if not self._counted or refused.code == UNINITIALIZED:
                raise

    def _reach(self, device: Device) -> None:
        self._calls.about(device.uuid, device.index, device.pci)
        try:
            handle = self._calls("nvmlDeviceGetHandleByIndex", device.index)
            device.pci = self._pci(handle) or device.pci
            if device.pci in self._skip:
                self._skipped.add(device.index)
                return
            self._calls.about(device.uuid, device.index, device.pci)
            device.uuid = text(self._calls("nvmlDeviceGetUUID", handle))
        except Refused as refused:
            if refused.code == UNINITIALIZED:
                raise
            device.code, device.call = refused.code, refused.call
            return
        device.name = self._optional("nvmlDeviceGetName", handle)
        device.handle, device.code, device.call = handle, 0, ""

    def _pci(self, handle: Any) -> str:
        try:
            return normal_pci(text(self._calls("nvmlDeviceGetPciInfo", handle).busId))
        except Refused:
            return ""

    def _optional(self, name: str, *arguments: object) -> str:
        try:
            return text(self._calls(name, *arguments))
        except Refused:
            return ""
