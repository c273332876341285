"""An end that is known beforehand and that nothing on the machine announces."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import ClassVar

from lastcall.core.events import SourcePolled, SourceReported
from lastcall.core.model import Action, Kind, Sighting
from lastcall.sources.base import Clock, Post

SCOPE = "schedule"

LOOK_SECONDS = 2.0
"""Time between looks at the wall clock, which may be set at any moment."""

SET_BACK_SECONDS = 60.0
"""A notice goes back into the future only when the clock was set back by more than this."""

STEP_SECONDS = 2.0
"""A wall clock that has moved by more than this against the monotonic one has been set."""

RESTATED_SECONDS = 1.5
"""What a time is stated earlier by to have it taken as another; see :class:`ScheduleSource`."""


class ScheduleSource:
    """Makes a known end a notice some time before it comes.

    The end is a wall time, so it follows the wall clock. A deadline moves only when the time that
    is stated moves: when the clock was set, the time is stated a little earlier, or again as it is.

    Args:
        ends_at: the end, with its zone.
        lead_seconds: how long before it becomes a notice.
        post: takes the events.
        clock: the node's clocks.
    """

    name: ClassVar[str] = "schedule"

    def __init__(self, *, ends_at: datetime, lead_seconds: float, post: Post, clock: Clock) -> None:
        self._ends_unix = ends_at.timestamp()
        self._begins_unix = self._ends_unix - lead_seconds
        self._written = ends_at.isoformat()
        self._post = post
        self._clock = clock
        self._sighting: Sighting | None = None
        self._told_past = False

    async def run(self) -> None:
        """Watch the clock until cancelled; it is never slept for long, for it may be set."""
        while True:
            self._look()
            until_begin = self._begins_unix - self._clock.wall()
            soon = 0.0 < until_begin < LOOK_SECONDS
            await asyncio.sleep(until_begin if soon else LOOK_SECONDS)

    def _look(self) -> None:
        wall = self._clock.wall()
        if self._sighting is None:
            if self._begins_unix <= wall < self._ends_unix:
                self._sighting = self._sight(self._ends_unix)
        elif wall < self._begins_unix - SET_BACK_SECONDS:
            self._sighting = None
        else:
            self._follow(self._sighting)
        if self._sighting is None and wall >= self._ends_unix:
            self._say_past()
            return
        self._told_past = False
        standing = () if self._sighting is None else (self._sighting,)
        self._post(SourceReported(self.name, SCOPE, standing))
        self._post(SourcePolled(self.name, "notice" if standing else "ok", SCOPE))

    def _say_past(self) -> None:
        """Say once that the end was past before it ever stood; nothing is announced for it."""
        if not self._told_past:
            self._told_past = True
            detail = f"{self._written} is past: nothing is announced for it"
            self._post(SourcePolled(self.name, "malformed", SCOPE, detail))

    def _follow(self, sighting: Sighting) -> None:
        """Move the deadline if the wall clock was set."""
        moved_seconds = self._deadline() - (sighting.deadline or 0.0)
        if abs(moved_seconds) > STEP_SECONDS:
            restated = self._ends_unix - RESTATED_SECONDS
            as_it_is = sighting.deadline_unix != self._ends_unix
            self._sighting = self._sight(self._ends_unix if as_it_is else restated)

    def _sight(self, stated_unix: float) -> Sighting:
        return Sighting(
            source=self.name,
            scope=SCOPE,
            key="end",
            kind=Kind.TERMINATION,
            action=Action.TERMINATE,
            identity=f"{self._ends_unix:.0f}",
            deadline=self._deadline(),
            deadline_unix=stated_unix,
            reason=f"this machine's time ends at {self._written}",
        )

    def _deadline(self) -> float:
        return self._clock.monotonic() + (self._ends_unix - self._clock.wall())
