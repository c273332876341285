"""What ``/proc`` says of a process (proc_pid_stat(5), proc_pid_cmdline(5))."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COMMAND_CHARACTERS = 200
"""A command line is cut after so many characters."""

PARENTS = 16
"""A chain of parents is followed so far."""

_COMMAND_BYTES = 1024
_UNINTERRUPTIBLE = b"D"


@dataclass(frozen=True, slots=True)
class Stat:
    """A process.

    Attributes:
        pid: its process id.
        name: its short name.
        parent: its parent's process id; 0 where it has none here.
        started: when it started, in clock ticks since boot; with the pid it stands for this
            process and no later one.
    """

    pid: int
    name: str
    parent: int
    started: int


def stat(proc: Path, pid: int) -> Stat | None:
    """Looks a process up.

    Args:
        proc: where procfs is mounted.
        pid: its process id.

    Returns:
        The process; ``None`` where there is none, or none that may be seen.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        # The name may hold brackets and blanks; what follows it never does.
        start, _, rest = text.rpartition(")")
        fields = rest.split()
        return Stat(pid, start.partition("(")[2], int(fields[1]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def parents(proc: Path, process: Stat) -> tuple[int, ...]:
    """Follows a process's parents.

    Args:
        proc: where procfs is mounted.
        process: the process.

    Returns:
        The process ids from its parent upward, :data:`PARENTS` at most.
    """
    chain: list[int] = []
    above: Stat | None = process
    while above is not None and above.parent > 0 and len(chain) < PARENTS:
        chain.append(above.parent)
        above = stat(proc, above.parent)
    return tuple(chain)


def command(proc: Path, pid: int) -> str | None:
    """Reads a process's command line.

    The kernel reads it from the process's own memory, and waits while that is locked: for ever
    where one of its threads hangs in a driver. So nothing is read while one of them is in
    uninterruptible sleep.

    Args:
        proc: where procfs is mounted.
        pid: its process id.

    Returns:
        The command line in one line, cut short; ``None`` where it cannot be read now.
    """
    folder = proc / str(pid)
    try:
        if any(_hangs(thread / "stat") for thread in (folder / "task").iterdir()):
            return None
        with (folder / "cmdline").open("rb") as file:
            said = file.read(_COMMAND_BYTES)
    except OSError:
        return None
    text = said.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return "".join(c for c in text if c.isprintable())[:COMMAND_CHARACTERS]


def _hangs(path: Path) -> bool:
    try:
        return path.read_bytes().rpartition(b")")[2].lstrip()[:1] == _UNINTERRUPTIBLE
    except OSError:
        return False
