"""Programs that stand in for Slurm's commands, as small shell scripts on a path of their own."""

from __future__ import annotations

import os
from pathlib import Path

_HEAD = '#!/bin/sh\necho "$(basename "$0") $*" >> "{log}"\n'


class SlurmPrograms:
    """A folder of stand-ins, and what was asked of them.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._log = folder / "asked"
        self.environment = {"PATH": f"{self._bin}:{os.environ['PATH']}"}

    def add(self, name: str, script: str) -> None:
        """Put a program there; ``script`` is the body of a shell script."""
        path = self._bin / name
        path.write_text(_HEAD.format(log=self._log) + script + "\n")
        path.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        """Every command so far, with its arguments."""
        return self._log.read_text().splitlines() if self._log.exists() else []
