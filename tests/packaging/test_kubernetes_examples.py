"""The Kubernetes examples are valid, hang together, and their program does what they rely on."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

import pytest
import yaml

import lastcall
from lastcall.client.identity import DEFAULT_SOCKET
from lastcall.simulate.aws import AwsMetadata
from support.needs import leave_out, need_namespaces, need_program
from support.watching_agent import agent_watching

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
PROGRAM = EXAMPLES / "training.py"
MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))

# The oldest in which a rule may name exit codes alone, by its schema.
OLDEST_KUBERNETES = "1.29"

# Public repository kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go.
JOB_SET_FIELDS = {"replicatedJobs", "failurePolicy"}
REPLICATED_JOB_FIELDS = {"name", "replicas", "template"}
RULE_FIELDS = {"name", "action", "onJobFailureReasons", "targetReplicatedJobs"}
RULE_ACTIONS = {"FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"}


def read(name: str) -> dict:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def jobs() -> dict[str, dict]:
    """Return each Job of the examples, by where it stands."""
    job_set = read("jobset.yaml")
    found = {"job.yaml": read("job.yaml")}
    for replicated in job_set["spec"]["replicatedJobs"]:
        metadata = {"name": replicated["name"]}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
        found[f"jobset.yaml: {replicated['name']}"] = {**job, **replicated["template"]}
    return found


def pod_specs() -> dict[str, dict]:
    pods = {name: job["spec"]["template"]["spec"] for name, job in jobs().items()}
    return {**pods, "pod-socket-mount.yaml": read("pod-socket-mount.yaml")["spec"]}


def each(found: dict[str, dict]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", found.values(), ids=found)


# --- the manifests ---------------------------------------------------------------------------


@each({**jobs(), "pod-socket-mount.yaml": read("pod-socket-mount.yaml")})
def test_the_oldest_and_the_newest_api_take_it_with_no_unknown_field(example):
    if importlib.util.find_spec("kubernetes_validate") is None:
        leave_out("needs kubernetes-validate: pip install kubernetes-validate")
    schemas = importlib.import_module("kubernetes_validate")
    for version in (OLDEST_KUBERNETES, schemas.latest_version()):
        schemas.validate(example, version, strict=True)


def test_the_job_set_has_published_fields_only():
    job_set = read("jobset.yaml")
    assert (job_set["apiVersion"], job_set["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert set(job_set["spec"]) <= JOB_SET_FIELDS
    for replicated in job_set["spec"]["replicatedJobs"]:
        assert set(replicated) <= REPLICATED_JOB_FIELDS
    for rule in job_set["spec"]["failurePolicy"]["rules"]:
        assert set(rule) <= RULE_FIELDS
        assert rule["action"] in RULE_ACTIONS


def test_an_interruption_uses_up_no_restart_of_the_job_set():
    spec = read("jobset.yaml")["spec"]
    names = {replicated["name"] for replicated in spec["replicatedJobs"]}
    (rule,) = spec["failurePolicy"]["rules"]

    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert set(rule["targetReplicatedJobs"]) == names
    # The reason that a Job gives which a rule of its own has failed.
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    for replicated in spec["replicatedJobs"]:
        rules = replicated["template"]["spec"]["podFailurePolicy"]["rules"]
        assert {rule["action"] for rule in rules} == {"FailJob"}


@each(jobs())
def test_a_job_knows_an_interruption_by_the_pods_mark_and_by_the_exit_code(example):
    pod = example["spec"]["template"]["spec"]
    by_mark, by_code = example["spec"]["podFailurePolicy"]["rules"]

    assert pod["restartPolicy"] == "Never"
    # The schema that a JobSet embeds asks for the status, which a Job alone would default.
    assert by_mark["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    code = by_code["onExitCodes"]
    assert (code["operator"], code["values"]) == ("In", [lastcall.EXIT_PREEMPTED])
    assert code["containerName"] in {container["name"] for container in pod["containers"]}


def test_an_interruption_is_no_failure_of_the_job():
    rules = read("job.yaml")["spec"]["podFailurePolicy"]["rules"]
    assert {rule["action"] for rule in rules} == {"Ignore"}


@each(jobs())
def test_the_grace_covers_the_longest_notice(example):
    # AWS EC2 user guide, Spot Instance interruption notices: two minutes.
    assert example["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 120


@each(pod_specs())
def test_the_directory_is_mounted_and_never_the_socket(example):
    (container,) = example["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "lastcall"]
    (volume,) = [one for one in example["volumes"] if one["name"] == "lastcall"]
    environment = {one["name"]: one.get("value") for one in container.get("env", [])}
    sockets = {DEFAULT_SOCKET, environment.get("LASTCALL_SOCKET", DEFAULT_SOCKET)}

    assert {str(PurePosixPath(path).parent) for path in sockets} == {mount["mountPath"]}
    assert volume["hostPath"]["path"] == mount["mountPath"]
    assert mount["readOnly"]


@each(jobs())
def test_the_program_runs_from_its_config_map_without_a_shell(example):
    pod = example["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    interpreter, script = container["command"]
    (volume,) = [one for one in pod["volumes"] if "configMap" in one]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]

    assert interpreter == "python3"
    assert script == f"{mount['mountPath']}/{PROGRAM.name}"


# --- the program -----------------------------------------------------------------------------


@asynccontextmanager
async def training(checkpoint: Path, *prefix: str, socket: Path, steps: int = 100_000):
    """Run the program as a container would."""
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, str(PROGRAM)),
        stdout=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "LASTCALL_SOCKET": str(socket),
            "CHECKPOINT": str(checkpoint),
            "STEPS": str(steps),
            "STEP_SECONDS": "0.01",
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    line = await asyncio.wait_for(process.stdout.readline(), 10)
    return line.decode().rstrip()


async def code_of(process: asyncio.subprocess.Process) -> int:
    return await asyncio.wait_for(process.wait(), 10)


def mounted_read_only(folder: Path) -> tuple[str, ...]:
    """Return what has a program see a folder as a pod does, through a read-only mount."""
    need_namespaces()
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    return (need_program("unshare", "util-linux"), "--mount", "--", "sh", "-c", script, str(folder))


@pytest.mark.parametrize("mount", ["as it is", "read-only"])
async def test_it_saves_at_a_notice_stops_with_its_own_code_and_carries_on(tmp_path, mount):
    checkpoint = tmp_path / "training.json"
    metadata = AwsMetadata()
    folder = tmp_path / "run"
    folder.mkdir()
    prefix = mounted_read_only(folder) if mount == "read-only" else ()
    async with agent_watching(folder, metadata) as agent:
        async with training(checkpoint, *prefix, socket=agent.socket_path) as process:
            await agent.wait(lambda: agent.logged("client_joined"))

            metadata.raise_notice("preemption", 120)

            assert await code_of(process) == lastcall.EXIT_PREEMPTED
        settled = agent.logged("flush_settled")
        saved = json.loads(checkpoint.read_text())["step"]
        assert [one["outcome"] for one in settled] == ["in_time"]

    async with training(checkpoint, socket=tmp_path / "none", steps=saved + 1) as process:
        assert await line_of(process) == f"starting with step {saved + 1}"
        assert await code_of(process) == 0


async def test_it_saves_at_another_drainers_sigterm_too(tmp_path):
    checkpoint = tmp_path / "training.json"
    async with training(checkpoint, socket=tmp_path / "none") as process:
        assert await line_of(process) == "starting with step 1"

        process.send_signal(signal.SIGTERM)

        assert await code_of(process) == lastcall.EXIT_PREEMPTED
    assert json.loads(checkpoint.read_text())["step"] > 0


async def test_it_completes_with_0(tmp_path):
    checkpoint = tmp_path / "training.json"
    async with training(checkpoint, socket=tmp_path / "none", steps=3) as process:
        assert await code_of(process) == 0
    assert json.loads(checkpoint.read_text())["step"] == 3
