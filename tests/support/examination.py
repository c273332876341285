"""Checks of ``lastcall check``, run one by one in this process."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Finding, Findings
from lastcall.cli.check.seen_agent import SeenAgent
from lastcall.config.load import load

Look = Callable[[Subject, Findings], Awaitable[None]]


def subject_of(
    *settings: str, agent: SeenAgent | None = None, file: Path = Path(os.devnull)
) -> Subject:
    """Return what is examined: a configuration, each setting ``table.key=value``, and no agent."""
    return Subject(load(file, {}, settings), agent or SeenAgent(detail="no socket stands there"))


async def found_by(look: Look, subject: Subject) -> list[Finding]:
    """Return what a check finds; whatever is not good comes with a remedy, and all is one line."""
    found = Findings()
    await look(subject, found)
    for finding in found:
        assert finding.remedy or finding.level in {"ok", "note"}, finding
        assert "\n" not in finding.what + finding.remedy, finding
    return found


async def one_found_by(look: Look, subject: Subject) -> Finding:
    """Return the only thing that a check finds."""
    found = await found_by(look, subject)
    assert len(found) == 1, found
    return found[0]
