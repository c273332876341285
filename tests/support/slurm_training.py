"""A training process in a Slurm job, in the control group that Slurm would make, under a test."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.needs import leave_out
from support.slurm import SlurmCluster
from support.training import PROGRAM

_ROOT = Path("/sys/fs/cgroup")
_SCRIPT = """
group={top}/uid_0/job_$SLURM_JOB_ID/step_batch
mkdir -p $group && echo $$ > $group/cgroup.procs
export LASTCALL_SOCKET={socket}
exec {python} {program} <> {words}
"""


class SlurmTraining:
    """The job; made by :func:`training_job`.

    Attributes:
        job: its number.
    """

    def __init__(self, cluster: SlurmCluster, job: int, words: Path) -> None:
        self.job = job
        self._cluster = cluster
        self._words = words

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return what it has said of one thing so far."""
        # What the client logs for people stands between its lines.
        lines = self._cluster.output(self.job).splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in said if one["event"] == event]

    def tell(self, *lines: str) -> None:
        """Have it do something; see ``training_program``."""
        self._words.write_text("".join(f"{line}\n" for line in lines))


@contextlib.contextmanager
def training_job(cluster: SlurmCluster, socket_path: Path, *flags: str) -> Iterator[SlurmTraining]:
    """Run a job that trains under the agent while the block runs."""
    top = _hierarchy() / f"slurm_{cluster.folder.name}"
    words = cluster.folder / "words"
    os.mkfifo(words)
    script = _SCRIPT.format(
        top=top, socket=socket_path, python=sys.executable, program=PROGRAM, words=words
    )
    job = cluster.submit(script, "--open-mode=append", *flags)
    training = SlurmTraining(cluster, job, words)
    try:
        cluster.wait(lambda: training.said("training"))
        yield training
    finally:
        cluster.end_jobs()
        words.unlink()
        group = top / f"uid_0/job_{job}/step_batch"
        # Whoever has just died is in it for a moment still.
        cluster.wait(lambda: not (group / "cgroup.procs").read_text())
        for folder in (group, *group.parents[:3]):
            folder.rmdir()


def _hierarchy() -> Path:
    """Return where control groups are made: version 2's, or one of version 1's."""
    candidates = (_ROOT, _ROOT / "unified", _ROOT / "pids", _ROOT / "freezer")
    found = next((path for path in candidates if (path / "cgroup.procs").exists()), None)
    if found is None or not os.access(found, os.W_OK):
        leave_out("needs a control group file system that can be written to")
    return found
