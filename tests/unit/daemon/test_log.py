"""Each line of the log is one event, for machines and for people, and cannot be forged."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from lastcall.core import facts
from lastcall.core.model import Action, DeadlineQuality, Kind, Outcome, Phase, Urgency
from lastcall.core.views import NoticeView
from lastcall.daemon import log, log_stream
from lastcall.daemon.log_stream import PatientHandler

VIEW = NoticeView(
    id="aws-preemption-1",
    phase=Phase.TOLD,
    kind=Kind.PREEMPTION,
    source="aws",
    sources=("aws", "node"),
    action=Action.TERMINATE,
    urgency=Urgency.NOW,
    first_seen=1000.0,
    deadline=1120.0,
    deadline_unix=1700000120.0,
    deadline_quality=DeadlineQuality.PROVIDER,
    flush_until=1110.0,
    cancellable=False,
    drill=False,
    reason="spot",
    supersedes=(),
)
SETTLED = facts.FlushSettled(
    notice=VIEW,
    client="42@1/llama/0",
    job="llama",
    rank=0,
    outcome=Outcome.IN_TIME,
    flush_seconds=12.0,
    margin_seconds=108.0,
    used_ratio=0.1,
    step=9,
    path="/ckpt/9",
    cause="",
)
ANSWERED = facts.SourceAnswered(
    source="aws",
    scope="events",
    result="timeout",
    up=False,
    changed=True,
    detail="no answer in 2 s",
    skew_seconds=None,
    foreign=0,
)


class Stream(io.StringIO):
    """What stands on standard error; a terminal where that is said."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        for handler in own_handlers():
            handler.flush()
        return self.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]

    def line(self) -> dict[str, Any]:
        (only,) = self.lines()
        return only


def own_handlers() -> list[PatientHandler]:
    return [item for item in logging.getLogger().handlers if isinstance(item, PatientHandler)]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root, access = logging.getLogger(), logging.getLogger("aiohttp.access")
    levels = root.level, access.level
    yield
    for handler in own_handlers():
        root.removeHandler(handler)
        handler.close()
    root.setLevel(levels[0])
    access.setLevel(levels[1])
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture
def stream() -> Stream:
    """A log in JSON."""
    stream = Stream()
    log.configure("info", "json", stream)
    return stream


@pytest.fixture
def terminal() -> Stream:
    """A log for people."""
    stream = Stream()
    log.configure("info", "console", stream)
    return stream


def logged(stream: Stream, fact: facts.Fact) -> dict[str, Any]:
    log.log_fact(structlog.get_logger(), fact)
    line = stream.line()
    del line["timestamp"]
    return line


# --- the form --------------------------------------------------------------------------------


def test_a_line_is_a_json_object_with_its_time_level_and_event_first(stream: Stream) -> None:
    structlog.get_logger().info("agent_started", node="n1")

    line = stream.line()

    assert list(line) == ["timestamp", "level", "event", "node"]
    assert (line["level"], line["event"], line["node"]) == ("info", "agent_started", "n1")
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("form", "terminal", "json_lines"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("json", True, True),
        ("console", False, False),
    ],
)
def test_the_form_follows_the_stream_unless_it_is_named(
    form: log.Form, terminal: bool, json_lines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(terminal=terminal)
    log.configure("info", form, stream)

    structlog.get_logger().info("agent_started")

    assert stream.text().startswith("{") is json_lines


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_colours_are_for_terminals_that_want_them(
    terminal: bool, no_color: str | None, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    stream = Stream(terminal=terminal)
    log.configure("info", "console", stream)

    structlog.get_logger().info("agent_started")

    assert ("\x1b[" in stream.text()) is coloured


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["a", "b", "c", "d"]),
        ("info", ["b", "c", "d"]),
        ("warning", ["c", "d"]),
        ("error", ["d"]),
    ],
)
def test_the_level_is_the_least_that_is_written(level: log.Level, written: list[str]) -> None:
    stream = Stream()
    log.configure(level, "json", stream)

    for write, name in (("debug", "a"), ("info", "b"), ("warning", "c"), ("error", "d")):
        getattr(structlog.get_logger(), write)(name)

    assert [line["event"] for line in stream.lines()] == written


