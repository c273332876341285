"""What the machine makes known: one stream that the metrics, the log and the page are views of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lastcall.core.gpu.model import Health, Recovery, WatchState
from lastcall.core.views import NoticeView


@dataclass(frozen=True, slots=True)
class Fact:
    """What all facts have in common: a name for the log, and whether it is bad news."""

    name: ClassVar[str] = ""
    warning: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ProviderSettled(Fact):
    """It is known which providers are watched, and how that was found."""

    name: ClassVar[str] = "provider_settled"
    providers: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class SourceAnswered(Fact):
    """One poll's result; ``changed`` only where a scope's trouble came, changed or went."""

    name: ClassVar[str] = "source_answered"
    source: str
    scope: str
    result: str
    up: bool
    changed: bool
    detail: str
    skew_seconds: float | None
    foreign: int


@dataclass(frozen=True, slots=True)
class ClockWrong(Fact):
    """The node's clock is far from the provider's; deadlines go by the provider's."""

    name: ClassVar[str] = "clock_wrong"
    warning: ClassVar[bool] = True
    source: str
    skew_seconds: float


@dataclass(frozen=True, slots=True)
class NoticeSeen(Fact):
    """A notice came into being."""

    name: ClassVar[str] = "notice_seen"
    notice: NoticeView
    lead_seconds: float | None


@dataclass(frozen=True, slots=True)
class NoticeTold(Fact):
    """The clients are being told of a notice."""

    name: ClassVar[str] = "notice_told"
    notice: NoticeView
    clients: int


@dataclass(frozen=True, slots=True)
class NoticeChanged(Fact):
    """A notice's deadline, action or sources are not what they were."""

    name: ClassVar[str] = "notice_changed"
    notice: NoticeView


@dataclass(frozen=True, slots=True)
class NoticeEnded(Fact):
    """A notice is over; ``ending`` says why."""

    name: ClassVar[str] = "notice_ended"
    notice: NoticeView
    ending: str
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class AllClientsTold(Fact):
    """The last client was told so many seconds after the first sight."""

    name: ClassVar[str] = "clients_told"
    notice: NoticeView
    clients: int
    signal_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettled(Fact):
    """One client's flush is over.

    Attributes:
        flush_seconds: told to durable; ``None`` unless the checkpoint became durable.
        margin_seconds: durable to deadline; negative is late.
        used_ratio: told-to-durable over told-to-deadline.
    """

    name: ClassVar[str] = "flush_settled"
    notice: NoticeView
    client: str
    job: str
    rank: int | None
    outcome: str
    flush_seconds: float | None
    margin_seconds: float | None
    used_ratio: float | None
    step: int | None
    path: str | None
    cause: str
    cgroup: str = ""


@dataclass(frozen=True, slots=True)
class FlushOverdue(Fact):
    """The deadline is here and these clients have not flushed."""

    name: ClassVar[str] = "flush_overdue"
    warning: ClassVar[bool] = True
    notice: NoticeView
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlushesOver(Fact):
    """Every flush is over, or the time for flushes is up; made known once for a notice.

    Attributes:
        outcomes: how many flushes ended in which way.
        unfinished: flushes that are not over.
        drained: the drain's outcome, where the drain was over before.
    """

    name: ClassVar[str] = "flushes_over"
    notice: NoticeView
    outcomes: dict[str, int]
    unfinished: int
    drained: str | None


@dataclass(frozen=True, slots=True)
class NoticeCleared(Fact):
    """A notice whose time had passed is reported no more, and the machine is still here."""

    name: ClassVar[str] = "notice_cleared"
    notice: NoticeView


@dataclass(frozen=True, slots=True)
class WorkLost(Fact):
    """A job's work since its last durable checkpoint is lost with this notice."""

    name: ClassVar[str] = "work_lost"
    warning: ClassVar[bool] = True
    notice: NoticeView
    job: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointSeen(Fact):
    """A checkpoint of a job became durable, whatever it was made for."""

    name: ClassVar[str] = "checkpoint_seen"
    job: str
    step: int
    path: str | None
    stall_seconds: float | None
    durable_seconds: float | None


@dataclass(frozen=True, slots=True)
class JobResumed(Fact):
    """A job came back after an interruption."""

    name: ClassVar[str] = "job_resumed"
    job: str
    step: int
    lost_steps: int | None
    path: str | None


@dataclass(frozen=True, slots=True)
class ClientCame(Fact):
    """A training process said hello, or came back."""

    name: ClassVar[str] = "client_joined"
    client: str
    job: str
    rank: int | None
    pid: int | None
    returned: bool


