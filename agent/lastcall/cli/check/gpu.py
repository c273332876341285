"""Checks the GPUs: whether they can be watched, and what speaks against them now."""

from __future__ import annotations

import asyncio
import importlib.util
import os

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.gpu_looks import say_gpus, say_node
from lastcall.cli.check.gpu_probe import Probed, probe
from lastcall.cli.check.gpu_seen import SeenGpus, say_seen
from lastcall.cli.gpu_words import INSTALL, LOOK_AT_LOG, TROUBLES, missing
from lastcall.config.gpu import Gpu
from lastcall.core.gpu import codes
from lastcall.gpu import presence
from lastcall.gpu.lines import Failed
from lastcall.gpu.watch_status import not_there

CHECK = "gpu"

PROBE_SECONDS = 8.0
"""How long the driver may take: with persistence mode off some seconds for each GPU."""

UNASKED = ("unresponsive", "released")
"""States of the agent's watch in which a further process that opens the driver does harm."""

_BY_NUMBERS = "XID errors are known by their numbers alone"
_OPEN_LOG = (
    "on a machine with systemd the drop-in of docs/reference/unit.md#the-kernels-log; in the chart "
    'gpu.privileged and gpu.kernelLog; or gpu.kernel_log = ""'
)


async def check_gpu(subject: Subject, found: Findings) -> None:
    """Add whether the GPUs can be watched, and what the driver and the agent say of them."""
    settings = subject.loaded.config.gpu
    if settings.enabled is False:
        found.ok(CHECK, "not watched: gpu.enabled is false")
        return
    view = subject.agent.view.get("gpu")
    seen = SeenGpus(view if isinstance(view, dict) else {})
    say_seen(seen, found, is_wanted=_is_wanted(settings))
    if not await asyncio.to_thread(_any_sign):
        _say_none(settings, seen, found)
        return
    if importlib.util.find_spec("pynvml") is None:
        _say_no_package(settings, seen, found)
    elif seen.state not in UNASKED:
        await _ask_driver(settings, seen, found)
    if seen.kernel_log:
        _say_read_log(seen.kernel_log, found)
    else:
        await asyncio.to_thread(_try_kernel_log, settings.kernel_log, found)


def _is_wanted(settings: Gpu) -> bool:
    """Tell whether the site says that there are GPUs to be watched."""
    return settings.enabled is True or settings.expected > 0


def _any_sign() -> bool:
    return presence.present() or presence.library_present(os.environ)


def _say_none(settings: Gpu, seen: SeenGpus, found: Findings) -> None:
    if seen.state == "watching":
        found.note(
            CHECK,
            "this command sees no sign of the GPUs that the running agent watches",
            "give check the agent's environment, such as its LD_LIBRARY_PATH",
        )
    elif settings.expected:
        if not seen.misses_gpus:
            found.problem(
                CHECK,
                f"gpu.expected is {settings.expected}, and this machine shows no NVIDIA GPU",
                "let the agent see the PCI bus, the device files and the driver's library; where "
                "they are gone from the bus, power the machine off and on",
            )
    elif settings.enabled is True:
        found.problem(
            CHECK,
            "gpu.enabled is true, and this machine shows no NVIDIA GPU",
            'let the agent see the PCI bus and the device files, or gpu.enabled = "auto"',
        )
    else:
        found.ok(CHECK, "this machine shows no NVIDIA GPU")


def _say_no_package(settings: Gpu, seen: SeenGpus, found: Findings) -> None:
    if seen.state == "no_driver":
        return
    say = found.problem if _is_wanted(settings) else found.warning
    say(
        CHECK,
        "this machine has GPUs, and the package nvidia-ml-py, which asks their driver, is not "
        "installed: they are not watched",
        INSTALL,
    )


async def _ask_driver(settings: Gpu, seen: SeenGpus, found: Findings) -> None:
    try:
        probed = await asyncio.to_thread(probe, PROBE_SECONDS)
    except OSError as error:
        found.problem(CHECK, f"the probe cannot be started: {error}", "mend the installation")
        return
    if probed.failed is not None:
        _say_failed(probed.failed, settings, seen, found)
        return
    say_node(probed, settings.expected, seen, found)
    say_gpus(probed, seen, found)
    if not probed.complete:
        _say_incomplete(probed, found)


def _say_failed(failed: Failed, settings: Gpu, seen: SeenGpus, found: Findings) -> None:
    why = not_there(failed)
    said = f"{failed.call}: {failed.text or f'code {failed.code}'}"
    if not why:
        remedy = TROUBLES["driver_changed"]
        is_changed = failed.code == codes.LIBRARY_MISMATCH
        what = f"the driver does not answer: {said}"
        found.problem(CHECK, what, remedy if is_changed else LOOK_AT_LOG)
    elif seen.state != "no_driver":
        # A GPU that nobody has given to the agent is no fault of the installation.
        say = found.problem if _is_wanted(settings) else found.warning
        say(CHECK, f"the GPUs are not watched: {why}; {said}", missing(why))


def _say_incomplete(probed: Probed, found: Findings) -> None:
    if probed.exit_code is not None:
        ended = (
            f"by signal {-probed.exit_code}"
            if probed.exit_code < 0
            else f"with code {probed.exit_code}"
        )
        found.problem(CHECK, f"the probe ended {ended} before it had seen all", LOOK_AT_LOG)
        return
    step = probed.step
    call = "" if step is None else f": it is in {step.call}"
    gpu = "" if step is None or step.index < 0 else f" for GPU {step.index}"
    found.problem(
        CHECK,
        f"the driver has not answered all within {PROBE_SECONDS:g} s{call}{gpu}",
        f"{LOOK_AT_LOG}; where a call hangs for good, reboot the node",
    )


def _say_read_log(state: str, found: Findings) -> None:
    """Say whether the running agent reads the kernel's log."""
    match state:
        case "read":
            found.ok(CHECK, "the running agent reads the kernel's own lines about GPU errors")
        case "off":
            found.note(CHECK, f"the running agent does not read the kernel's log: {_BY_NUMBERS}")
        case _:
            found.note(CHECK, f"{state}: {_BY_NUMBERS}", _OPEN_LOG)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _try_kernel_log(path: str, found: Findings) -> None:
    if not path:
        found.note(CHECK, f"gpu.kernel_log is empty: {_BY_NUMBERS}")
        return
    try:
        with open(path, "rb", buffering=0, opener=_without_waiting):
            pass
    except OSError as error:
        found.note(
            CHECK,
            f"{path} cannot be read ({error.strerror}): {_BY_NUMBERS}, and those from before the "
            "agent's start not at all",
            _OPEN_LOG,
        )
    else:
        found.ok(CHECK, f"the kernel's own lines about GPU errors can be read from {path}")
