"""The Slurm backend with commands that hang, refuse, print nonsense or too much."""

from __future__ import annotations

import asyncio
import time

import pytest

from lastcall.core.events import DrainEnded, EvictionReported
from lastcall.drain.slurm.plan import Means
from lastcall.drain.slurm.presence import found
from support.slurm_drains import notice, order, slurm_at_work
from support.slurm_programs import SlurmPrograms

GROUP = "/slurm/uid_0/job_1/step_0"
RUNNING = "1 1 RUNNING 1 1 1"
ENDING = "1 1 COMPLETING 1 1 1"

ALIASES = '"show aliases") echo gpu-7;;'
NODE = '"show node") printf "NodeName=$3\\n   State=MIXED ThreadsPerCore=1\\n";;'
UPDATE = '"update NodeName=gpu-7") ;;'
REQUEUE = '"requeue incomplete") ;;'
PIDS = '"listpids *") ;;'
WELL = (ALIASES, NODE, UPDATE, REQUEUE, PIDS)


@pytest.fixture
def programs(tmp_path):
    made = SlurmPrograms(tmp_path)
    scontrol(made, *WELL)
    made.add("squeue", f'echo "{RUNNING}"')
    made.add("scancel", "")
    return made


def scontrol(programs, *cases: str) -> None:
    """Put a scontrol there that answers so by its first two words, and fails for all others."""
    failing = '*) echo "scontrol: error: no such thing" >&2; exit 1;;'
    programs.add("scontrol", "\n".join(('case "$1 $2" in', *cases, failing, "esac")))


def asked(programs, beginning: str) -> list[str]:
    return [line for line in programs.asked if line.startswith(beginning)]


async def until_asked(work, programs, beginning: str) -> None:
    await work.until(lambda: asked(programs, beginning))


# --- the name ----------------------------------------------------------------------------------


async def test_a_configured_name_is_taken_as_it_is(programs):
    async with slurm_at_work(programs.environment, node_name="gpu-7") as work:
        assert (await work.backend.cordon(notice())).done

    assert not asked(programs, "scontrol show aliases")


async def test_what_slurmd_has_started_knows_its_name(programs):
    environment = {**programs.environment, "SLURMD_NODENAME": "gpu-7"}
    async with slurm_at_work(environment) as work:
        assert (await work.backend.cordon(notice())).done

    assert not asked(programs, "scontrol show aliases")


async def test_a_host_that_is_several_nodes_needs_to_be_told_which(programs):
    scontrol(programs, '"show aliases") echo "gpu-7 gpu-8";;', *WELL[1:])
    async with slurm_at_work(programs.environment) as work:
        attempt = await work.backend.cordon(notice())

        said = "this host is gpu-7, gpu-8 in slurm.conf: set drain.slurm.node_name"
        assert (attempt.done, attempt.detail) == (False, said)
        await work.until(lambda: work.health and work.health.detail == said)
        assert not work.health.up


async def test_a_node_that_no_configuration_names_is_what_its_slurmd_says(programs):
    scontrol(programs, '"show slurmd") echo "Hostname   = gpu-7";;', *WELL[1:])
    async with slurm_at_work(programs.environment) as work:
        assert (await work.backend.cordon(notice())).done

    assert asked(programs, "scontrol update NodeName=gpu-7")


async def test_a_host_that_is_no_node_is_said_so_and_its_own_name_is_no_guess(programs):
    scontrol(programs, *WELL[1:])
    async with slurm_at_work(programs.environment) as work:
        attempt = await work.backend.cordon(notice())

    assert not attempt.done
    assert "slurm.conf has no node on this host, and no such thing" in attempt.detail
    assert "set drain.slurm.node_name" in attempt.detail
    assert not asked(programs, "scontrol update")


# --- the cordon --------------------------------------------------------------------------------


async def test_the_reason_is_one_argument(programs):
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice("n-1", ends_in=None))

    update = "scontrol update NodeName=gpu-7 State=DRAIN Reason=lastcall: preemption n-1"
    assert asked(programs, "scontrol update") == [update]


