"""Checks the GPUs: whether they can be watched, and what speaks against them now."""

from __future__ import annotations

import asyncio
import importlib.util
import os

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.gpu_looks import say_gpus, say_node
from lastcall.cli.check.gpu_probe import Probed, probe
from lastcall.cli.check.gpu_seen import say_seen, unsound
from lastcall.core.gpu import codes
from lastcall.gpu import presence

CHECK = "gpu"

PROBE_SECONDS = 8.0
"""How long the driver may take: with persistence mode off some seconds for each GPU."""

UNASKED = ("unresponsive", "released")
"""States of the agent's watch in which a further process that opens the driver does harm."""

_LOOK_AT_LOG = "look for NVRM in the kernel's log; nvidia-smi must answer"

_REMEDIES = {
    codes.NO_PERMISSION: "let the agent's user open the GPUs' device files",
    codes.DRIVER_NOT_LOADED: "load the driver: modprobe nvidia",
    codes.LIBRARY_NOT_FOUND: "install NVIDIA's driver; in a container let its runtime hand in "
    "libnvidia-ml.so.1",
    codes.LIBRARY_MISMATCH: "reboot the node, or unload and load the kernel module: the driver was "
    "replaced under it",
}
"""By the return code with which the driver did not take the probe in."""


async def check_gpu(subject: Subject, found: Findings) -> None:
    """Add whether the GPUs can be watched, and what the driver and the agent say of them."""
    settings = subject.loaded.config.gpu
    if settings.enabled is False:
        found.ok(CHECK, "not watched: gpu.enabled is false")
        return
    if not await asyncio.to_thread(_any_sign):
        _say_none(found, is_wanted=settings.enabled is True)
        return
    seen = subject.agent.view.get("gpu")
    seen = seen if isinstance(seen, dict) else {}
    say_seen(seen, found)
    if importlib.util.find_spec("pynvml") is None:
        say = found.problem if settings.enabled is True else found.warning
        say(
            CHECK,
            "this machine has GPUs, and the package nvidia-ml-py, which asks their driver, is not "
            "installed: they are not watched",
            "pip install 'lastcall[gpu]', or gpu.enabled = false",
        )
    elif (seen.get("watch") or {}).get("state") not in UNASKED:
        await _ask_driver(settings.expected, unsound(seen), found)
    await asyncio.to_thread(_say_kernel_log, settings.kernel_log, found)


def _any_sign() -> bool:
    return presence.present() or presence.library_present(os.environ)


def _say_none(found: Findings, *, is_wanted: bool) -> None:
    if is_wanted:
        found.problem(
            CHECK,
            "gpu.enabled is true, and this machine shows no NVIDIA GPU",
            'let the agent see the PCI bus and the device files, or gpu.enabled = "auto"',
        )
    else:
        found.ok(CHECK, "this machine shows no NVIDIA GPU")


async def _ask_driver(expected: int, known_unsound: frozenset[str], found: Findings) -> None:
    try:
        probed = await asyncio.to_thread(probe, PROBE_SECONDS)
    except OSError as error:
        found.problem(CHECK, f"the probe cannot be started: {error}", "mend the installation")
        return
    if probed.failed is not None:
        failed = probed.failed
        found.problem(
            CHECK,
            f"the driver does not answer: {failed.call}: {failed.text or f'code {failed.code}'}",
            _REMEDIES.get(failed.code, _LOOK_AT_LOG),
        )
        return
    say_node(probed, expected, found)
    say_gpus(probed, known_unsound, found)
    if not probed.complete:
        _say_incomplete(probed, found)


def _say_incomplete(probed: Probed, found: Findings) -> None:
    if probed.exit_code is not None:
        ended = (
            f"by signal {-probed.exit_code}"
            if probed.exit_code < 0
            else f"with code {probed.exit_code}"
        )
        found.problem(CHECK, f"the probe ended {ended} before it had seen all", _LOOK_AT_LOG)
        return
    step = probed.step
    call = "" if step is None else f": it is in {step.call}"
    gpu = "" if step is None or step.index < 0 else f" for GPU {step.index}"
    found.problem(
        CHECK,
        f"the driver has not answered all within {PROBE_SECONDS:g} s{call}{gpu}",
        f"{_LOOK_AT_LOG}; where a call hangs for good, reboot the node",
    )


def _say_kernel_log(path: str, found: Findings) -> None:
    if not path:
        found.note(CHECK, "gpu.kernel_log is empty: XID errors are known by their numbers alone")
        return
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        found.note(
            CHECK,
            f"{path} cannot be read ({error.strerror}): XID errors are known by their numbers "
            "alone, and those from before the agent's start not at all",
            'grant CAP_SYSLOG, in a pod mount the host\'s /dev/kmsg, or gpu.kernel_log = ""',
        )
    else:
        found.ok(CHECK, f"the kernel's own lines about GPU errors can be read from {path}")
