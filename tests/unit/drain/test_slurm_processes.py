"""A job is known by the control groups of its processes, and its script by what it catches."""

from __future__ import annotations

from signal import Signals

import pytest

from lastcall.drain.slurm.processes import footprints, job_of, signal_number
from lastcall.drain.slurm.text import JobProcess


@pytest.fixture
def proc(tmp_path):
    def add(pid: int, cgroup: str, caught: str = "0000000000000000") -> None:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cgroup").write_text(cgroup)
        (folder / "status").write_text(
            f"Name:\tbash\nSigIgn:\t0000000000000200\nSigCgt:\t{caught}\n"
        )

    add(10, "0::/system.slice/slurmstepd.scope/job_1/step_batch/user/task_0\n", "0000000000014202")
    add(11, "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0\n", "0000000000000200")
    add(20, "4:memory:/slurm/uid_7/job_2/step_0\n2:freezer:/slurm/uid_7/job_2\n1:cpu:/\n")
    return tmp_path


def test_a_job_has_the_control_groups_of_all_its_processes(proc):
    found = footprints(
        [JobProcess(10, 1, True), JobProcess(11, 1, False), JobProcess(20, 2, False)], proc
    )

    assert found[1].cgroups == {
        "/system.slice/slurmstepd.scope/job_1/step_batch/user/task_0",
        "/system.slice/slurmstepd.scope/job_1/step_0/user/task_0",
    }
    assert found[2].cgroups == {"/slurm/uid_7/job_2/step_0", "/slurm/uid_7/job_2"}


def test_what_counts_is_what_the_script_itself_catches(proc):
    found = footprints([JobProcess(10, 1, True), JobProcess(11, 1, False)], proc)

    assert found[1].caught == {Signals.SIGINT, Signals.SIGUSR1, Signals.SIGTERM, Signals.SIGCHLD}


def test_a_job_whose_script_is_elsewhere_catches_nothing_here(proc):
    assert footprints([JobProcess(11, 1, False)], proc)[1].caught == frozenset()


def test_a_process_that_has_just_gone_leaves_an_empty_footprint(proc):
    found = footprints([JobProcess(99, 1, True)], proc)

    assert (found[1].cgroups, found[1].caught) == (set(), frozenset())


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("/slurm/uid_1000/job_42/step_0/task_0", 42),
        ("/slurm/uid_1000/job_42", 42),
        ("/slurm_gpu-7/uid_1000/job_42/step_batch", 42),
        ("/system.slice/slurmstepd.scope/job_42/step_batch/user/task_special", 42),
        ("/system.slice/gpu-7_slurmstepd.scope/job_42/step_0", 42),
        ("/../../system.slice/slurmstepd.scope/job_42/step_0", 42),
        ("/system.slice/slurmd.service", None),
        ("/user.slice/user-7.slice/user@7.service/slurm/uid_7/job_42/step_0", None),
        ("/user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_42", None),
        ("/system.slice/slurmstepd.scope/job_42x", None),
        ("/kubepods.slice/job_42", None),
        ("", None),
    ],
)
def test_a_control_group_tells_its_job_only_where_slurm_makes_them(cgroup, job):
    assert job_of(cgroup) == job


def test_a_signals_name_is_its_number():
    assert signal_number("USR1") == Signals.SIGUSR1
