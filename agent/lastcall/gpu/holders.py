"""Which processes hold which GPUs, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lastcall.core.gpu.model import Holder
from lastcall.gpu.process import LARGEST_PID, Stat, command, parents, stat


@dataclass(slots=True)
class _Held:
    process: Stat
    parents: tuple[int, ...]
    command: str | None = None
    since: dict[str, float] = field(default_factory=dict)

    def holder(self) -> Holder:
        said = self.command if self.command is not None else f"[{self.process.name}]"
        return Holder(self.process.pid, tuple(sorted(self.since)), said, self.parents)


class Holders:
    """Keeps the processes that compute on the GPUs.

    The driver gives process ids of the machine. An agent in a pod of its own process ids cannot
    make anything of them: they are counted in :attr:`unseen`.

    Args:
        proc: where procfs is mounted.
        after_seconds: a process that holds its GPUs for a shorter time is not named: it may be
            starting, and about to say itself who it is.
    """

    def __init__(self, proc: Path = Path("/proc"), *, after_seconds: float = 30.0) -> None:
        self._proc = proc
        self._after_seconds = after_seconds
        self._pid_max = _pid_max(proc)
        self._held: dict[int, _Held] = {}
        self._unseen: dict[str, frozenset[int]] = {}

    @property
    def unseen(self) -> int:
        """How many processes the driver lists that do not exist among the agent's own."""
        return len(frozenset().union(*self._unseen.values()))

    def take(self, at: float, gpu_uuid: str, pids: Iterable[int]) -> None:
        """Take in who holds a GPU now.

        Args:
            at: when, in seconds on the monotonic clock.
            gpu_uuid: which GPU.
            pids: the processes that the driver lists for it; what cannot be a process id is
                ignored.
        """
        listed = {pid for pid in pids if 0 < pid <= self._pid_max}
        there = {pid for pid in listed if self._look(pid)}
        self._unseen[gpu_uuid] = frozenset(listed - there)
        for pid in there:
            self._held[pid].since.setdefault(gpu_uuid, at)
        for pid, held in list(self._held.items()):
            if pid not in there:
                held.since.pop(gpu_uuid, None)
            if not held.since:
                del self._held[pid]

    def named(self, at: float) -> tuple[Holder, ...]:
        """Name who has held GPUs for long enough, and still lives.

        Args:
            at: now, in seconds on the monotonic clock.

        Returns:
            The processes, in the order of their ids.
        """
        return tuple(
            held.holder()
            for pid, held in sorted(self._held.items())
            if at - min(held.since.values()) >= self._after_seconds
            and _same(stat(self._proc, pid), held.process)
        )

    def _look(self, pid: int) -> bool:
        process = stat(self._proc, pid)
        if process is None:
            return False
        held = self._held.get(pid)
        if held is None or not _same(process, held.process):
            held = self._held[pid] = _Held(process, parents(self._proc, process))
        if held.command is None:
            held.command = command(self._proc, pid)
        return True


def _same(process: Stat | None, known: Stat) -> bool:
    return process is not None and process.started == known.started


def _pid_max(proc: Path) -> int:
    try:
        return int((proc / "sys/kernel/pid_max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return LARGEST_PID
