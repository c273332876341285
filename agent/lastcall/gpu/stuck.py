"""Sees whether a process of an agent before this one is still held by the kernel in a call."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_UNINTERRUPTIBLE = "D"


def is_uninterruptible(pid: int, proc: Path = Path("/proc")) -> bool:
    """Tell whether a thread of a process is in uninterruptible sleep.

    A killed process is a zombie by name already, while one of its threads is still held.

    Args:
        pid: the process.
        proc: where procfs is mounted.
    """
    with suppress(OSError):
        return any(
            _state(task) == _UNINTERRUPTIBLE for task in (proc / str(pid) / "task").iterdir()
        )
    return False


def _state(task: Path) -> str:
    # Nothing but `stat` is read: reading the command line of a stuck process can get stuck too.
    try:
        text = (task / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The state follows the program's name, which may itself hold spaces and brackets.
    return text.rpartition(")")[2].strip()[:1]
