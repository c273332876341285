"""Keeps a probe running, and says how that stands: late, ended, stuck, let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from lastcall.core.gpu.model import WatchState
from lastcall.gpu import child, process, watch_status
from lastcall.gpu.backoff import AFTER_CRASH, AFTER_TROUBLE, Backoff
from lastcall.gpu.child import KILL_SECONDS, PROGRAM, TERM_SECONDS
from lastcall.gpu.probe_run import (
    Ending,
    LeftBehind,
    ProbeNews,
    ProbeRun,
    ProbeSettings,
    Start,
)
from lastcall.gpu.watch_status import WatchStatus

__all__ = ["ProbeNews", "ProbeSettings", "Supervisor", "WatchStatus"]

NO_GPU_SECONDS = 60.0
"""Time between two looks for a GPU on a machine that has none."""

SKIP_SECONDS = 600.0
"""How long a GPU on which a call hung is left out."""

GOOD_SECONDS = 600.0
"""After so many seconds of good rounds, earlier crashes are forgotten."""

LEFT_BEHIND_SECONDS = 5.0
"""Time between two looks at a probe that could not be ended."""

CLOSE_SECONDS = 0.5
"""What a probe has for each step of its end when the agent stops."""

_MARGIN_SECONDS = 0.1

_BEGINS_AFTER = (None, WatchState.RELEASED)


@dataclass(frozen=True, slots=True)
class _Skipped:
    """A GPU that is left out, until when, and what is said of that."""

    until: float
    status: WatchStatus


class Supervisor:
    """Has one probe at a time look at the GPUs, whatever becomes of it.

    Nothing here waits for the driver: a probe that does not answer is ended, and one that cannot be
    ended is left behind. No other is started while that one is there.

    Args:
        settings: how the probe is run.
        news: takes what it has to say of the GPUs.
        said: takes how it stands with the watch, each state once.
        monotonic: the clock of the probe's times, seconds.
        program: the probe; its settings follow as one more argument.
        left_behind: what an agent before this one said last, where it left a probe behind.
        start: starts a probe.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        *,
        news: Callable[[ProbeNews], None],
        said: Callable[[WatchStatus], None],
        monotonic: Callable[[], float],
        program: Sequence[str] = PROGRAM,
        left_behind: WatchStatus | None = None,
        start: Start = child.start,
    ) -> None:
        self._settings = settings
        self._news = news
        self._tell = said
        self._monotonic = monotonic
        self._program = program
        self._start = start
        self._log = structlog.get_logger()
        self._said: WatchStatus | None = None
        self._run: ProbeRun | None = None
        self._left_behind = _of_before(left_behind, settings.proc)
        self._trouble = Backoff(AFTER_TROUBLE)
        self._crashes = Backoff(AFTER_CRASH)
        self._crashed_on = ""
        self._not_before = 0.0
        self._skipped: dict[str, _Skipped] = {}
        self._let_go = False
        self._anew = False
        self._stopped: str | None = None
        self._closing = False
        self._wake = asyncio.Event()
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    async def run(self) -> None:
        """Watch until cancelled or closed; a probe that runs then is ended, within a second."""
        self._at_rest.clear()
        try:
            while not self._closing:
                await self._turn()
        finally:
            self._at_rest.set()

    async def close(self) -> None:
        """Have :meth:`run` return, and wait for that, but not for long.

        A probe that was about to be ended already has its full time for that; a cancellation of
        :meth:`run` cuts it short.
        """
        self._closing = True
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * CLOSE_SECONDS + _MARGIN_SECONDS):
                await self._at_rest.wait()

    def release(self) -> None:
        """Let the GPUs go, so that one can be reset: open clients of the driver block that.

        ``released`` is said once the probe is really gone.
        """
        self._let_go = True
        self._wake.set()

    def watch(self) -> None:
        """Watch all GPUs, and at once, whatever was let go, left out or put off before."""
        self._let_go = False
        self._anew = bool(self._skipped)
        self._stopped = None
        self._skipped.clear()
        self._trouble.reset()
        self._crashes.reset()
        self._not_before = 0.0
        self._wake.set()

    def look(self) -> None:
        """Ask for a round now, where a probe runs."""
        if self._run is not None:
            self._run.look()

    def stop_calls(self, detail: str) -> None:
        """Make no more calls into the driver for a while: the kernel reports that they hang.

        Args:
            detail: what it reports, for people.
        """
        self._stopped = detail
        self._wake.set()

    async def _turn(self) -> None:
        """Do what is due, or wait for it."""
        if self._is_blocked():
            await self._pause(LEFT_BEHIND_SECONDS)
        elif self._let_go:
            self._say(WatchStatus(WatchState.RELEASED))
            await self._pause(None)
        elif not self._settings.is_worth_asking:
            self._say(watch_status.no_gpu("no sign of one on this machine"))
            await self._pause(NO_GPU_SECONDS)
        elif self._stopped is not None:
            self._put_off(self._stopped)
        elif (wait_seconds := self._not_before - _now()) > 0:
            await self._pause(wait_seconds)
        else:
            await self._watch()

    def _is_blocked(self) -> bool:
        """Tell whether a probe that was left behind is still there."""
        left = self._left_behind
        if left is None:
            return False
        if left.is_there():
            self._say(left.status)
            return True
        self._log.info("gpu_probe_gone", pid=left.status.pid)
        self._left_behind = None
        return False

    def _put_off(self, detail: str) -> None:
        """Put the next probe off: the driver was reported to hang while none ran."""
        self._stopped = None
        self._not_before = max(self._not_before, _now() + AFTER_TROUBLE[0])
        if self._said is None or self._said.state is not WatchState.UNRESPONSIVE:
            self._say(watch_status.calls_stopped(detail))

    async def _watch(self) -> None:
        """Run one probe, from its start to its end."""
        if (self._said and self._said.state) in _BEGINS_AFTER:
            self._say(WatchStatus(WatchState.STARTING))
        self._anew = False
        self._skipped = {gpu: one for gpu, one in self._skipped.items() if one.until > _now()}
        run = ProbeRun(
            self._settings,
            skip=self._skipped,
            news=self._news,
            round_over=self._take_round,
            wake=self._wake,
            monotonic=self._monotonic,
        )
        self._run = run
        try:
            ending = await run.start(self._program, self._start)
            ending = ending or await run.until_over(self._is_called_off)
            if ending is not None:
                self._conclude(ending)
            elif self._stopped is not None and not self._let_go:
                self._conclude(Ending(watch_status.calls_stopped(self._stopped)))
                self._stopped = None
        finally:
            self._run = None
            await self._part(run)

    def _is_called_off(self) -> bool:
        return (
            self._closing
            or self._let_go
            or self._anew
            or self._stopped is not None
            or any(one.until <= _now() for one in self._skipped.values())
        )

    def _take_round(self, run: ProbeRun) -> None:
        self._trouble.reset()
        if run.good_seconds >= GOOD_SECONDS:
            self._crashes.reset()
        if self._skipped:
            self._say(next(reversed(self._skipped.values())).status)
        else:
            self._crashed_on = ""
            self._say(WatchStatus(WatchState.WATCHING))

    def _conclude(self, ending: Ending) -> None:
        """Say what became of a probe, and put the next one off."""
        self._say(ending.status)
        backoff = self._crashes if ending.by_itself else self._trouble
        self._not_before = _now() + backoff.next()
        again = ending.address == self._crashed_on
        if ending.by_itself:
            self._crashed_on = ending.address
        # One crash may have had any reason, out of memory for one; a second one on the same GPU
        # speaks against that GPU.
        if ending.address and (again or not ending.by_itself):
            until = self._not_before + SKIP_SECONDS
            self._skipped[ending.address] = _Skipped(until, ending.status)

    async def _part(self, run: ProbeRun) -> None:
        if self._closing:
            left = await run.end(CLOSE_SECONDS, CLOSE_SECONDS)
        else:
            left = await run.end(TERM_SECONDS, KILL_SECONDS)
        if left is None:
            return
        self._log.error("gpu_probe_left_behind", pid=left.status.pid, call=left.status.call)
        self._left_behind = left
        self._not_before = max(self._not_before, _now() + AFTER_TROUBLE[0])
        self._say(left.status)

    def _say(self, status: WatchStatus) -> None:
        if status != self._said:
            self._said = status
            self._tell(status)

    async def _pause(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()


def _of_before(status: WatchStatus | None, proc: Path) -> LeftBehind | None:
    if status is None or status.pid is None:
        return None
    pid = status.pid
    return LeftBehind(status, lambda: process.is_uninterruptible(proc, pid))


def _now() -> float:
    return asyncio.get_running_loop().time()
