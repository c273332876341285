"""Runs one probe, from its start to its end, and finds out why it is to end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from lastcall.core.gpu.model import Look, NodeLook, XidSeen
from lastcall.gpu import watch_status
from lastcall.gpu.child import Child
from lastcall.gpu.course import Course, Hanging, Slow
from lastcall.gpu.lines import Failed, Hello, RoundOver, StreamSaid
from lastcall.gpu.presence import library_present, present
from lastcall.gpu.probe import settings as probe_settings
from lastcall.gpu.probe.settings import Settings, by_index
from lastcall.gpu.trail import Step
from lastcall.gpu.watch_status import WatchStatus

CHECK_SECONDS = 1.0
"""Time between two looks at what the probe is doing."""

ProbeNews = Look | NodeLook | XidSeen | RoundOver | StreamSaid
"""What the probe has to say of the GPUs."""

Start = Callable[..., Awaitable[Child]]
"""Starts a probe, as :func:`lastcall.gpu.child.start` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How the probe is run.

    Attributes:
        always: also where the machine shows no sign of a GPU.
        poll_seconds: time between two rounds.
        call_seconds: how long one call into the driver may take.
        sysfs: where sysfs is mounted.
        proc: where procfs is mounted.
        dev: where the device files are.
        environment: all of the probe's; ``None``: the agent's own.
    """

    always: bool = False
    poll_seconds: float = 5.0
    call_seconds: float = 30.0
    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    environment: Mapping[str, str] | None = None

    @property
    def any_gpu(self) -> bool:
        """Whether the machine shows any sign of a GPU."""
        return present(self.sysfs, self.dev, self.proc)

    @property
    def is_worth_asking(self) -> bool:
        """Whether a driver may be there, which knows better than the signs."""
        environment = os.environ if self.environment is None else self.environment
        return self.always or self.any_gpu or library_present(environment)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a probe is to end, or has ended.

    Attributes:
        status: what is to be said of it.
        by_itself: the probe is to blame or broke down, and not the driver.
        address: how the next probe is told to leave out the GPU that is to blame; empty where none
            is.
    """

    status: WatchStatus
    by_itself: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A probe that could not be ended.

    Attributes:
        status: what is said of it.
        is_there: tells whether the kernel still holds it.
    """

    status: WatchStatus
    is_there: Callable[[], bool]


class ProbeRun:
    """One probe.

    Args:
        settings: how it is run.
        skip: addresses of GPUs that it leaves out.
        news: takes what it has to say of the GPUs.
        round_over: takes this run after each good round.
        wake: is set when something happened that :meth:`until_over` must see.
        monotonic: the clock of its times, seconds.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        *,
        skip: Collection[str],
        news: Callable[[ProbeNews], None],
        round_over: Callable[[ProbeRun], None],
        wake: asyncio.Event,
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._skip = tuple(skip)
        self._news = news
        self._round_over = round_over
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._course = Course(
            call_seconds=settings.call_seconds,
            poll_seconds=settings.poll_seconds,
            now=self._loop.time(),
            monotonic=monotonic,
        )
        self._child: Child | None = None
        self._ending: Ending | None = None
        self._is_heard = True
        self._log = structlog.get_logger()

    async def start(self, program: Sequence[str], start: Start) -> Ending | None:
        """Start it; return what came of that if it does not run.

        Args:
            program: the program; its settings follow as one more argument.
            start: what starts it.
        """
        try:
            trail_fd = os.memfd_create("lastcall-gpu-trail")
            self._child = await start(
                (*program, self._written(trail_fd)),
                trail_fd,
                environment=self._settings.environment,
                heard=self._hear,
                changed=self._wake.set,
            )
        except OSError as error:
            how = f"cannot be started: {error.strerror}"
            return Ending(watch_status.crashed(how, None), by_itself=True)
        return None

    @property
    def good_seconds(self) -> float:
        """For how long its rounds have been good."""
        since = self._course.good_since
        return 0.0 if since is None else self._loop.time() - since

    def look(self) -> None:
        """Ask for a round now."""
        if self._child is not None:
            self._child.ask()

    async def until_over(self, is_called_off: Callable[[], bool]) -> Ending | None:
        """Return once it has ended or is to end; ``None`` when it is called off.

        Args:
            is_called_off: tells whether nobody wants it any more.
        """
        # A shorter time for a call asks for closer looks.
        check_seconds = min(CHECK_SECONDS, self._settings.call_seconds / 6)
        while self._child is not None and not is_called_off():
            self._ending = self._ending or self._check(self._child)
            if self._ending is not None:
                return self._ending
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(check_seconds):
                    await self._wake.wait()
        return None

    async def end(self, term_seconds: float, kill_seconds: float) -> LeftBehind | None:
        """End it; return what is left where it cannot be ended.

        Args:
            term_seconds: what it has to end by itself.
            kill_seconds: what the kernel has to end it.
        """
        child = self._child
        if child is None:
            return None
        self._child = None
        self._is_heard = False
        step = child.step()
        if await child.end(term_seconds, kill_seconds):
            return None
        status = None if self._ending is None else self._ending.status
        return LeftBehind(watch_status.unending(status, step, child.pid), lambda: not child.gone)

    def _written(self, trail_fd: int) -> str:
        settings = self._settings
        return probe_settings.write(
            Settings(
                poll_seconds=settings.poll_seconds,
                skip=self._skip,
                trail_fd=trail_fd,
                sysfs=settings.sysfs,
                proc=settings.proc,
                dev=settings.dev,
            )
        )

    def _check(self, child: Child) -> Ending | None:
        step = child.step()
        if child.ended is not None:
            self._log.warning("gpu_probe_ended", how=child.ended, errors=list(child.errors))
            return Ending(
                watch_status.crashed(child.ended, step),
                by_itself=True,
                address=_address(step),
            )
        if child.fault:
            self._log.warning("gpu_probe_at_fault", how=child.fault, errors=list(child.errors))
            return Ending(watch_status.crashed(child.fault, None), by_itself=True)
        match self._course.check(step, self._loop.time()):
            case Slow(late, seconds):
                self._log.warning(
                    "gpu_call_slow",
                    call=late.call,
                    gpu=late.gpu,
                    index=late.index,
                    seconds=round(seconds, 1),
                )
            case Hanging(late, seconds):
                return Ending(watch_status.hanging(late, seconds), address=_address(late))
        return None

    def _hear(self, data: bytes) -> None:
        if not self._is_heard:
            return
        line = self._course.take(data, self._loop.time())
        match line:
            case None:
                if self._course.garbage == 1:
                    self._log.warning(
                        "gpu_probe_not_understood", line=data[:200].decode(errors="replace")
                    )
            case Hello():
                self._log.info(
                    "gpu_probe_started", pid=line.pid, driver=line.driver, nvml=line.nvml
                )
            case Failed():
                any_gpu = self._settings.any_gpu
                self._is_to_end(watch_status.refused(line, self._settings.dev, any_gpu=any_gpu))
            case RoundOver():
                self._news(line)
                self._end_round()
            case _:
                self._news(line)

    def _end_round(self) -> None:
        course = self._course
        if course.sees_no_gpu:
            self._is_to_end(watch_status.no_gpu("the driver has none"))
        elif course.lost_access:
            self._is_to_end(watch_status.lost_access())
        else:
            self._round_over(self)
        course.begin_round()

    def _is_to_end(self, status: WatchStatus) -> None:
        if self._ending is None:
            self._ending = Ending(status)
            self._wake.set()


def _address(step: Step | None) -> str:
    """Return how a probe is told to leave out the step's GPU; empty where it is about none."""
    if step is None or not step.call:
        return ""
    return step.pci or (by_index(step.index) if step.index >= 0 else "")
