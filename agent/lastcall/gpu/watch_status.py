"""Puts into words how it stands with the watch over the GPUs. The same state has the same words."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lastcall.core.gpu import codes
from lastcall.core.gpu.model import WatchState
from lastcall.gpu.presence import CONTROL_DEVICE
from lastcall.gpu.trail import Step

if TYPE_CHECKING:
    from lastcall.gpu.lines import Failed

NO_RIGHT = "the driver's device files may not be used"
NOT_LOADED = "the driver's kernel module is not loaded"
NO_LIBRARY = "the driver's library, libnvidia-ml.so.1, is not to be found"
NO_PACKAGE = "the package that asks the driver, nvidia-ml-py, is not installed"
"""Why there is no driver, in words with which the detail begins: what helps depends on it."""

_NOT_THERE = {
    codes.NO_PERMISSION: NO_RIGHT,
    codes.DRIVER_NOT_LOADED: NOT_LOADED,
    codes.LIBRARY_NOT_FOUND: NO_LIBRARY,
}

_PACKAGE = "nvidia-ml-py"
"""Stands in the probe's own text for the same code, and in none of NVIDIA's."""


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """How it stands with the watch over the GPUs.

    Attributes:
        state: in one word.
        detail: for people.
        gpu: UUID of the GPU that a call hangs on or broke on, where it is known.
        call: that call.
        pid: the probe's process, where it cannot be ended.
    """

    state: WatchState
    detail: str = ""
    gpu: str = ""
    call: str = ""
    pid: int | None = None


def refused(failed: Failed, dev: Path, *, any_gpu: bool) -> WatchStatus:
    """Say why the driver did not take the probe in.

    Args:
        failed: what the probe said.
        dev: where the device files are.
        any_gpu: whether the machine shows any sign of a GPU.
    """
    said = f"{failed.call}: {failed.text or 'no text'} ({failed.code})"
    if failed.code == codes.LIBRARY_MISMATCH:
        return WatchStatus(
            WatchState.DRIVER_CHANGED,
            f"the driver's library is not of its kernel module's version; {said}",
        )
    # Without its kernel module, the library is one of an image for machines with GPUs.
    if not any_gpu and failed.code in codes.NO_ACCESS:
        return no_gpu(said)
    if failed.code in codes.UNCLEAR and not may_use_control_device(dev):
        return lost_access()
    why = not_there(failed) or "the driver refused"
    # Of a missing package nobody has asked the driver.
    return WatchStatus(WatchState.NO_DRIVER, why if why == NO_PACKAGE else f"{why}; {said}")


def not_there(failed: Failed) -> str:
    """Say what is missing of the driver; empty where it is there and refused.

    Args:
        failed: what the probe said.
    """
    if failed.code == codes.LIBRARY_NOT_FOUND and _PACKAGE in failed.text:
        return NO_PACKAGE
    return _NOT_THERE.get(failed.code, "")


def no_gpu(why: str) -> WatchStatus:
    """Say that there is nothing to watch."""
    return WatchStatus(WatchState.NO_GPU, f"no NVIDIA GPU: {why}")


def lost_access() -> WatchStatus:
    """Say that the device files are out of reach."""
    return WatchStatus(
        WatchState.ACCESS_LOST, f"the driver's control device {CONTROL_DEVICE} cannot be opened"
    )


def may_use_control_device(dev: Path) -> bool:
    """Tell whether the control device could be opened.

    It is only asked and not opened: opening waits for the driver, which may never answer. The
    kernel heeds the rules of device control groups here as well.
    """
    return os.access(dev / CONTROL_DEVICE, os.R_OK | os.W_OK, effective_ids=True)


def hanging(step: Step | None, seconds: float) -> WatchStatus:
    """Say that nothing came back.

    Args:
        step: the call that the probe is in; ``None``, or one without a call, where it is in none.
        seconds: how long that was waited for.
    """
    if step is None or not step.call:
        return WatchStatus(
            WatchState.UNRESPONSIVE, f"the probe has said nothing for {seconds:g} seconds"
        )
    return WatchStatus(
        WatchState.UNRESPONSIVE,
        f"{_named(step)} did not come back within {seconds:g} seconds",
        step.gpu,
        step.call,
    )


def calls_stopped(detail: str) -> WatchStatus:
    """Say that no call is made into the driver any more, since the kernel reports that they hang.

    Args:
        detail: what it reports.
    """
    return WatchStatus(WatchState.UNRESPONSIVE, f"no calls into the driver are made: {detail}")


def crashed(how: str, step: Step | None) -> WatchStatus:
    """Say that the probe did what it must not.

    Args:
        how: what it did.
        step: the call that it was in, where it was in one.
    """
    if step is None or not step.call:
        return WatchStatus(WatchState.CRASHED, f"the probe {how}")
    return WatchStatus(
        WatchState.CRASHED, f"the probe {how} in {_named(step)}", step.gpu, step.call
    )


def unending(status: WatchStatus | None, step: Step | None, pid: int) -> WatchStatus:
    """Say that the probe cannot be ended.

    Args:
        status: why it was to be, where it was to blame for that.
        step: the call that it was in.
        pid: its process.
    """
    probe = f"the probe, process {pid}, cannot be ended"
    if status is not None and status.state is WatchState.UNRESPONSIVE:
        return replace(status, detail=f"{status.detail}; {probe}", pid=pid)
    if step is None or not step.call:
        return WatchStatus(WatchState.UNRESPONSIVE, probe, pid=pid)
    detail = f"{probe}: {_named(step)} does not come back"
    return WatchStatus(WatchState.UNRESPONSIVE, detail, step.gpu, step.call, pid)


def _named(step: Step) -> str:
    if step.index < 0:
        return step.call
    return f"{step.call} on GPU {step.index}"
