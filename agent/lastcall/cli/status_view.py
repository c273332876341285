"""The agent's view of its node, laid out for people; the keys are those of `record/status.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lastcall.cli import status_gpus
from lastcall.cli.status_stage import ending, ends_in_seconds, is_awaited, outlook, stage
from lastcall.cli.terminal import Style, columns, duration, safe, size

SHOWN_ENDED = 3
"""Ended notices that are shown, the latest first; ``--json`` has more."""

NONE = "-"

_BAD_OUTCOMES = ("late", "failed", "missed", "not_durable")

View = dict[str, Any]


def render(view: View, style: Style, now_unix: float) -> str:
    """Return the view as text without a newline at its end.

    Args:
        view: as the agent gave it.
        style: how things are emphasised.
        now_unix: the present in Unix seconds; the agent runs on this machine, by the same clock.

    Raises:
        KeyError: the view lacks what this version shows: the agent is of another version.
    """
    sections = (
        _heading(view, style, now_unix),
        _sources(view, style),
        _open_notices(view, style, now_unix),
        _ended_notices(view, style, now_unix),
        status_gpus.section(view, style, now_unix),
        _pods(view, style),
        _clients(view, style),
        _jobs(view, style),
        _left_out(view),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))


def _heading(view: View, style: Style, now_unix: float) -> Iterator[str]:
    agent = view["agent"]
    yield (
        f"{style.bold('lastcall ' + safe(agent['version']))} on {safe(agent['node_name'])}, "
        f"mode {safe(agent['mode'])}, up {duration(agent['uptime_seconds'])}"
    )
    rows = [
        ["now", _now(view, style, now_unix)],
        ["provider", _provider(view)],
        ["drain", _drain(view)],
        ["journal", _state(agent["journal"], agent["journal"] == "ok", style)],
    ]
    if view["identity"]:
        facts = (f"{safe(key)} {safe(value)}" for key, value in view["identity"].items())
        rows.insert(2, ["machine", ", ".join(facts)])
    yield from columns(rows)


def _now(view: View, style: Style, now_unix: float) -> str:
    summary = view["summary"]
    count = summary["notices_open"]
    if not count:
        return style.good("quiet") + ", no notice is open"
    phase, words = safe(summary["phase"]), [f"{count} open"]
    # The furthest of the open ones is what the node is about.
    lead = next((n for n in view["notices"] if n["open"] and n["phase"] == phase), None)
    if lead is not None:
        phase = stage(lead, is_whole=_is_whole(view))
        next_up = outlook(lead, is_whole=_is_whole(view))
        if next_up is not None:
            more = f", {count} notices open" if count > 1 else ""
            return f"{style.warning(phase)}; {next_up}{more}"
    if summary["remaining_seconds"]:
        words.append(f"{duration(summary['remaining_seconds'])} left")
    elif summary["remaining_seconds"] is not None:
        words.append("the deadline has passed")
    if summary["flushes_open"]:
        one_or_more = "flush" if summary["flushes_open"] == 1 else "flushes"
        words.append(f"{summary['flushes_open']} {one_or_more} awaited")
    if lead is not None and lead["remaining_seconds"] == 0 and is_awaited(lead):
        words.append(_late(lead, view, now_unix))
    return style.warning(phase) + ", " + ", ".join(words)


def _late(notice: View, view: View, now_unix: float) -> str:
    """Say for how long late flushes are waited for."""
    seconds = ends_in_seconds(notice, view["agent"], now_unix)
    return "late ones count" if seconds is None else f"late ones count for {duration(seconds)}"


def _is_whole(view: View) -> bool:
    return not view.get("left_out", {}).get("flushes")


def _provider(view: View) -> str:
    names = ", ".join(map(safe, view["providers"])) or "none"
    detail = view["provider_detail"]
    if not detail:
        return "still looking"
    return f"{names} ({safe(detail, 120)})"


def _drain(view: View) -> str:
    drain = view["drain"]
    backend = f"backend {safe(view['agent']['drain_backend'])}"
    if "api" in drain:
        backend += f", its API {safe(drain['api'])}"
        if drain["detail"]:
            backend += f" ({safe(drain['detail'], 200)})"
    words = [backend]
    if drain["cordoned"]:
        words.append(f"node cordoned for {safe(drain['cordoned_for'])}")
        if drain["giving_back"]:
            words.append("being given back")
    else:
        words.append("node not cordoned")
    return ", ".join(words)


def _sources(view: View, style: Style) -> Iterator[str]:
    rows = [["SOURCE", "STATE", "LAST GOOD ANSWER", "CLOCK SKEW", "TROUBLE"]]
    for source in view["sources"]:
        troubles = (
            f"{safe(scope)}: {safe(what)}" if scope else safe(what)
            for scope, what in source["troubles"].items()
        )
        rows.append(
            [
                safe(source["source"]),
                style.good("up") if source["up"] else style.bad("down"),
                _ago(source["last_success_age_seconds"], "never"),
                _signed(source["clock_skew_seconds"]),
                ", ".join(troubles) or NONE,
            ]
        )
    yield from _table(rows, style)


def _open_notices(view: View, style: Style, now_unix: float) -> Iterator[str]:
    rows = [["OPEN NOTICE", "KIND", "ACTION", "PHASE", "REMAINING", "BUDGET", "FLUSHES", "REASON"]]
    for notice in view["notices"]:
        if not notice["open"]:
            continue
        rows.append(
            [
                style.warning(safe(notice["id"])) + (" (drill)" if notice["drill"] else ""),
                safe(notice["kind"]),
                safe(notice["action"]),
                safe(stage(notice, is_whole=_is_whole(view))),
                _remaining(notice, view, now_unix),
                _left(notice["budget_seconds"]),
                _flush_counts(notice["flushes"], style),
                safe(notice["reason"]) or NONE,
            ]
        )
    yield from _table(rows, style)


def _ended_notices(view: View, style: Style, now_unix: float) -> Iterator[str]:
    rows = [["ENDED NOTICE", "KIND", "ENDING", "WHEN", "FLUSHES"]]
    ended = [notice for notice in view["notices"] if not notice["open"]]
    rows += [
        [
            safe(notice["id"]) + (" (drill)" if notice["drill"] else ""),
            safe(notice["kind"]),
            safe(ending(notice)),
            _ago(max(0.0, now_unix - notice["ended_unix"]), NONE),
            _flush_counts(notice["flushes"], style),
        ]
        for notice in ended[:SHOWN_ENDED]
    ]
    yield from _table(rows, style)


def _pods(view: View, style: Style) -> Iterator[str]:
    rows = [["LEAVING POD", "CLASS", "STATE", "DETAIL"]]
    rows += [
        [
            safe(pod["pod"], 80),
            safe(pod["class"]),
            safe(pod["state"]),
            safe(pod["detail"], 120) or NONE,
        ]
        for pod in view["drain"].get("pods", ())
    ]
    yield from _table(rows, style)


def _clients(view: View, style: Style) -> Iterator[str]:
    flushes = _flushes_by_client(view)
    rows = [["CLIENT", "RANK", "PID", "STEP", "HEARD", "DOING", "UNSAVED", "FLUSH"]]
    for client in sorted(view["clients"], key=lambda one: (one["job"], one["rank"] or 0)):
        here = client["connected"]
        heard = _ago(client["heard_age_seconds"], NONE)
        rows.append(
            [
                safe(client["job"], 32),
                _number(client["rank"]),
                _number(client["pid"]),
                _number(client["step"]),
                heard if here else style.warning(f"away {_seconds(client['away_seconds'])}"),
                safe(client["section"] or NONE, 24),
                duration(client["unsaved_seconds"]),
                _flush_state(flushes.get(client["client"]), style),
            ]
        )
    if len(rows) == 1:
        yield "no client is connected"
        return
    yield from _table(rows, style)


def _jobs(view: View, style: Style) -> Iterator[str]:
    rows = [["JOB", "CLIENTS", "CHECKPOINT", "UNSAVED", "FLUSH TAKES", "FITS", "ADVISED INTERVAL"]]
    for job in view["jobs"]:
        step = job["checkpoint_step"]
        at_step = "" if step is None else f", step {step}"
        fits = job["flush_fits"]
        rows.append(
            [
                safe(job["job"], 32),
                str(job["clients"]),
                _ago(job["checkpoint_age_seconds"], "none yet") + at_step,
                _seconds(job["unsaved_seconds"]),
                _seconds(job["predicted_flush_seconds"]),
                _state(fits, fits == "fits", style) if fits != "unknown" else "unknown",
                _seconds(job["checkpoint_interval_seconds"]),
            ]
        )
    yield from _table(rows, style)


def _left_out(view: View) -> Iterator[str]:
    for name, count in view.get("left_out", {}).items():
        yield f"{count} {safe(name)} more than the agent can show"


def _flush_state(flush: View | None, style: Style) -> str:
    """Return how far a client's flush has come, in a few words."""
    if flush is None:
        return NONE
    if flush["outcome"] is not None:
        words = safe(flush["outcome"])
        if flush["settled_after_seconds"] is not None:
            words += f" after {duration(flush['settled_after_seconds'])}"
        if flush["cause"]:
            words += f" ({safe(flush['cause'])})"
        return style.bad(words) if flush["outcome"] in _BAD_OUTCOMES else words
    if flush["begun_after_seconds"] is not None:
        return style.warning(" ".join(("saving", *_progress(flush))))
    if flush["acked_after_seconds"] is not None:
        return "has the notice, not saving yet"
    return "told" if flush["told_unix"] is not None else "not told yet"


