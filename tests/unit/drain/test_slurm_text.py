"""What Slurm's commands print becomes values; what they print besides becomes nothing."""

from __future__ import annotations

import pytest

from lastcall.drain.slurm.text import (
    Job,
    JobProcess,
    NodeState,
    has_ended_preempted,
    hostname,
    is_name,
    jobs,
    node_state,
    processes,
    trouble,
)

NODE = """\
NodeName=gpu-7 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=0.64
   NodeAddr=127.0.0.1 NodeHostName=vm Version=22.05.8
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
{rest}
"""


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("IDLE", {"IDLE"}),
        ("MIXED+DRAIN", {"MIXED", "DRAIN"}),
        ("DOWN*+DRAIN", {"DOWN", "DRAIN"}),
        ("IDLE+NOT_RESPONDING", {"IDLE", "NOT_RESPONDING"}),
        ("ALLOCATED#", {"ALLOCATED"}),
    ],
)
def test_a_nodes_state_is_its_flags_without_signs(state, flags):
    assert node_state(NODE.format(state=state, rest="")) == NodeState(frozenset(flags))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "   Reason=lastcall: preemption n-1 2030-01-01T00:00:00Z [root@2026-11-29T20:41:33]",
            "lastcall: preemption n-1 2030-01-01T00:00:00Z",
        ),
        ("   Reason=fan [left] broken [slurm@2026-11-29T20:41:33]", "fan [left] broken"),
        ("   Reason=Not responding", "Not responding"),
        ("   Comment=Reason=x", ""),
    ],
)
def test_a_nodes_reason_is_what_was_said_without_who_and_when(line, reason):
    found = node_state(NODE.format(state="IDLE+DRAIN", rest=line))

    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize(
    ("state", "is_drained", "is_down"),
    [
        ("IDLE", False, False),
        ("IDLE+DRAIN", True, False),
        ("DOWN", False, True),
        ("DOWN+DRAIN", True, True),
        ("FAILING", True, False),
    ],
)
def test_a_drained_node_and_one_that_is_down_are_told_apart(state, is_drained, is_down):
    found = node_state(NODE.format(state=state, rest=""))

    assert found is not None
    assert (found.is_drained, found.is_down) == (is_drained, is_down)


@pytest.mark.parametrize("text", ["", "Node gpu-7 not found", "<html>"])
def test_a_text_without_a_state_is_no_node(text):
    assert node_state(text) is None


def test_jobs_are_read_by_their_fields():
    text = (
        "               1                                       1                 RUNNING"
        "           1           1           1\n"
        "               6                                     4_1              COMPLETING"
        "           2           0           0\n"
    )

    assert jobs(text) == (
        Job(1, "1", "RUNNING", nodes=1, may_requeue=True, is_batch=True),
        Job(6, "4_1", "COMPLETING", nodes=2, may_requeue=False, is_batch=False),
    )


def test_no_line_is_no_job():
    assert jobs("") == ()


@pytest.mark.parametrize(
    "text", ["JOBID STATE", "x 1 RUNNING 1 1 1", "1 1 RUNNING one 1 1", "1 1 RUNNING 1 1 1 1"]
)
def test_a_line_that_is_no_job_spoils_the_whole_list(text):
    assert jobs("1 1 RUNNING 1 1 1\n" + text) is None


@pytest.mark.parametrize(
    ("state", "is_ending"),
    [("RUNNING", False), ("SUSPENDED", False), ("COMPLETING", True), ("SIGNALING", True)],
)
def test_a_job_that_is_told_to_end_is_ending(state, is_ending):
    assert Job(1, "1", state, 1, may_requeue=True, is_batch=True).is_ending == is_ending


def test_processes_are_read_with_the_batch_script_among_them():
    text = (
        "PID      JOBID    STEPID   LOCALID GLOBALID\n"
        "1698     1        batch    0       0       \n"
        "1711     1        batch    -       -       \n"
        "1800     3        0        0       0       \n"
        "No job steps exist on this node.\n"
        "1801     3        0 "
    )

    assert processes(text) == (
        JobProcess(1698, 1, is_script=True),
        JobProcess(1711, 1, is_script=False),
        JobProcess(1800, 3, is_script=False),
    )


def test_slurmd_says_what_it_calls_itself():
    assert hostname("Actual CPUs   = 2\nHostname                 = gpu-7\n") == "gpu-7"
    assert hostname("Hostname = gpu-[1-2]\n") == ""
    assert hostname("") == ""


@pytest.mark.parametrize("text", ["gpu-[1-7]", "-w", "a,b", "a b", "", "a\n"])
def test_a_list_or_an_option_is_no_nodes_name(text):
    assert not is_name(text)


@pytest.mark.parametrize(
    ("state", "code", "requeue", "expected"),
    [
        ("FAILED", "143:0", "1", True),
        ("FAILED", "1:0", "1", False),
        ("FAILED", "143:0", "0", False),
        ("COMPLETED", "0:0", "1", False),
        ("PENDING", "143:0", "1", False),
    ],
)
def test_a_job_that_ended_with_143_and_may_go_again_was_preempted(state, code, requeue, expected):
    text = f"JobId=1 JobName=x\n JobState={state} Reason=None\n Requeue={requeue} ExitCode={code}\n"

    assert has_ended_preempted(text) is expected


NO_MUNGE = """\
scontrol: error: If munged is up, restart with --num-threads=10
scontrol: error: Munge encode failed: Failed to access socket
slurm_load_node error: Protocol authentication error
"""


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (
            "slurm_load_node error: Unable to contact slurm controller (connect failure)\n",
            "Unable to contact slurm controller (connect failure)",
        ),
        ("squeue: error: Invalid node name nope\n", "Invalid node name nope"),
        (
            NO_MUNGE,
            "Protocol authentication error: Munge encode failed: Failed to access socket",
        ),
        ("", "it failed and did not say why"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_a_failure_is_one_line(errors, said):
    assert trouble(errors) == said


def test_a_failure_that_is_said_in_the_output_is_read_there():
    assert trouble("", "Node nope not found\n") == "Node nope not found"
