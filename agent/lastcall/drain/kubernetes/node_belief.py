"""Which cordon of ours is believed to stand, held against each version of the node. No I/O."""

from __future__ import annotations

from lastcall.core.events import CordonFound, CordonLifted, CordonMissing
from lastcall.drain.kubernetes.node_marks import Node, lifted_by, marks_of, uid_of


class Belief:
    """Notices a cordon of ours that nobody here knows of, and one that somebody else has lifted.

    Versions are compared as they are, not as they changed: what was missed is noticed at the next.

    Args:
        boot_id: names this boot of the machine.

    Attributes:
        notice_id: the notice for which our cordon stands; ``None`` where none is believed to.
    """

    def __init__(self, boot_id: str) -> None:
        self.notice_id: str | None = None
        self._boot_id = boot_id
        self._node_uid = ""
        self._giving_back: str | None = None
        self._told_lifted: str | None = None
        self._is_first_look = True

    def cordoned(self, notice_id: str) -> None:
        """Take note that the node is cordoned for a notice."""
        self.notice_id, self._giving_back, self._told_lifted = notice_id, None, None

    def giving_back(self, notice_id: str) -> None:
        """Take note that our cordon is about to be lifted; until it is certain, nobody else did."""
        self._giving_back = notice_id

    def given_back(self) -> None:
        """Take note that the cordon for that notice stands no more."""
        self.notice_id, self._giving_back = None, None

    def judge(self, node: Node) -> CordonFound | CordonLifted | CordonMissing | None:
        """Return what a version of the node tells that was not known; each thing once.

        That there is nothing is said at the first look, too: an agent before this one may have
        left word of a cordon.
        """
        marks, uid = marks_of(node), uid_of(node)
        is_first_look, self._is_first_look = self._is_first_look, False
        is_new_object, self._node_uid = self._node_uid not in {"", uid}, uid
        if marks.is_our_cordon:
            if marks.notice_id == self.notice_id:
                return None
            self.notice_id, self._told_lifted = marks.notice_id, None
            when = "in this boot" if marks.boot_id == self._boot_id else "before this boot"
            return CordonFound(marks.notice_id, f"made {when}")
        lost, self.notice_id = self.notice_id, None
        if marks.is_ours:
            lost = marks.notice_id
        if lost is None and is_first_look:
            return CordonMissing("the node carries no mark of it")
        if lost is None or lost in {self._giving_back, self._told_lifted}:
            return None
        if is_new_object and not marks.is_ours:
            return CordonMissing("the node object was made anew")
        self._told_lifted = lost
        return CordonLifted(lost, lifted_by(node))
