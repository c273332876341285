"""Everything that can happen to a node, as types.

``journaled`` says whether an event that changed something is kept on disk, so that a restart can
replay it. What happens again by itself (a poll, a heartbeat) is not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lastcall.core.gpu.model import Gpu, Holder, Verdict, WatchState
from lastcall.core.model import Kind, Node, Sighting


@dataclass(frozen=True, slots=True)
class Event:
    """What all events have in common."""

    journaled: ClassVar[bool] = False


# --- the agent itself ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The agent has come up, after the journal was replayed."""

    journaled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """All that was known when an earlier journal was closed; the first line of the next one."""

    journaled: ClassVar[bool] = True
    node: Node


@dataclass(frozen=True, slots=True)
class Rebooted(Event):
    """The journal is of an earlier boot: its processes are gone and its clock has ended."""

    journaled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """A moment has come that the machine asked to be woken at."""

    journaled: ClassVar[bool] = True


# --- sources ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProvidersFound(Event):
    """It is settled which providers' services are watched; ``detail`` says how it was found."""

    providers: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class IdentityLearned(Event):
    """A provider said what this machine is: pairs such as ``("instance_type", "p5.48xlarge")``."""

    source: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SourcePolled(Event):
    """A source has been asked for one scope.

    ``result`` is ``ok``, ``notice``, ``timeout``, ``error``, ``throttled``, ``unauthorized`` or
    ``malformed``; all but the first two are trouble, which ``detail`` explains.

    ``skew_seconds`` is the node's clock minus the provider's, where an answer showed it;
    ``foreign`` counts the events in the answer that are other machines'.
    """

    source: str
    result: str
    scope: str = ""
    detail: str = ""
    skew_seconds: float | None = None
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class SourceReported(Event):
    """A source read one scope whole, and this is all that stands there.

    A claim of the scope that is not among the sightings is gone once it was absent from
    ``absences_to_withdraw`` reports in a row.
    """

    journaled: ClassVar[bool] = True
    source: str
    scope: str
    sightings: tuple[Sighting, ...]
    absences_to_withdraw: int = 1


# --- the GPUs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatchChanged(Event):
    """The watch over the GPUs came to stand otherwise; see :class:`gpu.model.GpuWatch`."""

    journaled: ClassVar[bool] = True
    state: WatchState
    detail: str = ""
    gpu: str = ""
    call: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class GpuJudged(Event):
    """A GPU, or for :data:`gpu.model.NODE` all of them together, is judged anew."""

    journaled: ClassVar[bool] = True
    gpu: Gpu
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class GpuGone(Event):
    """A GPU is there no more, or is watched no more: nothing is held against it."""

    journaled: ClassVar[bool] = True
    gpu: str


@dataclass(frozen=True, slots=True)
class GpuXidCounted(Event):
    """The driver reported an XID error, ``count`` times since it was last told of.

    ``respond`` is how the site takes it: a word of :class:`gpu.xids.Respond`.
    """

    journaled: ClassVar[bool] = True
    gpu: str
    xid: int
    count: int
    text: str = ""
    respond: str = ""


@dataclass(frozen=True, slots=True)
class GpuHoldersSeen(Event):
    """These processes compute on the GPUs, and have for a while."""

    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class GpuWatchRequested(Event):
    """An operator wants the GPUs let go (``watched`` false), or watched again after a reset."""

    journaled: ClassVar[bool] = True
    session: str
    watched: bool


# --- training processes ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientJoined(Event):
    """A process said hello on a connection.

    ``identity`` names the process behind it so that a reconnect is recognised.
    """

    journaled: ClassVar[bool] = True
    session: str
    identity: str
    job: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    pid: int | None = None
    uid: int | None = None
    cgroup: str = ""
    command: str = ""
    library: str = ""
    handled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientLeft(Event):
    """A connection ended; ``said_bye`` tells a farewell from a mere loss."""

    journaled: ClassVar[bool] = True
    session: str
    said_bye: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProcessDied(Event):
    """The process behind one or more clients is gone."""

    journaled: ClassVar[bool] = True
    identity: str


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A client's library has the notice."""

    session: str
    id: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Intended(Event):
    """A training loop has decided what it will do."""

    journaled: ClassVar[bool] = True
    session: str
    id: str
    will: str
    at_step: int | None = None


