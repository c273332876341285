"""What is said of GPUs on the command line: which one, what is wrong with the watch, what helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lastcall.cli.terminal import safe

COMMAND_LENGTH = 60
"""Characters that are shown of a process's command line."""

TROUBLES = {
    "no_driver": "load the driver: modprobe nvidia; nvidia-smi must answer",
    "driver_changed": "reboot the node, or unload and load the kernel module: the driver's library "
    "was replaced under it",
    "access_lost": "restart the agent's container: it has lost the GPUs' device files",
    "unresponsive": "look for NVRM in the kernel's log; where it stays so, reboot the node",
    "crashed": "see the agent's log; it is tried again by itself",
}
"""What helps in each state of the watch in which it sees nothing of GPUs that may be there."""

RECOVERIES = {
    "restart_agent": "restart the agent, or its container",
    "reset_when_idle": "once nothing runs on it: lastcall gpu release, nvidia-smi --gpu-reset, "
    "lastcall gpu watch",
    "reset": "end what runs on it, then: lastcall gpu release, nvidia-smi --gpu-reset, "
    "lastcall gpu watch",
    "reboot": "reboot the node",
    "replace": "take the node out of service: a reboot does not help",
}
"""How each recovery is done."""


def name_of(uuid: str, gpus: Iterable[Mapping[str, Any]]) -> str:
    """Return what people call a GPU: ``GPU 3``, and where its index is not known its UUID.

    Args:
        uuid: which.
        gpus: the GPUs of the agent's view.
    """
    index = next((gpu["index"] for gpu in gpus if gpu["gpu"] == uuid), None)
    return safe(uuid) if index is None else f"GPU {index}"


def names_of(uuids: Iterable[str], gpus: Iterable[Mapping[str, Any]]) -> str:
    """Return what people call several GPUs together: ``GPU 0, 1``."""
    known = {gpu["gpu"]: gpu["index"] for gpu in gpus}
    indices, others = [], []
    for uuid in uuids:
        if (index := known.get(uuid)) is None:
            others.append(safe(uuid))
        else:
            indices.append(index)
    counted = [f"GPU {', '.join(map(str, sorted(indices)))}"] if indices else []
    return ", ".join([*counted, *others])


def hanging(watch: Mapping[str, Any], gpus: Iterable[Mapping[str, Any]]) -> str:
    """Return which call does not come back, and whose; empty where none hangs."""
    words = []
    if watch["call"]:
        on = f" on {name_of(watch['gpu'], gpus)}" if watch["gpu"] else ""
        words.append(f"{safe(watch['call'])}{on} does not come back")
    if watch["pid"] is not None:
        words.append(f"process {watch['pid']} cannot be ended")
    return ", ".join(words)


def holder(process: Mapping[str, Any], gpus: Iterable[Mapping[str, Any]]) -> str:
    """Return which process computes on which GPUs without having said hello."""
    command = safe(process["command"], COMMAND_LENGTH)
    what = f"process {process['pid']}" + (f" ({command})" if command else "")
    return f"{what} computes on {names_of(process['gpus'], gpus)} and has not said hello"
