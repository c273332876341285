"""The jobs on the node and their processes, kept fresh while a drain goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from lastcall.drain.slurm.calls import SlurmCalls, SlurmError
from lastcall.drain.slurm.name import NodeName
from lastcall.drain.slurm.processes import Footprint, footprints
from lastcall.drain.slurm.text import Job

CALM_SECONDS = 3.0
"""How often jobs are listed while flushes are waited for; the controller serves many nodes."""

BRISK_SECONDS = 1.0
"""How often they are listed while one is leaving."""


class JobMirror:
    """What is known of the node's jobs.

    Args:
        calls: how Slurm is asked.
        changed: called after each look.

    Attributes:
        jobs: those on the node when it was last looked, by number.
        earlier: all that were seen since the drain began, by number.
        footprints: where they stand on the node, by number.
        is_listed: it was seen which jobs there are.
        has_tried: the first look is over, whatever came of it.
        trouble: why the last look failed; empty where it did not.
    """

    def __init__(self, calls: SlurmCalls, changed: Callable[[], None]) -> None:
        self.jobs: Mapping[int, Job] = {}
        self.earlier: dict[int, Job] = {}
        self.footprints: Mapping[int, Footprint] = {}
        self.is_listed = False
        self.has_tried = False
        self.trouble = ""
        self._calls = calls
        self._changed = changed
        self._hurry = asyncio.Event()

    async def watch(self, name: NodeName, left_seconds: Callable[[], float]) -> None:
        """Look again and again, until cancelled.

        Args:
            name: the node's.
            left_seconds: how long a look may take at most.
        """
        while True:
            self._hurry.clear()
            await self.look(name, left_seconds())
            self._changed()
            is_calm = not self.trouble and not any(job.is_ending for job in self.jobs.values())
            with suppress(TimeoutError):
                async with asyncio.timeout(CALM_SECONDS if is_calm else BRISK_SECONDS):
                    await self._hurry.wait()

    async def look(self, name: NodeName, seconds: float) -> None:
        """Ask which jobs there are, and what their processes are.

        Args:
            name: the node's.
            seconds: how long each answer may take.
        """
        try:
            node = await name.get()
            found = await self._calls.jobs(node, seconds)
        except SlurmError as error:
            self.trouble = str(error)
        else:
            processes = await self._calls.processes(node, seconds)
            self.footprints = await asyncio.to_thread(footprints, processes)
            self.jobs = {job.id: job for job in found}
            self.earlier.update(self.jobs)
            self.is_listed, self.trouble = True, ""
        self.has_tried = True

    def hurry(self) -> None:
        """Look again at once."""
        self._hurry.set()

    def forget(self) -> None:
        """Know nothing: what is seen later belongs to another drain."""
        self.jobs, self.earlier, self.footprints = {}, {}, {}
        self.is_listed, self.has_tried, self.trouble = False, False, ""
