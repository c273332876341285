"""One probe as a real process: what it prints, its trail, and its end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from lastcall.gpu import child as children
from lastcall.gpu.child import Child, LineSplitter
from lastcall.gpu.trail import Step
from support import scripted_probe

HANG = ["hang"]


class Heard:
    """The lines of a probe."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.changed = asyncio.Event()
        self.came = asyncio.Event()

    def hear(self, line: bytes) -> None:
        self.lines.append(line)
        self.came.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(folder: Path, *steps: list[object]) -> AsyncIterator[tuple[Child, Heard]]:
    (folder / "scripts.json").write_text(json.dumps([steps]))
    heard = Heard()
    trail_fd = os.memfd_create("trail")
    program = (sys.executable, "-S", "-E", scripted_probe.__file__, str(folder))
    child = await children.start(
        (*program, json.dumps({"trail_fd": trail_fd})),
        trail_fd,
        environment={},
        heard=heard.hear,
        changed=heard.changed.set,
    )
    try:
        yield child, heard
    finally:
        await child.end()


async def test_the_last_lines_come_before_the_end(tmp_path: Path) -> None:
    async with running(tmp_path, ["say", "one"], ["say", "two"], ["exit", 3]) as (child, heard):
        assert child.ended is None
        await heard.changed.wait()

        assert child.ended == "ended with exit code 3"
        assert child.gone
        assert heard.lines == [b"one", b"two"]


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGSEGV, "was killed by SIGSEGV"),
        (signal.SIGRTMIN + 3, f"was killed by signal {signal.SIGRTMIN + 3}"),
    ],
)
async def test_a_signal_that_ended_it_is_named(tmp_path: Path, number: int, how: str) -> None:
    async with running(tmp_path, ["kill", number]) as (child, heard):
        await heard.changed.wait()

        assert child.ended == how


async def test_it_hears_what_it_is_asked_and_ends_with_its_input(tmp_path: Path) -> None:
    async with running(tmp_path, ["wait"]) as (child, heard):
        child.ask()
        await heard.came.wait()

        assert b'"round"' in heard.lines[0]
        assert await child.end()


async def test_one_that_reads_nothing_is_not_asked_without_end(tmp_path: Path) -> None:
    async with running(tmp_path, HANG) as (child, _):
        for _ in range(100_000):
            child.ask()

        pipe = child._transport.get_pipe_transport(0)
        assert pipe.get_write_buffer_size() <= len(b"look\n")


async def test_its_trail_says_which_call_it_is_in(tmp_path: Path) -> None:
    call = ["call", "nvmlDeviceGetTemperature", 1]

    async with running(tmp_path, ["say", "before"], call, ["say", "in it"], HANG) as (child, heard):
        await heard.until(lambda: b"in it" in heard.lines)
        step = child.step()

        assert step is not None
        assert step.at == pytest.approx(time.monotonic(), abs=5)
        named = Step("nvmlDeviceGetTemperature", "GPU-1", 1, "00000000:01:00.0", step.at)
        assert step == named


async def test_it_has_a_session_of_its_own_and_no_file_of_the_agents(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        async with running(tmp_path, ["say", "up"], HANG) as (child, heard):
            await heard.came.wait()

            assert os.getsid(child.pid) == child.pid
            held = " ".join(files_of(child.pid))
            assert secret.name not in held
            assert "memfd:trail" in held


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    ignore = ["ignore", signal.SIGTERM]

    async with running(tmp_path, ignore, ["say", "deaf"], HANG) as (child, heard):
        await heard.came.wait()

        assert await child.end(term_seconds=0.1)
        assert child.gone


async def test_its_last_errors_are_kept(tmp_path: Path) -> None:
    errors = [["complain", f"error {number}"] for number in range(25)]

    async with running(tmp_path, *errors, ["complain", "x" * 5000]) as (child, heard):
        await heard.changed.wait()
        await heard.until(lambda: len(child.errors[-1]) > 100)

        assert len(child.errors) == 20
        assert child.errors[-2] == "error 24"
        assert len(child.errors[-1]) < 1100


async def test_one_that_closes_its_output_is_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "PATIENCE_SECONDS", 0.05)

    async with running(tmp_path, ["close"], HANG) as (child, heard):
        await heard.changed.wait()

        assert child.fault == "closed its output and went on"
        assert child.ended is None


async def test_a_flood_is_a_fault_and_not_read_on(tmp_path: Path) -> None:
    async with running(tmp_path, ["flood"]) as (child, heard):
        await heard.changed.wait()
        assert child.fault == "printed without end"

        count = len(heard.lines)
        await asyncio.sleep(0.05)
        assert len(heard.lines) == count <= children.FLOOD_BYTES / 4096


async def test_what_cannot_be_run_is_an_error_and_leaves_no_file_open() -> None:
    trail_fd = os.memfd_create("trail")

    with pytest.raises(FileNotFoundError):
        await children.start(
            ("/nowhere/probe",), trail_fd, environment=None, heard=print, changed=print
        )

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(trail_fd)


@pytest.mark.parametrize("passes", range(4))
async def test_a_cancelled_start_leaves_no_process(tmp_path: Path, passes: int) -> None:
    (tmp_path / "scripts.json").write_text(json.dumps([[HANG]]))
    trail_fd = os.memfd_create("trail")
    program = (sys.executable, "-S", "-E", scripted_probe.__file__, str(tmp_path), "{}")
    starting = asyncio.create_task(
        children.start(program, trail_fd, environment={}, heard=print, changed=print)
    )
    for _ in range(passes):
        await asyncio.sleep(0)

    starting.cancel()
    await asyncio.wait([starting], timeout=5)

    assert starting.cancelled()
    await Heard().until(lambda: str(tmp_path) not in command_lines_of_children())


def command_lines_of_children() -> str:
    """Return the command lines of the processes that this one has."""
    seen: list[str] = []
    for process in psutil.Process().children():
        # It may end while it is looked at.
        with suppress(psutil.Error):
            seen += process.cmdline()
    return " ".join(seen)


def files_of(pid: int) -> list[str]:
    """Return the names of the files that a process has open."""
    return [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]


def test_the_loop_ends_while_a_probe_is_let_go(tmp_path: Path) -> None:
    async def drop() -> None:
        async with running(tmp_path, HANG) as (child, _):
            child.drop()

    asyncio.run(drop())
    # What would complain of being left open does so here.
    gc.collect()


def test_lines_are_cut_where_they_end_and_long_ones_kept_in_part() -> None:
    lines = LineSplitter(4)

    assert lines.more(b"a\nb") == [b"a"]
    assert lines.more(b"c\n\n") == [b"bc", b""]
    assert lines.more(b"12") == []
    assert lines.more(b"3456789") == []
    assert lines.more(b"0\nd\n") == [b"12345", b"d"]
