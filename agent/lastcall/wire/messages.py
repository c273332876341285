"""Every message of the socket protocol, as a type.

Field names and meanings are the protocol's own. Durations are seconds (``…_seconds``), wall times
Unix seconds (``…_unix``). ``None`` means that the sender left the field out. No number on this
wire is negative, infinite or NaN; a string is at most :data:`TEXT_LIMIT` characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

PROTOCOL = 1
"""The one version of the protocol that this package speaks."""

CLIENT_LINE_LIMIT = 16 * 1024
"""Bytes in a client's line, the newline included."""

AGENT_LINE_LIMIT = 64 * 1024
"""Bytes in an agent's line, the newline included."""

TEXT_LIMIT = 4096
"""Characters in one string."""


@dataclass(frozen=True, slots=True)
class Message:
    """What all messages have in common: the name that stands in ``type``."""

    type: ClassVar[str] = ""


# --- from a client ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """Who is speaking; the first message, within two seconds of connecting."""

    type: ClassVar[str] = "hello"
    protocol: tuple[int, int]
    job: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    pid: int | None = None
    client: str | None = None
    handled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack(Message):
    """The library has the notice."""

    type: ClassVar[str] = "ack"
    id: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Intent(Message):
    """The training loop has decided: ``save``, ``finish_inflight`` or ``ignore``."""

    type: ClassVar[str] = "intent"
    id: str
    will: str
    at_step: int | None = None


@dataclass(frozen=True, slots=True)
class Progress(Message):
    """How far the save is."""

    type: ClassVar[str] = "progress"
    id: str
    phase: str | None = None
    bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Flushed(Message):
    """The checkpoint for this notice is durable now.

    ``durable`` is false when the client itself knows that the path dies with the node.
    """

    type: ClassVar[str] = "flushed"
    id: str
    path: str
    step: int
    bytes: int | None = None
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    format: str | None = None
    durable: bool = True


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """The flush for this notice did not succeed."""

    type: ClassVar[str] = "failed"
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Checkpoint(Message):
    """A routine checkpoint, durable now."""

    type: ClassVar[str] = "checkpoint"
    step: int
    path: str | None = None
    bytes: int | None = None
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Resumed(Message):
    """The job came back at ``step``, and what it had lost."""

    type: ClassVar[str] = "resumed"
    step: int
    saved_unix: float | None = None
    lost_steps: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """Where the training loop stands."""

    type: ClassVar[str] = "heartbeat"
    step: int | None = None
    section: str | None = None


# --- from the command line, as root or the agent's user ---------------------------------------


@dataclass(frozen=True, slots=True)
class DrillRequest(Message):
    """Rehearse a notice on the real processes."""

    type: ClassVar[str] = "drill"
    lead_seconds: float = 30.0
    kind: str = "manual"
    drain: bool = False


@dataclass(frozen=True, slots=True)
class StatusRequest(Message):
    """Show the agent's view."""

    type: ClassVar[str] = "status"


@dataclass(frozen=True, slots=True)
class GpuRequest(Message):
    """Let go of the GPUs, so that one can be reset, or watch them again after that."""

    type: ClassVar[str] = "gpu"
    watched: bool


# --- from the agent --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notice(Message):
    """Something is about to happen to the node; the same ``id`` again means that it changed.

    ``supersedes`` names the notices (an advice, a drill) that this one takes the place of: a flush
    already under way for one of them serves this one too.
    """

    type: ClassVar[str] = "notice"
    id: str
    kind: str
    source: str
    action: str
    urgency: str
    deadline_unix: float | None
    remaining_seconds: float | None
    budget_seconds: float | None
    deadline_quality: str
    cancellable: bool
    drill: bool
    reason: str
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """The answer to ``hello``, with all notices that are open."""

    type: ClassVar[str] = "welcome"
    protocol: int
    agent: str
    node: str
    session: str
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdrawn(Message):
    """The notice no longer stands; training goes on."""

    type: ClassVar[str] = "withdrawn"
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Advice(Message):
    """What the agent has learned about this job's checkpoints.

    ``flush_fits`` is ``fits``, ``tight``, ``misses`` or ``unknown``.
    """

    type: ClassVar[str] = "advice"
    checkpoint_interval_seconds: float | None
    flush_fits: str
    predicted_flush_seconds: float | None


@dataclass(frozen=True, slots=True)
class Ok(Message):
    """The message named in ``re`` is recorded; a client may exit after it."""

    type: ClassVar[str] = "ok"
    re: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Error(Message):
    """What was wrong with the other side's message; the connection goes on where it can."""

    type: ClassVar[str] = "error"
    code: str
    message: str


# --- from both -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bye(Message):
    """The sender leaves."""

    type: ClassVar[str] = "bye"
    reason: str | None = None


FromClient = (
    Hello
    | Ack
    | Intent
    | Progress
    | Flushed
    | Failed
    | Checkpoint
    | Resumed
    | Heartbeat
    | Bye
    | DrillRequest
    | StatusRequest
    | GpuRequest
)
FromAgent = Welcome | Notice | Withdrawn | Advice | Ok | Error | Bye

CLIENT_MESSAGES: dict[str, type[FromClient]] = {
    message.type: message
    for message in (
        Hello,
        Ack,
        Intent,
        Progress,
        Flushed,
        Failed,
        Checkpoint,
        Resumed,
        Heartbeat,
        Bye,
        DrillRequest,
        StatusRequest,
        GpuRequest,
    )
}
AGENT_MESSAGES: dict[str, type[FromAgent]] = {
    message.type: message for message in (Welcome, Notice, Withdrawn, Advice, Ok, Error, Bye)
}
