"""What the running agent says of the GPUs: how it watches them, how they are, who holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lastcall.cli.check.findings import Findings
from lastcall.cli.gpu_words import holder, of_all, recovery, standing, trouble, worst
from lastcall.core.gpu.model import Gpu
from lastcall.core.gpu.node_signs import DRIVER_MISSING, MISSING

CHECK = "gpu"

SHOWN_HOLDERS = 5
"""Processes without a hello that are named."""

_SOUND = ("healthy", "unknown")


_RUNBOOKS = {"degraded": "LastcallGpuDegraded", "faulty": "LastcallGpuFaulty"}
"""Where more is said by reason, where no recovery is to be done."""

View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SeenGpus:
    """The part ``gpu`` of the agent's status; empty where no agent shows one."""

    view: View

    @property
    def watch(self) -> View | None:
        """How it stands with the watch; ``None`` where nothing is known of one."""
        return self.view.get("watch")

    @property
    def state(self) -> str:
        """The state of the watch; empty where nothing is known of one."""
        return "" if self.watch is None else str(self.watch["state"])

    @property
    def kernel_log(self) -> str:
        """Whether the agent reads the kernel's log, or why not; empty where it does not say."""
        return str(self.view.get("kernel_log", ""))

    @property
    def misses_gpus(self) -> bool:
        """Whether the agent has said itself that there are too few GPUs."""
        return any(mark["reason"] == MISSING for mark in self.view.get("marks", ()))

    def has_spoken_of(self, gpu: Gpu) -> bool:
        """Tell whether the agent holds something against a GPU.

        One whose handle cannot be had tells no UUID: it is known by its place.
        """
        places = {gpu.uuid} if gpu.uuid else {gpu.pci, f"GPU {gpu.index}"} - {""}
        known = [
            {one["gpu"], one["pci"], f"GPU {one['index']}"}
            for one in self.view.get("gpus", ())
            if one["health"] not in _SOUND
        ]
        known += [
            {str(mark["detail"]).partition(": ")[0]}
            for mark in self.view.get("marks", ())
            if mark["health"] not in _SOUND
        ]
        return not all(places.isdisjoint(names) for names in known)


def say_seen(seen: SeenGpus, found: Findings, *, is_wanted: bool) -> None:
    """Add what the agent says.

    Args:
        seen: what it shows.
        found: takes the findings.
        is_wanted: whether the site says that there are GPUs to be watched.
    """
    view, watch = seen.view, seen.watch
    if not view:
        return
    if watch is not None:
        _say_watch(watch, view, found, is_wanted=is_wanted)
    for mark in view["marks"]:
        if mark["reason"] == DRIVER_MISSING and trouble(watch):
            continue  # the watch has said it, and what helps
        _say_unsound(of_all(mark), mark, recovery(mark["recovery"], watch=watch), found)
    for gpu in view["gpus"]:
        name = gpu["gpu"] if gpu["index"] is None else f"GPU {gpu['index']}"
        reasons = ", ".join(gpu["reasons"])
        detail = worst(gpu["marks"])
        words = f"{name} is {gpu['health']}: {reasons}" + (f": {detail}" if detail else "")
        _say_unsound(words, gpu, recovery(gpu["recovery"], gpu["gpu"], watch), found)
    holders = view["unregistered"]
    for process in holders[:SHOWN_HOLDERS]:
        found.warning(
            CHECK,
            f"{holder(process, view['gpus'])}: nobody can ask it to flush",
            "have it call lastcall.connect()",
        )
    if len(holders) > SHOWN_HOLDERS:
        found.note(CHECK, f"and {len(holders) - SHOWN_HOLDERS} more such processes")


def _say_watch(watch: View, view: View, found: Findings, *, is_wanted: bool) -> None:
    state = watch["state"]
    if state == "released":
        found.note(
            CHECK,
            "the running agent has let go of the GPUs, so they are not asked here either",
            "once reset: lastcall gpu watch",
        )
    elif helps := trouble(watch):
        words = standing(watch, view["gpus"])
        say = found.warning if state == "no_driver" and not is_wanted else found.problem
        say(
            CHECK,
            f"the running agent's watch is {state.replace('_', ' ')}" + (words and f": {words}"),
            helps,
        )


def _say_unsound(what: str, about: View, helps: str, found: Findings) -> None:
    health = about["health"]
    if health in _SOUND:
        return
    say = found.problem if health == "faulty" else found.warning
    say(CHECK, what, helps or f"see the runbook {_RUNBOOKS[health]}, by its reason")
