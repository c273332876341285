"""What is found about Slurm, with stand-ins for its commands."""

from __future__ import annotations

import pytest

from lastcall.cli.check import slurm
from lastcall.cli.check.findings import Level
from lastcall.cli.check.slurm import check_slurm
from support.examination import found_by, one_found_by, subject_of
from support.slurm_programs import SlurmPrograms

SLURM = "drain.backend=slurm"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    programs = SlurmPrograms(tmp_path)
    monkeypatch.setenv("PATH", programs.environment["PATH"])
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    return programs


@pytest.fixture
def stands(programs):
    """Have the controller answer that the node stands so."""

    def say(state, reason=""):
        programs.add(
            "scontrol",
            'if [ "$2" = aliases ]; then echo gpu-7; exit; fi\n'
            f'echo "NodeName=$3 Arch=x86_64"; echo "   State={state} ThreadsPerCore=1"\n'
            + (f'echo "   Reason={reason} [root@2026-01-01T00:00:00]"' if reason else ""),
        )

    return say


async def test_a_machine_without_slurm_has_nothing_said_of_it(monkeypatch):
    monkeypatch.setattr(slurm, "finds_slurm", lambda: False)

    assert await found_by(check_slurm, subject_of()) == []


@pytest.mark.parametrize("backend", ["none", "kubernetes", "systemd"])
async def test_slurm_is_not_asked_where_another_is_wanted(programs, stands, backend):
    stands("IDLE")

    assert await found_by(check_slurm, subject_of(f"drain.backend={backend}")) == []
    assert programs.asked == []


async def test_a_node_that_slurm_knows_is_good(monkeypatch, stands):
    stands("IDLE")
    monkeypatch.setattr(slurm, "finds_slurm", lambda: True)

    one = await one_found_by(check_slurm, subject_of())

    assert (one.level, one.what) == (Level.OK, "node gpu-7 is IDLE")


@pytest.mark.parametrize(
    ("state", "level"), [("IDLE+DRAIN", Level.NOTE), ("DOWN*+DRAIN", Level.WARNING)]
)
async def test_a_node_that_takes_no_jobs_is_said_with_its_reason(stands, state, level):
    stands(state, "disk")

    one = await one_found_by(check_slurm, subject_of(SLURM))

    assert one.level is level
    assert one.what.startswith("node gpu-7 is D")
    assert "disk" in one.what


async def test_a_name_that_cannot_be_found_is_a_problem(programs):
    programs.add("scontrol", "exit 1")

    one = await one_found_by(check_slurm, subject_of(SLURM))

    assert one.level is Level.PROBLEM
    assert "drain.slurm.node_name" in one.remedy


async def test_a_name_that_the_controller_does_not_know_is_a_problem(programs):
    programs.add("scontrol", 'echo "Node $3 not found"; exit 1')

    one = await one_found_by(check_slurm, subject_of(SLURM, "drain.slurm.node_name=gpu-9"))

    assert (one.level, one.what) == (Level.PROBLEM, "the controller knows no node gpu-9")


async def test_a_controller_that_does_not_answer_is_a_problem(programs, monkeypatch):
    monkeypatch.setattr(slurm, "CALL_SECONDS", 0.1)
    programs.add("scontrol", "exec sleep 60")

    one = await one_found_by(check_slurm, subject_of(SLURM, "drain.slurm.node_name=gpu-9"))

    assert one.level is Level.PROBLEM
    assert "the controller does not say how node gpu-9 stands" in one.what


async def test_slurms_programs_that_are_missing_are_a_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)

    one = await one_found_by(check_slurm, subject_of(SLURM))

    assert one.level is Level.PROBLEM
