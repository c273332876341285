"""The values that labels may take: known beforehand, or capped where strangers choose them."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.core.model import Kind

JOB_LIMIT = 50
"""Jobs that have series of their own."""

JOB_LENGTH = 64
"""Characters in the label of a job."""

GPU_LIMIT = 64
"""GPUs that have series of their own."""

GPU_LENGTH = 64
"""Characters in the label of a GPU: a UUID has 40, one of MIG more."""

OTHER = "other"
UNNAMED = "unnamed"
UNKNOWN = "unknown"
DRILL = "manual"
"""The source of a rehearsed notice and the kind of its flushes, whatever kind it rehearses."""

RESULTS = ("ok", "notice", "timeout", "error", "throttled", "unauthorized", "malformed")
PHASES = ("stall", "durable")
EVICTION_OUTCOMES = ("evicted", "blocked", "forced", "gone", "failed")
DRAIN_OUTCOMES = ("drained", "incomplete", "failed", "stopped", "none")
HOOKS = ("on_notice", "on_flushed", "on_drained", "on_withdrawn")
HOOK_OUTCOMES = ("ok", "failed", "timeout", "not_started", "stopped")
DRILL_OUTCOMES = ("passed", "failed", "cut_short")

_ENDS = (Kind.PREEMPTION, Kind.TERMINATION, Kind.MAINTENANCE)
SOURCE_KINDS: dict[str, tuple[Kind, ...]] = {
    "aws": (*_ENDS, Kind.REBALANCE),
    "gcp": _ENDS,
    "azure": _ENDS,
    "file": (*_ENDS, Kind.REBALANCE),
    "url": (*_ENDS, Kind.REBALANCE),
    "schedule": (Kind.TERMINATION,),
    "shutdown": (Kind.SHUTDOWN,),
    "gpu": (Kind.GPU_FAULT,),
    DRILL: tuple(Kind),
}
"""What each source can announce; one that is not listed may announce anything."""


class Pairs:
    """The pairs of source and kind that have series, whether or not there was such a notice."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[Kind, ...]] = {}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for source, kinds in self._kinds.items():
            for kind in kinds:
                yield source, kind.value

    def add(self, source: str) -> list[tuple[str, str]]:
        """Add a source; return the pairs that are new with it."""
        if source in self._kinds:
            return []
        self._kinds[source] = SOURCE_KINDS.get(source, tuple(Kind))
        return [(source, kind.value) for kind in self._kinds[source]]


class CappedLabels:
    """Labels for names that come from elsewhere.

    The first so many names are labels of their own for as long as the agent runs; those after them
    share :data:`OTHER`. Nothing is kept of a name without a label of its own.
    """

    def __init__(self, limit: int, length: int, unnamed: str) -> None:
        """Begin without any.

        Args:
            limit: how many names have labels of their own.
            length: characters in a label.
            unnamed: the label of an empty name.
        """
        self._limit = limit
        self._length = length
        self._unnamed = unnamed
        self._own: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label for a name: printable, short, and one of a limited number."""
        printable = "".join(letter if letter.isprintable() else "_" for letter in name)
        label = printable.strip()[: self._length] or self._unnamed
        if label in self._own:
            return label
        if len(self._own) >= self._limit:
            return OTHER
        self._own.add(label)
        return label


class JobLabels(CappedLabels):
    """Labels for the names that clients give their jobs."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__(JOB_LIMIT, JOB_LENGTH, UNNAMED)


class GpuLabels(CappedLabels):
    """Labels for GPUs, by their UUIDs; where the driver did not say which, ``unknown``."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__(GPU_LIMIT, GPU_LENGTH, UNKNOWN)
