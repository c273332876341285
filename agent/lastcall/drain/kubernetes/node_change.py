"""A change to the own node that is written only on what was read, and tried until it is clear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lastcall.drain.base import Attempt
from lastcall.drain.kubernetes.node_marks import Node, Step
from lastcall.drain.kubernetes.node_watch import OwnNode
from lastcall.drain.kubernetes.reply import Outcome, Reply

CALLS = 9
"""A change takes one call, or three after a race; whoever loses this many races gives up."""

LEAST_SECONDS = 0.05
"""With less time left than this no call is begun."""

BUSY_SECONDS = 0.5
"""How long a server that is busy is left alone, unless it says so itself."""

_LOOK_AGAIN = {Outcome.CONFLICT, Outcome.UNKNOWN}

Plan = Callable[[Node], Step]
"""Says what is to be written on a node as it was read."""


@dataclass(frozen=True, slots=True)
class Change:
    """What came of a change.

    Attributes:
        reply: the last answer, or the last that was a failure where it could not be carried out.
        written: what came of the last attempt to write it, where that is not what ended it well.
        attempt: what the plan promised; ``None`` where it could not be carried out.
    """

    reply: Reply
    attempt: Attempt | None = None
    written: Reply | None = None


async def change(own: OwnNode, plan: Plan, *, call_seconds: float, over_at: float) -> Change:
    """Carry out a plan on a node.

    The version at hand is written on without a look: if another came before us, the guard shows
    it, and then the node is read. After an answer that leaves it open whether the patch was
    applied, the node is read, too, and tells. What ends with nothing written is always decided on
    what was read just now.

    Args:
        own: the node.
        plan: what is wanted of it.
        call_seconds: for one call.
        over_at: until when, on the loop's clock.
    """
    loop = asyncio.get_running_loop()
    node, is_read_now = own.node, False
    trouble, written = Reply(Outcome.UNKNOWN, message="there was no time left to ask"), None
    for _ in range(CALLS):
        seconds = round(min(call_seconds, over_at - loop.time()), 2)
        if seconds < LEAST_SECONDS:
            break
        step = None if node is None else plan(node)
        if node is None or step is None or (step.patch is None and not is_read_now):
            reply = await own.look(seconds)
            if reply.ok:
                node, is_read_now = reply.body, True
                continue
            trouble = reply
        elif step.patch is None:
            return Change(Reply(Outcome.OK), step.attempt)
        else:
            reply = await own.write(step.patch, node, seconds)
            if reply.ok:
                return Change(reply, step.attempt)
            trouble = written = reply
            if reply.outcome in _LOOK_AGAIN:
                node = None
                continue
        if trouble.outcome is not Outcome.THROTTLED:
            break
        wait_seconds = trouble.retry_after_seconds or BUSY_SECONDS
        await asyncio.sleep(max(0.0, min(wait_seconds, over_at - loop.time())))
    return Change(trouble, written=written)
