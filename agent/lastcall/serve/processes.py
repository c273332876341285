"""Which processes are watched, and that the death of each is said once.

The end of a connection is no sign of death: a forked data loader keeps its parent's connection
open. A pidfd tells it at once. What the dead had still written is read before their death is told,
so that a last word is never lost.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Protocol

from lastcall.core.events import ProcessDied
from lastcall.serve import peers
from lastcall.serve.base import Post
from lastcall.serve.peers import Process

CLAIMED = "claimed:"
"""How an identity begins that a client has only claimed."""


class Speaker(Protocol):
    """A connection of a watched process."""

    def exhaust(self) -> None:
        """Take what the process has left in the socket, and no more."""
        ...


@dataclass(eq=False, slots=True)
class Watched:
    """A process under an identity, with the connections that speak for it."""

    identity: str
    pidfd: int | None
    speakers: set[Speaker] = field(default_factory=set)
    dead: bool = False


class Processes:
    """The watched processes, a limited number of them."""

    def __init__(self, post: Post, limit: int) -> None:
        self._post = post
        self._limit = limit
        self._watched: dict[Watched, None] = {}
        self._by_identity: dict[str, list[Watched]] = {}

    @property
    def count(self) -> int:
        """How many processes are watched."""
        return len(self._watched)

    def watch(self, identity: str, process: Process, speaker: Speaker | None) -> Watched | None:
        """Watch a process for as long as it lives; its pidfd is ours from now on.

        Returns:
            what to hand to :meth:`let_go`; ``None`` where the process cannot be watched.
        """
        known = self._by_identity.get(identity, [])
        # Several processes may claim the same identity; what the kernel named there is but one of.
        if known and not identity.startswith(CLAIMED):
            _close(process.pidfd)
            watched = known[0]
        elif (process.pidfd is None and not process.dead) or not self._make_room():
            _close(process.pidfd)
            return None
        else:
            watched = self._begin(identity, process)
        if speaker is not None:
            watched.speakers.add(speaker)
        return watched

    def watch_again(self, identity: str, pid: int) -> None:
        """Watch a process that an earlier run of the agent knew, unless it is gone already."""
        if identity.startswith(CLAIMED) or identity in self._by_identity:
            return
        process = peers.look_up(pid)
        if process.dead or process.name not in (identity, None):
            _close(process.pidfd)
            self._post(ProcessDied(identity))
        else:
            self.watch(identity, process, None)

    def let_go(self, watched: Watched, speaker: Speaker) -> None:
        """Note that a connection has ended; its process is watched on."""
        watched.speakers.discard(speaker)
        if watched.dead and not watched.speakers:
            self._bury(watched)

    def close(self) -> None:
        """Watch none any more, and say nothing of any."""
        for watched in list(self._watched):
            self._forget(watched)

    def _begin(self, identity: str, process: Process) -> Watched:
        watched = Watched(identity, process.pidfd)
        self._watched[watched] = None
        self._by_identity.setdefault(identity, []).append(watched)
        loop = asyncio.get_running_loop()
        if process.pidfd is None:
            loop.call_soon(self._die, watched)
        else:
            loop.add_reader(process.pidfd, self._die, watched)
        return watched

    def _make_room(self) -> bool:
        """Return whether one more may be watched; the oldest without a connection gives way."""
        if len(self._watched) < self._limit:
            return True
        silent = next((w for w in self._watched if not w.speakers and not w.dead), None)
        if silent is None:
            return False
        self._forget(silent)
        return True

    def _die(self, watched: Watched) -> None:
        if watched not in self._watched or watched.dead:
            return
        watched.dead = True
        self._stop_watching(watched)
        for speaker in tuple(watched.speakers):
            speaker.exhaust()
        if not watched.speakers:
            self._bury(watched)

    def _bury(self, watched: Watched) -> None:
        if watched not in self._watched:
            return
        self._forget(watched)
        if watched.identity not in self._by_identity:
            self._post(ProcessDied(watched.identity))

    def _forget(self, watched: Watched) -> None:
        self._stop_watching(watched)
        del self._watched[watched]
        others = self._by_identity[watched.identity]
        others.remove(watched)
        if not others:
            del self._by_identity[watched.identity]

    def _stop_watching(self, watched: Watched) -> None:
        if watched.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watched.pidfd)
            os.close(watched.pidfd)
            watched.pidfd = None


def _close(pidfd: int | None) -> None:
    if pidfd is not None:
        os.close(pidfd)
