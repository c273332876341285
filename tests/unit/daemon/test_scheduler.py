"""A backend is kept running for as long as it has something to do, whatever befalls it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lastcall.daemon import scheduler
from lastcall.drain.base import NoDrain


class Faulty:
    """Fails some times, and then runs on."""

    name = "faulty"

    def __init__(self, faults: int) -> None:
        self.starts = 0
        self._faults = faults

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self._faults:
            raise RuntimeError("a fault of ours")
        await asyncio.Event().wait()


@pytest.mark.looptime
async def test_a_backend_that_fails_is_started_again() -> None:
    backend: Any = Faulty(faults=3)

    kept = asyncio.create_task(scheduler.keep(backend))
    await asyncio.sleep(60)

    assert backend.starts == 4
    kept.cancel()


@pytest.mark.looptime
async def test_a_backend_with_nothing_to_do_wakes_nobody() -> None:
    async with asyncio.timeout(1):
        await scheduler.keep(NoDrain(lambda _event: None))
