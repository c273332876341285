"""Checks the state directory: whether the journal can be kept there, and outlives a reboot."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.users import AS_AGENT, this_user
from lastcall.cli.terminal import size
from lastcall.record.journal import ROTATE_BYTES
from lastcall.record.journal_file import KEPT

CHECK = "state"

NEEDED_BYTES = (KEPT + 2) * ROTATE_BYTES
"""What the journal may come to: the kept files, the one in use, and the next."""

_PROBE_BYTES = 64 * 1024


async def check_state_dir(subject: Subject, found: Findings) -> None:
    """Add what is wrong with the directory; what a running agent writes is left to it."""
    await asyncio.to_thread(_look, subject, found)


def _look(subject: Subject, found: Findings) -> None:
    state_dir, written = Path(subject.state_dir), subject.agent.runs
    _look_at_lasting(state_dir, subject.loaded.config.flush.volatile_paths, found)
    before = len(found)
    try:
        place = _nearest_directory(state_dir)
        if not written:
            _look_at_rights(state_dir, place, found)
        if len(found) == before:
            _look_at_space(state_dir, place, found, state=_state(subject))
    except OSError as error:
        found.problem(CHECK, f"cannot look at {state_dir}: {error.strerror}", AS_AGENT)


def _nearest_directory(path: Path) -> Path:
    """Return the directory, or the nearest above it that is there."""
    return next(one for one in (path, *path.parents) if os.path.lexists(one))


def _look_at_rights(state_dir: Path, place: Path, found: Findings) -> None:
    if not place.is_dir():
        found.problem(CHECK, f"{place} is no directory", "remove it, or set state_dir")
        return
    if place != state_dir:
        if not os.access(place, os.W_OK | os.X_OK):
            found.problem(
                CHECK,
                f"{state_dir} does not exist, and {this_user()} may not make it in {place}",
                f"make it for the agent's user, or {AS_AGENT}",
            )
        return
    try:
        # It has no name: nothing is left behind, whatever happens.
        with tempfile.TemporaryFile(dir=state_dir, buffering=0) as probe:
            probe.write(bytes(_PROBE_BYTES))
            os.fsync(probe.fileno())
    except PermissionError:
        found.problem(CHECK, f"{this_user()} may not write to {state_dir}", AS_AGENT)
    except OSError as error:
        found.problem(
            CHECK,
            f"cannot write to {state_dir}: {error.strerror}",
            "make space, or mount the file system for writing, or set state_dir",
        )


def _state(subject: Subject) -> str:
    """Say what the directory is to the journal; only the agent itself can say that it is there."""
    if "state_dir" in subject.agent.about:
        return "the running agent keeps its journal in"
    if subject.agent.runs:
        return "the running agent does not say where its journal is; this command reads"
    return "the journal fits into"


def _look_at_space(state_dir: Path, place: Path, found: Findings, *, state: str) -> None:
    free_bytes = shutil.disk_usage(place).free
    if free_bytes < NEEDED_BYTES:
        found.warning(
            CHECK,
            f"{size(free_bytes)} are left at {place}; the journal may need {size(NEEDED_BYTES)}",
            "make space, or set state_dir",
        )
        return
    new = "" if place == state_dir else ", which is made at the start"
    found.ok(CHECK, f"{state} {state_dir}{new}; {size(free_bytes)} are left")


def _look_at_lasting(state_dir: Path, volatile_paths: Sequence[str], found: Findings) -> None:
    for volatile in volatile_paths:
        if state_dir.is_relative_to(volatile):
            found.warning(
                CHECK,
                f"{state_dir} is below {volatile}, which a reboot empties: the agent then forgets "
                "what it has cordoned",
                "set state_dir to a disk",
            )
