"""Waits for the driver's events in a thread of its own, and starts anew when they fail."""

import time
from collections.abc import Callable

from lastcall.core.gpu.codes import ENDS_CALLS, TIMEOUT
from lastcall.gpu.probe.bursts import Burst, Bursts
from lastcall.gpu.probe.calls import Refused
from lastcall.gpu.probe.event_stream import XID, EventStream
from lastcall.gpu.probe.lines import Lines
from lastcall.gpu.probe.session import Device

WAIT_SECONDS = 5.0
"""How long an event is waited for at the most, so that new GPUs are soon registered."""

SHORTEST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
"""Pauses before the stream is begun anew: the first, and the longest to which it doubles."""

SILENT_SECONDS = 30.0
"""After so long without coming back, the thread hangs in a call: waits are far shorter."""


class Waiter:
    """Tells the XIDs that the driver reports, and wakes whoever looks at the GPUs.

    Args:
        lines: where they are told.
        devices: gives the GPUs of now.
        wake: is called when a look should follow.
        hush: is called when no further call must be made.
    """

    def __init__(
        self,
        lines: Lines,
        devices: Callable[[], tuple[Device, ...]],
        wake: Callable[[], None],
        hush: Callable[[], None],
    ) -> None:
        self._lines = lines
        self._devices = devices
        self._wake = wake
        self._hush = hush
        self._bursts = Bursts()
        self._stream = EventStream()
        self._alive: bool | None = None
        self._turned_at = time.monotonic()

    def check(self, at: float) -> None:
        """Say that the stream does not live where the waiting thread hangs; from another thread."""
        if at - self._turned_at > SILENT_SECONDS:
            self._tell_stream(alive=False, code=TIMEOUT, what="a call does not come back")

    def run(self) -> None:
        """Wait for events for ever.

        When one GPU is lost, waiting fails at once, and again each time (HAMi issue 2321): so the
        stream is begun anew without that GPU, and less and less often where that does not help.
        """
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                self._stream.open(self._devices())
                self._take(0.0)
                while True:
                    self._tell_stream(alive=True)
                    self._stream.add(self._devices())
                    self._turned_at = time.monotonic()
                    self._take(self._wait_seconds())
            except Refused as refused:
                self._tell_stream(alive=False, code=refused.code, what=refused.text)
            self._stream.close()
            self._tell(self._bursts.rest())
            if time.monotonic() - began > LONGEST_PAUSE_SECONDS:
                pause = SHORTEST_PAUSE_SECONDS
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self._turned_at = time.monotonic()

    def _wait_seconds(self) -> float:
        open_seconds = self._bursts.wait_seconds(time.monotonic())
        return WAIT_SECONDS if open_seconds is None else min(open_seconds, WAIT_SECONDS)

    def _take(self, seconds: float) -> None:
        event = self._stream.wait(seconds)
        now = time.monotonic()
        if event is not None:
            uuid, kind, number = event
            if kind & XID:
                if number in ENDS_CALLS:
                    self._end_with(uuid, number)
                burst = self._bursts.add(uuid, number, now)
                self._tell([burst] if burst else [])
            else:
                self._wake()
        self._tell(self._bursts.over(now))

    def _end_with(self, uuid: str, number: int) -> None:
        """Tell the last XIDs, and never touch the driver again: whoever started us ends us now."""
        self._hush()
        self._tell([*self._bursts.rest(), Burst(uuid, number, 1)])
        while True:
            time.sleep(WAIT_SECONDS)

    def _tell(self, bursts: list[Burst]) -> None:
        for burst in bursts:
            self._lines.write(
                "xid",
                {
                    "at": time.monotonic(),
                    "uuid": burst.uuid,
                    "xid": burst.xid,
                    "count": burst.count,
                },
            )
        if bursts:
            self._wake()

    def _tell_stream(self, *, alive: bool, code: int = 0, what: str = "") -> None:
        if alive is not self._alive:
            self._alive = alive
            self._lines.write("stream", {"ok": alive, "code": code, "text": what})
            if not alive:
                self._wake()
