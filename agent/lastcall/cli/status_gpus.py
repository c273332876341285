"""The GPUs' part of the agent's view, laid out for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lastcall.cli.gpu_words import DETAIL_LENGTH, holder, of_all, standing, trouble, worst
from lastcall.cli.terminal import Style, columns, duration, safe, size

SHOWN_HOLDERS = 8
"""Processes without a hello that are shown; ``--json`` has all."""

NAME_LENGTH = 28
REASONS_LENGTH = 60
"""Characters that are shown of a model's name, and of all reasons together."""

NONE = "-"
"""Stands where there is nothing to show."""

View = dict[str, Any]


def section(view: View, style: Style, now_unix: float) -> Iterator[str]:
    """Yield the lines about the GPUs; none where there are none and the watch is well.

    Args:
        view: as the agent gave it.
        style: how things are emphasised.
        now_unix: the present in Unix seconds.
    """
    gpu = view["gpu"]
    yield from _table(gpu, style)
    yield from _details(gpu["gpus"], style)
    yield from _watch(gpu, style, now_unix)
    for mark in gpu["marks"]:
        yield _coloured(mark["health"], safe(of_all(mark), DETAIL_LENGTH), style)
    unregistered = gpu["unregistered"]
    for process in unregistered[:SHOWN_HOLDERS]:
        yield style.warning(holder(process, gpu["gpus"])) + ": nobody can ask it to flush"
    if len(unregistered) > SHOWN_HOLDERS:
        yield f"and {len(unregistered) - SHOWN_HOLDERS} more such processes"


def _table(gpu: View, style: Style) -> Iterator[str]:
    rows = [["GPU", "NAME", "HEALTH", "RECOVERY", "TEMP", "BUSY", "MEMORY", "REASONS"]]
    rows += [_row(one, style) for one in gpu["gpus"]]
    if len(rows) > 1:
        heading, *lines = columns(rows)
        yield style.dim(heading)
        yield from lines


def _details(gpus: Iterable[View], style: Style) -> Iterator[str]:
    """Yield what speaks most against each GPU that is unwell, with the UUID that a reset takes."""
    for gpu in gpus:
        if gpu["health"] == "healthy" or not (words := worst(gpu["marks"])):
            continue
        uuid = safe(gpu["gpu"])
        name = uuid if gpu["index"] is None else f"GPU {gpu['index']}, {uuid}"
        yield _coloured(gpu["health"], name, style) + f": {safe(words, DETAIL_LENGTH)}"


def _row(gpu: View, style: Style) -> list[str]:
    figures = gpu["figures"]
    recovery = gpu["recovery"].replace("_", " ")
    return [
        NONE if gpu["index"] is None else str(gpu["index"]),
        safe(gpu["name"].removeprefix("NVIDIA ") or gpu["gpu"], NAME_LENGTH),
        _coloured(gpu["health"], safe(gpu["health"]), style),
        NONE if recovery == "none" else safe(recovery),
        _figure(figures.get("temperature_celsius"), "{:.0f} C"),
        _figure(figures.get("utilization_ratio"), "{:.0%}"),
        _memory(figures),
        safe(", ".join(gpu["reasons"]), REASONS_LENGTH) or NONE,
    ]


def _memory(figures: View) -> str:
    used, total = figures.get("memory_used_bytes"), figures.get("memory_total_bytes")
    if used is None:
        return NONE
    return size(used) if total is None else f"{size(used)} of {size(total)}"


def _watch(gpu: View, style: Style, now_unix: float) -> Iterator[str]:
    watch = gpu["watch"]
    if watch is None:
        return
    state = watch["state"]
    lasts = duration(max(0.0, now_unix - watch["since_unix"]))
    if state == "released":
        until = gpu["released_until_unix"]
        left = "" if until is None else f", for {duration(max(0.0, until - now_unix))} more"
        yield style.warning(f"the GPUs are let go{left}") + "; once reset: lastcall gpu watch"
    elif helps := trouble(watch):
        words = standing(watch, gpu["gpus"])
        what = f"the watch over the GPUs is {safe(state.replace('_', ' '))} for {lasts}"
        yield style.bad(what) + (f": {words}" if words else "") + f" -> {helps}"


def _coloured(health: str, words: str, style: Style) -> str:
    match health:
        case "healthy":
            return style.good(words)
        case "degraded":
            return style.warning(words)
        case "faulty":
            return style.bad(words)
        case _:
            return words


def _figure(value: float | None, shape: str) -> str:
    return NONE if value is None else shape.format(value)