async def test_a_controller_that_hangs_costs_one_time_out(programs):
    scontrol(programs, ALIASES, '"show node") sleep 600;;')
    async with slurm_at_work(programs.environment, call_seconds=0.3) as work:
        began_at = time.monotonic()
        attempt = await work.backend.cordon(notice())

    assert (attempt.done, attempt.foreign) == (False, False)
    assert attempt.detail == "scontrol took longer than 0.3 s"
    assert time.monotonic() - began_at < 2


async def test_a_call_takes_no_more_than_a_quarter_of_what_is_left(programs):
    scontrol(programs, ALIASES, '"show node") sleep 600;;')
    async with slurm_at_work(programs.environment, call_seconds=30) as work:
        attempt = await work.backend.cordon(notice(ends_in=1.6))

    assert attempt.detail == "scontrol took longer than 0.4 s"


async def test_a_drain_that_is_not_allowed_says_so(programs):
    refusal = 'echo "slurm_update error: Invalid user id" >&2; exit 1'
    scontrol(programs, ALIASES, NODE, f'"update NodeName=gpu-7") {refusal};;')
    async with slurm_at_work(programs.environment) as work:
        attempt = await work.backend.cordon(notice())

    assert (attempt.done, attempt.detail) == (False, "Invalid user id")


async def test_nonsense_about_the_node_changes_nothing(programs):
    scontrol(programs, ALIASES, '"show node") echo "<html>busy</html>";;')
    async with slurm_at_work(programs.environment) as work:
        attempt = await work.backend.cordon(notice())
        lifted = await work.backend.uncordon("n-1")

    assert attempt.detail == lifted.detail == "scontrol show node printed no state"
    assert (attempt.done, lifted.done) == (False, False)


# --- the drain ---------------------------------------------------------------------------------


async def test_no_job_is_requeued_before_the_node_is_drained(programs):
    scontrol(programs, ALIASES, NODE, '"update NodeName=gpu-7") sleep 0.3;;', *WELL[3:])
    async with slurm_at_work(programs.environment) as work:
        cordon = asyncio.create_task(work.backend.cordon(notice()))
        work.backend.drain(order(training=(GROUP,)))
        await until_asked(work, programs, "scontrol requeue")
        await cordon

    orders = [
        line.split()[1] for line in programs.asked if line.split()[1] in {"update", "requeue"}
    ]
    assert orders == ["update", "requeue"]


async def test_a_flush_that_ends_has_its_job_requeued_and_its_answer_waits_for_that(programs):
    scontrol(programs, *WELL[:3], '"requeue incomplete") sleep 0.1;;', PIDS)
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        given = order(training=(GROUP,), waiting=(GROUP,))
        work.backend.drain(given)
        await work.until(lambda: "jobs" in work.backend.status())
        await work.until(lambda: work.backend.status()["jobs"])
        await work.backend.marked("n-1")
        assert not work.of(EvictionReported)

        work.backend.drain(order(training=(GROUP,)))
        await work.backend.marked("n-1")

        assert work.outcomes(1) == ["evicted"]
        assert asked(programs, "scontrol requeue") == ["scontrol requeue incomplete 1"]


async def test_an_answer_waits_for_a_controller_that_hangs_only_so_long(programs):
    programs.add("squeue", "sleep 600")
    async with slurm_at_work(programs.environment) as work:
        work.backend.drain(order(training=(GROUP,)))
        began_at = time.monotonic()
        await work.backend.marked("n-1")
        await work.backend.marked("n-2")

    assert time.monotonic() - began_at < 0.9


async def test_a_job_that_is_gone_by_itself_is_reported_so_and_the_drain_is_over(
    programs, tmp_path
):
    programs.add("squeue", f'test -e {tmp_path}/gone || echo "{RUNNING}"')
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order())
        await work.until(lambda: work.backend.status().get("jobs_to_leave") == 1)

        (tmp_path / "gone").touch()
        work.backend.drain(order())
        await work.until(lambda: work.ending)

        assert work.ending == DrainEnded("n-1", "drained", "1 job has left")
        assert work.outcomes(1) == ["gone"]


