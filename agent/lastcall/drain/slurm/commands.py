"""Runs one Slurm command: a process of its own, with an end in sight and a bounded output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from lastcall.drain import programs

OUTPUT_LIMIT_BYTES = 64 * 1024
"""A command that prints more is stopped."""

_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")
_CHANGING = ("SLURM_", "SQUEUE_", "SCANCEL_", "SCONTROL_")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command.

    Attributes:
        code: its exit status; ``None`` where it was stopped or could not be run.
        text: what it wrote to standard output, at most what is allowed.
        errors: what it wrote to standard error, or why it has no exit status.
        is_cut: it wanted to print more than is allowed.
    """

    code: int | None
    text: str = ""
    errors: str = ""
    is_cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return self.code == 0


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which the commands print the same everywhere.

    Each of them can be told by variables to print or to choose otherwise (squeue(1), scontrol(1)
    and scancel(1), ENVIRONMENT VARIABLES); what says where the controller is stays.

    Args:
        environment: the agent's own.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not name.startswith(_CHANGING)
    }
    return kept | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


async def run(
    *argv: str,
    seconds: float,
    environment: Mapping[str, str],
    limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> Answer:
    """Run a command to its end, or stop it; nothing is raised but a cancellation.

    Args:
        argv: the program and its arguments; no shell reads them.
        seconds: how long it may take.
        environment: the whole of its environment.
        limit_bytes: how much it may print.
    """
    name = argv[0]
    try:
        process = await programs.start(*argv, environment=environment)
    except OSError as error:
        return Answer(None, errors=f"cannot run {name}: {error.strerror or error}")
    streams = (_Capped(process, process.stdout, limit_bytes), _Capped(process, process.stderr))
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(stream.read() for stream in streams))
            code = await process.wait()
    except TimeoutError:
        return Answer(None, errors=f"{name} took longer than {round(seconds, 1):g} s")
    finally:
        await programs.end(process)
    text, errors = (bytes(stream.kept).decode("utf-8", "replace") for stream in streams)
    if any(stream.is_cut for stream in streams):
        errors = f"{name} printed more than {limit_bytes // 1024} KiB"
        return Answer(None, text, errors, is_cut=True)
    return Answer(code, text, errors)


class _Capped:
    """What a process writes to one stream, up to a limit; past it the process is killed."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stream: asyncio.StreamReader | None,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> None:
        self.kept = bytearray()
        self.is_cut = False
        self._process = process
        self._stream = stream
        self._limit_bytes = limit_bytes

    async def read(self) -> None:
        if self._stream is None:
            return
        while piece := await self._stream.read(16 * 1024):
            room = self._limit_bytes - len(self.kept)
            self.kept += piece[:room]
            if len(piece) > room and not self.is_cut:
                self.is_cut = True
                programs.kill(self._process)
