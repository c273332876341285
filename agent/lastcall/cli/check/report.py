"""Findings as text for people, a line each, and as JSON for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from lastcall.cli.check.findings import Finding, Level
from lastcall.cli.terminal import Style, safe

CHECK_WIDTH = len("configuration")
LEVEL_WIDTH = max(map(len, Level))
TEXT_LENGTH = 1000
"""Characters that are shown of what was found, which may hold a server's own words."""


def line(finding: Finding, style: Style) -> str:
    """Return a finding as one line: how bad, about what, what it is, what to do."""
    emphasis = {
        Level.OK: style.good,
        Level.NOTE: style.bold,
        Level.WARNING: style.warning,
        Level.PROBLEM: style.bad,
    }[finding.level]
    level = emphasis(finding.level.value) + " " * (LEVEL_WIDTH - len(finding.level))
    text = safe(finding.what, TEXT_LENGTH)
    if finding.remedy:
        text += f" -> {safe(finding.remedy, TEXT_LENGTH)}"
    return f"{level}  {finding.check:<{CHECK_WIDTH}}  {text}"


def summary(findings: Sequence[Finding], style: Style) -> str:
    """Return how many need action."""
    counts = Counter(finding.level for finding in findings)
    words = [
        f"{counts[level]} {level.value}{'s' if counts[level] != 1 else ''}"
        for level in (Level.PROBLEM, Level.WARNING)
        if counts[level]
    ]
    if counts[Level.PROBLEM]:
        return style.bad(", ".join(words))
    return style.good("all that is needed is there") + "".join(f", {word}" for word in words)


def as_json(findings: Sequence[Finding]) -> str:
    """Return all findings, and whether none needs action."""
    content = {"findings": [asdict(one) for one in findings], "ok": is_good(findings)}
    return json.dumps(content, indent=2)


def is_good(findings: Sequence[Finding]) -> bool:
    """Whether nothing needs action."""
    return all(one.level is not Level.PROBLEM for one in findings)
