"""Programs that are started and given up at any moment leave nothing behind."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest

from lastcall.drain import programs


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize("loops", range(12))
async def test_a_start_that_is_cancelled_in_the_middle_ends_soon_and_leaves_nothing(loops):
    before = children()
    starting = asyncio.create_task(
        programs.start("sh", "-c", "sleep 600 & sleep 600", environment=os.environ)
    )
    for _ in range(loops):
        await asyncio.sleep(0)

    starting.cancel()
    async with asyncio.timeout(5):
        (ended,) = await asyncio.gather(starting, return_exceptions=True)
    if not isinstance(ended, BaseException):
        await programs.end(ended)

    async with asyncio.timeout(5):
        while children() - before:  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.01)


async def test_what_cannot_be_run_is_an_error():
    with pytest.raises(FileNotFoundError):
        await programs.start("/no/such/program", environment={})


async def test_a_program_is_killed_with_all_that_it_has_started():
    before = children()
    process = await programs.start("sh", "-c", "sleep 600 & sleep 600", environment=os.environ)
    await asyncio.sleep(0.05)

    await programs.end(process)

    async with asyncio.timeout(5):
        while children() - before:  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.01)
