"""``lastcall demo`` as a program: the whole story, and nothing left of it however it ends."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastcall.cli.demo.scenario import Scenario
from lastcall.cli.demo.story import play
from support.needs import long

SHORT = {
    "steps": 60,
    "checkpoint_every": 5,
    "notice_at": 12,
    "step_seconds": 0.03,
    "shard_bytes": 64 * 1024,
    "bytes_per_second": 2.0 * 1024 * 1024,
}


@contextlib.contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demo, with its temporary files in a folder."""
    program = subprocess.Popen(
        [sys.executable, "-m", "lastcall", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        cwd=folder,
    )
    watchdog = threading.Timer(50, program.kill)
    watchdog.start()
    try:
        yield program
    finally:
        watchdog.cancel()
        if program.poll() is None:
            program.kill()
        program.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files whose path is short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="lc-", dir="/tmp") as name:
        yield Path(name)


def read_until(program: subprocess.Popen[str], words: str) -> None:
    """Read what the demo prints until some words come."""
    assert program.stdout is not None
    for line in program.stdout:
        if words in line:
            return
    raise AssertionError(f"never said {words!r}")


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes whose command line names the folder, but for this one's own."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if entry.name.isdecimal() and str(folder) in words and int(entry.name) != os.getpid():
                found[int(entry.name)] = words
    return found


def assert_nothing_is_left(folder: Path) -> None:
    assert processes_of(folder) == {}
    assert list(folder.iterdir()) == []


def rows_of(out: str) -> dict[str, list[str]]:
    """Return the table's rows by their first cell."""
    table = out[out.index("without lastcall  with lastcall") :].splitlines()[1:]
    cells = (re.split(r"\s{2,}", line.strip()) for line in table)
    return {first: rest for first, *rest in cells if rest}


def seconds(cell: str) -> float:
    return float(cell.partition(" ")[0])


@pytest.mark.timeout(90)
def test_the_story_is_told_as_it_is_meant(folder):
    with demo(folder) as program:
        out, err = program.communicate()

    assert (program.returncode, err) == (0, "")
    rows = rows_of(out)
    assert rows["resumed from step"][0] == "50"
    assert int(rows["steps redone"][0]) >= 4
    assert rows["steps redone"][1] == "0"
    assert seconds(rows["seconds lost"][0]) > 0
    assert rows["seconds lost"][1] == "0.00 s"
    assert abs(seconds(rows["lead time"][1]) - 120) < 2
    told, flushed = seconds(rows["told after"][1]), seconds(rows["flushed after"][1])
    assert 0 < told < flushed
    assert seconds(rows["margin"][1]) > 100
    assert rows["final state verified"] == ["yes", "yes"]
    assert 'lastcall_flushes_total{kind="preemption",outcome="in_time"} 4' in out
    assert "\x1b" not in out
    assert_nothing_is_left(folder)


@pytest.mark.long
@pytest.mark.parametrize(("provider", "lead_seconds"), [("gcp", 30), ("azure", 30)])
def test_it_is_told_of_the_other_providers_too(provider, lead_seconds, capfd):
    stream = io.StringIO()

    code = play(Scenario(provider, 2, **SHORT), stream)

    out = stream.getvalue()
    assert (code, capfd.readouterr().err) == (0, "")
    rows = rows_of(out)
    assert rows["steps redone"][1] == "0"
    assert abs(seconds(rows["lead time"][1]) - lead_seconds) < 2
    assert rows["final state verified"] == ["yes", "yes"]


@pytest.mark.parametrize("number", [signal.SIGINT, long(signal.SIGTERM), long(signal.SIGHUP)])
def test_a_signal_ends_it_and_leaves_nothing_behind(folder, number):
    with demo(folder, "--ranks", "2") as program:
        read_until(program, "processes train")
        assert len(processes_of(folder)) == 3

        program.send_signal(number)
        _, err = program.communicate()

    assert program.returncode == 128 + number
    assert err == ""
    assert_nothing_is_left(folder)


def test_a_reader_who_leaves_ends_it_and_leaves_nothing_behind(folder):
    with demo(folder, "--ranks", "1") as program:
        read_until(program, "processes train")
        assert program.stdout is not None
        program.stdout.close()
        program.wait()
        assert program.stderr is not None
        err = program.stderr.read()

    assert (program.returncode, err) == (1, "")
    assert_nothing_is_left(folder)


@pytest.mark.long
def test_the_agents_log_is_shown_where_it_fails(folder):
    with demo(folder, "--ranks", "1") as program:
        read_until(program, "SIGTERM to every process")
        (agent,) = [pid for pid, words in processes_of(folder).items() if "run --config" in words]
        os.kill(agent, signal.SIGKILL)
        _, err = program.communicate()

    assert program.returncode == 1
    assert "error: the agent ended with exit code -9" in err
    assert "the agent's log:" in err
    assert "agent_started" in err
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("arguments", [["--ranks", "0"], ["--ranks", "x"], ["--provider", "ibm"]])
def test_wrong_usage_is_refused(folder, arguments):
    with demo(folder, *arguments) as program:
        _, err = program.communicate()

    assert program.returncode == 2
    assert "usage: lastcall demo" in err
