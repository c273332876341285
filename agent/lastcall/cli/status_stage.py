"""Where a notice stands, in words for people; the view itself keeps the core's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastcall.cli.terminal import duration

View = dict[str, Any]

_TOLD = ("told", "flushing", "draining")

_DRAINED = {
    "drained": "drained",
    "incomplete": "drain incomplete",
    "failed": "drain failed",
}

_NOTHING_LEFT = ("flushed", "flushes over", "nothing to flush", *_DRAINED.values())

_HAPPENS = {
    "reboot": "the machine reboots",
    "freeze": "the machine freezes",
    "migrate": "the machine is migrated",
}

_DURABLE = {"in_time", "late"}


def stage(notice: View, *, is_whole: bool = True) -> str:
    """Return where an open notice stands.

    Args:
        notice: as the agent shows it.
        is_whole: whether all its flushes are shown.
    """
    phase, drained = str(notice["phase"]), notice["drained"]
    if phase not in _TOLD or (phase == "draining" and drained is None):
        return phase
    if drained in _DRAINED:
        return _DRAINED[drained]
    # Nothing is drained, or not yet: it stands where its flushes stand.
    if not is_whole:
        return "not drained" if phase == "draining" else phase
    return _flush_stage(notice["flushes"])


def outlook(notice: View, *, is_whole: bool = True) -> str | None:
    """Return what is next where nothing is left to do, such as ``the machine goes in 119 s``.

    ``None`` where something is, or nobody says when.
    """
    remaining_seconds = notice["remaining_seconds"]
    if remaining_seconds is None or notice["urgency"] != "now":
        return None
    if stage(notice, is_whole=is_whole) not in _NOTHING_LEFT:
        return None
    if not remaining_seconds:
        return "the deadline has passed"
    if notice["drill"]:
        happens = "the drill ends"
    elif notice["kind"] == "gpu_fault":
        # Nobody takes the machine away: the time is what processes are given for their flushes.
        happens = "the time to flush ends"
    else:
        happens = _HAPPENS.get(notice["action"], "the machine goes")
    return f"{happens} in {duration(remaining_seconds)}"


def is_awaited(notice: View) -> bool:
    """Whether a flush is not over yet."""
    return any(flush["outcome"] is None for flush in notice["flushes"])


def ends_in_seconds(notice: View, agent: View, now_unix: float) -> float | None:
    """Return when a notice ends by itself, late flushes waited for; ``None`` where nobody says.

    Args:
        notice: as the agent shows it.
        agent: what the agent says of itself.
        now_unix: the present in Unix seconds, by the agent's clock.
    """
    remaining_seconds, late_seconds = notice["remaining_seconds"], agent.get("flush_late_seconds")
    if remaining_seconds is None or late_seconds is None:
        return None
    if remaining_seconds:
        return float(remaining_seconds + late_seconds)
    over_unix = max(notice["deadline_unix"], notice["told_unix"] or 0.0)
    return max(0.0, float(over_unix + late_seconds - now_unix))


def ending(notice: View) -> str:
    """Return how a notice ended; of a rehearsal also whether it went well."""
    how = str(notice["ending"])
    if how not in {"rehearsed", "passed"}:
        return how
    if not notice["drill"]:
        return "deadline passed" if how == "passed" else how
    flushes = notice["flushes"]
    if not flushes:
        return "drill over: nobody was there"
    short = sum(flush["outcome"] != "in_time" for flush in flushes)
    return f"drill over: {short} of {len(flushes)} not in time" if short else "rehearsed"


def _flush_stage(flushes: Sequence[View]) -> str:
    if not flushes:
        return "nothing to flush"
    outcomes = {flush["outcome"] for flush in flushes}
    if None in outcomes:
        has_begun = any(flush["begun_after_seconds"] is not None for flush in flushes)
        return "flushing" if has_begun else "told"
    return "flushed" if outcomes <= _DURABLE else "flushes over"
