"""How the agent carries on after its own end, and after the machine's."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core.commands import Cordon, Drain, WatchProcess
from lastcall.core.facts import NoticeEnded
from lastcall.core.model import Node, Notice, Phase
from lastcall.core.turn import Turn


def restore(turn: Turn, node: Node) -> None:
    """Take up what an earlier journal knew."""
    turn.node = node


def start(turn: Turn) -> None:
    """Take up what an earlier run of the agent left: no connection has survived, processes may."""
    for client in turn.node.clients.values():
        if client.pid is not None:
            turn.do(WatchProcess(client.identity, client.pid))
        turn.put_client(replace(client, session=None, left_at=turn.now))
    turn.change(sessions={}, sources={})
    for notice in turn.node.notices.values():
        if not (notice.told and notice.drains and turn.settings.acts):
            continue
        if turn.node.cordoned_for is None:
            turn.do(Cordon(turn.view(notice)))
        if notice.phase is Phase.DRAINING and notice.drained is None:
            turn.do(Drain(turn.view(notice)))


def reboot(turn: Turn) -> None:
    """End what an earlier boot had open.

    Its clock and its processes are gone. An event that the provider names stays known, since it
    may be listed for a while after the machine is back and must not be acted on twice.
    """
    kept: dict[str, Notice] = {}
    for notice in turn.node.notices.values():
        if notice.told:
            notice_now = replace(notice, phase=Phase.DONE, ended_at=turn.now, ending="rebooted")
            turn.publish(NoticeEnded(turn.view(notice_now), "rebooted", {}))
        elif not notice.open:
            notice_now = notice
        else:
            continue
        named = any(c.sighting.identity or c.sighting.deadline_unix for c in notice.claims)
        kept[notice.id] = replace(notice_now, gone=notice.gone or not named)
    turn.node = Node(
        notices=kept,
        jobs={job: replace(history, last_at=None) for job, history in turn.node.jobs.items()},
        interruptions=turn.node.interruptions,
        cordoned_for=turn.node.cordoned_for,
    )
