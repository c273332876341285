"""Clouds that announce by a file: its appearance is the notice, its removal withdraws it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from lastcall.core.events import SourcePolled, SourceReported
from lastcall.core.model import Kind, Sighting
from lastcall.sources.announcement import Announcement
from lastcall.sources.base import Clock, Post
from lastcall.sources.file_look import Absent, Found, Seen, Unclear, look
from lastcall.sources.file_notice import read_content
from lastcall.sources.off_loop import OffLoop
from lastcall.sources.pacing import Pace
from lastcall.sources.stated_time import doubt

SCOPE = "file"

LOOK_SECONDS = 2.0
"""How long a look may take: a file system that hangs says nothing."""

SETTLE_SECONDS = 0.1
"""Time between two looks at a file that is new or changed, which may still be being written."""

SETTLE_LOOKS = 5
"""After so many further looks a file is taken as it is."""

_SHOWN_LIMIT = 300


class FileSource:
    """Watches for one file.

    Args:
        path: where it appears.
        kind: what its appearance announces, unless the file itself says so.
        poll_seconds: time between looks.
        post: takes the events.
        clock: the node's clocks.
    """

    name: ClassVar[str] = "file"

    def __init__(
        self, *, path: str, kind: Kind, poll_seconds: float, post: Post, clock: Clock
    ) -> None:
        self._path = path
        self._kind = kind
        self._poll_seconds = poll_seconds
        self._post = post
        self._clock = clock
        self._look = OffLoop(partial(look, path), "file")
        self._last: Found | None = None
        self._content: bytes | None = None
        self._sighting: Sighting | None = None
        self._trouble = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        pace = Pace(self._poll_seconds)
        while True:
            began_at = self._clock.monotonic()
            seen = await self._settled()
            if isinstance(seen, Unclear):
                self._polled(seen.result, seen.detail)
                await asyncio.sleep(pace.after_failure())
                continue
            self._report(seen)
            took_seconds = self._clock.monotonic() - began_at
            await asyncio.sleep(max(0.0, pace.after_success() - took_seconds))

    async def _settled(self) -> Seen:
        """Return what two looks in a row saw, where it is not what was seen before."""
        seen = await self._see()
        for _ in range(SETTLE_LOOKS):
            if not isinstance(seen, Found) or seen == self._last:
                break
            await asyncio.sleep(SETTLE_SECONDS)
            before, seen = seen, await self._see()
            if seen == before:
                break
        return seen

    async def _see(self) -> Seen:
        try:
            return await self._look.result(LOOK_SECONDS)
        except TimeoutError:
            return Unclear("timeout", f"no answer from the file system in {LOOK_SECONDS:g} s")

    def _report(self, seen: Absent | Found) -> None:
        if isinstance(seen, Absent):
            self._last = self._sighting = None
            self._post(SourceReported(self.name, SCOPE, ()))
            self._polled("ok")
            return
        if self._sighting is None or self._is_news(seen):
            self._sighting, self._trouble = self._read(seen)
            self._content = seen.content
        self._last = seen
        self._post(SourceReported(self.name, SCOPE, (self._sighting,)))
        trouble = seen.trouble or self._trouble
        result = "malformed" if trouble else "notice"
        self._polled(seen.result or result, trouble)

    def _is_news(self, found: Found) -> bool:
        """Whether a file says something else; one that cannot be read any more says nothing new."""
        return found.content is not None and found.content != self._content

    def _read(self, found: Found) -> tuple[Sighting, str]:
        """Return the notice that a file is, and what of it could not be read."""
        said = Announcement() if found.content is None else read_content(found.content)
        wall = self._clock.wall()
        ends_unix = said.ends_unix
        if ends_unix is None and said.lead_seconds is not None:
            # The file system's clock may be another machine's, and ahead.
            ends_unix = min(found.changed_unix, wall) + said.lead_seconds
        unbelieved = "" if ends_unix is None else doubt(ends_unix - wall)
        if unbelieved:
            ends_unix = None
        sighting = Sighting(
            source=self.name,
            scope=SCOPE,
            key=self._path,
            kind=said.kind or self._kind,
            action=said.action,
            code=said.code,
            identity=said.identity,
            deadline=(None if ends_unix is None else self._clock.monotonic() + (ends_unix - wall)),
            deadline_unix=ends_unix,
            reason=said.reason or f"{self._path} is there",
            cancellable=True,
        )
        return sighting, "; ".join(filter(None, (said.trouble, unbelieved)))

    def _polled(self, result: str, detail: str = "") -> None:
        shown = f"{self._path}: {detail}"[:_SHOWN_LIMIT] if detail else ""
        self._post(SourcePolled(self.name, result, SCOPE, shown))
