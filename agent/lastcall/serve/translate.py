"""Between the socket's messages and the machine's events and commands."""

from __future__ import annotations

import re

from lastcall.core.deadlines import left
from lastcall.core.estimates import JobAdvice
from lastcall.core.events import (
    Acked,
    Beat,
    CheckpointReported,
    ClientJoined,
    Event,
    FlushFailed,
    FlushReported,
    Intended,
    Progressed,
    ResumeReported,
)
from lastcall.core.views import NoticeView
from lastcall.serve.peers import Peer, Process
from lastcall.serve.processes import CLAIMED
from lastcall.wire import messages
from lastcall.wire.messages import (
    Ack,
    Advice,
    Checkpoint,
    Failed,
    Flushed,
    FromClient,
    Heartbeat,
    Hello,
    Intent,
    Progress,
    Resumed,
)

JOB_LENGTH = 128
COMMAND_LENGTH = 256
REASON_LENGTH = 512
WORD_LENGTH = 64
PATH_LENGTH = messages.TEXT_LIMIT
HANDLED_LIMIT = 64
"""Notices that a client may say it has dealt with."""

UNNAMED = "unnamed"
"""The job of a client that names none."""

_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
"""What ends or turns a line, hides in it or cannot be written."""


def clean(text: str, length: int) -> str:
    """Return a stranger's text without what could steer a terminal or a log, cut to a length."""
    return _STEERING.sub("", text)[:length].strip()


def clean_path(text: str) -> str:
    """Return where a checkpoint is, without what gives access to it: users, signatures, tokens."""
    path = clean(text, PATH_LENGTH)
    scheme, mark, rest = path.partition("://")
    if not mark:
        return path
    place = re.split("[?#]", rest, maxsplit=1)[0]
    host, slash, file = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{file}"


def notice(view: NoticeView, *, now: float, wall: float) -> messages.Notice:
    """Return a notice as it is sent now.

    Args:
        view: the notice.
        now: the present on the clock of the view's times.
        wall: the present in Unix seconds.
    """
    deadline_unix = view.deadline_unix
    if deadline_unix is None and view.deadline is not None:
        deadline_unix = wall + view.deadline - now
    return messages.Notice(
        id=view.id,
        kind=view.kind.value,
        source=view.source,
        action=view.action.value,
        urgency=view.urgency.value,
        deadline_unix=deadline_unix,
        remaining_seconds=None if view.deadline is None else left(view.deadline, now),
        budget_seconds=None if view.flush_until is None else left(view.flush_until, now),
        deadline_quality=view.deadline_quality.value,
        cancellable=view.cancellable,
        drill=view.drill,
        reason=clean(view.reason, REASON_LENGTH),
        supersedes=view.supersedes,
    )


def advice(learned: JobAdvice) -> Advice:
    """Return what was learned about a job as a message."""
    return Advice(learned.interval_seconds, learned.fits, learned.predicted_seconds)


def identity(process: Process, peer: Peer, hello: Hello) -> str:
    """Return what a client's process is recognised by: the kernel's word, else the client's."""
    if process.name is not None:
        return process.name
    pid = peer.pid or hello.pid
    parts = (peer.uid, _job(hello), hello.rank, pid)
    return CLAIMED + ":".join("" if part is None else str(part) for part in parts)


def joined(
    hello: Hello, *, session: str, identity: str, peer: Peer, cgroup: str, command: str
) -> ClientJoined:
    """Return the event of a hello; the kernel's word on the peer goes before the client's."""
    return ClientJoined(
        session=session,
        identity=identity,
        job=_job(hello),
        rank=hello.rank,
        local_rank=hello.local_rank,
        world_size=hello.world_size,
        pid=peer.pid or hello.pid,
        uid=peer.uid,
        cgroup=cgroup,
        command=clean(command, COMMAND_LENGTH),
        library=clean(hello.client or "", WORD_LENGTH),
        handled=tuple(clean(key, JOB_LENGTH) for key in hello.handled[-HANDLED_LIMIT:]),
    )


def event(message: FromClient, session: str) -> Event | None:  # noqa: PLR0911 - one a message
    """Return what a client's message means to the machine; ``None``: nothing."""
    match message:
        case Ack():
            return Acked(session, message.id, message.step)
        case Intent():
            return Intended(session, message.id, clean(message.will, WORD_LENGTH), message.at_step)
        case Progress():
            return Progressed(
                session,
                message.id,
                _word(message.phase),
                message.bytes,
                message.total_bytes,
            )
        case Flushed():
            return FlushReported(
                session=session,
                id=message.id,
                path=clean_path(message.path),
                step=message.step,
                bytes=message.bytes,
                stall_seconds=message.stall_seconds,
                durable_seconds=message.durable_seconds,
                format=_word(message.format),
                durable=message.durable,
            )
        case Failed():
            return FlushFailed(session, message.id, clean(message.reason, REASON_LENGTH))
        case Checkpoint():
            return CheckpointReported(
                session=session,
                step=message.step,
                path=_path(message.path),
                bytes=message.bytes,
                stall_seconds=message.stall_seconds,
                durable_seconds=message.durable_seconds,
                format=_word(message.format),
            )
        case Resumed():
            return ResumeReported(
                session=session,
                step=message.step,
                saved_unix=message.saved_unix,
                lost_steps=message.lost_steps,
                path=_path(message.path),
            )
        case Heartbeat():
            return Beat(session, message.step, _word(message.section))
        case _:
            return None


def _job(hello: Hello) -> str:
    return clean(hello.job or "", JOB_LENGTH) or UNNAMED


def _word(text: str | None) -> str | None:
    return None if text is None else clean(text, WORD_LENGTH)


def _path(text: str | None) -> str | None:
    return None if text is None else clean_path(text)