@dataclass(frozen=True, slots=True)
class Progressed(Event):
    """A save has come this far."""

    session: str
    id: str
    phase: str | None = None
    bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReported(Event):
    """A client says that its checkpoint for a notice is durable."""

    journaled: ClassVar[bool] = True
    session: str
    id: str
    path: str
    step: int
    bytes: int | None = None
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    format: str | None = None
    durable: bool = True


@dataclass(frozen=True, slots=True)
class FlushFailed(Event):
    """A client says that its flush did not succeed."""

    journaled: ClassVar[bool] = True
    session: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReported(Event):
    """A client says that a routine checkpoint is durable."""

    journaled: ClassVar[bool] = True
    session: str
    step: int
    path: str | None = None
    bytes: int | None = None
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReported(Event):
    """A client says that its job came back, and what it had lost."""

    journaled: ClassVar[bool] = True
    session: str
    step: int
    saved_unix: float | None = None
    lost_steps: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Beat(Event):
    """A client says where its loop stands."""

    session: str
    step: int | None = None
    section: str | None = None


# --- the operator ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrillRequested(Event):
    """An operator asks for a rehearsal."""

    journaled: ClassVar[bool] = True
    session: str
    lead_seconds: float
    kind: Kind
    drain: bool


# --- results of commands ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AllTold(Event):
    """The bytes of a notice have been handed to the kernel for every client that was there."""

    id: str
    clients: int


@dataclass(frozen=True, slots=True)
class CordonEnded(Event):
    """The node is cordoned, or could not be; ``foreign``: another had cordoned it before."""

    journaled: ClassVar[bool] = True
    id: str
    cordoned: bool
    detail: str = ""
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class UncordonEnded(Event):
    """The node is given back, or could not be."""

    journaled: ClassVar[bool] = True
    id: str
    uncordoned: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CordonFound(Event):
    """The node carries a cordon of ours, made for a notice by this agent or by one before it."""

    journaled: ClassVar[bool] = True
    id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CordonLifted(Event):
    """Somebody else has lifted our cordon; ``by`` says what is known of who."""

    journaled: ClassVar[bool] = True
    id: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class CordonMissing(Event):
    """The node carries no cordon of ours, and nobody lifted one: its object was made anew."""

    journaled: ClassVar[bool] = True
    detail: str = ""


@dataclass(frozen=True, slots=True)
class EvictionReported(Event):
    """What became of one pod, ``NAMESPACE/NAME``, that was to leave.

    ``outcome`` is ``evicted``, ``forced``, ``gone``, or ``failed`` where it did not leave; before
    that perhaps once ``blocked``: a budget holds it back, or it is refused, and it is tried again.
    """

    id: str
    pod: str
    outcome: str
    detail: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class BackendChecked(Event):
    """The scheduler that the node is drained through was asked; ``rights`` what may be done there.

    ``rights`` is ``None`` where they were not asked for this time.
    """

    up: bool
    detail: str = ""
    rights: tuple[tuple[str, bool], ...] | None = None


@dataclass(frozen=True, slots=True)
class DrainEnded(Event):
    """The drain is over; ``outcome`` is ``drained``, ``incomplete``, ``failed`` or ``none``."""

    journaled: ClassVar[bool] = True
    id: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HookEnded(Event):
    """A program of the site's own has ended, or could not be run.

    Attributes:
        id: the notice that it was run for.
        hook: ``on_notice``, ``on_flushed``, ``on_drained`` or ``on_withdrawn``.
        index: which of that hook's programs, from 0.
        program: its name, without its arguments, which may hold secrets.
        outcome: ``ok``, ``failed``, ``timeout``, ``not_started`` or ``stopped`` (with the agent).
        code: its exit code, negative where a signal ended it; ``None`` where it has none.
        seconds: how long it ran.
        output: the end of what it printed, or why it was not started.
    """

    id: str
    hook: str
    index: int
    program: str
    outcome: str
    code: int | None
    seconds: float
    output: str = ""


@dataclass(frozen=True, slots=True)
class AcknowledgeEnded(Event):
    """The provider has taken our word that we are done, or has not."""

    journaled: ClassVar[bool] = True
    id: str
    accepted: bool
    detail: str = ""
