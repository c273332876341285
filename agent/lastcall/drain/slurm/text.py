"""What Slurm's commands print, as values. No I/O.

Texts and fields are those of scontrol(1) and squeue(1), seen on Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

JOB_FIELDS = (
    "JobID:.16",
    "JobArrayID:.40",
    "State:.24",
    "NumNodes:.12",
    "Requeue:.12",
    "BatchFlag:.12",
)
"""What is asked of ``squeue --Format``: a width and a dot for each, or texts run together."""

TROUBLE_CHARACTERS = 200
"""At most so much is kept of why a command failed."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_REASON = re.compile(r"^ +Reason=(.*?)(?: \[[^\[\]]*@[^\[\]]*\])?$", re.MULTILINE)
_STATE = re.compile(r"^ +State=(\S+)", re.MULTILINE)
_HOSTNAME = re.compile(r"^Hostname *= *(\S+)$", re.MULTILINE)
_PROGRAM = re.compile(r"\A(?:\w+:? )?(?:error|fatal): ")


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as the controller has it.

    Attributes:
        flags: its state and what is set beside it, such as ``IDLE`` and ``DRAIN``.
        reason: why it is drained or down, without who said so and when.
    """

    flags: frozenset[str]
    reason: str = ""

    @property
    def is_drained(self) -> bool:
        """Whether it takes no new jobs because somebody, or Slurm, has drained it."""
        return bool(self.flags & {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"})

    @property
    def is_down(self) -> bool:
        """Whether it is down: it has no jobs and takes none."""
        return "DOWN" in self.flags

    def __str__(self) -> str:
        return "+".join(sorted(self.flags))


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has processes on the node, or had until just now.

    Attributes:
        id: its number; each task of an array has its own.
        name: how people know it: ``42``, or ``40_2`` for a task of an array.
        state: such as ``RUNNING`` or ``COMPLETING``.
        nodes: how many nodes it has.
        may_requeue: it was submitted so that it may be requeued.
        is_batch: it has a script that could be started again.
    """

    id: int
    name: str
    state: str
    nodes: int
    may_requeue: bool
    is_batch: bool

    @property
    def is_ending(self) -> bool:
        """Whether it has been told to end, and its processes are being waited for."""
        return self.state not in {"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "RESIZING"}


@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process of a job on this node; ``is_script`` tells the batch script's own."""

    pid: int
    job_id: int
    is_script: bool


def is_name(text: str) -> bool:
    """Whether a text is one node's name, and neither a list of them nor an option."""
    return bool(_NAME.match(text))


def node_state(text: str) -> NodeState | None:
    """Return the node that ``scontrol show node NAME`` prints; ``None`` where it prints none.

    Flags are joined by ``+``; a sign at the state's end says that the node does not answer, saves
    power and the like, which is of no matter here.
    """
    state = _STATE.search(text)
    if state is None:
        return None
    reason = _REASON.search(text)
    return NodeState(
        frozenset(flag.rstrip("*~#!%$@^-") for flag in state[1].upper().split("+")),
        reason[1].strip() if reason else "",
    )


def jobs(text: str) -> tuple[Job, ...] | None:
    """Return the jobs that ``squeue`` lists with :data:`JOB_FIELDS`; ``None`` for another text."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != len(JOB_FIELDS) or not (fields[0] + fields[3]).isdecimal():
            return None
        found.append(
            Job(
                id=int(fields[0]),
                name=fields[1],
                state=fields[2].upper(),
                nodes=int(fields[3]),
                may_requeue=_is_set(fields[4]),
                is_batch=_is_set(fields[5]),
            )
        )
    return tuple(found)


def processes(text: str) -> tuple[JobProcess, ...]:
    """Return the processes that ``scontrol listpids`` lists; lines that are cut are left out.

    The batch script is the one task of the step ``batch``; what it has started has no task number.
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 5 and fields[0].isdecimal() and fields[1].isdecimal():
            is_script = fields[2] == "batch" and fields[3] == "0"
            found.append(JobProcess(int(fields[0]), int(fields[1]), is_script))
    return tuple(found)


def hostname(text: str) -> str:
    """Return what slurmd calls itself, as ``scontrol show slurmd`` prints it, or nothing."""
    match = _HOSTNAME.search(text)
    return match[1] if match and is_name(match[1]) else ""


def has_ended_preempted(text: str) -> bool:
    """Whether ``scontrol show job`` prints a job whose script ended with 143 and may go again.

    That is what a process exits with that saved and stopped for a notice.
    """
    words = set(text.split())
    return {"JobState=FAILED", "ExitCode=143:0", "Requeue=1"} <= words


def trouble(errors: str, text: str = "") -> str:
    """Return one line that says why a command failed.

    The last line says what failed. Where authentication did, an earlier one says why.

    Args:
        errors: what it wrote to standard error.
        text: what it wrote to standard output, which holds the reason at times.
    """
    lines = [
        _PROGRAM.sub("", line.strip())
        for line in (errors.splitlines() or text.splitlines())
        if line.strip()
    ]
    if not lines:
        return "it failed and did not say why"
    cause = next((line for line in lines[:-1] if "Munge" in line), "")
    said = f"{lines[-1]}: {cause}" if cause else lines[-1]
    return said if len(said) <= TROUBLE_CHARACTERS else said[: TROUBLE_CHARACTERS - 1] + "…"


def _is_set(field: str) -> bool:
    return field.lower() in {"1", "yes", "true"}
