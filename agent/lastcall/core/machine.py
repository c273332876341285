"""All transitions of a notice, as one table, and the one function that applies them.

``Machine.handle(node, event, now)`` returns the node as it becomes and the commands that follow.
It reads no clock and does no I/O, and is total: every event is answered in every phase. An event
first changes what is known (:data:`EVENTS`); then the rows of :data:`TABLE` are tried on every
open notice until none fires, so that a phase never depends on the order in which news came in.

The rows' conditions and effects stand in the files of those names. What stands outside the table:
claims fold and vanish in ``incidents``, a single client's flush is judged in ``flushes``, the
cordon, which belongs to the node and not to one notice, is kept in ``cordon``, what the drain
may take is derived in ``draining`` from how things stand, and what becomes of the GPUs is kept in
``gpus``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lastcall.core import (
    clients,
    conditions,
    cordon,
    draining,
    drills,
    effects,
    gpus,
    health,
    incidents,
    restart,
    results,
)
from lastcall.core.commands import Command
from lastcall.core.deadlines import flush_until
from lastcall.core.estimates import JobAdvice
from lastcall.core.events import (
    Acked,
    AcknowledgeEnded,
    AllTold,
    BackendChecked,
    Beat,
    CheckpointReported,
    ClientJoined,
    ClientLeft,
    CordonEnded,
    CordonFound,
    CordonLifted,
    CordonMissing,
    DrainEnded,
    DrillRequested,
    Event,
    EvictionReported,
    FlushFailed,
    FlushReported,
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuWatchRequested,
    GpuXidCounted,
    HookEnded,
    IdentityLearned,
    Intended,
    ProcessDied,
    Progressed,
    ProvidersFound,
    Rebooted,
    Restored,
    ResumeReported,
    SourcePolled,
    SourceReported,
    Started,
    Tick,
    UncordonEnded,
)
from lastcall.core.model import Node, Notice, Phase
from lastcall.core.turn import Settings, Turn

Effect = Callable[[Turn, Notice], Notice]


@dataclass(frozen=True, slots=True)
class Row:
    """When the condition holds, the effect is taken and the notice goes on to a phase.

    ``to`` is ``None`` where it stays in the phase that it is in.
    """

    when: Callable[[Turn, Notice], bool]
    to: Phase | None
    then: Effect


# --- the table -------------------------------------------------------------------------------

_FALLS = (
    Row(conditions.gone, Phase.WITHDRAWN, effects.withdraw),
    Row(conditions.superseded, Phase.WITHDRAWN, effects.supersede),
    Row(conditions.expired, Phase.DONE, effects.expire),
)

_ENDS = (
    Row(conditions.overdue, None, effects.mark_overdue),
    Row(conditions.passed, Phase.DONE, effects.close),
    Row(conditions.rehearsed, Phase.DONE, effects.conclude),
)

TABLE: dict[Phase, tuple[Row, ...]] = {
    Phase.SEEN: (
        Row(conditions.gone, Phase.WITHDRAWN, effects.withdraw),
        Row(conditions.expired, Phase.DONE, effects.expire),
        Row(conditions.joins, Phase.DONE, effects.join),
        Row(conditions.due, Phase.TOLD, effects.tell),
        Row(conditions.ready_to_go, None, effects.acknowledge),
    ),
    Phase.TOLD: (
        *_FALLS,
        Row(conditions.flushes_over, None, effects.say_flushes_over),
        *_ENDS,
        Row(conditions.flushed, Phase.DRAINING, effects.nothing),
        Row(conditions.begun, Phase.FLUSHING, effects.nothing),
        Row(conditions.ready_to_go, None, effects.acknowledge),
    ),
    Phase.FLUSHING: (
        *_FALLS,
        Row(conditions.flushes_over, None, effects.say_flushes_over),
        *_ENDS,
        Row(conditions.flushed, Phase.DRAINING, effects.nothing),
        Row(conditions.ready_to_go, None, effects.acknowledge),
    ),
    Phase.DRAINING: (
        *_FALLS,
        *_ENDS,
        Row(conditions.ready_to_go, None, effects.acknowledge),
    ),
    Phase.DONE: (),
    Phase.WITHDRAWN: (),
}
"""The rows of a phase are tried from the top; the first whose condition holds is taken."""


# --- events ----------------------------------------------------------------------------------


def _tick(_turn: Turn, _event: Tick) -> None:
    pass


EVENTS: dict[type[Event], Callable[[Turn, Any], None]] = {
    Started: lambda turn, _: restart.start(turn),
    Restored: lambda turn, event: restart.restore(turn, event.node),
    Rebooted: lambda turn, _: restart.reboot(turn),
    Tick: _tick,
    ProvidersFound: health.settle_providers,
    IdentityLearned: health.identify,
    SourcePolled: health.poll,
    SourceReported: incidents.report,
    GpuWatchChanged: gpus.watch_changed,
    GpuJudged: gpus.judged,
    GpuGone: gpus.gone,
    GpuXidCounted: gpus.xid_counted,
    GpuHoldersSeen: gpus.holders_seen,
    GpuWatchRequested: gpus.watch_requested,
    ClientJoined: clients.join,
    ClientLeft: clients.leave,
    ProcessDied: clients.die,
    Acked: clients.ack,
    Intended: clients.intend,
    Progressed: clients.progress,
    FlushReported: clients.flushed,
    FlushFailed: clients.failed,
    CheckpointReported: clients.checkpoint,
    ResumeReported: clients.resumed,
    Beat: clients.beat,
    DrillRequested: drills.request,
    AllTold: results.all_told,
    CordonEnded: cordon.ended,
    UncordonEnded: cordon.given_back,
    CordonFound: cordon.found,
    CordonLifted: cordon.lifted,
    CordonMissing: cordon.missing,
    EvictionReported: results.eviction_reported,
    BackendChecked: results.backend_checked,
    DrainEnded: results.drain_ended,
    HookEnded: results.hook_ended,
    AcknowledgeEnded: results.acknowledge_ended,
}
"""What each event changes before the table is applied."""


class Machine:
    """The decision core, with the site's settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def handle(self, node: Node, event: Event, now: float) -> tuple[Node, list[Command]]:
        """Return the node after an event, and what is to be done.

        A node that nothing changed comes back as the same object.

        Args:
            node: what was known before.
            event: what happened.
            now: when, in seconds on the monotonic clock.
        """
        turn = Turn(node, now, self.settings)
        if node.observed_since is None:
            turn.change(observed_since=now)
        EVENTS[type(event)](turn, event)
        _advance_all(turn)
        clients.part(turn)
        gpus.follow(turn, node)
        cordon.keep(turn)
        draining.issue(turn, node)
        return turn.node, turn.commands

    def wake_at(self, node: Node, now: float) -> float | None:
        """Return the next moment at which something is due though nothing happens."""
        moments = (moment for moment in self._moments(node) if now < moment < math.inf)
        return min(moments, default=None)

    def advice(self, node: Node, job: str, now: float) -> JobAdvice:
        """Return what is known of a job's next flush."""
        return clients.advice_for(node, job, now, self.settings)

    def _moments(self, node: Node) -> Iterator[float]:
        for notice in node.open_notices:
            yield notice.first_seen + (notice.lead.response.expires_seconds or math.inf)
            for claim in notice.claims:
                if claim.deadline is not None:
                    yield claim.deadline - (claim.response.act_before_seconds or 0.0)
            if notice.deadline is not None:
                yield notice.deadline
                yield conditions.over_at(notice, self.settings) or math.inf
                if notice.told_at is not None:
                    yield flush_until(
                        notice.deadline, notice.told_at, self.settings.reserve_seconds
                    )
        yield cordon.wake_at(node) or math.inf
        yield gpus.wake_at(node) or math.inf
        for client in node.clients.values():
            if client.left_at is not None:
                yield client.left_at + clients.AWAY_SECONDS


def _advance_all(turn: Turn) -> None:
    """Apply the table until no row fires: one notice's step may make another's due."""
    before = None
    while turn.node is not before:
        before = turn.node
        for notice_id in before.notices:
            _advance(turn, notice_id)


def _advance(turn: Turn, notice_id: str) -> None:
    """Apply the table to one notice until no row fires."""
    while True:
        notice = turn.node.notices[notice_id]
        row = next((row for row in TABLE[notice.phase] if row.when(turn, notice)), None)
        if row is None:
            return
        after = row.then(turn, notice)
        turn.put_notice(replace(after, phase=row.to or notice.phase))
