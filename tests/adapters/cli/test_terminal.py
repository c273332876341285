"""Text for people: safe, aligned, coloured only where wanted."""

from __future__ import annotations

import io

import pytest

from lastcall.cli.terminal import Style, columns, duration, safe, size


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (120, "120 s"),
        (299.6, "5 min 0 s"),
        (3725, "1 h 2 min"),
        (172800, "2 d 0 h"),
        (-3.25, "-3.2 s"),
        (-400, "-6 min 40 s"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4 << 20, "4.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_are_said_as_people_say_them(count, shown):
    assert size(count) == shown


def test_columns_line_up_whatever_is_coloured():
    style = Style(Terminal())

    first, second = columns([["a", style.bad("down"), "x"], ["long", "up", "y"]])

    assert first.replace("\x1b[31m", "").replace("\x1b[0m", "") == "a     down  x"
    assert second == "long  up    y"


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "\x9b31m", "\u202egnp.exe", "\ud800"])
def test_no_text_from_elsewhere_leaves_its_line_or_steers(text):
    shown = safe(text)

    assert shown.isprintable()
    assert shown.isascii()


def test_a_long_text_is_cut():
    assert safe("x" * 100, 10) == "x" * 9 + "…"


def test_a_terminal_gets_colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    assert Style(Terminal()).good("up") == "\x1b[32mup\x1b[0m"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_none(monkeypatch, name, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)

    assert Style(Terminal()).good("up") == "up"
