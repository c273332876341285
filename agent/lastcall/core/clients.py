"""The training processes: who is here, who left and how, and what each reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lastcall.core import flushes
from lastcall.core.commands import Advise, Confirm, Greet, Refuse
from lastcall.core.deadlines import flush_until, left
from lastcall.core.estimates import JobAdvice, JobHistory, advise, remember, verdict
from lastcall.core.events import (
    Acked,
    Beat,
    CheckpointReported,
    ClientJoined,
    ClientLeft,
    FlushFailed,
    FlushReported,
    Intended,
    ProcessDied,
    Progressed,
    ResumeReported,
)
from lastcall.core.facts import CheckpointSeen, ClientCame, ClientWent, JobResumed
from lastcall.core.model import Client, Flush, Node, Notice, Outcome, Stance
from lastcall.core.turn import Settings, Turn, with_item, without
from lastcall.core.views import NoticeView

AWAY_SECONDS = 60.0
"""How long a client without a connection is remembered when nothing is expected of it."""

AWAY_LIMIT = 1024
"""How many clients without a connection are remembered at all."""

JOBS_LIMIT = 256
"""How many jobs' checkpoints are remembered."""

BEGINS = ("save", "finish_inflight")
IGNORES = "ignore"


def join(turn: Turn, event: ClientJoined) -> None:
    """Take in a process that said hello, new or back."""
    key, known = _recognise(turn.node, event)
    client = Client(
        key=key,
        identity=event.identity,
        session=event.session,
        job=event.job,
        joined_at=known.joined_at if known else turn.now,
        rank=event.rank,
        local_rank=event.local_rank,
        world_size=event.world_size,
        pid=event.pid,
        uid=event.uid,
        cgroup=event.cgroup,
        command=event.command,
        library=event.library,
        step=known.step if known else None,
        heard_at=turn.now,
        handled=frozenset(event.handled),
    )
    turn.put_client(client)
    turn.change(sessions=with_item(turn.node.sessions, event.session, key))
    told = [notice for notice in turn.node.notices.values() if notice.told]
    turn.do(Greet(event.session, tuple(turn.view(notice) for notice in told)))
    for notice in told:
        turn.put_notice(flushes.expect(turn, notice, (client,)))
    turn.publish(ClientCame(key, event.job, event.rank, event.pid, known is not None))
    _send_advice(turn, client)


def leave(turn: Turn, event: ClientLeft) -> None:
    """Take in that a connection ended; without a farewell its process may come back."""
    if event.session not in turn.node.sessions:
        return
    client = turn.client_of(event.session)
    turn.change(sessions=without(turn.node.sessions, event.session))
    if client is None or client.session != event.session:
        return
    if event.said_bye:
        _remove(turn, client, "bye", event.reason)
        return
    turn.put_client(replace(client, session=None, left_at=turn.now))
    turn.publish(ClientWent(client.key, client.job, client.rank, "lost", event.reason))


def die(turn: Turn, event: ProcessDied) -> None:
    """Take in that a process is gone, and with it all that it had not flushed."""
    for client in list(turn.node.clients.values()):
        if client.identity == event.identity:
            _remove(turn, client, "died", "the process died")


def part(turn: Turn) -> None:
    """Forget those that have been away for long and of whom nothing is expected."""
    away = [client for client in turn.node.clients.values() if client.left_at is not None]
    excess = len(away) - AWAY_LIMIT
    for client in away:
        long_gone = turn.now >= (client.left_at or 0.0) + AWAY_SECONDS
        if excess > 0 or (long_gone and not expected(turn.node, client)):
            _remove(turn, client, "lost", "it did not come back")
            excess -= 1


def expected(node: Node, client: Client) -> bool:
    """Whether a flush of this client is still awaited."""
    return any(
        (flush := notice.flushes.get(client.key)) is not None and flush.outcome is None
        for notice in node.notices.values()
        if notice.told
    )


def beat(turn: Turn, event: Beat) -> None:
    """Take in where a loop stands."""
    client = turn.client_of(event.session)
    if client is not None:
        step = client.step if event.step is None else event.step
        turn.put_client(replace(client, step=step, section=event.section, heard_at=turn.now))


