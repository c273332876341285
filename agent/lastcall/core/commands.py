"""What the machine wants done, as data. Doing one twice is harmless: each names its notice."""

from __future__ import annotations

from dataclasses import dataclass

from lastcall.core.estimates import JobAdvice
from lastcall.core.facts import Fact
from lastcall.core.model import Kind
from lastcall.core.views import NoticeView


@dataclass(frozen=True, slots=True)
class Command:
    """What all commands have in common."""


@dataclass(frozen=True, slots=True)
class Tell(Command):
    """Send a notice, or what became of it, over these connections. Nothing stands before this."""

    notice: NoticeView
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallOff(Command):
    """Tell these connections that a notice no longer stands."""

    id: str
    reason: str
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Greet(Command):
    """Answer a hello with the notices that are open."""

    session: str
    notices: tuple[NoticeView, ...]


@dataclass(frozen=True, slots=True)
class Confirm(Command):
    """Answer that a message is on record; it waits for the disk, for a bounded time."""

    session: str
    re: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse(Command):
    """Answer that a message could not be taken."""

    session: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Advise(Command):
    """Tell a client what was learned about its job's checkpoints."""

    session: str
    advice: JobAdvice


@dataclass(frozen=True, slots=True)
class WatchProcess(Command):
    """Report the death of a process that was known before the agent came up."""

    identity: str
    pid: int


@dataclass(frozen=True, slots=True)
class Cordon(Command):
    """Keep new work off the node."""

    notice: NoticeView


@dataclass(frozen=True, slots=True)
class Uncordon(Command):
    """Give the node back, where the cordon is ours."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Command):
    """Move work off the node: what trains last, everything else at once.

    This is what holds now; a later one for the same notice takes its place.

    Attributes:
        id: the notice.
        kind: of the notice.
        reason: of the notice, for people.
        began_at: when the drain began, on the monotonic clock.
        flush_until: until when flushes have their time.
        deadline: when the node goes.
        training: control groups of the processes that were told to flush.
        waiting: those of them in which a flush is not over.
    """

    id: str
    kind: Kind
    reason: str
    began_at: float
    flush_until: float
    deadline: float
    training: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mark(Command):
    """Have the scheduler know that the end of these processes is no failure of theirs.

    They were told to save and stop, though nothing is moved for the notice, or nothing any more.
    This is what holds now; a later one for the same notice takes its place.

    Attributes:
        id: the notice.
        kind: of the notice.
        training: control groups of the processes that were told to flush.
    """

    id: str
    kind: Kind
    training: frozenset[str]


@dataclass(frozen=True, slots=True)
class StopDrain(Command):
    """Move and mark no more for a notice: it was withdrawn, or its time is up."""

    id: str


@dataclass(frozen=True, slots=True)
class Acknowledge(Command):
    """Tell the provider that we are done; only once that is on record."""

    id: str
    source: str
    key: str


@dataclass(frozen=True, slots=True)
class WatchGpus(Command):
    """Watch the GPUs, or let go of them so that one can be reset. This is what holds now.

    ``repaired``: an operator says that they were reset, and what was held against them is over.
    """

    watched: bool
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Publish(Command):
    """Make a fact known to the log and the metrics."""

    fact: Fact
