"""Checks a file, an address and a schedule that announce this machine's end, where one is set."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from msgspec.structs import replace

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.config.notices import Notices
from lastcall.core.events import Event, SourcePolled
from lastcall.sources.base import Source, SystemClock
from lastcall.sources.build import standing_sources

CHECK = "sources"

LOOK_SECONDS = 6.0
"""Longer than any of them takes to its first look and its answer."""

_SOON_SECONDS = 0.25
"""A source spreads its first look over its period, so a short one begins at once."""

_MAKE_DIRECTORY = "mount or make it, or set notices.file.path to the file that is meant"

_REMEDIES = {
    "file": "let the agent's user read it, or set notices.file.path to the file that is meant",
    "url": "let this machine reach it, or mend notices.url.url: it must answer 404 or 204 until a "
    "time stands there",
    "schedule": 'set notices.schedule.ends_at to a time that is still to come, or to ""',
}


async def check_sources(subject: Subject, found: Findings) -> None:
    """Add how each of them answers; nothing where none is set."""
    notices = subject.loaded.config.notices
    polls: dict[str, SourcePolled] = {}

    def post(event: Event) -> None:
        if isinstance(event, SourcePolled):
            polls.setdefault(event.source, event)

    sources = standing_sources(_hasty(notices), post, SystemClock())
    await asyncio.gather(*(_look(source, polls) for source in sources))
    directory = os.path.dirname(notices.file.path)
    for source in sources:
        if source.name == "file" and not await asyncio.to_thread(os.path.isdir, directory):
            # To the source that looks like no notice, for ever.
            found.problem(CHECK, f"file: there is no directory {directory}", _MAKE_DIRECTORY)
        else:
            _say(source.name, polls.get(source.name), found)


async def _look(source: Source, polls: dict[str, SourcePolled]) -> None:
    """Let a source run until it has looked once."""
    running = asyncio.create_task(source.run())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                while source.name not in polls and not running.done():
                    await asyncio.wait({running}, timeout=0.02)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _say(name: str, poll: SourcePolled | None, found: Findings) -> None:
    if poll is None:
        what = f"{name}: no answer within {LOOK_SECONDS:g} s"
        found.problem(CHECK, what, _REMEDIES[name])
    elif poll.result == "ok":
        found.ok(CHECK, f"{name}: nothing is announced now")
    elif poll.result == "notice":
        found.note(CHECK, f"{name}: an end is announced now")
    else:
        found.problem(CHECK, f"{name}: {poll.result}: {poll.detail}", _REMEDIES[name])


def _hasty(notices: Notices) -> Notices:
    return replace(
        notices,
        file=replace(notices.file, poll_seconds=_SOON_SECONDS),
        url=replace(notices.url, poll_seconds=_SOON_SECONDS),
    )
