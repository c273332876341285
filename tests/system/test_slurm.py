"""A real Slurm: the node drained and given back, jobs signalled and requeued, and its faults."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lastcall.core.events import CordonFound, CordonLifted
from lastcall.drain.slurm.plan import Means
from lastcall.simulate import load
from support.running_agent import RunningAgent
from support.slurm import NODE, OTHER_NODE, SlurmCluster, slurm_cluster
from support.slurm_drains import notice, order, slurm_at_work
from support.slurm_training import training_job
from support.watching_agent import agent_watching

pytestmark = pytest.mark.root

ROOT = Path(__file__).resolve().parents[2]
SLEEPS = "sleep 600 & wait"
CATCHES = """
trap 'echo saved' USR1
while true; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[SlurmCluster]:
    if os.environ.get("LASTCALL_TESTS_SLURM") != "1":
        pytest.skip("runs Slurm only with LASTCALL_TESTS_SLURM=1, as CI does; takes a minute")
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    yield running_cluster
    running_cluster.clear()


async def test_the_node_is_drained_with_a_marked_reason_and_given_back(cluster):
    async with slurm_at_work(cluster.environment) as work:
        cordoned = await work.backend.cordon(notice("n-1"))
        again = await work.backend.cordon(notice("n-1"))

        assert cordoned.done
        assert again.done
        assert "DRAIN" in cluster.state()
        assert "DRAIN" not in cluster.state(OTHER_NODE)
        assert cluster.reason().startswith("lastcall: preemption n-1 20")

        given_back = await work.backend.uncordon("n-1")

        assert given_back.done
        assert "DRAIN" not in cluster.state()
    assert not work.of(CordonLifted)


async def test_a_drain_for_another_notice_is_taken_over_and_not_lifted_for_the_first(cluster):
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice("n-1"))
        await work.backend.cordon(notice("n-2"))

        lifted = await work.backend.uncordon("n-1")

        assert lifted.done
        assert cluster.reason().startswith("lastcall: preemption n-2")
        await work.until(lambda: [event.id for event in work.of(CordonFound)] == ["n-2"])


async def test_what_an_admin_has_drained_is_left_as_it_is(cluster):
    cluster.update("State=DRAIN", "Reason=bad fan")
    async with slurm_at_work(cluster.environment) as work:
        attempt = await work.backend.cordon(notice())
        lifted = await work.backend.uncordon("n-1")

    assert (attempt.done, attempt.foreign) == (False, True)
    assert "bad fan" in attempt.detail
    assert lifted.done
    assert cluster.reason() == "bad fan"
    assert "DRAIN" in cluster.state()


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        (("State=RESUME",), "somebody has resumed the node"),
        (("State=DRAIN", "Reason=bad fan"), "bad fan"),
    ],
)
async def test_an_admin_who_takes_the_node_over_is_noticed(cluster, changes, by):
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice("n-1"))

        cluster.update(*changes)

        await work.until(lambda: work.of(CordonLifted))
        lifted = work.of(CordonLifted)[0]
        assert lifted.id == "n-1"
        assert by in lifted.by


async def test_a_drain_of_ours_that_nobody_knows_of_is_found_and_can_be_given_back(cluster):
    cluster.update("State=DRAIN", "Reason=lastcall: preemption n-0 2030-01-01T00:00:00Z")
    async with slurm_at_work(cluster.environment) as work:
        await work.until(lambda: work.of(CordonFound))
        assert work.of(CordonFound)[0].id == "n-0"

        assert (await work.backend.uncordon("n-0")).done

    assert "DRAIN" not in cluster.state()


async def test_a_node_that_went_down_under_our_drain_comes_back_for_jobs(cluster):
    cluster.stop(NODE)
    cluster.update("State=DOWN", "Reason=Not responding")
    async with slurm_at_work(cluster.environment, node_name=NODE) as work:
        assert (await work.backend.cordon(notice("n-1"))).done
        cluster.start_slurmd(NODE)

        assert (await work.backend.uncordon("n-1")).done

    cluster.wait(lambda: cluster.state() == {"IDLE"})


async def test_a_script_that_catches_the_signal_hears_it_and_another_runs_on(cluster):
    deaf, catching = cluster.submit(SLEEPS), cluster.submit(CATCHES)
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(flush_in=30))

        await work.until(lambda: "saved" in cluster.output(catching))

        assert set(cluster.jobs().values()) == {"RUNNING"}
        work.backend.stop("n-1")
    assert cluster.job(deaf)["JobState"] == "RUNNING"


async def test_jobs_are_requeued_when_the_time_for_flushes_is_over(cluster):
    job = cluster.submit(CATCHES)
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(flush_in=4))
        await work.until(lambda: work.ending)

        assert work.ending.outcome == "drained"
        assert work.outcomes(job) == ["evicted"]
    assert "saved" in cluster.output(job)
    assert (cluster.job(job)["JobState"], cluster.job(job)["Restarts"]) == ("PENDING", "1")


