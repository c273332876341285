"""Checks the site's own programs: whether each is there and may be run."""

from __future__ import annotations

import asyncio
import os
import shutil

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.users import this_user
from lastcall.config.schema import Hooks
from lastcall.hooks.dispatch import ON_DRAINED, ON_FLUSHED, ON_NOTICE, ON_WITHDRAWN

CHECK = "hooks"

_HOOKS = (ON_NOTICE, ON_FLUSHED, ON_DRAINED, ON_WITHDRAWN)


async def check_hooks(subject: Subject, found: Findings) -> None:
    """Add each program that could not be run; nothing where none is configured."""
    await asyncio.to_thread(_look, subject.loaded.config.hooks, found)


def _look(settings: Hooks, found: Findings) -> None:
    programs = [
        (f"hooks.{hook}[{index}]", argv[0])
        for hook in _HOOKS
        for index, argv in enumerate(getattr(settings, hook))
    ]
    before = len(found)
    for key, program in programs:
        trouble = _trouble(program)
        if trouble:
            found.problem(
                CHECK, f"{key}: {trouble}", "install it, make it executable, or mend the setting"
            )
    if programs and len(found) == before:
        found.ok(CHECK, f"{len(programs)} to be run, and each is there")


def _trouble(program: str) -> str:
    """Return why a program could not be run; empty where it could."""
    # Programs are run in the root directory.
    path = os.path.join("/", program) if os.path.dirname(program) else program
    if shutil.which(path) is not None:
        return ""
    if path == program and not os.path.isabs(path):
        return f"{program} is not on the path, or {this_user()} may not run it"
    if not os.path.exists(path):
        return f"{path} does not exist"
    if os.path.isdir(path):
        return f"{path} is a directory"
    return f"{this_user()} may not run {path}"
