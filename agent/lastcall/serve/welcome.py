"""The answer to a hello, within what a line may hold."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.core.commands import Greet
from lastcall.serve import translate
from lastcall.wire.codec import encode
from lastcall.wire.messages import AGENT_LINE_LIMIT, PROTOCOL, Notice, Welcome

_FRAME_BYTES = 4096
"""Room for all of a welcome but its notices."""


def welcome_lines(
    command: Greet, *, node_name: str, agent_version: str, now: float, wall: float
) -> Iterator[bytes]:
    """Yield the welcome, and the notices that would make it too long as lines of their own.

    Args:
        command: whom to greet, and the notices that are open.
        node_name: the node's.
        agent_version: the agent's.
        now: the present on the clock of the notices' times.
        wall: the present in Unix seconds.
    """
    listed: list[Notice] = []
    later: list[bytes] = []
    room_bytes = AGENT_LINE_LIMIT - _FRAME_BYTES
    for view in command.notices:
        notice = translate.notice(view, now=now, wall=wall)
        line = encode(notice)
        room_bytes -= len(line)
        if room_bytes >= 0:
            listed.append(notice)
        else:
            later.append(line)
    yield encode(Welcome(PROTOCOL, agent_version, node_name, command.session, tuple(listed)))
    yield from later
