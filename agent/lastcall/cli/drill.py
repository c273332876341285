"""``lastcall drill``: a rehearsal on the real processes of this node."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from lastcall.cli import drill_report
from lastcall.cli.link import AgentLink, NoAnswerError, RefusedError, add_socket_option
from lastcall.cli.status_stage import ends_in_seconds, is_awaited
from lastcall.cli.terminal import Style, duration, safe
from lastcall.wire.messages import DrillRequest, StatusRequest

POLL_SECONDS = 0.1
"""Between two looks at how the drill stands."""

SLACK_SECONDS = 30.0
"""How long after its time an end is waited for."""

LEAD_SECONDS = (1.0, 86400.0)
"""The shortest and the longest warning that the agent takes for a drill."""

View = dict[str, Any]

KINDS = {
    "preemption": "the provider takes the machine back",
    "termination": "somebody ends it for good",
    "maintenance": "its host is worked on",
    "rebalance": "it is likely to be taken back soon",
    "shutdown": "its operating system stops",
    "gpu_fault": "a GPU is broken",
    "manual": "an operator asks for it",
}
"""What can be rehearsed, and what each says; processes may answer kinds differently."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "drill",
        help="rehearse a notice on the real processes",
        description="Have the running agent rehearse a notice, marked as a drill everywhere: the "
        "processes flush and go on training. Prints who flushed, how fast, and what that saved or "
        "a real end would have cost. It ends once all have flushed; for those that have not it "
        "waits until flush.late_seconds after the deadline, since a late flush is told apart from "
        "none. Exit code 0 only if all flushed in time.",
    )
    parser.add_argument(
        "--lead",
        metavar="S",
        type=_lead,
        default=30.0,
        help="warning in seconds, from 1 to 86400 (default: 30)",
    )
    parser.add_argument(
        "--kind",
        choices=tuple(KINDS),
        default="manual",
        metavar="KIND",
        help="what the processes are told (default: manual): "
        + "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items()),
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
            hindrance = _hindrance(before)
            if hindrance is not None:
                print(f"error: {hindrance}", file=sys.stderr)
                return 1
            request = DrillRequest(arguments.lead, arguments.kind, arguments.drain)
            notice_id = str(link.ask(request)["id"])
            print(f"drill {notice_id}: {arguments.lead:g} s of warning", file=sys.stderr)
            late_seconds = before["agent"].get("flush_late_seconds", 0.0)
            longest_seconds = arguments.lead + late_seconds
            until = time.monotonic() + longest_seconds
            try:
                after = _wait(link, notice_id, until + SLACK_SECONDS)
            except KeyboardInterrupt:
                left = duration(max(0.0, until - time.monotonic()))
                print(
                    f"drill {notice_id} goes on, for {left} at most; see lastcall status",
                    file=sys.stderr,
                )
                return 130
    except (NoAnswerError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return _report(notice_id, before, after, is_drain_asked=arguments.drain)


def _hindrance(view: View) -> str | None:
    """Return what makes a drill impossible now, as far as it can be seen before asking."""
    if not view["summary"]["clients_connected"]:
        return "no process is connected: nothing to rehearse on"
    drill = next((one for one in view["notices"] if one["open"] and one["drill"]), None)
    if drill is None:
        return None
    seconds = ends_in_seconds(drill, view["agent"], time.time())
    when = "" if seconds is None else f" ends in {duration(seconds)} at the latest"
    return f"a drill is still under way: {safe(drill['id'])}{when}"


def _wait(link: AgentLink, notice_id: str, until: float) -> View:
    """Return the agent's view once the drill has ended, or when waiting is over."""
    is_late_said = False
    while True:
        view = link.ask(StatusRequest())
        notice = _notice(view, notice_id)
        if notice["ending"] or time.monotonic() > until:
            return view
        if not is_late_said and notice["remaining_seconds"] == 0 and is_awaited(notice):
            is_late_said = True
            late_seconds = view["agent"].get("flush_late_seconds")
            how_long = "" if late_seconds is None else f" for {duration(late_seconds)}"
            print(f"the deadline has passed: waiting{how_long} for late flushes", file=sys.stderr)
        time.sleep(POLL_SECONDS)


def _notice(view: View, notice_id: str) -> View:
    for notice in view["notices"]:
        if notice["id"] == notice_id:
            return dict(notice)
    raise NoAnswerError(f"the agent no longer knows of drill {notice_id}")


def _report(notice_id: str, before: View, after: View, *, is_drain_asked: bool) -> int:
    """Print what came of a drill; return the exit code."""
    style = Style(sys.stdout)
    notice = _notice(after, notice_id)
    print("\n".join([*drill_report.table(before, notice, style), ""]))
    for line in drill_report.stakes(before, notice):
        print(line)
    drained = drill_report.drain(notice, after["agent"], is_asked=is_drain_asked)
    if drained is not None:
        print(drained)
    fault = drill_report.fault(notice, after, is_drain_asked=is_drain_asked)
    print(style.bad(f"not rehearsed well: {fault}") if fault else style.good("all flushed in time"))
    return 1 if fault else 0


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
