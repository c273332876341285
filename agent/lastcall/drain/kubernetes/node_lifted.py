"""Which notice stands though somebody lifted the cordon that was made for it. No I/O."""

from __future__ import annotations

from collections import deque

_ENDED_KEPT = 64


class Lifted:
    """Remembers it until the notice ends; over a restart the node's condition does."""

    def __init__(self) -> None:
        self._cordoned_for = ""
        self._lifted_for = ""
        self._ended: deque[str] = deque(maxlen=_ENDED_KEPT)

    def cordoned(self, notice_id: str) -> None:
        """Take note that the node is to be cordoned for a notice."""
        self._cordoned_for, self._lifted_for = notice_id, ""

    def lifted(self, notice_id: str) -> None:
        """Take note that somebody lifted the cordon, where it was made here for that notice."""
        if notice_id == self._cordoned_for:
            self._lifted_for = notice_id

    def ended(self, notice_id: str) -> None:
        """Take note that a notice stands no more."""
        self._ended.append(notice_id)
        if notice_id == self._cordoned_for:
            self._cordoned_for = self._lifted_for = ""

    def standing(self, said: str) -> str:
        """Return the notice's id; empty where there is none.

        Args:
            said: the one that the node's condition names, perhaps set by an agent before this one.
        """
        return self._lifted_for or ("" if said in self._ended else said)