async def test_a_requeue_that_is_refused_is_reported_once_and_named_at_the_end(programs):
    refusal = 'echo "Access/permission denied" >&2; exit 1'
    scontrol(programs, *WELL[:3], f'"requeue incomplete") {refusal};;', PIDS)
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(ends_in=1.5, training=(GROUP,)))
        await work.until(lambda: work.ending)

        assert work.outcomes(1) == ["failed"]
        assert work.ending.outcome == "failed"
        assert "Slurm requeues no job: Access/permission denied" in work.ending.detail


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('echo "squeue: error: broken" >&2; exit 1', "broken"),
        ('echo "JOBID PARTITION"', "squeue printed something else than jobs"),
        ("yes", "squeue printed more than 64 KiB"),
        ("exec sleep 600", "squeue took longer than 0.3 s"),
    ],
)
async def test_jobs_that_cannot_be_listed_are_a_failure_with_its_cause(programs, script, why):
    programs.add("squeue", script)
    async with slurm_at_work(programs.environment, call_seconds=0.3) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(ends_in=1.2, training=(GROUP,)))
        await work.until(lambda: work.ending)

    assert work.ending.outcome == "failed"
    assert why in work.ending.detail
    assert not asked(programs, "scontrol requeue")


async def test_a_signal_is_sent_to_no_script_that_was_not_seen_to_catch_it(programs):
    async with slurm_at_work(programs.environment, means=Means(signal="USR1")) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order())
        await work.until(lambda: work.backend.status().get("jobs"))

    assert not asked(programs, "scancel")


async def test_an_order_that_is_over_is_not_begun_again(programs):
    programs.add("squeue", "")
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order())
        await work.until(lambda: work.ending)
        work.backend.drain(order())
        await asyncio.sleep(0.1)

        assert len(work.of(DrainEnded)) == 1
        assert "jobs" not in work.backend.status()


async def test_of_two_orders_the_newest_moves_jobs_and_both_end(programs, tmp_path):
    programs.add("squeue", f'test -e {tmp_path}/gone || echo "{RUNNING}"')
    scontrol(programs, *WELL[:3], f'"requeue incomplete") touch {tmp_path}/gone;;', PIDS)
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order("n-1", training=(GROUP,), waiting=(GROUP,)))
        work.backend.drain(order("n-2", training=(GROUP,)))
        await work.until(lambda: len(work.of(DrainEnded)) == 2)

        assert [(report.id, report.outcome) for report in work.of(EvictionReported)] == [
            ("n-2", "evicted")
        ]
        assert {one.id: one.outcome for one in work.of(DrainEnded)} == {
            "n-1": "drained",
            "n-2": "drained",
        }


async def test_closing_in_the_middle_ends_what_goes_on_and_says_nothing(programs):
    scontrol(programs, *WELL[:3], '"requeue incomplete") sleep 600;;', PIDS)
    async with slurm_at_work(programs.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(training=(GROUP,)))
        await until_asked(work, programs, "scontrol requeue")
        began_at = time.monotonic()
        await work.backend.close()

        assert time.monotonic() - began_at < 2
        assert not work.of(DrainEnded)
        assert not work.of(EvictionReported)


# --- whether there is a Slurm ------------------------------------------------------------------


def with_scontrol(name: str) -> str:
    return f"/usr/bin/{name}"


def without(_name: str) -> None:
    return None


@pytest.mark.parametrize(
    ("environment", "which", "is_there", "expected"),
    [
        ({}, with_scontrol, True, True),
        ({}, with_scontrol, False, False),
        ({"SLURM_CONF": "/x"}, with_scontrol, False, True),
        ({"SLURM_CONF": "/x"}, without, True, False),
    ],
)
def test_a_node_of_slurm_has_its_command_and_a_trace_of_it(
    tmp_path, environment, which, is_there, expected
):
    trace = tmp_path / "slurm.conf"
    if is_there:
        trace.touch()

    assert found(environment, which, (str(trace),)) is expected
