"""What is known of all GPUs together: the watch itself, their number, the driver's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lastcall.core.gpu.belief import GOOD_LOOKS, NodeBelief, Standing
from lastcall.core.gpu.looks import HANGS
from lastcall.core.gpu.model import Health, Mark, NodeLook, Recovery, WatchState
from lastcall.core.gpu.news import WatchSaid

LOW_COUNTS = 2
"""So many looks in a row must count too few GPUs."""

ABSENT_SECONDS = 300.0
"""How long a driver may take to be there: nodes start up before it is installed (NVSentinel issue
1423)."""

MISSING = "gpu_missing"
DRIVER_MISSING = "driver_missing"
ACCESS_LOST = "device_access_lost"
UPGRADE_PENDING = "driver_upgrade_pending"

HANG_WORDS = "a call into the driver does not come back"

SEEING = (WatchState.WATCHING, WatchState.NO_GPU)
"""States in which what is not seen is not there."""

_ABSENT = {
    WatchState.NO_DRIVER: DRIVER_MISSING,
    WatchState.NO_GPU: MISSING,
    WatchState.WATCHING: MISSING,
}


def hear_watch(node: NodeBelief, said: WatchSaid, expected: int) -> NodeBelief:
    """Return what is known once the watch has said how it stands."""
    marks = dict(node.marks)
    node = replace(node, watch=said.state)
    if said.state is WatchState.WATCHING:
        marks.pop(DRIVER_MISSING, None)
        marks.pop(HANGS, None)
        return replace(node, absent_since=None, marks=marks)
    if said.state is WatchState.UNRESPONSIVE and not said.gpu and HANGS not in marks:
        marks[HANGS] = Standing(hang(said))
    if said.state is WatchState.DRIVER_CHANGED and UPGRADE_PENDING not in marks:
        marks[UPGRADE_PENDING] = _upgrade(said.at, said.detail)
    absent_since = node.absent_since
    if said.state in _ABSENT and expected > 0 and absent_since is None:
        absent_since = said.at
    return replace(node, marks=marks, absent_since=absent_since)


def look_at_node(node: NodeBelief, look: NodeLook, expected: int) -> NodeBelief:
    """Return what is known after a look at all GPUs together."""
    wanted = expected if expected > 0 else (look.pci_count or 0)
    is_low = look.driver_count < wanted
    # The driver may be there before its GPUs are.
    is_empty = look.driver_count == 0 and expected > 0
    low_counts = min(node.low_counts + 1, LOW_COUNTS) if is_low and not is_empty else 0
    empty_since = None
    if is_empty:
        empty_since = look.at if node.empty_since is None else node.empty_since
    marks = dict(node.marks)
    if low_counts >= LOW_COUNTS and MISSING not in marks:
        marks[MISSING] = _missing(look.at, f"the driver counts {look.driver_count} of {wanted}")
    elif MISSING in marks:
        good = 0 if is_low else marks[MISSING].good + 1
        marks[MISSING] = replace(marks[MISSING], good=good)
        if good >= GOOD_LOOKS:
            del marks[MISSING]
    differ = bool(look.driver and look.kernel_driver) and look.driver != look.kernel_driver
    if not differ:
        marks.pop(UPGRADE_PENDING, None)
    elif UPGRADE_PENDING not in marks:
        words = f"library {look.driver}, kernel module {look.kernel_driver}"
        marks[UPGRADE_PENDING] = _upgrade(look.at, words)
    return replace(
        node,
        count=look.driver_count,
        pci_count=look.pci_count,
        low_counts=low_counts,
        empty_since=empty_since,
        control_openable=look.control_openable,
        marks=marks,
    )


def await_driver(node: NodeBelief, at: float) -> NodeBelief:
    """Return what is known once time has passed."""
    reason = _ABSENT.get(node.watch)
    due = absent_until(node)
    if due is None or at < due or reason is None:
        return node
    standing = _missing(at, "there is no GPU, though there should be some")
    if reason == DRIVER_MISSING:
        standing = _driver_missing(at)
    return replace(node, marks={**node.marks, reason: standing})


def absent_until(node: NodeBelief) -> float | None:
    """Return when what is missing counts as a fault; ``None`` where nothing is waited for."""
    since = node.empty_since if node.watch is WatchState.WATCHING else node.absent_since
    reason = _ABSENT.get(node.watch)
    if since is None or reason is None or reason in node.marks:
        return None
    return since + ABSENT_SECONDS


def is_awaited(node: NodeBelief) -> bool:
    """Whether a driver or a GPU that should be there is not."""
    return node.absent_since is not None or node.empty_since is not None


def lose_access(node: NodeBelief, at: float, *, are_all_unclear: bool) -> NodeBelief:
    """Return what is known of the device files, after each piece of news.

    A container can lose them while all is well on the host (container-toolkit issue 48).
    """
    is_lost = node.watch is WatchState.ACCESS_LOST or (
        are_all_unclear and node.control_openable is False
    )
    if is_lost == (ACCESS_LOST in node.marks):
        return node
    marks: Mapping[str, Standing] = {
        reason: standing for reason, standing in node.marks.items() if reason != ACCESS_LOST
    }
    if is_lost:
        mark = Mark(
            reason=ACCESS_LOST,
            health=Health.UNKNOWN,
            recovery=Recovery.RESTART_AGENT,
            detail="the container's access to the GPUs' device files was taken away",
            since=at,
        )
        marks = {**marks, ACCESS_LOST: Standing(mark)}
    return replace(node, marks=marks)


def hang(said: WatchSaid) -> Mark:
    """Return the mark of a call that does not come back."""
    return Mark(
        reason=HANGS,
        health=Health.UNKNOWN,
        recovery=Recovery.REBOOT,
        detail=f"{said.call} does not come back" if said.call else said.detail or HANG_WORDS,
        since=said.at,
    )


def _driver_missing(at: float) -> Standing:
    # It may be this container alone that lacks it: nobody is to be moved away for that.
    return Standing(
        Mark(
            reason=DRIVER_MISSING,
            health=Health.DEGRADED,
            detail="there is no driver, though there should be GPUs",
            since=at,
        )
    )


def _missing(at: float, words: str) -> Standing:
    return Standing(
        Mark(
            reason=MISSING,
            health=Health.FAULTY,
            recovery=Recovery.REBOOT,
            detail=words,
            since=at,
        )
    )


def _upgrade(at: float, words: str) -> Standing:
    # No fault of a GPU, and no recovery of one: the node is rebooted when that suits.
    detail = "the driver was upgraded, and a reboot completes it"
    return Standing(
        Mark(
            reason=UPGRADE_PENDING,
            health=Health.HEALTHY,
            detail=f"{detail}: {words}" if words else detail,
            since=at,
        )
    )
