"""What a drain backend is, and the one that drains nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lastcall.core.commands import Drain, Mark
from lastcall.core.events import DrainEnded, Event
from lastcall.core.facts import Fact
from lastcall.core.views import NoticeView

Post = Callable[[Event], None]
"""Hands an event to the one queue; never blocks, never raises."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a cordon or of its lifting.

    Attributes:
        done: the node is as it was wanted.
        detail: why not; or what was found.
        foreign: another had cordoned the node before us, and nothing was changed.
    """

    done: bool
    detail: str = ""
    foreign: bool = False


class DrainBackend(Protocol):
    """Moves work off the node. Nothing is raised; what comes of it are results and events.

    An attempt is ``None`` where there is nothing to attempt, and ends soon, whatever is wrong.
    """

    name: str

    async def run(self) -> None:
        """Keep at hand what a drain needs, until cancelled."""
        ...

    async def cordon(self, notice: NoticeView) -> Attempt | None:
        """Keep new work off the node; doing it twice is harmless."""
        ...

    async def uncordon(self, notice_id: str) -> Attempt | None:
        """Give the node back, where the cordon is the one made for this notice."""
        ...

    def drain(self, order: Drain) -> None:
        """Move work away, or take up what has changed about that; training goes last.

        Each pod, unit or job that is moved is reported (:class:`EvictionReported`), and the end
        once, by the deadline (:class:`DrainEnded`).
        """
        ...

    def mark(self, command: Mark) -> None:
        """Have the scheduler know that the end of these processes is no failure of theirs.

        Nothing is moved. A later one for the same notice takes its place.
        """
        ...

    def stop(self, notice_id: str) -> None:
        """Move and mark no more for a notice; nothing where neither goes on."""
        ...

    async def marked(self, notice_id: str) -> None:
        """Return once processes that train may end by themselves for this notice.

        Where the scheduler must first know that it is no failure of theirs, that takes a call to
        it; it ends soon, whatever is wrong.
        """
        ...

    def note(self, fact: Fact) -> None:
        """Pass on to the scheduler's own records what has become known; never blocks."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Return what is shown of a drain that goes on, ready for JSON."""
        ...

    async def close(self) -> None:
        """Stop all that goes on; what was asked for stays as it is."""
        ...


class NoDrain:
    """For a node with no scheduler to speak to: there is nothing to cordon or to wait for.

    Args:
        post: takes the events.
    """

    name = "none"

    def __init__(self, post: Post) -> None:
        self._post = post

    async def run(self) -> None:
        """Keep nothing."""

    async def cordon(self, notice: NoticeView) -> None:
        """Cordon nothing."""
        del notice

    async def uncordon(self, notice_id: str) -> None:
        """Lift nothing."""
        del notice_id

    def drain(self, order: Drain) -> None:
        """Say that there is nothing to drain."""
        self._post(DrainEnded(order.id, "none", "this node has no drain backend"))

    def mark(self, command: Mark) -> None:
        """Mark nothing."""
        del command

    def stop(self, notice_id: str) -> None:
        """Stop nothing."""
        del notice_id

    async def marked(self, notice_id: str) -> None:
        """Wait for nothing."""
        del notice_id

    def note(self, fact: Fact) -> None:
        """Pass nothing on."""
        del fact

    def status(self) -> Mapping[str, Any]:
        """Show nothing."""
        return {}

    async def close(self) -> None:
        """Close nothing."""
