"""What is said of GPUs on the command line: which one, what is wrong with it, what helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lastcall.cli.terminal import safe
from lastcall.core.gpu.model import SEVERITY
from lastcall.gpu import watch_status

COMMAND_LENGTH = 60
DETAIL_LENGTH = 160
"""Characters that are shown of a process's command line, and of the agent's words on a trouble."""

LOOK_AT_LOG = "look for NVRM in the kernel's log; nvidia-smi must answer"

TURN_OFF = "or gpu.enabled = false"

INSTALL = (
    "install it into the agent's environment: make install again, or pip install '.[gpu]' in the "
    f"source; {TURN_OFF}"
)
"""How the package gets there that asks the driver."""

_NO_DRIVER = {
    watch_status.NOT_LOADED: "load the driver: modprobe nvidia; nvidia-smi must answer",
    watch_status.NO_PACKAGE: INSTALL,
    watch_status.NO_LIBRARY: "install the driver with its libraries; in a container hand them in, "
    f"by the chart's gpu.visible or gpu.hostLibraries; {TURN_OFF}",
    watch_status.NO_RIGHT: "let the agent's user open the device files /dev/nvidia*; in a "
    f"container hand them in; {TURN_OFF}",
}
"""By the words with which the watch's detail begins."""

TROUBLES = {
    "no_driver": LOOK_AT_LOG,
    "driver_changed": "reboot the node, or unload and load the kernel module: the driver's library "
    "was replaced under it",
    "access_lost": "let the agent's user open the GPUs' device files; a container that has lost "
    "them needs a restart",
    "unresponsive": "look for NVRM in the kernel's log; where it stays so, reboot the node",
    "crashed": "see the agent's log; it is tried again by itself",
}
"""What helps in each state of the watch in which it sees nothing of GPUs that may be there."""

DEAF = ("unresponsive", "crashed")
"""States of the watch in which nvidia-smi may hang or crash as well."""

RECOVERIES = {
    "restart_agent": "restart the agent, or its container",
    "reset_when_idle": "once nothing runs on it: lastcall gpu release, nvidia-smi --gpu-reset "
    "--id={gpu}, lastcall gpu watch",
    "reset": "end what runs on it, then: lastcall gpu release, nvidia-smi --gpu-reset "
    "--id={gpu}, lastcall gpu watch",
    "reboot": "reboot the node",
    "replace": "take the node out of service: a reboot does not help",
}
"""How each recovery is done."""

_RESETS = ("reset_when_idle", "reset")

View = Mapping[str, Any]


def trouble(watch: View | None) -> str:
    """Return what helps the watch; empty where it is in no trouble.

    Args:
        watch: how it stands, as the agent shows it; ``None`` where it shows none.
    """
    if watch is None:
        return ""
    state = watch["state"]
    if state == "no_driver":
        return missing(watch["detail"])
    return TROUBLES.get(state, "")


def missing(detail: str) -> str:
    """Return what helps where there is no driver.

    Args:
        detail: as :mod:`lastcall.gpu.watch_status` words it.
    """
    known = (helps for words, helps in _NO_DRIVER.items() if detail.startswith(words))
    return next(known, TROUBLES["no_driver"])


def recovery(name: str, uuid: str = "", watch: View | None = None) -> str:
    """Return how a GPU is brought back; empty where nothing is to be done about it.

    Args:
        name: which recovery.
        uuid: of the GPU; empty where it is not known.
        watch: how it stands with the watch, as the agent shows it.
    """
    if name in _RESETS and watch is not None and watch["state"] in DEAF:
        return trouble(watch)
    return RECOVERIES.get(name, "").format(gpu=safe(uuid) or "UUID")


def name_of(uuid: str, gpus: Iterable[View]) -> str:
    """Return what people call a GPU: ``GPU 3``, and where its index is not known its UUID.

    Args:
        uuid: which.
        gpus: the GPUs of the agent's view.
    """
    index = next((gpu["index"] for gpu in gpus if gpu["gpu"] == uuid), None)
    return safe(uuid) if index is None else f"GPU {index}"


def names_of(uuids: Iterable[str], gpus: Iterable[View]) -> str:
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


def standing(watch: View, gpus: Iterable[View]) -> str:
    """Return what there is to say of the watch: its detail, and what that leaves out.

    Which call does not come back, and whose, is said of one that hangs; a call that a crash was in
    has ended with it.
    """
    detail, call, pid = watch["detail"], watch["call"], watch["pid"]
    words = []
    if call and call not in detail and (watch["state"] == "unresponsive" or pid is not None):
        on = f" on {name_of(watch['gpu'], gpus)}" if watch["gpu"] else ""
        words.append(f"{safe(call)}{on} does not come back")
    if pid is not None and f"process {pid}" not in detail:
        words.append(f"process {pid} cannot be ended")
    return "; ".join(filter(None, (safe(detail, DETAIL_LENGTH), ", ".join(words))))


def worst(marks: Iterable[View]) -> str:
    """Return in words what speaks most against a GPU; empty where nothing does."""
    mark = max(marks, key=lambda one: SEVERITY.index(one["health"]), default=None)
    return "" if mark is None else str(mark["detail"] or mark["reason"])


def of_all(mark: View) -> str:
    """Return in words what is said of all GPUs together.

    What is known of one alone that has no UUID stands there as well, and begins with its name.
    """
    words = str(mark["detail"] or mark["reason"])
    place = words.partition(": ")[0]
    is_of_one = place != words and (place.startswith("GPU ") or ":" in place)
    return words if is_of_one else f"all GPUs: {words}"


def holder(process: View, gpus: Iterable[View]) -> str:
    """Return which process computes on which GPUs without having said hello."""
    command = safe(process["command"], COMMAND_LENGTH)
    what = f"process {process['pid']}" + (f" ({command})" if command else "")
    return f"{what} computes on {names_of(process['gpus'], gpus)} and has not said hello"