def test_the_standard_librarys_loggers_write_the_same_lines(stream: Stream) -> None:
    logging.getLogger("asyncio").error("slow %s", "callback")

    line = stream.line()

    assert (line["event"], line["level"], line["logger"]) == ("slow callback", "error", "asyncio")


def test_requests_to_the_agent_are_no_news(stream: Stream) -> None:
    logging.getLogger("aiohttp.access").info("GET /metrics 200")

    assert stream.text() == ""


def test_pythons_own_warnings_are_lines_too(stream: Stream) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    assert stream.line()["logger"] == "py.warnings"


def test_an_exception_stays_within_its_line(stream: Stream) -> None:
    structlog.get_logger().error("command_failed", exc_info=ValueError("gone\nwrong"))

    line = stream.line()

    assert line["level"] == "error"
    assert "ValueError: gone\nwrong" in line["exception"]


def test_configuring_again_replaces_what_was_before(stream: Stream) -> None:
    second = Stream()
    log.configure("info", "json", second)

    structlog.get_logger().info("agent_started")

    assert second.line()["event"] == "agent_started"
    assert stream.getvalue() == ""
    assert len(own_handlers()) == 1


# --- what strangers write --------------------------------------------------------------------

FORGED = 'x\n{"event": "notice_withdrawn"}\r\x1b[2J\x00\x9b\u2028\u202e'


def test_no_text_ends_a_line_or_steers_a_terminal_in_json(stream: Stream) -> None:
    structlog.get_logger().info("client_left", reason=FORGED)

    text = stream.text()

    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    assert text.isascii()
    assert json.loads(text)["reason"] == FORGED


def test_no_text_ends_a_line_or_steers_a_terminal_for_people(terminal: Stream) -> None:
    structlog.get_logger().info(f"client_left{FORGED}", reason=FORGED)
    logging.getLogger("aiohttp.server").error("bad request: %s", FORGED)

    lines = terminal.text().splitlines()

    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert r"\x1b[2J" in lines[0]


def test_half_a_character_is_written_for_people_too(terminal: Stream) -> None:
    structlog.get_logger().info("client_left", reason="\udc80")

    assert r"\udc80" in terminal.text()


def test_an_exceptions_text_cannot_begin_a_line_for_people(terminal: Stream) -> None:
    error = ValueError(f"x\n2026-01-01 forged\n{FORGED}")
    structlog.get_logger().error("command_failed", exc_info=error)

    first, *rest = terminal.text().splitlines()

    assert "command_failed" in first
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("token", "AQAEA", "***"),
        ("Authorization", "Basic YTpi", "***"),
        ("url", "https://user:pass@hooks.example/x", "https://***@hooks.example/x"),
        ("detail", "sent Bearer eyJhbGciOi", "sent Bearer ***"),
        ("url", "https://hooks.example/x", "https://hooks.example/x"),
    ],
)
def test_secrets_are_not_written(stream: Stream, name: str, value: str, shown: str) -> None:
    structlog.get_logger().info("posted", **{name: value})

    assert stream.line()[name] == shown


# --- facts -----------------------------------------------------------------------------------


def test_a_notice_is_described_once_it_is_seen(stream: Stream) -> None:
    assert logged(stream, facts.NoticeSeen(VIEW, 120.0)) == {
        "level": "info",
        "event": "notice_seen",
        "notice_id": "aws-preemption-1",
        "kind": "preemption",
        "source": "aws",
        "drill": False,
        "phase": "told",
        "sources": ["aws", "node"],
        "action": "terminate",
        "urgency": "now",
        "deadline_unix": 1700000120.0,
        "deadline_quality": "provider",
        "cancellable": False,
        "reason": "spot",
        "lead_seconds": 120.0,
    }