@dataclass(frozen=True, slots=True)
class ClientWent(Fact):
    """A training process left; ``how`` is ``bye``, ``lost`` or ``died``."""

    name: ClassVar[str] = "client_left"
    client: str
    job: str
    rank: int | None
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cordoned(Fact):
    """The node is cordoned, or could not be; ``foreign``: another had cordoned it before."""

    name: ClassVar[str] = "node_cordoned"
    id: str
    cordoned: bool
    detail: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Uncordoned(Fact):
    """The node is given back, or could not be."""

    name: ClassVar[str] = "node_uncordoned"
    id: str
    uncordoned: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Overruled(Fact):
    """Somebody lifted our cordon: it is not put back, and only a node that goes is drained on."""

    name: ClassVar[str] = "cordon_overruled"
    warning: ClassVar[bool] = True
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class CordonLost(Fact):
    """Our cordon is gone though nobody lifted it; it is made again where it is still wanted."""

    name: ClassVar[str] = "cordon_lost"
    warning: ClassVar[bool] = True
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class PodMoved(Fact):
    """What became of one pod, ``NAMESPACE/NAME``, that was to leave the node."""

    name: ClassVar[str] = "pod_moved"
    id: str
    pod: str
    outcome: str
    detail: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class BackendAnswered(Fact):
    """The scheduler's answer, or what may be done there, is not what it was."""

    name: ClassVar[str] = "backend_answered"
    up: bool
    detail: str
    denied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeDrained(Fact):
    """The drain is over, ``seconds`` after it began; ``notice`` is how its notice stood then.

    One that was ``stopped`` has come to no end, and names none.
    """

    name: ClassVar[str] = "node_drained"
    id: str
    outcome: str
    seconds: float
    detail: str
    notice: NoticeView | None = None


@dataclass(frozen=True, slots=True)
class HookRan(Fact):
    """What came of a program of the site's own; see :class:`events.HookEnded`."""

    name: ClassVar[str] = "hook_ran"
    id: str
    hook: str
    index: int
    program: str
    outcome: str
    code: int | None
    seconds: float
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatchSeen(Fact):
    """The watch over the GPUs stands otherwise; see :class:`gpu.model.GpuWatch`."""

    name: ClassVar[str] = "gpu_watch"
    state: WatchState
    detail: str
    gpu: str
    call: str
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth(Fact):
    """A GPU is judged otherwise than before; an empty ``gpu`` speaks of all of them together.

    Attributes:
        health: what it is now; ``before`` what it was.
        reasons: what speaks against it, the worst first.
        recovery: what helps.
        detail: for people.
    """

    name: ClassVar[str] = "gpu_health"
    gpu: str
    index: int
    health: Health
    before: Health
    reasons: tuple[str, ...]
    recovery: Recovery
    detail: str


@dataclass(frozen=True, slots=True)
class NodeGpuHealth(Fact):
    """How the GPUs of the node are, taken together, is not what it was."""

    name: ClassVar[str] = "gpus_health"
    health: Health
    reasons: tuple[str, ...]
    recovery: Recovery
    detail: str


@dataclass(frozen=True, slots=True)
class GpuXid(Fact):
    """The driver reported an XID error; ``news`` only for the first of a burst.

    Attributes:
        meaning: what the number stands for; empty where it is not known.
        respond: how it is taken: a word of :class:`gpu.xids.Respond`.
    """

    name: ClassVar[str] = "gpu_xid"
    warning: ClassVar[bool] = True
    gpu: str
    xid: int
    count: int
    text: str
    news: bool
    meaning: str = ""
    respond: str = ""


@dataclass(frozen=True, slots=True)
class GpuWorkSafe(Fact):
    """Every job on the node has saved its work since a GPU's trouble began, so long ago."""

    name: ClassVar[str] = "gpu_work_safe"
    gpu: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GpuLost(Fact):
    """Nothing can be saved from a GPU any more, so long after its trouble began.

    ``saved`` is ``yes`` where all work had been saved since then, ``no``, or ``nothing`` where no
    training process was connected.
    """

    name: ClassVar[str] = "gpu_lost"
    warning: ClassVar[bool] = True
    gpu: str
    seconds: float
    saved: str


@dataclass(frozen=True, slots=True)
class HolderUnregistered(Fact):
    """A process computes on a GPU and has not said hello: nobody can ask it to flush."""

    name: ClassVar[str] = "gpu_holder_unregistered"
    warning: ClassVar[bool] = True
    pid: int
    gpus: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Acknowledged(Fact):
    """The provider was told that we are done."""

    name: ClassVar[str] = "notice_acknowledged"
    id: str
    accepted: bool
    detail: str
