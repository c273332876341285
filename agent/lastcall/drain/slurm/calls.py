"""What is asked of Slurm, one command each; whatever goes wrong is one error of our own."""

from __future__ import annotations

from collections.abc import Mapping

from lastcall.drain.slurm import text as slurm_text
from lastcall.drain.slurm.commands import OUTPUT_LIMIT_BYTES, Answer, plain_environment, run
from lastcall.drain.slurm.text import Job, JobProcess, NodeState

PROCESSES_LIMIT_BYTES = 8 * OUTPUT_LIMIT_BYTES
"""A node may have thousands of processes, at some 40 bytes each."""

REMEDY = "set drain.slurm.node_name"

_UNREAD = "Zero Bytes were transmitted or received"


class SlurmError(Exception):
    """A command did not do what it was asked; the text says why in one line."""


class UnknownNodeError(SlurmError):
    """The controller answers, and knows no node of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'the controller knows no node "{name}": {REMEDY}')


class SlurmCalls:
    """Runs Slurm's own commands.

    Args:
        call_seconds: how long one may take; less where a caller has less.
        environment: the agent's own, which may say where the configuration is.
    """

    def __init__(self, call_seconds: float, environment: Mapping[str, str]) -> None:
        self.call_seconds = call_seconds
        self._environment = plain_environment(environment)

    async def aliases(self) -> tuple[str, ...]:
        """Return the nodes that the configuration has for this host; the controller is not asked.

        Raises:
            SlurmError: there are none, or that cannot be told.
        """
        text = await self._told("scontrol", "show", "aliases")
        return tuple(name for name in text.split() if slurm_text.is_name(name))

    async def slurmd_name(self) -> str:
        """Return what the slurmd of this host calls itself; the controller is not asked.

        Raises:
            SlurmError: it does not answer, or gives no name.
        """
        name = slurm_text.hostname(await self._told("scontrol", "show", "slurmd"))
        if not name:
            raise SlurmError("slurmd does not say what it calls itself")
        return name

    async def node(self, name: str, seconds: float | None = None) -> NodeState:
        """Return the node as the controller has it.

        Raises:
            UnknownNodeError: the controller knows no such node.
            SlurmError: it could not be asked, or its answer could not be read.
        """
        answer = await self._run("scontrol", "show", "node", name, seconds=seconds)
        if f"Node {name} not found" in answer.text + answer.errors:
            raise UnknownNodeError(name)
        state = slurm_text.node_state(_checked(answer))
        if state is None:
            raise SlurmError("scontrol show node printed no state")
        return state

    async def drain_node(self, name: str, reason: str, seconds: float | None = None) -> None:
        """Have the node take no new jobs; those that run there run on.

        Raises:
            SlurmError: it was not done, as far as is known.
        """
        await self._update(name, "State=DRAIN", f"Reason={reason}", seconds=seconds)

    async def undrain_node(self, name: str, *, is_down: bool, seconds: float | None = None) -> None:
        """Have the node take new jobs again.

        Args:
            name: the node.
            is_down: it is also down, from which ``UNDRAIN`` does not bring it back (seen on Slurm
                22.05), and ``RESUME`` does.
            seconds: how long it may take.

        Raises:
            SlurmError: it was not done, as far as is known.
        """
        await self._update(name, "State=RESUME" if is_down else "State=UNDRAIN", seconds=seconds)

    async def jobs(self, name: str, seconds: float | None = None) -> tuple[Job, ...]:
        """Return the jobs on the node, also those that are ending.

        Raises:
            UnknownNodeError: the controller knows no such node.
            SlurmError: they could not be listed.
        """
        answer = await self._run(
            *("squeue", "--noheader", "--all", "--local", f"--nodelist={name}"),
            f"--Format={','.join(slurm_text.JOB_FIELDS)}",
            seconds=seconds,
        )
        if not answer.ok and "Invalid node name" in answer.errors:
            raise UnknownNodeError(name)
        found = slurm_text.jobs(_checked(answer))
        if found is None:
            raise SlurmError("squeue printed something else than jobs")
        return tuple(job for job in found if job.state != "PENDING")

    async def processes(self, name: str, seconds: float | None = None) -> tuple[JobProcess, ...]:
        """Return the processes of all jobs on the node; the controller is not asked.

        The command fails where there is none, as it does for faults, so that nothing is raised.
        """
        answer = await self._run(
            *("scontrol", "listpids", "*", name),
            seconds=seconds,
            limit_bytes=PROCESSES_LIMIT_BYTES,
        )
        return slurm_text.processes(answer.text)

    async def signal_script(self, job: Job, signal: str, seconds: float | None = None) -> None:
        """Send a signal to a job's batch script alone.

        Raises:
            SlurmError: it was not sent, as far as is known.
        """
        await self._told("scancel", f"--signal={signal}", "--batch", str(job.id), seconds=seconds)

    async def requeue(self, job: Job, seconds: float | None = None) -> None:
        """Have a job end and start again elsewhere; nothing where it has ended by itself.

        Raises:
            SlurmError: it was not done, as far as is known.
        """
        await self._told("scontrol", "requeue", "incomplete", str(job.id), seconds=seconds)

    async def requeue_if_preempted(self, job: Job, seconds: float | None = None) -> bool:
        """Have a job start again that has ended with 143, and say whether it was one.

        Raises:
            SlurmError: it was not done, as far as is known.
        """
        answer = await self._run("scontrol", "show", "job", str(job.id), seconds=seconds)
        if "Invalid job id" in answer.errors:
            # It is forgotten already (MinJobAge, slurm.conf(5)).
            return False
        if not slurm_text.has_ended_preempted(_checked(answer)):
            return False
        await self._told("scontrol", "requeue", str(job.id), seconds=seconds)
        return True

    async def _update(self, name: str, *changes: str, seconds: float | None) -> None:
        await self._told("scontrol", "update", f"NodeName={name}", *changes, seconds=seconds)

    async def _told(self, *argv: str, seconds: float | None = None) -> str:
        return _checked(await self._run(*argv, seconds=seconds))

    async def _run(
        self, *argv: str, seconds: float | None, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> Answer:
        return await run(
            *argv,
            seconds=self.call_seconds if seconds is None else min(seconds, self.call_seconds),
            environment=self._environment,
            limit_bytes=limit_bytes,
        )


def _checked(answer: Answer) -> str:
    """Return what a command printed.

    Raises:
        SlurmError: it failed.
    """
    if answer.ok:
        return answer.text
    why = slurm_text.trouble(answer.errors, answer.text)
    if _UNREAD in why:
        # Seen on Slurm 22.05 where the controller cannot decode what it is sent.
        why += ", as where the munge keys or the clocks of node and controller differ"
    raise SlurmError(why)
