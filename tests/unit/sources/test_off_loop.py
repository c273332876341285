"""Calls that hang: they cost their own time-out and nothing else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lastcall.sources.off_loop import OffLoop
from support.watched_source import until


class Gate:
    """A call that hangs until it is let go; each returns how many there have been."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = threading.Event()

    def __call__(self) -> int:
        self.calls += 1
        mine = self.calls
        self.open.wait(5)
        return mine


async def test_a_call_is_made_beside_the_loop():
    where = OffLoop(threading.current_thread, "beside")

    thread = await where.result(5)

    assert thread is not threading.main_thread()
    assert (thread.name, thread.daemon) == ("beside", True)


async def test_a_call_that_hangs_is_not_made_a_second_time():
    gate = Gate()
    calls = OffLoop(gate, "gate")

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await calls.result(0.01)

    assert gate.calls == 1
    gate.open.set()


async def test_what_a_call_says_that_hung_is_old_and_asked_for_again():
    gate = Gate()
    calls = OffLoop(gate, "gate")
    with pytest.raises(TimeoutError):
        await calls.result(0.01)

    gate.open.set()

    assert await calls.result(5) == 2
    assert await calls.result(5) == 3


async def test_whoever_waits_can_be_cancelled_while_a_call_hangs():
    gate = Gate()
    calls = OffLoop(gate, "gate")
    waiting = asyncio.create_task(calls.result(5))
    await until(lambda: gate.calls == 1)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    gate.open.set()
    assert await calls.result(5) == 2


def test_a_loop_may_end_while_a_call_hangs():
    gate = Gate()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await OffLoop(gate, "gate").result(0.01)

    asyncio.run(leave())
    gate.open.set()

    (thread,) = (one for one in threading.enumerate() if one.name == "gate")
    thread.join(5)
    assert not thread.is_alive()
