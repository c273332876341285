"""Whether this machine is part of a Slurm cluster, told without running anything of Slurm's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

TRACES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/run/slurmd.pid",
    "/run/slurm/slurmd.pid",
)
"""What a node of Slurm has: a configuration, one kept from its controller, or a slurmd."""


def found(
    environment: Mapping[str, str] = os.environ,
    which: Callable[..., str | None] = shutil.which,
    traces: tuple[str, ...] = TRACES,
) -> bool:
    """Return whether this machine is part of a Slurm cluster; no command is run.

    Args:
        environment: the agent's own.
        which: finds a program on the path.
        traces: paths of which one is there.
    """
    if which("scontrol") is None:
        return False
    named = ("SLURM_CONF", "SLURM_CONF_SERVER")
    return any(environment.get(name) for name in named) or any(map(_exists, traces))


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False
