"""All checks together: none hides another, and none takes longer than it may."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from lastcall.cli.check.examine import Check, examine
from lastcall.cli.check.findings import Level
from lastcall.cli.check.threads import LooseThreads
from support.examination import subject_of


async def good(subject, found):
    found.ok("good", "it is as it should be")


async def broken(subject, found):
    found.note("broken", "seen before it broke")
    raise ZeroDivisionError("no such number")


async def endless(subject, found):
    found.note("endless", "seen before it hung")
    await asyncio.Event().wait()


async def told_of(*looks, longest_seconds=10.0):
    told = []
    checks = [Check(look.__name__, look) for look in looks]
    await examine(subject_of(), checks, told.append, longest_seconds)
    return told


async def test_findings_come_in_the_order_of_the_checks_whichever_ends_first():
    async def slow(subject, found):
        await asyncio.sleep(0.01)
        found.ok("slow", "done")

    assert [one.check for one in await told_of(slow, good)] == ["slow", "good"]


async def test_a_check_that_fails_is_said_and_hides_no_other():
    seen, fault, other = await told_of(broken, good)

    assert seen.what == "seen before it broke"
    assert (fault.level, fault.check) == (Level.PROBLEM, "broken")
    assert "ZeroDivisionError('no such number')" in fault.what
    assert other.check == "good"


@pytest.mark.looptime
async def test_a_check_that_hangs_ends_at_its_time_with_what_it_had_found():
    seen, fault, other = await told_of(endless, good)

    assert asyncio.get_running_loop().time() == pytest.approx(10.0, abs=0.1)
    assert seen.what == "seen before it hung"
    assert (fault.level, fault.check) == (Level.PROBLEM, "endless")
    assert "did not end within 10 s" in fault.what
    assert other.check == "good"


@pytest.mark.looptime
async def test_checks_that_hang_do_so_at_the_same_time():
    await told_of(endless, endless, endless)

    assert asyncio.get_running_loop().time() == pytest.approx(10.0, abs=0.1)


async def test_where_nobody_listens_any_more_the_rest_stops():
    def leave(_finding):
        raise BrokenPipeError

    checks = [Check("good", good), Check("endless", endless)]
    with pytest.raises(BrokenPipeError):
        await examine(subject_of(), checks, leave)

    assert len(asyncio.all_tasks()) == 1


def test_nobody_waits_for_a_thread_that_hangs():
    released = threading.Event()
    ended = threading.Event()

    def hang():
        released.wait(10)
        ended.set()

    async def leave():
        asyncio.get_running_loop().set_default_executor(LooseThreads())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.to_thread(hang)

    began_at = time.monotonic()
    asyncio.run(leave())
    took_seconds = time.monotonic() - began_at
    released.set()

    assert took_seconds < 5
    assert ended.wait(5), "it goes on all the same, and ends without a complaint"


def test_a_thread_gives_back_what_its_call_returns_or_raises():
    async def call():
        asyncio.get_running_loop().set_default_executor(LooseThreads())
        assert await asyncio.to_thread(divmod, 7, 3) == (2, 1)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 7, 0)

    asyncio.run(call())
