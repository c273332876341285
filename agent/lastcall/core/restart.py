"""How the agent carries on after its own end, and after the machine's."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core import draining, flushes, gpus
from lastcall.core.commands import WatchProcess
from lastcall.core.facts import NoticeEnded
from lastcall.core.model import Claim, Kind, Node, Notice, Outcome, Phase, Stance
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
    turn.change(
        sessions={},
        sources={},
        backend=None,
        cordoning=False,
        cordon_says=None if turn.node.cordoning else turn.node.cordon_says,
        cordon_failures=0,
        cordon_after=0.0,
        giving_back=False,
        gpu_holders=(),
    )
    gpus.start(turn)
    for notice in turn.node.notices.values():
        if notice.told and notice.acknowledged and notice.accepted is None:
            # Nobody heard what the provider said; saying it twice is harmless.
            claims = tuple(replace(claim, acknowledged=False) for claim in notice.claims)
            turn.put_notice(replace(notice, claims=claims, acknowledged=False))
    for order in draining.orders(turn.node, turn.settings).values():
        turn.do(order)


def reboot(turn: Turn) -> None:
    """End what an earlier boot had open.

    Its clock and its processes are gone. An event that the provider names stays known, since it
    may be listed for a while after the machine is back and must not be acted on twice. One that
    nobody was told of yet is seen anew.
    """
    kept: dict[str, Notice] = {}
    for notice in turn.node.notices.values():
        after = notice
        if notice.open:
            after = _missed(turn, notice)
            after = replace(after, phase=Phase.DONE, ended_at=turn.now, ending="rebooted")
            turn.publish(NoticeEnded(turn.view(after), "rebooted", flushes.tally(after)))
        if notice.told or not notice.open:
            # What a GPU's fault is told apart by is a moment on the clock of that boot.
            others = [c for c in notice.claims if c.sighting.kind is not Kind.GPU_FAULT]
            named = any(c.sighting.identity or c.sighting.deadline_unix for c in others)
            survived = tuple(_survived(claim) for claim in others or notice.claims)
            kept[notice.id] = replace(after, claims=survived, gone=notice.gone or not named)
    turn.node = Node(
        notices=kept,
        jobs={job: replace(history, last_at=None) for job, history in turn.node.jobs.items()},
        observed_since=turn.now,
        cordoned_for=turn.node.cordoned_for,
        cordoned_at=None if turn.node.cordoned_for is None else turn.now,
        gpu_reboots=gpus.reboots(turn.node),
    )


def _missed(turn: Turn, notice: Notice) -> Notice:
    """Return a notice whose unfinished flushes the end of the machine has cut off.

    When that was nobody knows; the deadline, on the clock of that boot, is the best guess.
    """
    end = notice.first_seen if notice.deadline is None else notice.deadline
    last_turn = Turn(turn.node, end, turn.settings)
    cause = "the machine went down first"
    outcome = Outcome.MISSED if notice.stance is Stance.FLUSH else Outcome.IGNORED
    notice = flushes.settle_all(last_turn, notice, outcome, cause)
    for command in last_turn.commands:
        turn.do(command)
    return notice


def _survived(claim: Claim) -> Claim:
    """Return a claim that the machine has come back from: no reason to keep work off it."""
    return replace(claim, response=replace(claim.response, drain=False))
