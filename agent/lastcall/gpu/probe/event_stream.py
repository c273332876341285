"""The driver's events of some GPUs: one set, and who is registered with it."""

import math
from contextlib import suppress
from typing import Any

from lastcall.core.gpu.codes import NOT_SUPPORTED, TIMEOUT, UNKNOWN
from lastcall.gpu.probe.calls import Refused, address, call, text
from lastcall.gpu.probe.session import Device

XID = 0x8
WANTED = XID | 0x2 | 0x4000 | 0x8000
"""XIDs; double-bit ECC errors; a GPU became unavailable; its recovery action changed (``nvml.h``,
``nvmlEventType…``)."""


class EventStream:
    """A set of events, and the GPUs that are registered with it."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int, str] = {}
        self._tried: set[int] = set()
        self._undefined: set[int] = set()

    def open(self, devices: tuple[Device, ...]) -> None:
        """Begin with these GPUs; one that cannot be registered is left out.

        Raises:
            Refused: there is no stream, or no GPU that it could be of.
        """
        while True:
            self._tried = set(self._undefined)
            self._uuids = {}
            self._set = call("nvmlEventSetCreate")
            last = self.add(devices)
            if self._set is not None:
                break
        if not self._uuids:
            raise last or Refused("nvmlDeviceRegisterEvents", NOT_SUPPORTED, "no GPU has events")

    def add(self, devices: tuple[Device, ...]) -> Refused | None:
        """Register the GPUs that were not yet; return why the last refused one was.

        A GPU whose registration fails for an unknown reason leaves the whole set undefined
        (``nvml.h``): the stream is closed then, and begins without it the next time.
        """
        last = None
        for device in devices:
            if device.index in self._tried or device.handle is None:
                continue
            self._tried.add(device.index)
            try:
                self._register(device)
            except Refused as refused:
                last = refused
                if refused.code == UNKNOWN:
                    self._undefined.add(device.index)
                    self.close()
                    break
        return last

    def _register(self, device: Device) -> None:
        # Asked for one kind that it does not have, the driver registers none at all.
        kinds = WANTED & call("nvmlDeviceGetSupportedEventTypes", device.handle)
        if not kinds:
            raise Refused("nvmlDeviceGetSupportedEventTypes", NOT_SUPPORTED, "it has no events")
        call("nvmlDeviceRegisterEvents", device.handle, kinds, self._set)
        self._uuids[address(device.handle)] = device.uuid

    def wait(self, seconds: float) -> tuple[str, int, int] | None:
        """Wait for an event.

        Returns:
            The GPU's UUID, the event's kind and its number; ``None``: none came.

        Raises:
            Refused: the stream does not live any more.
        """
        if self._set is None:
            raise Refused("nvmlEventSetWait_v2", UNKNOWN, "the set of events is undefined")
        try:
            event = call("nvmlEventSetWait_v2", self._set, math.ceil(seconds * 1000))
        except Refused as refused:
            if refused.code == TIMEOUT:
                return None
            raise
        return self._uuid(event.device), int(event.eventType), int(event.eventData)

    def _uuid(self, handle: Any) -> str:
        known = self._uuids.get(address(handle))
        if known is not None:
            return known
        try:
            return text(call("nvmlDeviceGetUUID", handle))
        except Refused:
            return ""

    def close(self) -> None:
        """Free the set."""
        if self._set is not None:
            with suppress(Refused):
                call("nvmlEventSetFree", self._set)
            self._set = None
