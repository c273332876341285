"""The reason that a drained node carries, and which of them are ours. No I/O."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lastcall.core.model import Kind
from lastcall.core.views import NoticeView
from lastcall.drain.slurm.text import NodeState

MARK = "lastcall:"
"""How a reason of ours begins."""

NOT_RESPONDING = "Not responding"
"""The reason that Slurm itself gives a node that it has lost."""

_OURS = re.compile(rf"{MARK} ({'|'.join(Kind)}) (\S+)(?: \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?\Z")


def reason_for(notice: NoticeView, *, now: float, now_unix: float) -> str:
    """Return the reason to drain the node with: our mark, the kind, the notice and its deadline.

    Args:
        notice: what the node is drained for.
        now: on the monotonic clock.
        now_unix: the same moment in Unix seconds.
    """
    at_unix = notice.deadline_unix
    if at_unix is None and notice.deadline is not None:
        at_unix = now_unix + (notice.deadline - now)
    words = [MARK, notice.kind.value, notice.id]
    if at_unix is not None:
        words.append(datetime.fromtimestamp(at_unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return " ".join(words)


def notice_of(state: NodeState) -> str | None:
    """Return the notice that we have drained the node for; ``None`` where the drain is not ours."""
    match = _OURS.match(state.reason)
    return match[2] if match and state.is_drained else None


def is_kept_by_others(state: NodeState) -> bool:
    """Whether somebody else keeps jobs off the node, and a drain would overwrite why.

    A node that Slurm has lost is nobody's: it takes jobs again as soon as it answers.
    """
    if notice_of(state) is not None:
        return False
    is_down = state.is_down and state.reason not in {"", NOT_RESPONDING}
    return state.is_drained or (is_down and not state.reason.startswith(MARK))
