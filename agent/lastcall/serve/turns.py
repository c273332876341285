"""Connections take turns, so that no number of busy ones can hold up a notice."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Protocol

import structlog

TURNS_PER_ROUND = 16
"""Connections that are served before the loop goes on to whatever else is due."""


class Taker(Protocol):
    """Something that has work to do in small pieces."""

    def take_turn(self) -> bool:
        """Do a little; return whether there is more to do."""
        ...

    def abort(self) -> None:
        """End at once."""
        ...


class Turns:
    """Those that wait for a turn, first come, first served, over and over."""

    def __init__(self) -> None:
        self._waiting: dict[Taker, None] = {}
        self._scheduled = False
        self._log = structlog.get_logger()

    def join(self, taker: Taker) -> None:
        """Wait for a turn; who waits already keeps the place."""
        self._waiting.setdefault(taker)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._scheduled = False
        for taker in list(islice(self._waiting, TURNS_PER_ROUND)):
            del self._waiting[taker]
            if self._turn(taker):
                self._waiting[taker] = None
        self._schedule()

    def _turn(self, taker: Taker) -> bool:
        try:
            return taker.take_turn()
        except Exception:  # noqa: BLE001 - a fault of ours with one client must not touch the others
            self._log.exception("connection_dropped")
            taker.abort()
            return False
