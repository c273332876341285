"""What the running agent says of the GPUs: how it watches them, how they are, who holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastcall.cli.check.findings import Findings
from lastcall.cli.gpu_words import RECOVERIES, TROUBLES, hanging, holder

CHECK = "gpu"

SHOWN_HOLDERS = 5
"""Processes without a hello that are named."""

_SOUND = ("healthy", "unknown")


def say_seen(seen: Mapping[str, Any], found: Findings) -> None:
    """Add what the agent says.

    Args:
        seen: the part ``gpu`` of its status; empty where no agent shows one.
        found: takes the findings.
    """
    if not seen:
        return
    watch = seen["watch"]
    if watch is not None:
        _say_watch(watch, seen, found)
    for mark in seen["marks"]:
        _say_unsound(mark["health"], f"all GPUs: {mark['detail'] or mark['reason']}", mark, found)
    for gpu in seen["gpus"]:
        name = gpu["gpu"] if gpu["index"] is None else f"GPU {gpu['index']}"
        reasons = ", ".join(gpu["reasons"])
        _say_unsound(gpu["health"], f"{name} is {gpu['health']}: {reasons}", gpu, found)
    holders = seen["unregistered"]
    for process in holders[:SHOWN_HOLDERS]:
        found.warning(
            CHECK,
            f"{holder(process, seen['gpus'])}: nobody can ask it to flush",
            "have it call lastcall.connect()",
        )
    if len(holders) > SHOWN_HOLDERS:
        found.note(CHECK, f"and {len(holders) - SHOWN_HOLDERS} more such processes")


def unsound(seen: Mapping[str, Any]) -> frozenset[str]:
    """Return the UUIDs of the GPUs that the agent holds something against."""
    return frozenset(gpu["gpu"] for gpu in seen.get("gpus", ()) if gpu["health"] not in _SOUND)


def _say_watch(watch: Mapping[str, Any], seen: Mapping[str, Any], found: Findings) -> None:
    state = watch["state"]
    if state == "released":
        found.note(
            CHECK,
            "the running agent has let go of the GPUs, so they are not asked here either",
            "once reset: lastcall gpu watch",
        )
    elif state in TROUBLES:
        details = (watch["detail"], hanging(watch, seen["gpus"]))
        words = "; ".join(detail for detail in details if detail)
        found.problem(
            CHECK,
            f"the running agent's watch is {state.replace('_', ' ')}" + (words and f": {words}"),
            TROUBLES[state],
        )


def _say_unsound(health: str, what: str, about: Mapping[str, Any], found: Findings) -> None:
    if health in _SOUND:
        return
    say = found.problem if health == "faulty" else found.warning
    say(CHECK, what, RECOVERIES.get(about["recovery"], "see lastcall status"))
