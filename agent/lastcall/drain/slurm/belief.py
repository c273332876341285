"""Which drain of ours is believed to stand, held against the node as it is. No I/O."""

from __future__ import annotations

from lastcall.core.events import CordonFound, CordonLifted, CordonMissing
from lastcall.drain.slurm.reason import notice_of
from lastcall.drain.slurm.text import NodeState


class Belief:
    """Notices a drain of ours that nobody here knows of, and one that somebody else has ended.

    Attributes:
        notice_id: the notice for which our drain stands; ``None`` where none is believed to.
    """

    def __init__(self) -> None:
        self.notice_id: str | None = None
        self._is_first_look = True

    def cordoned(self, notice_id: str) -> None:
        """Take note that the node is drained for a notice."""
        self.notice_id = notice_id

    def given_back(self) -> None:
        """Take note that no drain of ours stands."""
        self.notice_id = None

    def judge(self, state: NodeState) -> CordonFound | CordonLifted | CordonMissing | None:
        """Return what a look at the node tells that was not known; each thing once.

        That there is nothing is said at the first look, too: an agent before this one may have
        left word of a drain.
        """
        is_first_look, self._is_first_look = self._is_first_look, False
        stands_for, believed = notice_of(state), self.notice_id
        self.notice_id = stands_for
        if stands_for is not None:
            if stands_for == believed:
                return None
            return CordonFound(stands_for, f"the node is drained: {state.reason}")
        if believed is not None:
            return CordonLifted(believed, _by_whom(state))
        return CordonMissing("no reason of ours stands at the node") if is_first_look else None


def _by_whom(state: NodeState) -> str:
    if state.is_drained or state.is_down:
        return f'the node is {state} with another reason: "{state.reason}"'
    return "somebody has resumed the node"