async def test_what_may_not_be_requeued_is_left_until_the_end_and_named(cluster):
    kept = cluster.submit(SLEEPS, "--no-requeue")
    wide = cluster.submit(SLEEPS, "--nodes=2")
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(ends_in=2.5, flush_in=0))
        await work.until(lambda: work.ending)

        assert work.outcomes(kept) == ["blocked"]
        assert work.outcomes(wide) == ["blocked"]
        assert work.ending.outcome == "incomplete"
        assert f"job/{kept} (kept: it was submitted not to be requeued)" in work.ending.detail
        assert f"job/{wide} (kept: it has 2 nodes" in work.ending.detail
    assert cluster.job(kept)["JobState"] == cluster.job(wide)["JobState"] == "RUNNING"


async def test_a_job_of_several_nodes_is_requeued_where_that_is_wished(cluster):
    wide = cluster.submit(SLEEPS, "--nodes=2")
    async with slurm_at_work(cluster.environment, means=Means(requeue="all")) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(flush_in=0))
        await work.until(lambda: work.ending)

        assert work.ending.outcome == "drained"
    assert cluster.job(wide)["JobState"] == "PENDING"


async def test_a_drain_that_is_stopped_requeues_nothing_more(cluster):
    job = cluster.submit(SLEEPS)
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(flush_in=0.1))
        work.backend.stop("n-1")
        await asyncio.sleep(0.5)

        assert not work.ending
    assert cluster.job(job)["JobState"] == "RUNNING"


async def test_a_job_that_leaves_with_143_before_it_is_requeued_is_requeued_all_the_same(cluster):
    go = cluster.folder / "go"
    job = cluster.submit(f"while [ ! -e {go} ]; do sleep 0.1; done; exit 143")
    group = f"/slurm/uid_0/job_{job}/step_batch"
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(training=(group,), waiting=(group,)))
        await work.until(lambda: work.backend.status()["jobs"])
        assert work.backend.status()["jobs"][0]["state"] == "flushing"

        go.touch()
        await work.until(lambda: work.ending)

        assert work.ending.outcome == "drained"
        assert work.outcomes(job) == ["evicted"]
    assert cluster.job(job)["JobState"] == "PENDING"


async def test_a_controller_that_is_down_costs_its_time_out_and_no_more(cluster):
    cluster.stop("slurmctld")
    try:
        async with slurm_at_work(cluster.environment, call_seconds=0.5) as work:
            began_at = time.monotonic()
            attempt = await work.backend.cordon(notice())

            assert not attempt.done
            assert attempt.detail == "scontrol took longer than 0.5 s"
            assert time.monotonic() - began_at < 2
            await work.until(lambda: work.health)
            assert not work.health.up
            work.backend.drain(order(ends_in=2))
            await work.until(lambda: work.ending)
            assert work.ending.outcome == "failed"
            assert "could not be listed" in work.ending.detail

            cluster.start_controller()
            await work.until(lambda: work.health.up)
            assert (await work.backend.cordon(notice())).done
    finally:
        if "DRAIN" not in cluster.state():
            cluster.start_controller()


async def test_credentials_that_the_controller_refuses_are_told(cluster):
    stranger = cluster.start_munge("stranger")
    environment = {"SLURM_CONF": str(cluster.other_config(stranger))}
    async with slurm_at_work(environment) as work:
        attempt = await work.backend.cordon(notice())

        assert not attempt.done
        assert "munge keys" in attempt.detail
        await work.until(lambda: work.health)
        assert not work.health.up
    assert "DRAIN" not in cluster.state()


async def test_a_munge_that_is_not_there_is_named(cluster):
    nowhere = cluster.other_config(cluster.folder / "no-munge")
    async with slurm_at_work({"SLURM_CONF": str(nowhere)}) as work:
        attempt = await work.backend.cordon(notice())

        assert not attempt.done
        assert "Munge" in attempt.detail
        assert "no-munge" in attempt.detail


async def test_a_name_that_the_controller_does_not_know_is_told_with_its_remedy(cluster):
    async with slurm_at_work(cluster.environment, node_name="gpu-77") as work:
        attempt = await work.backend.cordon(notice())
        work.backend.drain(order(ends_in=2))
        await work.until(lambda: work.ending)

        said = 'the controller knows no node "gpu-77": set drain.slurm.node_name'
        assert attempt.detail == said
        assert work.health.up
        assert work.health.detail == said
        assert work.ending.outcome == "failed"
        assert said in work.ending.detail


@asynccontextmanager
async def agent_on(
    cluster: SlurmCluster, folder: Path, *settings: str
) -> AsyncIterator[tuple[RunningAgent, Any]]:
    """Run the agent on the cluster's node before a metadata service held in hand."""
    cloud = load("aws")()
    settings = ("drain.backend=slurm", "flush.reserve_seconds=3", *settings)
    environment = {"SLURM_CONF": str(cluster.config)}
    agent = agent_watching(folder, cloud, settings=settings, environment=environment)
    async with agent as running:
        yield running, cloud


