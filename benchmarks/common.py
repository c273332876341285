"""What all benchmarks share: the table's rows, quantiles, and what a process has used."""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_HEADINGS = ("benchmark", "what", "result", "beside it", "aim")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        what: is measured.
        result: came out.
        beside: what else was measured in the same run, to compare with.
        aim: what was aimed at; "" for none.
        met: whether it was; ``None`` where nothing was aimed at.
    """

    what: str
    result: str
    beside: str = ""
    aim: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return its cells but the first."""
        verdict = "" if self.met is None else ": met" if self.met else ": **missed**"
        return (self.what, self.result, self.beside, self.aim + verdict)


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """Return the rows, each with its benchmark's name, as a table in Markdown."""
    cells = [_HEADINGS, ("---",) * len(_HEADINGS), *((name, *row.cells()) for name, row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the smallest value that this fraction of all values does not exceed."""
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]


def spread(seconds: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the number of some durations."""
    p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
    return f"p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms of {len(seconds)}"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, exact where /proc counts in hundredths.

    Raises:
        OSError: there is no such process.
    """
    clock = ctypes.c_int()
    if code := _LIBC.clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(code, os.strerror(code))
    return time.clock_gettime(clock.value)
