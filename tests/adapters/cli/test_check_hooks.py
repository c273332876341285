"""What is found about the site's own programs."""

from __future__ import annotations

import json

import pytest

from lastcall.cli.check.findings import Level
from lastcall.cli.check.hooks import check_hooks
from support.examination import found_by, one_found_by, subject_of


def with_programs(*programs, hook="on_notice"):
    return subject_of(f"hooks.{hook}={json.dumps([[one, 'argument'] for one in programs])}")


async def test_without_any_there_is_nothing_to_say():
    assert await found_by(check_hooks, subject_of()) == []


async def test_programs_that_are_there_are_good(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    one = await one_found_by(check_hooks, with_programs(str(program), "sh"))

    assert (one.level, one.what) == (Level.OK, "2 to be run, and each is there")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("no-such-program", "no-such-program is not on the path"),
        ("/no/such/program", "/no/such/program does not exist"),
        ("no/such/program", "/no/such/program does not exist"),
        ("/tmp", "/tmp is a directory"),
    ],
)
@pytest.mark.parametrize("hook", ["on_notice", "on_flushed", "on_drained", "on_withdrawn"])
async def test_a_program_that_is_not_there_is_a_problem(hook, program, said):
    one = await one_found_by(check_hooks, with_programs("sh", program, hook=hook))

    assert one.level is Level.PROBLEM
    assert one.what.startswith(f"hooks.{hook}[1]: {said}")


async def test_a_program_that_may_not_be_run_is_a_problem(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")

    one = await one_found_by(check_hooks, with_programs(str(program)))

    assert one.level is Level.PROBLEM
    assert f"may not run {program}" in one.what
