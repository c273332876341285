"""What one look at the GPUs says: how many there are, and what the driver holds against each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lastcall.cli.check.findings import Findings
from lastcall.cli.check.gpu_probe import Probed
from lastcall.cli.gpu_words import RECOVERIES
from lastcall.core.gpu.model import Look

CHECK = "gpu"

_ASKED = {
    1: ("a reset", RECOVERIES["reset"]),
    2: ("a reboot of the node", RECOVERIES["reboot"]),
    3: ("an end of peer-to-peer use", "end the jobs that use it together with others"),
    4: ("no new work, and then a reset", RECOVERIES["reset"]),
    5: ("a recovery of its IMEX domain", "restart the IMEX service of all nodes of its domain"),
    6: ("a reset of its PCIe bus", RECOVERIES["reboot"]),
    7: ("a reboot of the system", RECOVERIES["reboot"]),
}
"""What the driver can ask for (nvml.h, ``nvmlDeviceGpuRecoveryAction_t``), and how it is done."""

_USABLE = (3, 5)
"""Of these, those with which the GPU goes on computing."""

_CODES = {
    4: "let the agent's user open its device file",
    15: RECOVERIES["reboot"],
    16: RECOVERIES["reset"],
}
"""By the return code of NVML (nvml.h, ``nvmlReturn_t``)."""


def say_node(probed: Probed, expected: int, found: Findings) -> None:
    """Add what is said of all GPUs together.

    Args:
        probed: what was seen.
        expected: how many there should be; 0: as many as stand on the PCI bus.
        found: takes the findings.
    """
    names = Counter(look.gpu.name or "unnamed" for look in probed.looks)
    if probed.hello is not None:
        kinds = ", ".join(f"{count} {name}" for name, count in names.items())
        found.ok(
            CHECK, f"driver {probed.hello.driver}, NVML {probed.hello.nvml}: {kinds or 'no GPU'}"
        )
    node = probed.node
    if node is None:
        return
    should_be = expected or node.pci_count or 0
    if node.driver_count < should_be:
        found.problem(
            CHECK,
            f"the driver counts {node.driver_count} of {should_be} GPUs",
            "reboot the node; where it stays so, take it out of service",
        )
    if node.control_openable is False:
        found.problem(
            CHECK,
            "the driver's control device, /dev/nvidiactl, cannot be opened",
            "let the agent's user open it; a container that has lost it needs a restart",
        )
    if node.driver and node.kernel_driver and node.driver != node.kernel_driver:
        found.warning(
            CHECK,
            f"the driver's library is {node.driver}, its kernel module {node.kernel_driver}",
            "reboot the node, or unload and load the kernel module",
        )


def say_gpus(probed: Probed, known_unsound: frozenset[str], found: Findings) -> None:
    """Add what is said of each.

    Args:
        probed: what was seen.
        known_unsound: GPUs that the agent has spoken of already.
        found: takes the findings.
    """
    for look in probed.looks:
        if look.gpu.uuid not in known_unsound:
            _say_gpu(look, found)
    unpersistent = [look for look in probed.looks if look.values.get("persistence") == 0]
    if unpersistent:
        found.warning(
            CHECK,
            f"persistence mode is off for {_listed(unpersistent)}: while no process has a GPU open "
            "each first call takes seconds, and its error counts are lost",
            "run nvidia-persistenced, or nvidia-smi -pm 1",
        )


def _say_gpu(look: Look, found: Findings) -> None:
    name = _name(look)
    if look.code:
        found.problem(
            CHECK,
            f"{name} does not answer: {look.call} says code {look.code}",
            _CODES.get(look.code, "look for NVRM in the kernel's log"),
        )
    action = int(look.values.get("recovery_action", 0))
    if action:
        asked, remedy = _ASKED.get(action, (f"action {action}", RECOVERIES["reboot"]))
        say = found.warning if action in _USABLE else found.problem
        say(CHECK, f"the driver asks for {asked} for {name}", remedy)
    if look.values.get("remap_failed"):
        found.problem(
            CHECK, f"a row of {name}'s memory could not be remapped", RECOVERIES["replace"]
        )
    if look.values.get("remap_pending") or look.values.get("retired_pending"):
        found.warning(
            CHECK,
            f"a bad part of {name}'s memory is replaced at its next reset",
            RECOVERIES["reset_when_idle"],
        )


def _name(look: Look) -> str:
    place = f" ({look.gpu.pci})" if look.gpu.pci else ""
    return f"GPU {look.gpu.index}{place}" if look.gpu.index >= 0 else look.gpu.uuid or "a GPU"


def _listed(looks: Iterable[Look]) -> str:
    return f"GPU {', '.join(str(look.gpu.index) for look in looks)}"
