"""The log: one line an event on standard error, JSON for machines, aligned for people."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from lastcall.core import facts
from lastcall.core.facts import Fact
from lastcall.core.gpu.model import WATCH_TROUBLES, Health
from lastcall.core.views import NoticeView
from lastcall.daemon.log_stream import PatientHandler

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["auto", "json", "console"]

_FIRST = ("timestamp", "level", "event")
_SECRET_NAME = re.compile(r"token|secret|password|authorization|credential|cookie", re.IGNORECASE)
_SECRET_PART = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=bearer )\S+", re.IGNORECASE)
_HIDDEN = "***"

_GOOD_RESULTS = ("ok", "notice")
_BAD_OUTCOMES = ("late", "failed", "missed", "not_durable", "incomplete", "blocked")
_NEWS = (facts.NoticeSeen, facts.NoticeTold, facts.NoticeChanged)
"""Facts whose line says all that is known of the notice; the others only name it."""

_LEFT_OUT = ("cgroup", "uid")
"""What other parts go by, and people do not."""

_DETAILS = (
    "phase",
    "sources",
    "action",
    "urgency",
    "deadline_unix",
    "deadline_quality",
    "cancellable",
    "reason",
    "supersedes",
)


def configure(level: Level = "info", form: Form = "auto", stream: TextIO | None = None) -> None:
    """Set up the log of the whole process; calling it again replaces the earlier set-up.

    The standard library's loggers (asyncio, aiohttp, warnings) write the same lines. What is left
    at the end of the process is written then, for a bounded time.

    Args:
        level: the least that is written.
        form: ``json``, ``console``, or ``auto``: by whether the stream is a terminal.
        stream: where to; standard error by default.
    """
    stream = stream if stream is not None else sys.stderr
    for_people = form == "console" or (form == "auto" and stream.isatty())
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _hide_secrets,
    ]
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = PatientHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *before],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_for_people(stream) if for_people else _for_machines()),
            ],
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, PatientHandler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def log_fact(logger: FilteringBoundLogger, fact: Fact) -> None:
    """Write a fact's line; what is like the one before is no news and has none."""
    if isinstance(fact, facts.SourceAnswered) and not fact.changed:
        return
    if isinstance(fact, facts.GpuXid) and not fact.news:
        return
    write = logger.warning if _is_bad(fact) else logger.info
    write(fact.name, **_flat(fact))


def _is_bad(fact: Fact) -> bool:
    match fact:
        case facts.SourceAnswered():
            bad = fact.result not in _GOOD_RESULTS
        case facts.Cordoned():
            bad = not fact.cordoned and not fact.foreign
        case facts.Uncordoned():
            bad = not fact.uncordoned
        case facts.BackendAnswered():
            bad = not fact.up or bool(fact.denied)
        case facts.Acknowledged():
            bad = not fact.accepted
        case facts.HookRan():
            bad = fact.outcome != "ok"
        case facts.GpuHealth() | facts.NodeGpuHealth():
            bad = fact.health in (Health.DEGRADED, Health.FAULTY)
        case facts.GpuWatchSeen():
            bad = fact.state in WATCH_TROUBLES
        case facts.FlushSettled() | facts.NodeDrained() | facts.PodMoved():
            bad = fact.outcome in _BAD_OUTCOMES
        case _:
            bad = fact.warning
    return bad


def _flat(fact: Fact) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(fact):
        value = getattr(fact, field.name)
        if isinstance(value, NoticeView):
            flat |= {"notice_id": value.id, "kind": value.kind, "source": value.source}
            flat["drill"] = value.drill
            if isinstance(fact, _NEWS):
                flat |= {name: getattr(value, name) for name in _DETAILS}
        elif field.name in _LEFT_OUT:
            continue
        elif field.name == "id":
            flat["notice_id"] = value
        else:
            flat[field.name] = value
    return {name: _plain(value) for name, value in flat.items() if value not in (None, "", ())}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _for_machines() -> Sequence[Processor]:
    # JSON in ASCII: no text from outside can end a line or steer a terminal.
    return (_order, structlog.processors.JSONRenderer())


def _for_people(stream: TextIO) -> Sequence[Processor]:
    colours = stream.isatty() and not os.environ.get("NO_COLOR")
    return (_escape, structlog.dev.ConsoleRenderer(colors=colours))


def _order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {name: event.pop(name) for name in _FIRST if name in event}
    return {**first, **event}


def _hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if _SECRET_NAME.search(name):
            event[name] = _HIDDEN
        elif isinstance(value, str):
            event[name] = _SECRET_PART.sub(_HIDDEN, value)
    return event


def _escape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keep text from outside on its line, and from steering the terminal."""
    for name, value in event.items():
        if name == "exception":
            event[name] = "\n".join("    " + _printable(line) for line in str(value).splitlines())
        elif isinstance(value, str):
            event[name] = _printable(value)
    return event


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable()
        else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text
    )
