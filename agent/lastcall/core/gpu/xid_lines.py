"""What the kernel's own line about an XID says beyond its number.

Its shapes are those of NVIDIA's XID catalog. A program's name stands before what the driver says
and may look like anything, so the last of several words counts.
"""

from __future__ import annotations

import re

FATAL = "fatal"
NONFATAL = "nonfatal"

_SEVERITY = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
_ACTION = re.compile(r"\bto\s+(0x[0-9a-f]{1,8}|[0-9]{1,9})\b", re.IGNORECASE | re.ASCII)


def severity(line: str) -> str:
    """Return :data:`FATAL` or :data:`NONFATAL` as a unit of NVLink 5 calls it; else empty."""
    said = _SEVERITY.findall(line)
    if not said:
        return ""
    return NONFATAL if said[-1] else FATAL


def new_action(line: str) -> int | None:
    """Return the recovery action that the driver now calls for (XID 154); ``None``: not said."""
    said = _ACTION.findall(line)
    return int(said[-1], 16 if said[-1].lower().startswith("0x") else 10) if said else None
