"""What a check finds: how bad it is, what it is, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is.

    Attributes:
        OK: as it should be.
        NOTE: worth knowing; nothing needs to be done.
        WARNING: works, but not as well as it could, or could not be found out.
        PROBLEM: needs action: notices, flushes or drains will fail.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        check: what it is about, one word.
        level: how bad it is.
        what: what was found, in one line.
        remedy: what to do about it; empty where nothing needs to be done.
    """

    check: str
    level: Level
    what: str
    remedy: str = ""


class Findings(list[Finding]):
    """What one check has found so far."""

    def ok(self, check: str, what: str) -> None:
        """Add what is as it should be."""
        self.append(Finding(check, Level.OK, what))

    def note(self, check: str, what: str, remedy: str = "") -> None:
        """Add what is worth knowing."""
        self.append(Finding(check, Level.NOTE, what, remedy))

    def warning(self, check: str, what: str, remedy: str) -> None:
        """Add what could be better."""
        self.append(Finding(check, Level.WARNING, what, remedy))

    def problem(self, check: str, what: str, remedy: str) -> None:
        """Add what needs action."""
        self.append(Finding(check, Level.PROBLEM, what, remedy))
