"""A Slurm backend at work, in the test's own process, and everything it says."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from lastcall.core.commands import Drain
from lastcall.core.events import BackendChecked, DrainEnded, Event, EvictionReported
from lastcall.core.model import Action, DeadlineQuality, Kind, Phase, Urgency
from lastcall.core.views import NoticeView
from lastcall.drain.slurm.backend import SlurmDrain, SlurmSettings
from lastcall.drain.slurm.node import Pace
from lastcall.drain.slurm.plan import Means

BRISK = Pace(kept_seconds=0.2, idle_seconds=0.2)
"""The node is looked at often, so that a test waits for little."""

E = TypeVar("E", bound=Event)


class SlurmAtWork:
    """A backend, and what it says.

    Attributes:
        backend: the backend.
        events: what it posted.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.backend: SlurmDrain

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def health(self) -> BackendChecked | None:
        """What was last said of Slurm."""
        found = self.of(BackendChecked)
        return found[-1] if found else None

    @property
    def ending(self) -> DrainEnded | None:
        """How the drain ended, once it has."""
        found = self.of(DrainEnded)
        return found[-1] if found else None

    def outcomes(self, job: int) -> list[str]:
        """Return what was reported of a job."""
        reports = self.of(EvictionReported)
        return [report.outcome for report in reports if report.pod == f"job/{job}"]

    async def until(self, holds: Callable[[], object], seconds: float = 10.0) -> None:
        """Return once something holds."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # noqa: ASYNC110 - what is awaited has no event
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        assert holds(), f"never held; it said {self.events}"


@asynccontextmanager
async def slurm_at_work(
    environment: Mapping[str, str],
    *,
    node_name: str = "",
    means: Means | None = None,
    call_seconds: float = 3.0,
    pace: Pace = BRISK,
) -> AsyncIterator[SlurmAtWork]:
    """Run a backend while the block runs.

    Args:
        environment: which Slurm's commands are run with, beside the test's own.
        node_name: what the node is configured to be called.
        means: what may be done to jobs.
        call_seconds: how long a command may take.
        pace: how often the node is looked at.
    """
    work = SlurmAtWork()
    work.backend = backend = SlurmDrain(
        SlurmSettings(node_name, means or Means(), call_seconds, pace),
        post=work.events.append,
        monotonic=asyncio.get_running_loop().time,
        wall=time.time,
        environment={**os.environ, **environment},
    )
    task = asyncio.create_task(backend.run())
    try:
        yield work
    finally:
        await backend.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled(), "the backend ended by itself"


def notice(name: str = "n-1", *, ends_in: float | None = 120.0) -> NoticeView:
    """Return a notice whose deadline is some seconds from now."""
    now = asyncio.get_running_loop().time()
    deadline = None if ends_in is None else now + ends_in
    return NoticeView(
        id=name,
        phase=Phase.TOLD,
        kind=Kind.PREEMPTION,
        source="aws",
        sources=("aws",),
        action=Action.TERMINATE,
        urgency=Urgency.NOW,
        first_seen=now,
        deadline=deadline,
        deadline_unix=None,
        deadline_quality=DeadlineQuality.PROVIDER,
        flush_until=deadline,
        cancellable=False,
        drill=False,
        reason="",
        supersedes=(),
    )


def order(
    name: str = "n-1",
    *,
    ends_in: float = 60.0,
    flush_in: float | None = None,
    training: tuple[str, ...] = (),
    waiting: tuple[str, ...] = (),
) -> Drain:
    """Return an order whose times are some seconds from now."""
    now = asyncio.get_running_loop().time()
    return Drain(
        id=name,
        kind=Kind.PREEMPTION,
        reason="",
        began_at=now,
        flush_until=now + (ends_in / 2 if flush_in is None else flush_in),
        deadline=now + ends_in,
        training=frozenset(training),
        waiting=frozenset(waiting),
    )
