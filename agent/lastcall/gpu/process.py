"""What ``/proc`` says of a process (proc_pid_stat(5), proc_pid_cmdline(5))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PYTHONS = ("-m", "-u")
"""Options of Python that tell nothing but what runs."""

COMMAND_CHARACTERS = 200
"""A command line is cut after so many characters."""

PARENTS = 16
"""A chain of parents is followed so far."""

LARGEST_PID = 4194304
"""The largest process id that Linux gives (``PID_MAX_LIMIT``)."""

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
    """Look a process up.

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
    """Follow a process's parents.

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
    """Read a process's command line.

    The kernel reads it from the process's own memory, and waits while that is locked: for ever
    where one of its threads hangs in a driver. So nothing is read while one of them is in
    uninterruptible sleep.

    Args:
        proc: where procfs is mounted.
        pid: its process id.

    Returns:
        What is started, in one line, cut short; ``None`` where it cannot be read now. How it is
        started is left out, which may be secret.
    """
    try:
        if _has_thread_in_kernel(proc, pid):
            return None
        with (proc / str(pid) / "cmdline").open("rb") as file:
            said = file.read(_COMMAND_BYTES)
    except OSError:
        return None
    text = " ".join(_started(said.decode("utf-8", "replace").split("\0"))).strip()
    return "".join(c for c in text if c.isprintable())[:COMMAND_CHARACTERS]


def _started(words: list[str]) -> Iterator[str]:
    """Yield a command's words up to the first option, but for those that name what Python runs."""
    for word in words:
        if (word.startswith("-") and word not in _PYTHONS) or "=" in word:
            return
        yield word


def is_uninterruptible(proc: Path, pid: int) -> bool:
    """Tell whether a thread of a process is in uninterruptible sleep.

    A killed process is a zombie by name already, while one of its threads is still held.

    Args:
        proc: where procfs is mounted.
        pid: its process id.
    """
    try:
        return _has_thread_in_kernel(proc, pid)
    except OSError:
        return False


def _has_thread_in_kernel(proc: Path, pid: int) -> bool:
    threads = (proc / str(pid) / "task").iterdir()
    return any(_state(thread / "stat") == _UNINTERRUPTIBLE for thread in threads)


def _state(path: Path) -> bytes:
    # The state follows the program's name, which may itself hold spaces and brackets.
    try:
        return path.read_bytes().rpartition(b")")[2].lstrip()[:1]
    except OSError:
        return b""
