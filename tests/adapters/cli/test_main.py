"""The command line as a whole: usage, exit codes, and how it ends when nobody listens."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lastcall.cli import status
from lastcall.cli.main import COMMANDS, main, parser
from support.happenings import joined


def program(*words, **more):
    command = [sys.executable, "-m", "lastcall", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=30, **more)


@pytest.mark.parametrize("command", [module.__name__.rpartition(".")[2] for module in COMMANDS])
def test_each_command_says_what_it_does(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])

    assert stop.value.code == 0
    assert f"usage: lastcall {command}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["nonsense"], ["status", "--nonsense"]])
def test_wrong_usage_is_refused(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)

    assert stop.value.code == 2
    assert "usage: lastcall" in capsys.readouterr().err


def test_the_help_says_where_to_begin(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "start with: lastcall demo, lastcall check\n" in capsys.readouterr().out


def test_an_interrupted_command_ends_quietly(monkeypatch, capsys):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "run", interrupted)

    assert main(["status"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_who_leaves_early_ends_a_command_quietly(agent):
    reader, writer = os.pipe()
    os.close(reader)
    words = ("status", "--socket", str(agent.path))
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "lastcall", *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=30,
        )
    finally:
        os.close(writer)

    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_terminal_that_lacks_letters_gets_others(agent):
    agent.story.at(110.0, joined("a", job="übung"))

    ended = program(
        *("status", "--socket", str(agent.path)), env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert rb"\xfcbung" in ended.stdout


def test_the_socket_is_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("LASTCALL_SOCKET", "/somewhere/agent.sock")

    assert parser().parse_args(["status"]).socket == "/somewhere/agent.sock"