def _progress(flush: View) -> Iterator[str]:
    if flush["phase"]:
        yield safe(flush["phase"], 24)
    if flush["bytes"] is not None:
        total = flush["total_bytes"]
        yield size(flush["bytes"]) + ("" if total is None else f" of {size(total)}")


def _flushes_by_client(view: View) -> dict[str, View]:
    """Return the flush of each client that matters most: one of a notice that has the least left.

    Without an open notice it is that of the latest.
    """
    by_client: dict[str, View] = {}
    told = [notice for notice in view["notices"] if notice["told_unix"] is not None]
    told.sort(
        key=lambda notice: (
            not notice["open"],
            notice["urgency"] != "now",
            notice["remaining_seconds"] or 0.0,
        )
    )
    for notice in told:
        for flush in notice["flushes"]:
            by_client.setdefault(flush["client"], flush)
    return by_client


def _flush_counts(flushes: Sequence[View], style: Style) -> str:
    """Return what has come of a notice's flushes, such as ``3 in_time, 1 awaited``."""
    counts: dict[str, int] = {}
    for flush in flushes:
        outcome = flush["outcome"] or "awaited"
        counts[outcome] = counts.get(outcome, 0) + 1
    words = (
        style.bad(f"{count} {safe(outcome)}")
        if outcome in _BAD_OUTCOMES
        else f"{count} {safe(outcome)}"
        for outcome, count in counts.items()
    )
    return ", ".join(words) or NONE


