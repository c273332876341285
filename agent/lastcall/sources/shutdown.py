"""The machine's own shutdown, whoever asked for it, held back by a lock until training is saved.

logind tells everybody when it prepares for a shutdown and waits for those who hold a delay lock, at
most ``InhibitDelayMaxSec`` (logind.conf(5), org.freedesktop.login1(5)).
"""

from __future__ import annotations

import asyncio
from typing import Any

from lastcall.bus.messages import Answer, Trouble, get_all
from lastcall.bus.system_bus import SystemBus
from lastcall.core.events import SourcePolled, SourceReported
from lastcall.core.model import Action, Kind, Sighting
from lastcall.sources.base import Clock, Post
from lastcall.sources.shutdown_lock import MANAGER, PATH, SERVICE, DelayLock

SCOPE = "logind"
KEY = "shutdown"

LOOK_SECONDS = 60.0
"""How often it is looked whether the lock can be had, and how long it delays: that may change
without a word, as when kubelet rewrites logind's configuration."""

CALL_SECONDS = 5.0
"""How long logind may take to answer."""

SHORT_DELAY_SECONDS = 20.0
"""A delay shorter than this is worth a word: few checkpoints fit in it."""

LONGEST_DELAY_SECONDS = 3600.0
"""A lock is let go after this long, where logind would wait for ever."""

_ACTIONS = {
    "": Action.STOP,
    "poweroff": Action.STOP,
    "halt": Action.STOP,
    "reboot": Action.REBOOT,
    "kexec": Action.REBOOT,
    "soft-reboot": Action.REBOOT,
}
"""By the type that ``PrepareForShutdownWithMetadata`` names, of systemd 255 and later."""

_RESULTS = {Trouble.DENIED: "unauthorized", Trouble.TIMEOUT: "timeout"}