def test_a_flush_is_one_line_with_all_its_figures(stream: Stream) -> None:
    assert logged(stream, SETTLED) == {
        "level": "info",
        "event": "flush_settled",
        "notice_id": "aws-preemption-1",
        "kind": "preemption",
        "source": "aws",
        "drill": False,
        "client": "42@1/llama/0",
        "job": "llama",
        "rank": 0,
        "outcome": "in_time",
        "flush_seconds": 12.0,
        "margin_seconds": 108.0,
        "used_ratio": 0.1,
        "step": 9,
        "path": "/ckpt/9",
    }


def test_an_id_alone_is_the_notices(stream: Stream) -> None:
    line = logged(stream, facts.NodeDrained("n1", "drained", 20.0, ""))

    assert line == {
        "level": "info",
        "event": "node_drained",
        "notice_id": "n1",
        "outcome": "drained",
        "seconds": 20.0,
    }


@pytest.mark.parametrize(
    "fact",
    [
        *[replace(SETTLED, outcome=o) for o in ("late", "failed", "missed", "not_durable")],
        ANSWERED,
        facts.FlushOverdue(VIEW, ("c0",)),
        facts.WorkLost(VIEW, "llama", 30.0),
        facts.Cordoned("n1", cordoned=False, detail="forbidden"),
        facts.Uncordoned("n1", uncordoned=False, detail="forbidden"),
        facts.NodeDrained("n1", "incomplete", 20.0, ""),
        facts.NodeDrained("n1", "failed", 20.0, ""),
        facts.Acknowledged("n1", accepted=False, detail="404"),
        facts.HookRan("n1", "on_notice", 0, "nomad", "timeout", -15, 30.0, ""),
    ],
)
def test_bad_news_is_a_warning(stream: Stream, fact: facts.Fact) -> None:
    assert logged(stream, fact)["level"] == "warning"


@pytest.mark.parametrize(
    "fact",
    [
        *[replace(SETTLED, outcome=o) for o in ("in_time", "ignored", "withdrawn")],
        replace(ANSWERED, result="ok", up=True, detail=""),
        facts.NoticeEnded(VIEW, "withdrawn", {}),
        facts.Cordoned("n1", cordoned=True, detail=""),
        facts.NodeDrained("n1", "drained", 20.0, ""),
        facts.Acknowledged("n1", accepted=True, detail=""),
        facts.ClientWent("c", "llama", 0, "bye", ""),
        facts.HookRan("n1", "on_notice", 0, "nomad", "ok", 0, 0.5, ""),
    ],
)
def test_other_news_is_information(stream: Stream, fact: facts.Fact) -> None:
    assert logged(stream, fact)["level"] == "info"


def test_an_answer_like_the_one_before_is_no_news(stream: Stream) -> None:
    log.log_fact(structlog.get_logger(), replace(ANSWERED, changed=False))

    assert stream.text() == ""


# --- a stream that nobody reads --------------------------------------------------------------


class StuckStream(Stream):
    """A pipe whose reader does not read until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.read = threading.Event()

    def write(self, text: str) -> int:
        self.read.wait(10)
        return super().write(text)


def test_a_stream_that_nobody_reads_stops_nothing_and_the_loss_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_stream, "LIMIT", 5)
    stream = StuckStream()
    log.configure("info", "json", stream)

    for number in range(50):
        structlog.get_logger().info("tick", number=number)
    stream.read.set()

    events = [line["event"] for line in stream.lines()]
    dropped = [event for event in events if event.startswith("log_lines_dropped")]
    assert len(events) < 50
    assert sum(int(event.partition(": ")[2]) for event in dropped) == 50 - events.count("tick")


def test_a_stream_that_was_closed_stops_nothing() -> None:
    stream = Stream()
    log.configure("info", "json", stream)
    stream.close()

    structlog.get_logger().info("agent_stopping")
    (handler,) = own_handlers()
    handler.flush()

    assert handler._thread.is_alive()


def test_what_is_left_is_written_when_logging_ends() -> None:
    stream = Stream()
    log.configure("info", "json", stream)
    structlog.get_logger().info("agent_stopped")

    for handler in own_handlers():
        handler.close()

    assert json.loads(stream.getvalue())["event"] == "agent_stopped"
