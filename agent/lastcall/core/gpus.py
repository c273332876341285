"""What the node knows of its GPUs: how each was judged, who holds it, what was saved in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lastcall.core.commands import Confirm, WatchGpus
from lastcall.core.events import (
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuWatchRequested,
    GpuXidCounted,
)
from lastcall.core.facts import (
    GpuHealth,
    GpuLost,
    GpuWatchSeen,
    GpuWorkSafe,
    GpuXid,
    HolderUnregistered,
    NodeGpuHealth,
)
from lastcall.core.gpu import xids
from lastcall.core.gpu.belief import QUIET_SECONDS
from lastcall.core.gpu.model import (
    SEVERITY,
    WATCH_TROUBLES,
    GpuRecord,
    GpuWatch,
    Health,
    Holder,
    Recovery,
    Verdict,
    WatchState,
)
from lastcall.core.model import Kind, Node, Notice
from lastcall.core.turn import Turn, with_item, without

XID_KEPT_SECONDS = 60.0
"""How old what is on record of an XID may be: a storm of them must not fill the journal."""

RELEASED_SECONDS = 600.0
"""How long the GPUs stay let go where nobody says sooner that they are to be watched."""

REBOOTS_IN_VAIN = 2
"""After so many reboots that did not help, another does not either."""

_EMPTY = "drained"
"""The end of a drain after which nothing of ours stands in a reset's way."""

_HELPED_BY_REBOOT = (Recovery.RESET, Recovery.REBOOT, Recovery.REPLACE)


def watch_changed(turn: Turn, event: GpuWatchChanged) -> None:
    """Take in how it stands with the watch; the same again is no news."""
    watch = GpuWatch(
        state=event.state,
        detail=event.detail,
        since=turn.now,
        gpu=event.gpu,
        call=event.call,
        pid=event.pid,
    )
    before = turn.node.gpu_watch
    if before is not None and replace(watch, since=before.since) == before:
        return
    if before is not None and before.state in WATCH_TROUBLES and watch.state is WatchState.STARTING:
        return  # a new try: that it is over, or still so, is said when that is known
    turn.change(gpu_watch=watch)
    turn.publish(
        GpuWatchSeen(
            state=watch.state,
            detail=watch.detail,
            gpu=watch.gpu,
            call=watch.call,
            pid=watch.pid,
        )
    )


def judged(turn: Turn, event: GpuJudged) -> None:
    """Take in how a GPU was judged."""
    known = turn.node.gpus.get(event.gpu.uuid, GpuRecord(gpu=event.gpu))
    verdict = _escalated(event.verdict, turn.node.gpu_reboots.get(event.gpu.uuid, {}))
    record = replace(known, gpu=event.gpu, verdict=verdict)
    if verdict.health is Health.HEALTHY:
        record = replace(record, sign_at=None, safe_at=None, lost_at=None)
    elif verdict.marks and record.sign_at is None and verdict.health is not Health.UNKNOWN:
        record = replace(record, sign_at=min(turn.now, *(mark.since for mark in verdict.marks)))
    if verdict.lost and record.lost_at is None and not _is_counted(turn.node, event.gpu.uuid):
        record = _lose(turn, record)
    if record == known and event.gpu.uuid in turn.node.gpus:
        return
    before = node_verdict(turn.node)
    turn.change(gpus=with_item(turn.node.gpus, event.gpu.uuid, record))
    _say_health(turn, known, record)
    _say_node_health(turn, before)


def gone(turn: Turn, event: GpuGone) -> None:
    """Forget a GPU."""
    if event.gpu in turn.node.gpus:
        before = node_verdict(turn.node)
        turn.change(gpus=without(turn.node.gpus, event.gpu))
        _say_node_health(turn, before)


def xid_counted(turn: Turn, event: GpuXidCounted) -> None:
    """Take in an XID; of a burst the log has the first alone, the metrics have all."""
    key = xids.key(event.gpu, event.xid)
    last = turn.node.gpu_xids.get(key)
    news = last is None or turn.now - last > QUIET_SECONDS
    rule = xids.XIDS.get(event.xid, xids.UNLISTED)
    turn.publish(
        GpuXid(event.gpu, event.xid, event.count, event.text, news, rule.meaning, event.respond)
    )
    if last is None or turn.now - last > XID_KEPT_SECONDS:
        turn.change(gpu_xids=with_item(turn.node.gpu_xids, key, turn.now))


def holders_seen(turn: Turn, event: GpuHoldersSeen) -> None:
    """Take in who computes on the GPUs, and name once whoever has not said hello."""
    named = {holder.pid for holder in unregistered(turn.node)}
    turn.change(gpu_holders=event.holders)
    for holder in unregistered(turn.node):
        if holder.pid not in named:
            turn.publish(HolderUnregistered(holder.pid, holder.gpus, holder.command))


def watch_requested(turn: Turn, event: GpuWatchRequested) -> None:
    """Let go of the GPUs, or take them up again after a reset, because an operator says so."""
    if event.watched:
        turn.change(gpus_released_until=None, gpus_repaired_at=turn.now)
        turn.do(WatchGpus(watched=True, repaired=True))
    else:
        release(turn)
    turn.do(Confirm(event.session, "gpu"))


def release(turn: Turn) -> None:
    """Let go of the GPUs for a while: a reset needs that nobody has them open."""
    turn.change(gpus_released_until=turn.now + RELEASED_SECONDS)
    turn.do(WatchGpus(watched=False))


def start(turn: Turn) -> None:
    """Take up where an earlier run of the agent stood."""
    if turn.node.gpus_released_until is not None:
        turn.do(WatchGpus(watched=False))
    if turn.node.gpus:
        # Who keeps it elsewhere may have missed it.
        _publish_node_health(turn, node_verdict(turn.node))


