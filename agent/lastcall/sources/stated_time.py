"""Times as files and addresses state them, and which of them are believed."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo

PAST_SECONDS = 3600.0
"""A time that is longer past than this is left over: the machine is still here."""

AHEAD_SECONDS = 366 * 86400.0
"""A time that is farther ahead than this is none that anybody meant."""

_UNIX = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d\S*", re.ASCII)
_SPACED_ZONE = re.compile(r"\s+(?=[Zz+-]|UTC\Z)")


def unix_time(value: object, zone: tzinfo = UTC) -> float | None:
    """Return the Unix seconds of a time, or ``None`` where it is no time.

    Read are Unix seconds, RFC 3339, and ``2030-01-31 10:00:00`` with or without a zone after it.

    Args:
        value: a number or a text.
        zone: whose time it is where it names no zone.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 1e15 else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    return float(text) if _UNIX.fullmatch(text) else _written(text, zone)


def doubt(ends_in_seconds: float) -> str:
    """Return why a time is not believed, seen from now; empty where it is.

    Args:
        ends_in_seconds: from now to that time; negative where it is past.
    """
    if ends_in_seconds < -PAST_SECONDS:
        return f"the time is {_hours(-ends_in_seconds)} past and not believed"
    if ends_in_seconds > AHEAD_SECONDS:
        return f"the time is {_hours(ends_in_seconds)} ahead and not believed"
    return ""


def _written(text: str, zone: tzinfo) -> float | None:
    joined = _SPACED_ZONE.sub("", text)
    if joined.endswith("UTC"):
        joined = f"{joined[:-3]}Z"
    if not _WRITTEN.fullmatch(joined):
        return None
    try:
        moment = datetime.fromisoformat(joined.upper())
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return zoned.timestamp()
    except (ValueError, OverflowError):
        return None


def _hours(seconds: float) -> str:
    return f"{math.floor(seconds / 3600)} h"
