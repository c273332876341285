"""What came of a drill, in words: who flushed, what is saved or would be lost, and the drain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lastcall.cli.terminal import Style, columns, duration, safe

View = dict[str, Any]

_SHORT = {
    "late": "flushed too late",
    "not_durable": "flushed to a path that dies with the machine",
}
"""What a process did that did not flush in time, where it did something."""


def table(before: View, notice: View, style: Style) -> Iterator[str]:
    """Return a line for each process, under a heading.

    Args:
        before: the agent's view before the drill.
        notice: the drill as it ended.
        style: how things are emphasised.
    """
    ranks = {client["client"]: client for client in before["clients"]}
    rows = [["CLIENT", "RANK", "OUTCOME", "TOLD TO DURABLE", "TO SPARE", "STEP", "PATH"]]
    rows += [_row(flush, ranks.get(flush["client"], {}), style) for flush in notice["flushes"]]
    heading, *lines = columns(rows)
    yield style.dim(heading)
    yield from lines


def stakes(before: View, notice: View) -> Iterator[str]:
    """Say for each job what its flush saved, or what a real end would have cost.

    The work is as it stood when the drill began.
    """
    for job in before["jobs"]:
        flushes = [flush for flush in notice["flushes"] if flush["job"] == job["job"]]
        is_judged = flushes and all(flush["outcome"] != "withdrawn" for flush in flushes)
        if not is_judged or job["unsaved_seconds"] is None:
            continue
        work = f"{duration(job['unsaved_seconds'])} of work" + _which(job, before, notice)
        short = [flush for flush in flushes if flush["outcome"] != "in_time"]
        said = f"{_shortfall(short, flushes)}: {work} would be lost"
        yield f"{safe(job['job'], 32)}: {said if short else f'the flush saved {work}'}"


def drain(notice: View, agent: View, *, is_asked: bool) -> str | None:
    """Say what came of the drain; ``None`` where none was asked for and none was made."""
    match notice["drained"]:
        case "drained":
            return f"drained, by {safe(agent['drain_backend'])}"
        case "none":
            return "not drained: no drain backend"
        case None if not is_asked:
            return None
        case None if agent["mode"] == "observe":
            return "not drained: the agent only observes"
        case None:
            return "not drained: the drain had not ended when the drill did"
        case outcome:
            return f"not drained: {safe(outcome)}"


def fault(notice: View, view: View, *, is_drain_asked: bool) -> str | None:
    """Return why a drill counts as failed; ``None`` where all went well."""
    if notice["ending"] not in ("rehearsed", "passed", ""):
        return f"the drill was cut short: {safe(notice['ending'])}"
    if not notice["flushes"]:
        return "no process was there any more"
    short = [flush for flush in notice["flushes"] if flush["outcome"] != "in_time"]
    if short:
        return f"{len(short)} of {len(notice['flushes'])} did not flush in time"
    if view.get("left_out", {}).get("flushes"):
        return "there are more flushes than the agent can show; see lastcall_drills_total"
    return _drain_fault(notice, view["agent"]) if is_drain_asked else None


def _drain_fault(notice: View, agent: View) -> str | None:
    if notice["drained"] not in (None, "drained", "none"):
        return f"the drain is {safe(notice['drained'])}"
    if notice["drained"] is None and agent["mode"] != "observe":
        return "the drain did not end in time"
    return None


def _row(flush: View, client: View, style: Style) -> list[str]:
    outcome = flush["outcome"] or "no report"
    is_durable = outcome in ("in_time", "late", "not_durable")
    taken, margin = flush["settled_after_seconds"], flush["margin_seconds"]
    rank = client.get("rank") if flush["rank"] is None else flush["rank"]
    words = safe(outcome) + (f" ({safe(flush['cause'])})" if flush["cause"] else "")
    return [
        safe(flush["job"], 32),
        "-" if rank is None else str(rank),
        style.good(words) if outcome == "in_time" else style.bad(words),
        duration(taken) if is_durable and taken is not None else "-",
        duration(margin) if is_durable and margin is not None else "-",
        "-" if flush["step"] is None else str(flush["step"]),
        safe(flush["path"] or "-", 240),
    ]


def _shortfall(short: Sequence[View], flushes: Sequence[View]) -> str:
    """Say who did not flush in time."""
    if len(flushes) == 1:
        return _SHORT.get(flushes[0]["outcome"], "did not flush")
    return f"{len(short)} of {len(flushes)} did not flush in time"


def _which(job: View, before: View, notice: View) -> str:
    """Say which steps a job's unsaved work holds."""
    saved, reached = job["checkpoint_step"], _reached(before, notice, job["job"])
    if saved is None:
        return " (no checkpoint reported)"
    return f", steps {saved + 1} to {reached}" if reached is not None and reached > saved else ""


def _reached(before: View, notice: View, job: str) -> int | None:
    """Return the last step of a job that is known: what it flushed, else what it said before."""
    for said in (notice["flushes"], before["clients"]):
        steps = [one["step"] for one in said if one["job"] == job and one["step"] is not None]
        if steps:
            return int(max(steps))
    return None