def ack(turn: Turn, event: Acked) -> None:
    """Take in that a library has the notice."""
    _update(turn, event.session, event.id, acked_at=turn.now, step=event.step)


def progress(turn: Turn, event: Progressed) -> None:
    """Take in how far a save is."""
    _update(
        turn,
        event.session,
        event.id,
        begun_at=turn.now,
        phase=event.phase,
        bytes=event.bytes,
        total_bytes=event.total_bytes,
    )


def intend(turn: Turn, event: Intended) -> None:
    """Take in what a training loop has decided."""
    if event.will in BEGINS:
        _update(
            turn,
            event.session,
            event.id,
            begun_at=turn.now,
            will=event.will,
            step=event.at_step,
        )
    elif event.will == IGNORES:
        _settle(turn, event.session, event.id, Outcome.IGNORED, cause="the client chose to")
    else:
        message = f"will must be one of {', '.join((*BEGINS, IGNORES))}"
        turn.do(Refuse(event.session, "bad_message", message))


def flushed(turn: Turn, event: FlushReported) -> None:
    """Take in that a checkpoint for a notice is durable, and judge it."""
    notice = turn.node.notices.get(event.id)
    outcome = Outcome.IN_TIME
    if notice is not None:
        outcome = flushes.judge(turn, notice, event.path, durable=event.durable)
    facts = {"path": event.path, "step": event.step, "bytes": event.bytes}
    settled = _settle(turn, event.session, event.id, outcome, facts=facts)
    if settled is None:
        return
    if settled and outcome is not Outcome.NOT_DURABLE:
        _remember(turn, event)
    turn.do(Confirm(event.session, "flushed", event.id))


def failed(turn: Turn, event: FlushFailed) -> None:
    """Take in that a flush did not succeed."""
    settled = _settle(turn, event.session, event.id, Outcome.FAILED, cause=event.reason)
    if settled is not None:
        turn.do(Confirm(event.session, "failed", event.id))


def checkpoint(turn: Turn, event: CheckpointReported) -> None:
    """Take in a routine checkpoint."""
    client = _remember(turn, event)
    turn.do(Confirm(event.session, "checkpoint"))
    if client is not None:
        _send_advice(turn, client)


def resumed(turn: Turn, event: ResumeReported) -> None:
    """Take in that a job came back."""
    client = turn.client_of(event.session)
    if client is None:
        return
    turn.put_client(replace(client, step=event.step, heard_at=turn.now))
    turn.publish(JobResumed(client.job, event.step, event.lost_steps, event.path))
    turn.do(Confirm(event.session, "resumed"))


def advise_of(turn: Turn, notice: NoticeView) -> None:
    """Tell each client whether its flush fits the time that this notice leaves."""
    if notice.flush_until is None:
        return
    budget_seconds = left(notice.flush_until, turn.now)
    # Once a job and not once a client: the notice itself waits until all is decided.
    advice: dict[str, JobAdvice] = {}
    for job in turn.node.jobs:
        usual = advice_for(turn.node, job, turn.now, turn.settings)
        advice[job] = replace(usual, fits=verdict(usual.predicted_seconds, budget_seconds))
    for client in turn.node.clients.values():
        if client.session is not None and client.job in advice:
            turn.do(Advise(client.session, advice[client.job]))


def advice_for(node: Node, job: str, now: float, settings: Settings) -> JobAdvice:
    """Return what is known of a job's next flush, and how often it should checkpoint."""
    leads = [settings.policy.expected_lead_seconds(name) for name in node.providers]
    lead = min((seconds for seconds in leads if seconds is not None), default=None)
    budget = None
    if lead is not None:
        budget = left(flush_until(lead, 0.0, settings.reserve_seconds), 0.0)
    since = now if node.observed_since is None else node.observed_since
    observed_seconds = settings.prior_interruption_seconds + now - since
    return advise(
        node.jobs.get(job, JobHistory()),
        budget_seconds=budget,
        mean_time_between_interruptions_seconds=observed_seconds / (1 + node.interruptions),
    )