async def test_a_job_flushes_is_requeued_and_the_node_is_given_back(cluster, tmp_path):
    async with agent_on(cluster, tmp_path) as (agent, cloud):
        with training_job(cluster, agent.socket_path) as training:
            other = cluster.submit(CATCHES)
            cloud.raise_notice(lead_seconds=7)
            await agent.wait(lambda: training.said("flushing"))
            await agent.wait(lambda: "saved" in cluster.output(other))
            await agent.wait(lambda: "DRAIN" in cluster.state())
            name = training.said("flushing")[0]["id"]

            assert name in cluster.reason()
            assert cluster.job(training.job)["JobState"] == "RUNNING"

            training.tell("save /ckpt/7", "leave")
            await agent.wait(lambda: cluster.job(training.job)["JobState"] == "PENDING")

            assert agent.logged("flush_settled")[0]["outcome"] == "in_time"
            assert cluster.job(training.job)["Restarts"] == "1"
            assert cluster.job(other)["JobState"] == "RUNNING"

            await agent.wait(lambda: agent.logged("node_drained"))

            assert agent.logged("node_drained")[0]["outcome"] == "drained"
            assert cluster.job(other)["JobState"] == "PENDING"
            assert await agent.metric('lastcall_evictions_total{outcome="evicted"}') == 2
            drained = 'lastcall_drains_total{backend="slurm",outcome="drained"}'
            assert await agent.metric(drained) == 1

        cloud.withdraw()
        await agent.wait(lambda: "DRAIN" not in cluster.state())
        await agent.wait(lambda: agent.logged("node_uncordoned"))
        assert await agent.metric("lastcall_node_cordoned") == 0


async def test_a_withdrawn_notice_leaves_the_job_where_it_is(cluster, tmp_path):
    async with agent_on(cluster, tmp_path) as (agent, cloud):
        with training_job(cluster, agent.socket_path) as training:
            cloud.raise_notice(lead_seconds=60)
            await agent.wait(lambda: training.said("flushing"))
            await agent.wait(lambda: "DRAIN" in cluster.state())

            cloud.withdraw()
            await agent.wait(lambda: "DRAIN" not in cluster.state())
            training.tell("save /ckpt/7", "stay")
            await agent.wait(lambda: training.said("flushed"))

            assert cluster.job(training.job)["JobState"] == "RUNNING"


async def test_a_controller_that_is_down_delays_no_notice(cluster, tmp_path):
    async with agent_on(cluster, tmp_path, "drain.slurm.call_seconds=1") as (agent, cloud):
        with training_job(cluster, agent.socket_path) as training:
            cluster.stop("slurmctld")
            try:
                raised_at = time.monotonic()
                cloud.raise_notice(lead_seconds=60)
                await agent.wait(lambda: training.said("flushing"))

                assert time.monotonic() - raised_at < 2
                training.tell("save /ckpt/7", "stay")
                await agent.wait(lambda: training.said("flushed"))
                assert training.said("flushed")[0]["recorded"]
                await agent.wait(lambda: agent.logged("node_cordoned"))
                assert not agent.logged("node_cordoned")[0]["cordoned"]
            finally:
                cluster.start_controller()
            await agent.wait(lambda: cluster.job(training.job)["JobState"] == "PENDING")


async def test_the_example_job_trains_flushes_and_starts_again_where_it_stopped(cluster, tmp_path):
    async with agent_on(cluster, tmp_path) as (agent, cloud):
        job = cluster.submit_file(
            ROOT / "examples/slurm/train.sbatch",
            f"--export=LASTCALL_SOCKET={agent.socket_path},CHECKPOINT={tmp_path}/c.json,"
            f"PATH={Path(sys.executable).parent}:/usr/bin:/bin",
            f"--chdir={ROOT}",
        )
        await agent.wait(lambda: agent.logged("client_joined"))

        cloud.raise_notice(lead_seconds=30)
        await agent.wait(lambda: cluster.job(job)["JobState"] == "PENDING")
        assert agent.logged("flush_settled")[0]["outcome"] == "in_time"

        cloud.withdraw()
        await agent.wait(lambda: cluster.state() == {"IDLE"})
        cluster.told("scontrol", "update", f"JobId={job}", "StartTime=now")
        await agent.wait(lambda: "run 2 of" in cluster.output(job), 20)
        saved = json.loads((tmp_path / "c.json").read_text())["step"]
        await agent.wait(lambda: f"starting after step {saved}" in cluster.output(job))


async def test_the_example_script_passes_the_signal_on_to_its_program(cluster):
    saving = 'trap "echo the program saves" USR2; while true; do sleep 0.1; done'
    program = cluster.folder / "program"
    program.write_text(f"#!/bin/bash\n{saving}\n")
    program.chmod(0o755)
    job = cluster.submit_file(
        ROOT / "examples/slurm/signal.sbatch", f"--export=PROGRAM={program},PATH=/usr/bin:/bin"
    )
    async with slurm_at_work(cluster.environment) as work:
        await work.backend.cordon(notice())
        work.backend.drain(order(flush_in=30))
        await work.until(lambda: "the program saves" in cluster.output(job))

        assert cluster.jobs() == {job: "RUNNING"}
