"""Probes without a process, for tests in loop time: each says and does what it is told."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lastcall.gpu.trail import Step

Mood = Callable[["FakeChild"], None]
"""What is to come of a probe; called when it starts."""


class FakeChild:
    """Stands in the place of :class:`lastcall.gpu.child.Child`."""

    def __init__(
        self,
        settings: dict[str, Any],
        heard: Callable[[bytes], None],
        changed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.pid = 4711
        self.ended: str | None = None
        self.fault = ""
        self.errors = ("the last words",)
        self.gone = False
        self.endless = False
        self.asked = 0
        self.trail: Step | None = None
        self._heard = heard
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self.started_at = self._loop.time()
        self.end_asked_at: float | None = None

    @property
    def skip(self) -> list[str]:
        """Addresses of the GPUs that it leaves out."""
        skip: list[str] = self.settings["skip"]
        return skip

    def step(self) -> Step | None:
        """Return the call that it is in."""
        return self.trail

    def ask(self) -> None:
        """Count how often it was asked for a round."""
        self.asked += 1

    async def end(self, term_seconds: float, kill_seconds: float) -> bool:
        """End, or not, as it was told."""
        self.end_asked_at = self._loop.time()
        if self.endless:
            await asyncio.sleep(term_seconds + kill_seconds)
            return False
        self.gone = True
        return True

    def say(self, kind: str, **fields: object) -> None:
        """Print a line."""
        self._heard(json.dumps({"type": kind, **fields}).encode())

    def round(self, codes: Sequence[int] = (0, 0)) -> None:
        """Look at each GPU that is not left out, and finish the round."""
        now = self._loop.time()
        for index, code in enumerate(codes):
            gpu = {"uuid": f"GPU-{index}", "index": index, "pci": pci(index)}
            if pci(index) not in self.skip:
                self.say("gpu", at=now, gpu=gpu, code=code)
        self.say("round", at=now)

    def enter(self, call: str, index: int = -1) -> None:
        """Begin a call that does not come back."""
        named = (f"GPU-{index}", index, pci(index)) if index >= 0 else ("", -1, "")
        self.trail = Step(call, *named, self._loop.time())

    def die(self, how: str) -> None:
        """End by itself."""
        self.ended = how
        self.gone = True
        self._changed()

    def live(self) -> None:
        """Do a round now and then, until something comes in between."""
        if self.gone or self.end_asked_at is not None or self.trail is not None:
            return
        self.round()
        self._loop.call_later(self.settings["poll_seconds"], self.live)


def pci(index: int) -> str:
    """Return the address of a GPU."""
    return f"00000000:0{index}:00.0"


class FakeProbes:
    """Starts probes without a process.

    Args:
        moods: what comes of the first, the second, …; what comes of the last goes for all others.
    """

    def __init__(self, *moods: Mood) -> None:
        self.moods = moods
        self.started: list[FakeChild] = []

    async def start(
        self,
        program: Sequence[str],
        trail_fd: int,
        *,
        environment: Mapping[str, str] | None,
        heard: Callable[[bytes], None],
        changed: Callable[[], None],
    ) -> FakeChild:
        """Start one more."""
        os.close(trail_fd)
        child = FakeChild(json.loads(program[-1]), heard, changed)
        mood = self.moods[min(len(self.started), len(self.moods) - 1)]
        self.started.append(child)
        asyncio.get_running_loop().call_later(0.01, mood, child)
        return child

    @property
    def last(self) -> FakeChild:
        """The probe that was started last."""
        return self.started[-1]
