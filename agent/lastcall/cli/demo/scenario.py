"""What the demo plays, in numbers, and how it says that it went wrong."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import lastcall


class DemoError(Exception):
    """The story did not go as it should; the text is one clear line."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A training job and the notice that meets it.

    The notice is shown when rank 0 has done step ``notice_at``. A step is waiting, and a process
    writes its share of a checkpoint no faster than ``bytes_per_second``, as over a network.
    """

    provider: str
    ranks: int
    steps: int = 100
    checkpoint_every: int = 10
    notice_at: int = 54
    step_seconds: float = 0.03
    shard_bytes: int = 4 * 1024 * 1024
    bytes_per_second: float = 16 * 1024 * 1024

    @property
    def trainer_options(self) -> list[str]:
        """The trainer's command line, but for its places."""
        return [
            f"--steps={self.steps}",
            f"--checkpoint-every={self.checkpoint_every}",
            f"--step-seconds={self.step_seconds}",
            f"--shard-bytes={self.shard_bytes}",
            f"--bytes-per-second={self.bytes_per_second}",
        ]


def child_environment(**changes: str) -> dict[str, str]:
    """Return an environment for a process of the demo: it speaks of no other agent or job.

    The processes run the same lastcall as the demo, wherever that one was found.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LASTCALL_", "SLURM_"))
    }
    root = str(Path(lastcall.__file__).parent.parent)
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [root, own.get("PYTHONPATH")]))
    return own | changes