class ShutdownSource:
    """Holds a delay lock, and makes a notice of a shutdown that begins.

    The lock is held until all is flushed and drained (:meth:`acknowledge`), and no longer than
    logind waits for it. Where it is refused, a shutdown is heard all the same, but nothing waits.

    Args:
        bus: the system bus.
        post: takes the events.
        clock: the node's clocks.
    """

    name = "shutdown"

    def __init__(self, bus: SystemBus, post: Post, clock: Clock) -> None:
        self._bus = bus
        self._post = post
        self._clock = clock
        self._lock = DelayLock(bus)
        self._owner = ""
        self._delay_seconds: float | None = None
        self._standing: Sighting | None = None
        self._reported: Sighting | None = None
        self._has_reported = False
        self._times_heard = 0
        self._woken = asyncio.Event()
        bus.watch(
            SERVICE,
            path=PATH,
            interface=MANAGER,
            came_or_went=self._came_or_went,
            heard=self._heard,
        )

    async def run(self) -> None:
        """Hold the lock and listen, until cancelled."""
        try:
            async with self._bus.in_use():
                if not self._owner:
                    await self._woken.wait()
                while True:
                    self._woken.clear()
                    await self._look()
                    await self._pause()
        except asyncio.CancelledError:
            # After a fault of ours it stays held: the machine must not go for that.
            self._lock.release()
            raise

    async def acknowledge(self, key: str) -> tuple[bool, str]:
        """Let the machine go: nothing is left that it would have to wait for."""
        if self._standing is None or key != self._standing.key:
            return False, "no shutdown is under way"
        self._lock.release()
        return True, ""

    def _came_or_went(self, owner: str) -> None:
        self._owner = owner
        self._woken.set()

    def _heard(self, member: str, body: tuple[Any, ...]) -> None:
        match member, body:
            case "PrepareForShutdownWithMetadata", (bool() as begins, dict() as metadata):
                kind = metadata.get("type", "")
                self._prepare(begins=begins, kind=kind if isinstance(kind, str) else "")
            case "PrepareForShutdown", (bool() as begins,):
                self._prepare(begins=begins, kind="")

    def _prepare(self, *, begins: bool, kind: str) -> None:
        """Take in what logind said; of the two signals that it sends, the first tells more."""
        self._times_heard += 1
        if not begins:
            self._standing = None
        elif self._standing is None:
            self._standing = self._sighting(kind, self._held_seconds())
        self._report()
        self._woken.set()

    def _held_seconds(self) -> float | None:
        """Return how long the lock holds from now; ``None`` where nothing holds."""
        return self._delay_seconds or None if self._lock.is_held else None

    def _sighting(self, kind: str, seconds: float | None) -> Sighting:
        return Sighting(
            source=self.name,
            scope=SCOPE,
            key=KEY,
            kind=Kind.SHUTDOWN,
            action=_ACTIONS.get(kind, Action.UNKNOWN),
            code=kind or "shutdown",
            deadline=None if seconds is None else self._clock.monotonic() + seconds,
            deadline_unix=None if seconds is None else self._clock.wall() + seconds,
            reason=f"the machine is being shut down ({kind or 'logind does not say how'})",
            acknowledgeable=True,
        )

    async def _look(self) -> None:
        """See how things stand, take the lock where none is held, and say how it went."""
        if not self._owner:
            absence = self._bus.absence
            detail = "logind is not on the system bus" if absence is None else absence.detail
            self._polled_badly(absence or Answer(trouble=Trouble.NO_SERVICE), detail)
            return
        times_heard = self._times_heard
        answer = await self._bus.call(get_all(SERVICE, PATH, MANAGER), CALL_SECONDS)
        if answer.trouble is not None:
            self._polled_badly(answer, f"logind does not say how things stand: {answer.detail}")
            return
        match answer.body:
            case (
                {"InhibitDelayMaxUSec": int() as delay, "PreparingForShutdown": bool() as is_on},
            ):
                self._delay_seconds = min(delay / 1e6, LONGEST_DELAY_SECONDS)
            case _:
                self._post(SourcePolled(self.name, "malformed", SCOPE, "not logind's properties"))
                return
        if times_heard == self._times_heard:
            # What was said while the question was under way is newer than its answer.
            self._take_up(is_on=is_on)
        await self._hold()

    def _take_up(self, *, is_on: bool) -> None:
        """Make up for signals that were said while nobody listened; when it began is unknown."""
        if not is_on:
            self._standing = None
        elif self._standing is None:
            self._standing = self._sighting("", None)
        self._report()

    async def _hold(self) -> None:
        """Take the lock where this logind has given none, unless it is too late for one."""
        refused: Answer | None = None
        if self._standing is None:
            refused = await self._lock.take(self._owner, CALL_SECONDS)
        if refused is not None and self._standing is None:
            self._polled_badly(
                refused,
                f"the delay lock is refused, so that a shutdown is heard but does not wait: "
                f"{refused.detail}",
            )
            return
        result = "ok" if self._standing is None else "notice"
        self._post(SourcePolled(self.name, result, SCOPE, self._advice()))

    def _advice(self) -> str:
        seconds = self._delay_seconds
        if seconds is None or seconds >= SHORT_DELAY_SECONDS:
            return ""
        return (
            f"a shutdown waits for at most {seconds:g} s; InhibitDelayMaxSec in logind.conf, or "
            "shutdownGracePeriod where kubelet runs, makes it longer"
        )

    def _polled_badly(self, answer: Answer, detail: str) -> None:
        result = "error" if answer.trouble is None else _RESULTS.get(answer.trouble, "error")
        self._post(SourcePolled(self.name, result, SCOPE, detail))

    def _report(self) -> None:
        """Report what stands where that has changed: reports are kept on disk."""
        if self._has_reported and self._standing == self._reported:
            return
        self._has_reported, self._reported = True, self._standing
        sightings = () if self._standing is None else (self._standing,)
        self._post(SourceReported(self.name, SCOPE, sightings))

    async def _pause(self) -> None:
        """Wait until something has changed or is due."""
        seconds = LOOK_SECONDS
        deadline = None if self._standing is None else self._standing.deadline
        if deadline is not None and self._lock.is_held:
            seconds = min(seconds, max(0.0, deadline - self._clock.monotonic()))
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            if deadline is not None and self._clock.monotonic() >= deadline:
                self._lock.release()
