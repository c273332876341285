"""The look at all GPUs together: how many there are, and which driver stands in the kernel."""

import os
from pathlib import Path

from lastcall.gpu.presence import CONTROL_DEVICE, kernel_driver, pci_gpus
from lastcall.gpu.probe.calls import Calls

EVERY_SECONDS = 60.0
"""Time between looks, and between lines, where nothing changes."""


class NodeObserver:
    """Looks at the machine, every minute and when the driver tells something new.

    Args:
        calls: how the trail is written.
        driver: version of the driver's library.
        sysfs: where sysfs is mounted.
        proc: where procfs is mounted.
        dev: where the device files are.
    """

    def __init__(self, calls: Calls, driver: str, *, sysfs: Path, proc: Path, dev: Path) -> None:
        self._calls = calls
        self._sysfs = sysfs
        self._proc = proc
        self._control = dev / CONTROL_DEVICE
        self._looked_at: float | None = None
        self._told_at: float | None = None
        self._cause: object = None
        self._last: dict[str, object] = {"driver": driver}

    def look(
        self, at: float, *, driver_count: int, codes: tuple[int, ...], no_access: bool
    ) -> dict[str, object] | None:
        """Look at the machine, where it is time to.

        Args:
            at: now, in seconds on the monotonic clock.
            driver_count: GPUs that the driver counts.
            codes: what each GPU answered.
            no_access: none of them could be asked, as if the device files were taken away.

        Returns:
            What there is to tell; ``None``: nothing new, and it is not time yet.
        """
        found = dict(self._last)
        found["driver_count"] = driver_count
        found["control_openable"] = self._control_openable() if no_access else None
        cause = (driver_count, codes)
        if _over(self._looked_at, at) or cause != self._cause:
            self._looked_at, self._cause = at, cause
            gpus = pci_gpus(self._sysfs)
            found["pci_count"] = None if gpus is None else len(gpus)
            found["kernel_driver"] = kernel_driver(self._proc)
        if found == self._last and not _over(self._told_at, at):
            return None
        self._last, self._told_at = found, at
        return {"at": at, **found}

    def _control_openable(self) -> bool:
        self._calls.about()
        self._calls.enter(f"open {self._control}")
        try:
            os.close(os.open(self._control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            return False
        finally:
            self._calls.rest()
        return True


def _over(last: float | None, at: float) -> bool:
    return last is None or at - last >= EVERY_SECONDS