def follow(turn: Turn, before: Node) -> None:
    """Draw what follows from all that has just become known."""
    node = turn.node
    until = node.gpus_released_until
    if until is not None and turn.now >= until:
        turn.change(gpus_released_until=None)
        turn.do(WatchGpus(watched=True))
    _release_for_reset(turn, before)
    if node.jobs is not before.jobs:
        _note_saved_work(turn)


def wake_at(node: Node) -> float | None:
    """Return when the GPUs are watched again though nobody says so."""
    return node.gpus_released_until


def reboots(node: Node) -> Mapping[str, Mapping[str, int]]:
    """Return by GPU and reason how many reboots, one of now included, did not help."""
    counts: dict[str, Mapping[str, int]] = {}
    for uuid, record in node.gpus.items():
        before = node.gpu_reboots.get(uuid, {})
        asked = [mark for mark in record.verdict.marks if mark.recovery in _HELPED_BY_REBOOT]
        if asked:
            counts[uuid] = {mark.reason: before.get(mark.reason, 0) + 1 for mark in asked}
    return counts


def node_verdict(node: Node) -> Verdict:
    """Return how the GPUs are, taken together: as the worst of them."""
    records = node.gpus.values()
    health = max(
        (record.verdict.health for record in records), key=SEVERITY.index, default=Health.UNKNOWN
    )
    return Verdict(health, tuple(mark for record in records for mark in record.verdict.marks))


def unregistered(node: Node) -> tuple[Holder, ...]:
    """Return the processes that compute on GPUs and that nobody can ask to flush."""
    registered = {
        client.pid
        for client in node.clients.values()
        if client.pid is not None and client.session is not None
    }
    return tuple(
        holder
        for holder in node.gpu_holders
        if registered.isdisjoint((holder.pid, *holder.parents))
    )


def _escalated(verdict: Verdict, reboots_in_vain: Mapping[str, int]) -> Verdict:
    """Return a verdict that has learned from the reboots which did not help."""
    return replace(
        verdict,
        marks=tuple(
            replace(mark, recovery=Recovery.REPLACE)
            if mark.recovery in _HELPED_BY_REBOOT
            and reboots_in_vain.get(mark.reason, 0) >= REBOOTS_IN_VAIN
            else mark
            for mark in verdict.marks
        ),
    )


def _is_counted(node: Node, uuid: str) -> bool:
    """Whether a loss is of a GPU that can say its name no more, and that was lost before."""
    return not uuid and any(record.lost_at is not None for record in node.gpus.values())


def _lose(turn: Turn, record: GpuRecord) -> GpuRecord:
    began = turn.now if record.sign_at is None else record.sign_at
    saved = "no" if record.safe_at is None else "yes"
    if not _jobs(turn.node):
        saved = "nothing"
    turn.publish(GpuLost(record.gpu.uuid, turn.now - began, saved))
    return replace(record, lost_at=turn.now)


def _note_saved_work(turn: Turn) -> None:
    """See whether every job has saved its work since a GPU's trouble began."""
    jobs = _jobs(turn.node)
    if not jobs:
        return
    saved = [turn.node.jobs[job].last_at if job in turn.node.jobs else None for job in jobs]
    oldest = min(-1.0 if at is None else at for at in saved)
    for uuid, record in turn.node.gpus.items():
        if record.sign_at is None or record.safe_at is not None or oldest < record.sign_at:
            continue
        safe = replace(record, safe_at=turn.now)
        turn.change(gpus=with_item(turn.node.gpus, uuid, safe))
        turn.publish(GpuWorkSafe(uuid, turn.now - record.sign_at))


def _jobs(node: Node) -> set[str]:
    return {client.job for client in node.clients.values() if client.session is not None}


def _release_for_reset(turn: Turn, before: Node) -> None:
    """Let go of the GPUs once nobody works on the node any more for one that needs a reset."""
    if before.notices is turn.node.notices or turn.node.gpus_released_until is not None:
        return
    for notice in turn.node.notices.values():
        was = before.notices.get(notice.id)
        emptied_now = _is_emptied(notice) and not (was is not None and _is_emptied(was))
        if emptied_now and node_verdict(turn.node).recovery is Recovery.RESET:
            release(turn)


def _is_emptied(notice: Notice) -> bool:
    is_fault = notice.lead.sighting.kind is Kind.GPU_FAULT and not notice.drill
    return is_fault and notice.drained == _EMPTY and not notice.unsettled


def _say_health(turn: Turn, before: GpuRecord, after: GpuRecord) -> None:
    old, new = before.verdict, after.verdict
    if (old.health, old.reasons, old.recovery) == (new.health, new.reasons, new.recovery):
        return
    if not after.gpu.uuid and not old.marks and not new.marks:
        return  # nothing is said of all together but what each of them says
    turn.publish(
        GpuHealth(
            gpu=after.gpu.uuid,
            index=after.gpu.index,
            health=new.health,
            before=old.health,
            reasons=new.reasons,
            recovery=new.recovery,
            detail=new.detail,
        )
    )


def _say_node_health(turn: Turn, old: Verdict) -> None:
    new = node_verdict(turn.node)
    if (old.health, old.reasons, old.recovery) == (new.health, new.reasons, new.recovery):
        return
    _publish_node_health(turn, new)


def _publish_node_health(turn: Turn, verdict: Verdict) -> None:
    turn.publish(NodeGpuHealth(verdict.health, verdict.reasons, verdict.recovery, verdict.detail))