def _recognise(node: Node, event: ClientJoined) -> tuple[str, Client | None]:
    """Return the key for a client, and who it was before if it is one that lost its connection."""
    base = f"{event.identity}/{event.job}/{'' if event.rank is None else event.rank}"
    key, count = base, 1
    while (known := node.clients.get(key)) is not None and known.session is not None:
        count += 1
        key = f"{base}#{count}"
    return key, known


def _remove(turn: Turn, client: Client, how: str, reason: str) -> None:
    for notice in list(turn.node.notices.values()):
        flush = notice.flushes.get(client.key)
        if notice.told and flush is not None and flush.outcome is None:
            flush_matters = notice.stance is Stance.FLUSH
            outcome = Outcome.MISSED if flush_matters else Outcome.IGNORED
            turn.put_notice(flushes.settle(turn, notice, client.key, outcome, reason or how))
    turn.change(clients=without(turn.node.clients, client.key))
    if client.session is not None:
        turn.change(sessions=without(turn.node.sessions, client.session))
    turn.publish(ClientWent(client.key, client.job, client.rank, how, reason))


def _flush_of(turn: Turn, session: str, notice_id: str) -> tuple[Notice, Flush] | None:
    """Return the flush that a client speaks of; answer it where there is no such notice."""
    client = turn.client_of(session)
    notice = turn.node.notices.get(notice_id)
    if client is None:
        return None
    if notice is None or notice.told_at is None:
        turn.do(Refuse(session, "unknown_id", f"no notice has the id {notice_id[:64]!r}"))
        return None
    return notice, notice.flushes.get(client.key) or flushes.of(client)


def _update(turn: Turn, session: str, notice_id: str, **changes: object) -> None:
    """Note what a client says of a flush that is not over; what it leaves out stays as it was.

    A client of whom no flush is expected, since it had dealt with the notice, comes to owe none.
    """
    found = _flush_of(turn, session, notice_id)
    if found is None:
        return
    notice, flush = found
    if notice.open and flush.client in notice.flushes and flush.outcome is None:
        if flush.begun_at is not None:
            changes.pop("begun_at", None)
        given = {name: value for name, value in changes.items() if value is not None}
        turn.put_notice(flushes.put(notice, replace(flush, **given)))  # type: ignore[arg-type]  # names and types are those of the callers above


def _settle(
    turn: Turn,
    session: str,
    notice_id: str,
    outcome: Outcome,
    *,
    cause: str = "",
    facts: Mapping[str, object] = MappingProxyType({}),
) -> bool | None:
    """End a flush; return whether it is news, since saying it twice is harmless.

    ``None``: there is no such notice. What is said of one that has ended is news, and too late to
    be counted.
    """
    found = _flush_of(turn, session, notice_id)
    if found is None:
        return None
    notice, flush = found
    if notice.open and flush.outcome is None:
        flush = replace(flush, **facts)  # type: ignore[arg-type]  # names and types are those of the callers above
        notice = flushes.put(notice, flush)
        turn.put_notice(flushes.settle(turn, notice, flush.client, outcome, cause))
        return True
    return not notice.open and flush.path is None


def _remember(turn: Turn, event: FlushReported | CheckpointReported) -> Client | None:
    client = turn.client_of(event.session)
    if client is None:
        return None
    history = remember(
        turn.node.jobs.get(client.job, JobHistory()),
        now=turn.now,
        step=event.step,
        path=event.path,
        stall_seconds=event.stall_seconds,
        durable_seconds=event.durable_seconds,
    )
    jobs = with_item(turn.node.jobs, client.job, history)
    if len(jobs) > JOBS_LIMIT:
        jobs = without(jobs, min(jobs, key=lambda job: jobs[job].last_at or 0.0))
    turn.change(jobs=jobs)
    turn.put_client(replace(client, step=event.step, heard_at=turn.now))
    turn.publish(
        CheckpointSeen(
            client.job, event.step, event.path, event.stall_seconds, event.durable_seconds
        )
    )
    return turn.node.clients[client.key]


def _send_advice(turn: Turn, client: Client) -> None:
    if client.session is not None and client.job in turn.node.jobs:
        advice = advice_for(turn.node, client.job, turn.now, turn.settings)
        turn.do(Advise(client.session, advice))
