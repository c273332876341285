"""Real programs within their bounds: whatever one does, it ends, and so does what it started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from lastcall.hooks import program
from lastcall.hooks.output import KEPT_BYTES
from lastcall.hooks.program import Result

PLAIN = {"PATH": os.environ["PATH"]}


async def run(
    *argv: str,
    environment: dict[str, str] | None = None,
    content: bytes = b"{}\n",
    timeout_seconds: float = 20.0,
) -> Result:
    async with asyncio.timeout(15):
        return await program.run(
            argv,
            environment=PLAIN if environment is None else environment,
            content=content,
            timeout_seconds=timeout_seconds,
        )


async def shell(script: str, **bounds: float) -> Result:
    return await run("sh", "-c", script, **bounds)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - a process elsewhere has no event here
            await asyncio.sleep(0.005)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pid_in(file: Path) -> int:
    return int(file.read_text())


@asynccontextmanager
async def ended_at_last(file: Path) -> AsyncIterator[None]:
    """End the process whose id a program leaves in a file."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError, FileNotFoundError, ValueError):
            os.kill(pid_in(file), signal.SIGKILL)


# --- what it is given and what it gives --------------------------------------------------------


async def test_a_program_gets_its_environment_and_no_other() -> None:
    result = await run("env", environment={**PLAIN, "LASTCALL_EVENT": "on_notice"})

    assert result.outcome == "ok"
    assert sorted(result.output.splitlines()) == sorted(
        [f"PATH={PLAIN['PATH']}", "LASTCALL_EVENT=on_notice"]
    )


async def test_a_program_reads_the_notice_on_its_standard_input() -> None:
    result = await run("cat", content=b'{"event": "on_notice"}\n')

    assert json.loads(result.output) == {"event": "on_notice"}


async def test_arguments_are_no_shell_s_to_read() -> None:
    result = await run("echo", "$HOME; ls *")

    assert result.output == "$HOME; ls *"


async def test_both_its_streams_are_kept_in_their_order() -> None:
    result = await shell("echo one; echo two >&2; echo three; exit 3")

    assert (result.outcome, result.code) == ("failed", 3)
    assert result.output == "one\ntwo\nthree"


async def test_a_program_that_a_signal_ended_has_failed() -> None:
    result = await shell("kill -ABRT $$")

    assert (result.outcome, result.code) == ("failed", -signal.SIGABRT)


async def test_what_is_no_text_is_shown_as_far_as_it_is_one() -> None:
    result = await shell(r"printf 'a\377b'")

    assert result.output == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    "script", ["exec <&-; exit 0", "exec </dev/null; exit 0", "head -c 1 >/dev/null"]
)
async def test_a_program_that_does_not_read_what_it_is_given_is_none_the_worse(script: str) -> None:
    result = await run("sh", "-c", script, content=b"x" * 1_000_000)

    assert (result.outcome, result.output) == ("ok", "")


async def test_of_much_output_the_end_is_kept_and_nobody_is_held_up() -> None:
    result = await shell("seq 1 40000")

    assert result.outcome == "ok"
    assert result.output.startswith("… ")
    assert result.output.endswith("\n39999\n40000")
    assert len(result.output) <= KEPT_BYTES + 2


# --- programs that cannot be run ---------------------------------------------------------------


async def test_a_program_that_is_not_there_is_not_started() -> None:
    result = await run("no-such-program")

    assert result == Result("not_started", None, 0.0, "No such file or directory")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("#!/bin/sh\n", 0o644, "Permission denied"),
        ("#!/no/such/interpreter\n", 0o755, "No such file or directory"),
        ("neither a script nor a binary\n", 0o755, "Exec format error"),
    ],
)
async def test_a_file_that_is_no_program_is_not_started(
    tmp_path: Path, content: str, mode: int, why: str
) -> None:
    file = tmp_path / "program"
    file.write_text(content)
    file.chmod(mode)

    result = await run(str(file))

    assert (result.outcome, result.output) == ("not_started", why)


