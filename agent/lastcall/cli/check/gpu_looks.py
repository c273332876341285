"""What one look at the GPUs says: how many there are, and what the driver holds against each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lastcall.cli.check.findings import Findings
from lastcall.cli.check.gpu_probe import Probed
from lastcall.cli.check.gpu_seen import SeenGpus
from lastcall.cli.gpu_words import recovery
from lastcall.core.gpu import codes
from lastcall.core.gpu.answers import action_answer
from lastcall.core.gpu.model import Health, Look

CHECK = "gpu"

_ACTION_REMEDIES = {
    3: "end the jobs that use it together with others",
    5: "restart the IMEX service of all nodes of its domain",
    6: recovery("reboot"),
}
"""By recovery action, where more can be said than how its recovery is done."""

_RECOVERIES = {codes.GPU_IS_LOST: "reboot", codes.RESET_REQUIRED: "reset"}
"""By the return code that a GPU answers with."""


def say_node(probed: Probed, expected: int, seen: SeenGpus, found: Findings) -> None:
    """Add what is said of all GPUs together.

    Args:
        probed: what was seen.
        expected: how many there should be; 0: as many as stand on the PCI bus.
        seen: what the agent has said of them already.
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
    if node.driver_count < should_be and not seen.misses_gpus:
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


def say_gpus(probed: Probed, seen: SeenGpus, found: Findings) -> None:
    """Add what is said of each.

    Args:
        probed: what was seen.
        seen: what the agent has said of them already.
        found: takes the findings.
    """
    for look in probed.looks:
        if not seen.has_spoken_of(look.gpu):
            _say_gpu(look, seen, found)
    unpersistent = [look for look in probed.looks if look.values.get("persistence") == 0]
    if unpersistent:
        found.warning(
            CHECK,
            f"persistence mode is off for {_listed(unpersistent)}: while no process has a GPU open "
            "each first call takes seconds, and its error counts are lost",
            "run nvidia-persistenced, or nvidia-smi -pm 1",
        )


def _say_gpu(look: Look, seen: SeenGpus, found: Findings) -> None:
    name = _name(look)

    def helps(what: str) -> str:
        return recovery(what, look.gpu.uuid, seen.watch)

    if look.code:
        found.problem(
            CHECK,
            f"{name} does not answer: {look.call} says code {look.code}",
            _answer_to(look.code, helps),
        )
    action = int(look.values.get("recovery_action", 0))
    answer = action_answer(action)
    if answer is not None:
        say = found.problem if answer.health is Health.FAULTY else found.warning
        remedy = _ACTION_REMEDIES.get(action) or helps(answer.recovery)
        say(CHECK, f"{name}: {answer.words} ({action})", remedy)
    if look.values.get("remap_failed"):
        found.problem(CHECK, f"a row of {name}'s memory could not be remapped", helps("replace"))
    if look.values.get("remap_pending") or look.values.get("retired_pending"):
        found.warning(
            CHECK,
            f"a bad part of {name}'s memory is replaced at its next reset",
            helps("reset_when_idle"),
        )


def _answer_to(code: int, helps: Callable[[str], str]) -> str:
    if code == codes.NO_PERMISSION:
        return "let the agent's user open its device file"
    what = _RECOVERIES.get(code)
    return "look for NVRM in the kernel's log" if what is None else helps(what)


def _name(look: Look) -> str:
    place = f" ({look.gpu.pci})" if look.gpu.pci else ""
    return f"GPU {look.gpu.index}{place}" if look.gpu.index >= 0 else look.gpu.uuid or "a GPU"


def _listed(looks: Iterable[Look]) -> str:
    return f"GPU {', '.join(str(look.gpu.index) for look in looks)}"
