"""One client's flush for one notice: how it begins, how it is judged, what is lost without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from lastcall.core.estimates import JobHistory
from lastcall.core.facts import FlushSettled, WorkLost
from lastcall.core.model import Client, Flush, Node, Notice, Outcome, Stance
from lastcall.core.turn import Turn, with_item

LIMIT = 4096
"""Flushes followed for one notice; whoever comes after is told all the same."""

_DURABLE = (Outcome.IN_TIME, Outcome.LATE)
_LOST = (Outcome.FAILED, Outcome.MISSED, Outcome.NOT_DURABLE)


def expect(turn: Turn, notice: Notice, clients: Iterable[Client]) -> Notice:
    """Return the notice with a flush expected of each client, unless it had dealt with it.

    A client without a connection is told when it comes back.
    """
    # Built once for all: no client's bytes go out before the last one's flush is noted.
    expected = dict(notice.flushes)
    for client in clients:
        flush = expected.get(client.key)
        if flush is None:
            if notice.id in client.handled or len(expected) >= LIMIT:
                continue
            flush = of(client)
        if flush.told_at is None and client.session is not None:
            flush = replace(flush, told_at=turn.now)
        expected[client.key] = flush
    return notice if expected == notice.flushes else replace(notice, flushes=expected)


def of(client: Client) -> Flush:
    """Return a flush that nothing is known of yet."""
    return Flush(client.key, client.job, client.rank, client.cgroup)


def put(notice: Notice, flush: Flush) -> Notice:
    """Return the notice with one flush as it is now."""
    return replace(notice, flushes=with_item(notice.flushes, flush.client, flush))


def judge(turn: Turn, notice: Notice, path: str, *, durable: bool) -> Outcome:
    """Return what a checkpoint that is reported now is worth."""
    if not durable or any(_within(path, root) for root in turn.settings.volatile_paths):
        return Outcome.NOT_DURABLE
    if notice.deadline is not None and turn.now > notice.deadline:
        return Outcome.LATE
    return Outcome.IN_TIME


def settle(turn: Turn, notice: Notice, client: str, outcome: Outcome, cause: str = "") -> Notice:
    """Return the notice with a flush ended for good, and make it known; it ends only once."""
    flush = notice.flushes[client]
    if flush.outcome is not None:
        return notice
    settled = replace(flush, outcome=outcome, settled_at=turn.now, cause=cause)
    notice = put(notice, settled)
    told_at, deadline = settled.told_at, notice.deadline
    flush_seconds = margin_seconds = used_ratio = None
    if outcome in _DURABLE and told_at is not None:
        flush_seconds = turn.now - told_at
        if deadline is not None:
            margin_seconds = deadline - turn.now
            used_ratio = flush_seconds / (deadline - told_at) if deadline > told_at else None
    turn.publish(
        FlushSettled(
            notice=turn.view(notice),
            client=client,
            job=settled.job,
            rank=settled.rank,
            outcome=outcome,
            flush_seconds=flush_seconds,
            margin_seconds=margin_seconds,
            used_ratio=used_ratio,
            step=settled.step,
            path=settled.path,
            cause=cause,
            cgroup=settled.cgroup,
        )
    )
    if outcome in _LOST and notice.stance is Stance.FLUSH and not notice.drill:
        notice = _lose(turn, notice, settled)
    return notice


def settle_all(turn: Turn, notice: Notice, outcome: Outcome, cause: str = "") -> Notice:
    """Return the notice with every flush that is not over ended in the same way."""
    for flush in notice.unsettled:
        notice = settle(turn, notice, flush.client, outcome, cause)
    return notice


def tally(notice: Notice) -> dict[str, int]:
    """Return how many flushes ended in which way."""
    return dict(Counter(flush.outcome for flush in notice.flushes.values() if flush.outcome))


def unsaved_seconds(node: Node, job: str, client: Client | None, now: float) -> float | None:
    """Return how much of a job's work no durable checkpoint holds; ``None`` where unknown.

    A process that came after the job's last checkpoint has worked only since it came.
    """
    saved_at = node.jobs.get(job, JobHistory()).last_at
    came_at = client.joined_at if client else None
    since = [moment for moment in (saved_at, came_at) if moment is not None]
    return now - max(since) if since else None


def _lose(turn: Turn, notice: Notice, flush: Flush) -> Notice:
    """Make a job's loss known, once for all its ranks."""
    if flush.job in notice.lost_jobs:
        return notice
    client = turn.node.clients.get(flush.client)
    seconds = unsaved_seconds(turn.node, flush.job, client, turn.now)
    if seconds is None:
        return notice
    turn.publish(WorkLost(turn.view(notice), flush.job, seconds))
    return replace(notice, lost_jobs=notice.lost_jobs | {flush.job})


def _within(path: str, root: str) -> bool:
    root = root.rstrip("/")
    return path == root or path.startswith(f"{root}/")