async def test_a_folder_is_not_started(tmp_path: Path) -> None:
    assert (await run(str(tmp_path))).outcome == "not_started"


async def test_what_no_environment_can_hold_is_not_started_with() -> None:
    result = await run("true", environment={"LASTCALL_REASON": "a\0b"})

    assert (result.outcome, result.output) == ("not_started", "embedded null byte")


# --- programs that do not end ------------------------------------------------------------------


async def test_a_program_that_hangs_is_ended_when_its_time_is_up() -> None:
    result = await shell("echo waiting; exec sleep 60", timeout_seconds=1.0)

    assert (result.outcome, result.code) == ("timeout", -signal.SIGTERM)
    assert result.output == "waiting"


async def test_a_program_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "TERM_SECONDS", 0.2)

    result = await shell("trap '' TERM; while :; do sleep 0.05; done", timeout_seconds=2.0)

    assert (result.outcome, result.code) == ("timeout", -signal.SIGKILL)


async def test_a_program_that_tidies_up_on_sigterm_has_the_time_for_it() -> None:
    script = "trap 'echo tidied; exit 0' TERM; while :; do sleep 0.05; done"

    result = await shell(script, timeout_seconds=2.0)

    assert (result.outcome, result.code) == ("timeout", 0)
    assert result.output.endswith("tidied")


@pytest.mark.parametrize("child", ["sleep 60", "sh -c 'trap \"\" TERM; sleep 60; sleep 60'"])
async def test_what_it_started_is_ended_with_it(tmp_path: Path, child: str) -> None:
    file = tmp_path / "pid"

    result = await shell(f"{child} & echo $! >{file}; wait", timeout_seconds=2.0)

    assert result.outcome == "timeout"
    await until(lambda: is_gone(pid_in(file)))


async def test_a_program_that_prints_without_end_is_ended_when_its_time_is_up() -> None:
    result = await run("yes", "y" * 100, timeout_seconds=0.4)

    assert result.outcome == "timeout"
    assert len(result.output) <= KEPT_BYTES + 2


async def test_a_flood_of_output_leaves_the_loop_to_others() -> None:
    flood = asyncio.create_task(run("yes", timeout_seconds=0.5))
    turns = 0
    while not flood.done():
        await asyncio.sleep(0.001)
        turns += 1

    assert flood.result().outcome == "timeout"
    assert turns > 20


@pytest.mark.parametrize(("last", "outcome"), [("exit 0", "ok"), ("sleep 60", "timeout")])
async def test_who_left_its_group_and_holds_the_pipe_open_is_not_waited_for(
    tmp_path: Path, last: str, outcome: str
) -> None:
    file = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ >{file}; exec sleep 60' & while [ ! -s {file} ]; do :; done"

    async with ended_at_last(file):
        result = await shell(f"{script}; echo said; {last}", timeout_seconds=2.0)

    assert (result.outcome, result.output) == (outcome, "said")


async def test_a_program_is_stopped_when_whoever_runs_it_is(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    running = asyncio.create_task(shell(f"echo $$ >{file}; exec sleep 60"))
    await until(lambda: file.exists() and bool(file.read_text()))

    running.cancel()

    result = await running
    assert (result.outcome, result.code) == ("stopped", -signal.SIGTERM)
    assert is_gone(pid_in(file))


async def test_a_program_that_has_no_time_left_to_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "TERM_SECONDS", 60)
    file = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ >{file}; while :; do sleep 0.05; done"
    running = asyncio.create_task(shell(script))
    await until(lambda: file.exists() and bool(file.read_text()))
    running.cancel()
    await asyncio.sleep(0.1)
    assert not is_gone(pid_in(file))

    running.cancel()

    assert (await running).code == -signal.SIGKILL
    assert is_gone(pid_in(file))


async def test_nothing_stays_open_after_any_of_them() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await run("true")
    before = descriptors()

    await run("true")
    await run("no-such-program")
    await shell("exec sleep 60", timeout_seconds=0.2)

    assert descriptors() == before
