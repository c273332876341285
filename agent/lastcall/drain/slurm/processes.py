"""What the kernel says of a job's processes: their control groups, and what a script catches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

from lastcall.drain.slurm.text import JobProcess

PROC = Path("/proc")

_OF_JOB = re.compile(
    r"(?:/\.\.)*(?:"
    r"/slurm[^/]*/uid_[0-9]+"
    r"|(?:/[^/]+\.slice)*/[^/]*slurmstepd\.scope"
    r")/job_([0-9]+)(?:/|\Z)"
)


@dataclass(slots=True)
class Footprint:
    """Where a job stands on this node.

    Attributes:
        cgroups: the control groups of its processes; version 1 has one for each controller.
        caught: numbers of the signals that its batch script catches; empty where it is not here.
    """

    cgroups: set[str] = field(default_factory=set)
    caught: frozenset[int] = frozenset()


def footprints(found: Iterable[JobProcess], proc: Path = PROC) -> dict[int, Footprint]:
    """Return the footprint of each job, by its number.

    Args:
        found: the processes on the node.
        proc: where the kernel shows them.
    """
    prints: dict[int, Footprint] = {}
    for process in found:
        one = prints.setdefault(process.job_id, Footprint())
        one.cgroups |= _cgroups(proc / str(process.pid))
        if process.is_script:
            one.caught = _caught(proc / str(process.pid))
    return prints


def job_of(cgroup: str) -> int | None:
    """Return the job that a control group was made for by Slurm; ``None`` for any other.

    The paths are those of its plugins cgroup/v1 and cgroup/v2 (Slurm's documentation, "Control
    Group v2 plugin"). They are taken from the top, where no user can make one.
    """
    match = _OF_JOB.match(cgroup)
    return int(match[1]) if match else None


def signal_number(name: str) -> int:
    """Return the number of a signal, such as ``USR1``."""
    return Signals[f"SIG{name}"].value


def _cgroups(folder: Path) -> set[str]:
    with suppress(OSError):
        lines = (folder / "cgroup").read_text(errors="replace").splitlines()
        return {path for line in lines if (path := line.split(":", 2)[-1]) != "/"}
    return set()


def _caught(folder: Path) -> frozenset[int]:
    """Return the signals that a process catches (``SigCgt``, proc(5), Linux man-pages)."""
    with suppress(OSError, ValueError):
        for line in (folder / "status").read_text(errors="replace").splitlines():
            if line.startswith("SigCgt:"):
                mask = int(line.split()[1], 16)
                return frozenset(number for number in range(1, 65) if mask >> (number - 1) & 1)
    return frozenset()
