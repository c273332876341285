"""What ``guard.poll(step)`` costs a training step while nothing is pending."""

from __future__ import annotations

import asyncio
import threading
from timeit import Timer

from benchmarks.common import Row
from benchmarks.node import agent_alone

import lastcall

AIM_NANOSECONDS = 100.0

BESIDE = {
    "an attribute's truth": "bare.flag",
    "`threading.Event.is_set()`": "event.is_set()",
    "`os.path.exists()`": "exists(path)",
}
_SETUP = """
from os.path import exists
poll = guard.poll
"""


class Bare:
    """An object with a flag."""

    def __init__(self) -> None:
        self.flag = False


def measure(*, quick: bool) -> list[Row]:
    """Time calls in a loop, the loop included; the best of several repeats counts."""
    return asyncio.run(_measure(*((3, 100_000) if quick else (9, 1_000_000))))


async def _measure(repeats: int, calls: int) -> list[Row]:
    async with agent_alone() as agent:
        path = str(agent.socket_path)
        with lastcall.connect(job="poll", rank=0, socket=path) as guard:
            assert guard.connected
            known = {"guard": guard, "bare": Bare(), "event": threading.Event(), "path": path}

            def nanoseconds(statement: str) -> float:
                timer = Timer(statement, _SETUP, globals=known)
                return 1e9 * min(timer.repeat(repeats, calls)) / calls

            polled = nanoseconds("poll(7)")
            others = {name: nanoseconds(statement) for name, statement in BESIDE.items()}
    beside = ", ".join(f"{name} {spent:.0f} ns" for name, spent in others.items())
    return [
        Row(
            "`guard.poll(step)`, connected, nothing pending",
            f"{polled:.0f} ns",
            beside,
            f"≤ {AIM_NANOSECONDS:.0f} ns",
            polled <= AIM_NANOSECONDS,
        )
    ]
