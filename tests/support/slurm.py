"""A real Slurm of one's own: munged, slurmctld and two slurmd, in a folder, on ports of their own.

It takes root and Debian's packages ``slurm-wlm`` and ``munge``, and no systemd.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from support.needs import need_program, need_root
from support.running_agent import free_port

NODE = "gpu-7"
"""The node that this host is; its name is not the host's."""

OTHER_NODE = "gpu-8"
"""A second one, which Slurm takes for another host."""

_CONFIG = """\
ClusterName=lastcall
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=1
SlurmdTimeout=15
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=100
NodeName={other} NodeHostname=elsewhere NodeAddr=127.0.0.1 Port={other_port} CPUs=8 RealMemory=100
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES
"""


class SlurmCluster:
    """The cluster; made by :func:`slurm_cluster`.

    Attributes:
        folder: where all of it lies.
        config: its ``slurm.conf``.
        environment: with which Slurm's commands find it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.config), "PATH": os.environ["PATH"]}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all of it, and wait until both nodes take jobs."""
        munge = self.start_munge("munge")
        self.config.write_text(
            _CONFIG.format(
                host=socket.gethostname().partition(".")[0],
                folder=self.folder,
                munge=munge,
                controller_port=free_port(),
                node=NODE,
                port=free_port(),
                other=OTHER_NODE,
                other_port=free_port(),
            )
        )
        (self.folder / "state").mkdir()
        self.start_controller()
        for name in (NODE, OTHER_NODE):
            (self.folder / f"spool-{name}").mkdir()
            self.start_slurmd(name)
        self.wait(lambda: all(self.state(name) == {"IDLE"} for name in (NODE, OTHER_NODE)))

    def start_munge(self, name: str) -> Path:
        """Start a munged with a key of its own, and return its socket."""
        folder = self.folder / name
        folder.mkdir()
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        path = folder / "socket"
        self._start(
            name,
            *("/usr/sbin/munged", "--foreground", "--num-threads=2", f"--key-file={key}"),
            *(f"--socket={path}", f"--pid-file={folder}/pid", f"--log-file={folder}/log"),
            f"--seed-file={folder}/seed",
        )
        self.wait(path.exists)
        return path

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        self._start("slurmctld", "/usr/sbin/slurmctld", "-D")
        self.wait(lambda: self.run("scontrol", "show", "node", NODE).returncode == 0)

    def start_slurmd(self, name: str) -> None:
        """Start the slurmd of a node."""
        self._start(name, "/usr/sbin/slurmd", "-D", "-N", name)

    def stop(self, name: str) -> None:
        """Stop one of the daemons, ``slurmctld`` or a node's slurmd, and wait for its end."""
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End all jobs and all daemons."""
        try:
            if "slurmctld" in self._processes:
                self.end_jobs()
        finally:
            for name in list(self._processes):
                self.stop(name)

    def other_config(self, munge: Path) -> Path:
        """Return a configuration that differs from the cluster's in who vouches for a caller."""
        path = self.folder / "other.conf"
        path.write_text(re.sub(r"(?m)^AuthInfo=.*$", f"AuthInfo=socket={munge}", self._text))
        return path

    @property
    def _text(self) -> str:
        return self.config.read_text()

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands, as an admin does, and return what came of it."""
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=20, check=False
        )

    def told(self, *argv: str) -> str:
        """Run one that must go well, and return what it printed."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def update(self, *changes: str, node: str = NODE) -> None:
        """Change a node, as an admin does."""
        self.told("scontrol", "update", f"NodeName={node}", *changes)

    def state(self, node: str = NODE) -> set[str]:
        """Return a node's state and its flags."""
        found = re.search(r" State=(\S+)", self.run("scontrol", "show", "node", node).stdout)
        return set(found[1].replace("*", "").split("+")) if found else set()

    def reason(self, node: str = NODE) -> str:
        """Return why a node is drained or down; empty where there is nothing."""
        found = re.search(r"Reason=(.*) \[", self.told("scontrol", "show", "node", node))
        return found[1] if found else ""

    def submit(self, script: str, *flags: str) -> int:
        """Submit a batch script to the node, wait until it runs, and return the job's number."""
        path = self.folder / f"script-{time.monotonic_ns()}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        return self.submit_file(path, *flags)

    def submit_file(self, path: Path, *flags: str) -> int:
        """Submit a batch script that lies there, as :meth:`submit` does."""
        output = f"--output={self.folder}/job-%j.out"
        where = () if any(flag.startswith("--nodes") for flag in flags) else (f"-w{NODE}",)
        job = int(self.told("sbatch", "--parsable", output, *where, *flags, str(path)))
        self.wait(lambda: self.job(job)["JobState"] == "RUNNING")
        return job

    def output(self, job: int) -> str:
        """Return what a job has printed."""
        path = self.folder / f"job-{job}.out"
        return path.read_text() if path.exists() else ""

    def job(self, job: int) -> dict[str, str]:
        """Return what the controller knows of a job."""
        text = self.told("scontrol", "show", "--oneliner", "job", str(job))
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def jobs(self, node: str = NODE) -> dict[int, str]:
        """Return the jobs on a node with their states."""
        text = self.told("squeue", "--noheader", f"--nodelist={node}", "--format=%A %T")
        return {int(number): state for number, state in map(str.split, text.splitlines())}

    def end_jobs(self) -> None:
        """End every job, and wait until none is left."""
        for flags in ((), ("--signal=KILL", "--full")):
            self.run("scancel", *flags, "--user=root")
        self.wait(lambda: not self.jobs() and not self.jobs(OTHER_NODE))

    def clear(self) -> None:
        """Leave no job and no mark to the next test."""
        self.end_jobs()
        for node in (NODE, OTHER_NODE):
            self.wait(partial(self._is_given_back, node))
        self.wait(lambda: all(self.state(name) == {"IDLE"} for name in (NODE, OTHER_NODE)))

    def _is_given_back(self, node: str) -> bool:
        """Ask for it unless it is; a controller that has just started refuses that for a moment."""
        state = self.state(node)
        if state & {"DOWN", "DRAIN"}:
            wanted = "RESUME" if "DOWN" in state else "UNDRAIN"
            self.run("scontrol", "update", f"NodeName={node}", f"State={wanted}")
        return bool(state) and not state & {"DOWN", "DRAIN"}

    def wait(self, holds: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait until something holds; the daemons' logs are in the error when it does not."""
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, f"never held; the daemons said:\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        """Return the last lines of the daemons' logs."""
        tails = [
            f"== {path.name}\n" + "\n".join(path.read_text().splitlines()[-15:])
            for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join(tails)

    def _start(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.err").open("wb") as errors:
            self._processes[name] = subprocess.Popen(
                argv,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Run a cluster while the block runs."""
    need_root()
    for program, package in (("slurmctld", "slurm-wlm"), ("munged", "munge")):
        need_program(program, package)
    # munged wants every folder above its socket to be open to all, which pytest's are not.
    folder = Path(tempfile.mkdtemp(prefix="lastcall-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)
