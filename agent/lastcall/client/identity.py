"""Who this process is within its job, from what the launcher put into the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lastcall.client import values

DEFAULT_SOCKET = "/run/lastcall/agent.sock"

_JOB = ("LASTCALL_JOB", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID")
_RANK = ("RANK", "SLURM_PROCID")
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID")
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_NTASKS")
_PLAIN_NUMBER = re.compile("[0-9]{1,18}")
_UNSET = ("", "none")
"""torchrun sets TORCHELASTIC_RUN_ID to ``none`` where no run id was given."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A process's place in its job; ``None`` where nothing says so.

    Sources of the defaults: ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and ``TORCHELASTIC_RUN_ID``
    from PyTorch's documentation of torchrun ("Environment Variables"); the ``SLURM_…`` ones from
    Slurm's manual page srun(1) ("OUTPUT ENVIRONMENT VARIABLES"); ``PBS_JOBID`` and ``LSB_JOBID``
    from the manuals of PBS and LSF. torchrun's own come first, since inside a Slurm task they are
    the ones that tell the processes of that task apart.
    """

    job: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None


def identify(
    environ: Mapping[str, str],
    *,
    job: str | None = None,
    rank: int | None = None,
    local_rank: int | None = None,
    world_size: int | None = None,
) -> Identity:
    """Return who this process is: what the caller says, else what the environment says."""
    return Identity(
        job=values.text_or_none(job) or _first(environ, _JOB),
        rank=_number(environ, rank, _RANK),
        local_rank=_number(environ, local_rank, _LOCAL_RANK),
        world_size=_number(environ, world_size, _WORLD_SIZE),
    )


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = environ.get(name, "").strip()
        if value.lower() not in _UNSET:
            return values.text(value)
    return None


def _number(environ: Mapping[str, str], given: int | None, names: tuple[str, ...]) -> int | None:
    if given is not None:
        return values.whole(given)
    found = _first(environ, names)
    return int(found) if found is not None and _PLAIN_NUMBER.fullmatch(found) else None
