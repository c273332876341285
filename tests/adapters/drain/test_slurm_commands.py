"""A Slurm command is a process of its own with an end in sight, whatever it does."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from lastcall.drain.slurm.commands import OUTPUT_LIMIT_BYTES, plain_environment, run
from support.slurm_programs import SlurmPrograms


@pytest.fixture
def programs(tmp_path):
    return SlurmPrograms(tmp_path)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped by others does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def ended(pid: int) -> None:
    async with asyncio.timeout(5):
        while alive(pid):  # noqa: ASYNC110 - another process's end has no event here
            await asyncio.sleep(0.01)


async def test_a_command_that_goes_well_gives_what_it_printed(programs):
    programs.add("scontrol", 'echo "State=IDLE"; echo aside >&2')

    answer = await run("scontrol", "show", "node", seconds=5, environment=programs.environment)

    assert answer.ok
    assert (answer.text, answer.errors) == ("State=IDLE\n", "aside\n")
    assert programs.asked == ["scontrol show node"]


async def test_no_shell_reads_the_arguments(programs):
    programs.add("scontrol", 'printf "%s|" "$@"')

    answer = await run("scontrol", "Reason=$(id); a b", seconds=5, environment=programs.environment)

    assert answer.text == "Reason=$(id); a b|"


async def test_a_command_that_fails_gives_its_status_and_its_errors(programs):
    programs.add("scontrol", 'echo "slurm_update error: Invalid user id" >&2; exit 1')

    answer = await run("scontrol", seconds=5, environment=programs.environment)

    assert not answer.ok
    assert (answer.code, answer.errors.strip()) == (1, "slurm_update error: Invalid user id")


async def test_a_command_that_hangs_is_killed_with_all_that_it_has_started(programs, tmp_path):
    programs.add("scontrol", f"sleep 600 & echo $! > {tmp_path}/child; wait")
    began_at = time.monotonic()

    answer = await run("scontrol", seconds=0.3, environment=programs.environment)

    assert answer.code is None
    assert answer.errors == "scontrol took longer than 0.3 s"
    assert time.monotonic() - began_at < 3
    await ended(int((tmp_path / "child").read_text()))


async def test_a_command_that_shuts_its_output_and_hangs_is_killed_too(programs):
    programs.add("scontrol", "exec >&- 2>&-; exec sleep 600")

    answer = await run("scontrol", seconds=0.3, environment=programs.environment)

    assert answer.errors == "scontrol took longer than 0.3 s"


@pytest.mark.parametrize("where", ["", ">&2"])
async def test_a_command_that_prints_without_end_is_stopped_and_its_beginning_kept(programs, where):
    programs.add("squeue", f"yes 'a line of text' {where}")

    answer = await run("squeue", seconds=30, environment=programs.environment)

    assert answer.is_cut
    assert answer.code is None
    assert answer.errors == "squeue printed more than 64 KiB"
    assert len(answer.text) == (0 if where else OUTPUT_LIMIT_BYTES)


async def test_output_that_is_no_text_is_no_error(programs):
    programs.add("squeue", "printf '\\377\\376'")

    answer = await run("squeue", seconds=5, environment=programs.environment)

    assert answer.ok
    assert answer.text == "\ufffd\ufffd"


async def test_a_command_that_is_not_there_is_said_so(programs, tmp_path):
    answer = await run("scontrol", seconds=5, environment={"PATH": str(tmp_path)})

    assert answer.code is None
    assert answer.errors == "cannot run scontrol: No such file or directory"


async def test_a_call_that_is_given_up_leaves_no_process_behind(programs, tmp_path):
    programs.add("scontrol", f"echo $$ > {tmp_path}/own; exec sleep 600")
    call = asyncio.create_task(run("scontrol", seconds=60, environment=programs.environment))
    async with asyncio.timeout(5):
        while not (tmp_path / "own").exists() or not (tmp_path / "own").read_text():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert not alive(int((tmp_path / "own").read_text()))


def test_variables_that_change_what_is_printed_are_left_out():
    plain = plain_environment(
        {
            "PATH": "/bin",
            "SLURM_CONF": "/etc/slurm.conf",
            "SLURM_CLUSTERS": "other",
            "SQUEUE_FORMAT": "%i",
            "SCANCEL_INTERACTIVE": "true",
            "SLURM_TIME_FORMAT": "relative",
            "LC_ALL": "de_DE.UTF-8",
        }
    )

    assert plain == {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_TIME_FORMAT": "standard",
        "LC_ALL": "C",
    }