def _table(rows: list[list[str]], style: Style) -> Iterator[str]:
    """Return a table under its heading, or nothing where it has no rows."""
    if len(rows) > 1:
        heading, *lines = columns(rows)
        yield style.dim(heading)
        yield from lines


def _state(text: object, good: bool, style: Style) -> str:
    return style.good(safe(text, 120)) if good else style.bad(safe(text, 120))


def _ago(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else f"{duration(seconds)} ago"


def _remaining(notice: View, view: View, now_unix: float) -> str:
    if notice["remaining_seconds"] != 0:
        return _left(notice["remaining_seconds"], notice["deadline_quality"])
    return f"over, {_late(notice, view, now_unix)}" if is_awaited(notice) else "over"


def _left(seconds: float | None, quality: str = "provider") -> str:
    if seconds is None:
        return "no deadline"
    return duration(seconds) + (" (assumed)" if quality == "assumed" else "")


def _seconds(seconds: float | None) -> str:
    return NONE if seconds is None else duration(seconds)


def _signed(seconds: float | None) -> str:
    # Adding zero takes the sign off a rounded -0.0.
    return NONE if seconds is None else f"{round(seconds, 1) + 0.0:+.1f} s"


def _number(value: int | None) -> str:
    return NONE if value is None else str(value)
