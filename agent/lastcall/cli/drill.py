"""``lastcall drill``: a rehearsal on the real processes of this node."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from lastcall.cli.link import AgentLink, NoAnswerError, RefusedError, add_socket_option
from lastcall.cli.terminal import Style, columns, duration, safe
from lastcall.wire.messages import DrillRequest, StatusRequest

POLL_SECONDS = 0.1
"""Between two looks at how the drill stands."""

SLACK_SECONDS = 30.0
"""How long after the deadline an end is waited for."""

LEAD_SECONDS = (1.0, 86400.0)
"""The shortest and the longest warning that the agent takes for a drill."""

View = dict[str, Any]

KINDS = ("preemption", "termination", "maintenance", "rebalance", "shutdown", "gpu_fault", "manual")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "drill",
        help="rehearse a notice on the real processes",
        description="Have the running agent rehearse a notice, marked as a drill everywhere: the "
        "processes flush and go on training. Prints who flushed, how fast, and what would have "
        "been lost without. Exit code 0 only if all flushed in time.",
    )
    parser.add_argument(
        "--lead",
        metavar="S",
        type=_lead,
        default=30.0,
        help="warning in seconds, from 1 to 86400 (default: 30)",
    )
    parser.add_argument(
        "--kind", choices=KINDS, default="manual", help="what is rehearsed (default: manual)"
    )
    parser.add_argument(
        "--drain", action="store_true", help="cordon and drain the node too; never without this"
    )
    add_socket_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Rehearse, wait for the end, and report."""
    try:
        with AgentLink(arguments.socket) as link:
            before = link.ask(StatusRequest())
            if not before["summary"]["clients_connected"]:
                print("error: no process is connected: nothing to rehearse on", file=sys.stderr)
                return 1
            request = DrillRequest(arguments.lead, arguments.kind, arguments.drain)
            notice_id = str(link.ask(request)["id"])
            print(f"drill {notice_id}: {arguments.lead:g} s of warning", file=sys.stderr)
            try:
                after = _wait(link, notice_id, arguments.lead + SLACK_SECONDS)
            except KeyboardInterrupt:
                print(f"drill {notice_id} goes on; see lastcall status", file=sys.stderr)
                return 130
    except (NoAnswerError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return _report(notice_id, before, after)


def _wait(link: AgentLink, notice_id: str, timeout_seconds: float) -> View:
    """Return the agent's view once the drill has ended, or when waiting is over."""
    until = time.monotonic() + timeout_seconds
    while True:
        view = link.ask(StatusRequest())
        if _notice(view, notice_id)["ending"] or time.monotonic() > until:
            return view
        time.sleep(POLL_SECONDS)


def _notice(view: View, notice_id: str) -> View:
    for notice in view["notices"]:
        if notice["id"] == notice_id:
            return dict(notice)
    raise NoAnswerError(f"the agent no longer knows of drill {notice_id}")


def _report(notice_id: str, before: View, after: View) -> int:
    """Print what came of a drill; return the exit code."""
    style = Style(sys.stdout)
    notice = _notice(after, notice_id)
    ranks = {client["client"]: client for client in before["clients"]}
    rows = [["CLIENT", "RANK", "OUTCOME", "TOLD TO DURABLE", "TO SPARE", "STEP", "PATH"]]
    rows += [_row(flush, ranks.get(flush["client"], {}), style) for flush in notice["flushes"]]
    heading, *lines = columns(rows)
    print("\n".join([style.dim(heading), *lines, ""]))
    for line in _losses(before, notice):
        print(line)
    if notice["drained"] is not None:
        print(f"drain: {safe(notice['drained'])}")
    fault = _fault(notice, after)
    print(style.bad(f"not rehearsed well: {fault}") if fault else style.good("all flushed in time"))
    return 1 if fault else 0


def _row(flush: View, client: View, style: Style) -> list[str]:
    outcome = flush["outcome"] or "no report"
    durable = outcome in ("in_time", "late", "not_durable")
    taken, margin = flush["settled_after_seconds"], flush["margin_seconds"]
    rank = client.get("rank") if flush["rank"] is None else flush["rank"]
    words = safe(outcome) + (f" ({safe(flush['cause'])})" if flush["cause"] else "")
    return [
        safe(flush["job"], 32),
        "-" if rank is None else str(rank),
        style.good(words) if outcome == "in_time" else style.bad(words),
        duration(taken) if durable and taken is not None else "-",
        duration(margin) if durable and margin is not None else "-",
        "-" if flush["step"] is None else str(flush["step"]),
        safe(flush["path"] or "-", 240),
    ]


def _losses(before: View, notice: View) -> Iterator[str]:
    """Say for each job what an end without a flush would have cost, as it stood at the drill."""
    rehearsed = {flush["job"] for flush in notice["flushes"]}
    for job in before["jobs"]:
        if job["job"] not in rehearsed or job["unsaved_seconds"] is None:
            continue
        saved, reached = job["checkpoint_step"], _reached(before, notice, job["job"])
        which = ""
        if saved is None:
            which = ", all since it came: it has reported no checkpoint"
        elif reached is not None and reached > saved:
            which = f", steps {saved + 1} to {reached}"
        unsaved = duration(job["unsaved_seconds"])
        name = safe(job["job"], 32)
        yield f"{name}: without a flush {unsaved} of work{which} would have been lost"


def _reached(before: View, notice: View, job: str) -> int | None:
    """Return the last step of a job that is known: what it flushed, else what it said before."""
    for said in (notice["flushes"], before["clients"]):
        steps = [one["step"] for one in said if one["job"] == job and one["step"] is not None]
        if steps:
            return int(max(steps))
    return None


def _fault(notice: View, view: View) -> str | None:
    """Return why a drill counts as failed; ``None`` where all flushed in time."""
    if notice["ending"] not in ("rehearsed", "passed", ""):
        return f"the drill was cut short: {safe(notice['ending'])}"
    if not notice["flushes"]:
        return "no process was there any more"
    short = [flush for flush in notice["flushes"] if flush["outcome"] != "in_time"]
    if short:
        return f"{len(short)} of {len(notice['flushes'])} did not flush in time"
    if view.get("left_out", {}).get("flushes"):
        return "there are more flushes than the agent can show; see lastcall_drills_total"
    if notice["drained"] not in (None, "drained", "none"):
        return f"the drain is {safe(notice['drained'])}"
    return None


def _lead(text: str) -> float:
    shortest, longest = LEAD_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not shortest <= seconds <= longest:
        raise argparse.ArgumentTypeError(
            f"needs a number of seconds from {shortest:g} to {longest:g}, not {text!r}"
        )
    return seconds
