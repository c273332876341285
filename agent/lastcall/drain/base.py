"""What a drain backend is, and the one that drains nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lastcall.core.views import NoticeView


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a cordon or of its lifting."""

    done: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What came of a drain: ``drained``, ``incomplete``, ``failed`` or ``none``."""

    outcome: str
    detail: str = ""


class DrainBackend(Protocol):
    """Moves work off the node. A call ends by the notice's deadline and raises nothing.

    An attempt is ``None`` where there is nothing to attempt.
    """

    name: str

    async def cordon(self, notice: NoticeView) -> Attempt | None:
        """Keep new work off the node; doing it twice is harmless."""
        ...

    async def uncordon(self, notice_id: str) -> Attempt | None:
        """Give the node back, where the cordon is the one made for this notice."""
        ...

    async def drain(self, notice: NoticeView) -> DrainResult:
        """Move work away, training last."""
        ...


class NoDrain:
    """For a node with no scheduler to speak to: there is nothing to cordon or to wait for."""

    name = "none"

    async def cordon(self, notice: NoticeView) -> None:
        """Cordon nothing."""
        del notice

    async def uncordon(self, notice_id: str) -> None:
        """Lift nothing."""
        del notice_id

    async def drain(self, notice: NoticeView) -> DrainResult:
        """Drain nothing."""
        del notice
        return DrainResult("none", "this node has no drain backend")
