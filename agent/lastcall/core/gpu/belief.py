"""What the judge of GPUs has heard so far, as far as it still matters.

Nothing here changes once made, and nothing grows with time or with the number of errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lastcall.core.gpu.model import Gpu, Health, Mark, Verdict, WatchState

GOOD_LOOKS = 3
"""After so many looks in a row that speak against it, a mark ends."""

QUIET_SECONDS = 180.0
"""Errors of one kind with less than this between them are one burst (NVIDIA Fleet Intelligence user
guide, XID bursts)."""


class Run(NamedTuple):
    """Some XIDs of one number that came close together, as one witness counted them."""

    at: float
    xids: int
    is_kernel: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """A mark that stands.

    Attributes:
        mark: the mark.
        good: how many looks in a row have spoken against it.
        recalled: an earlier run of the agent made it, and what that had seen is not known.
    """

    mark: Mark
    good: int = 0
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class XidSign:
    """What is known of the XIDs of one number on one GPU.

    Attributes:
        number: the number.
        first_at: when the first came.
        last_at: when the last came, to a second.
        runs: how many came when, where their number matters.
        word: ``fatal`` or ``nonfatal`` where the kernel's line says so, else empty.
        text: the kernel's line.
        past: all came before the watch began.
        asked_at: since when a look is waited for, to ask the driver.
        waits_until: until when; ``None``: not waited for.
        mark: what it makes of the GPU; ``None``: nothing, or nothing yet.
        by_action: the mark follows the recovery action.
        good: looks in a row in which the driver needed no recovery.
    """

    number: int
    first_at: float
    last_at: float
    runs: tuple[Run, ...] = ()
    word: str = ""
    text: str = ""
    past: bool = False
    asked_at: float = 0.0
    waits_until: float | None = None
    mark: Mark | None = None
    by_action: bool = False
    good: int = 0


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier looks said to one rule, as far as it needs to know.

    Attributes:
        recent: whether each of the last looks said so.
        minutes: in which of the last minutes one did.
        samples: moments and figures, the oldest first.
        since: when something began that goes on.
        best: the highest figure.
        first: the first figure.
    """

    recent: tuple[bool, ...] = ()
    minutes: tuple[int, ...] = ()
    samples: tuple[tuple[float, float], ...] = ()
    since: float | None = None
    best: float = 0.0
    first: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBelief:
    """What is known of one GPU.

    Attributes:
        gpu: which; without a UUID where it cannot even be named.
        answers: it has answered since the watch watches, and not refused since.
        unclear: looks in a row that the driver answered with an unclear error.
        counted_at: when the last look was that rules count as one.
        action: its recovery action, as last read; ``None``: it cannot be read.
        action_is_new: the action was read in the last look.
        known: figures that are read seldom and needed at each look.
        codes: marks by what the driver answered, by reason; also what is remembered without a rule.
        signals: marks by sampled signals, by the rule's name.
        pasts: what the rules need to know, by name.
        xids: by number.
    """

    gpu: Gpu
    answers: bool = False
    unclear: int = 0
    counted_at: float = float("-inf")
    action: int | None = None
    action_is_new: bool = False
    known: Mapping[str, float] = field(default_factory=dict)
    codes: Mapping[str, Standing] = field(default_factory=dict)
    signals: Mapping[str, Standing] = field(default_factory=dict)
    pasts: Mapping[str, Past] = field(default_factory=dict)
    xids: Mapping[int, XidSign] = field(default_factory=dict)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All that speaks against it."""
        return (
            *(standing.mark for standing in self.codes.values()),
            *(standing.mark for standing in self.signals.values()),
            *(sign.mark for sign in self.xids.values() if sign.mark is not None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBelief:
    """What is known of all GPUs together.

    Attributes:
        watch: how it stands with the watch.
        count: GPUs that the driver counts; 0 before it was asked.
        pci_count: GPUs on the PCI bus; ``None`` where it cannot be seen.
        low_counts: looks in a row that counted too few.
        control_openable: the driver's control device can be opened; ``None``: not tried.
        absent_since: since when there is no driver, or no GPU, though there should be.
        empty_since: since when the driver counts no GPU at all, though there should be some.
        marks: what stands, by reason.
    """

    watch: WatchState = WatchState.OFF
    count: int = 0
    pci_count: int | None = None
    low_counts: int = 0
    control_openable: bool | None = None
    absent_since: float | None = None
    empty_since: float | None = None
    marks: Mapping[str, Standing] = field(default_factory=dict)


Key = tuple[str, str, Health]
"""A mark's GPU, its reason, and what it makes of the GPU."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Marks that are told of together: when the first and when the last of them began."""

    began: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """What of the marks is one occurrence, and what is another.

    Attributes:
        fault: the last of the faults that stand, until it has been over for a while.
        quiet_since: since when none stands any more.
        advice: the last of what stands and is no fault.
        told: the advice that was reported when the fault came, while anything of it stands.
        stood: when each mark ended; infinity while it stands.
    """

    fault: Occurrence | None = None
    quiet_since: float | None = None
    advice: Occurrence | None = None
    told: Occurrence | None = None
    stood: Mapping[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """All that the judge knows.

    Attributes:
        gpus: by UUID; the empty one has the errors of no certain GPU, and a GPU without a name has
            its place on the bus or its index for one.
        node: of all together.
        noise_until: ended processes may leave errors behind until then.
        looked_at: GPUs looked at in this round, which is over when one is looked at again.
        settled: a round of looks is over since the watch last changed.
        was_settled: one was ever over, or was since the GPUs were reset.
        judged: what was made of it all.
        incidents: what of the marks belongs together.
    """

    gpus: Mapping[str, GpuBelief] = field(default_factory=dict)
    node: NodeBelief = NodeBelief()
    noise_until: float = float("-inf")
    looked_at: frozenset[str] = frozenset()
    settled: bool = False
    was_settled: bool = False
    judged: Mapping[str, tuple[Gpu, Verdict]] = field(default_factory=dict)
    incidents: Incidents = Incidents()


EMPTY = Belief()
"""Before anything was heard."""
