"""Checks the machine's own shutdown: whether it is heard of, and how long it can be held back."""

from __future__ import annotations

import asyncio
import os

from lastcall.bus.messages import Answer, get_all
from lastcall.bus.presence import missing
from lastcall.bus.system_bus import SystemBus
from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.sources.shutdown import SHORT_DELAY_SECONDS
from lastcall.sources.shutdown_lock import MANAGER, PATH, SERVICE

CHECK = "shutdown"

BUS_ADDRESS = ""
"""Of the bus that is asked; empty for the system's own."""

FIND_SECONDS = 4.0
CALL_SECONDS = 4.0

_TURN_OFF = (
    "on a machine with systemd, let the agent reach the system bus (in a container, mount "
    "/run/dbus/system_bus_socket); else set notices.shutdown.enabled = false"
)
_LENGTHEN = (
    "set InhibitDelayMaxSec in a file of /etc/systemd/logind.conf.d and reload systemd-logind, or "
    "shutdownGracePeriod where kubelet runs"
)


async def check_shutdown(subject: Subject, found: Findings) -> None:
    """Add whether logind is there, and for how long it lets a shutdown wait."""
    if not subject.loaded.config.notices.shutdown.enabled:
        found.ok(CHECK, "not listened for: notices.shutdown.enabled is false")
        return
    answer = await _ask(SystemBus(BUS_ADDRESS))
    if isinstance(answer, str):
        found.note(CHECK, f"a shutdown of this machine is not heard: {answer}", _TURN_OFF)
        return
    match answer.body:
        case ({"InhibitDelayMaxUSec": int() as delay},):
            _say_delay(delay / 1e6, found)
        case _:
            why = answer.detail or "its answer has no InhibitDelayMaxUSec"
            found.warning(
                CHECK,
                f"logind does not say for how long a shutdown may wait: {why}",
                "look at the log of systemd-logind, and restart it",
            )


def _say_delay(seconds: float, found: Findings) -> None:
    if seconds < SHORT_DELAY_SECONDS:
        found.warning(
            CHECK,
            f"a shutdown waits for {seconds:g} s at most, in which few checkpoints can be saved",
            _LENGTHEN,
        )
    else:
        found.ok(CHECK, f"a shutdown of this machine is heard, and waits for {seconds:g} s at most")


async def _ask(bus: SystemBus) -> Answer | str:
    """Return logind's properties, or in words why it cannot be asked."""
    why = "" if BUS_ADDRESS else missing(os.environ)
    if why:
        return why
    looked, owners = asyncio.Event(), [""]

    def came_or_went(owner: str) -> None:
        owners.append(owner)
        looked.set()

    bus.watch(
        SERVICE,
        path=PATH,
        interface=MANAGER,
        came_or_went=came_or_went,
        heard=lambda _member, _body: None,
    )
    async with bus.in_use():
        try:
            async with asyncio.timeout(FIND_SECONDS):
                await looked.wait()
        except TimeoutError:
            return f"no answer from the system bus within {FIND_SECONDS:g} s"
        if bus.absence is not None:
            return bus.absence.detail
        if not owners[-1]:
            return "logind is not on the system bus"
        return await bus.call(get_all(SERVICE, PATH, MANAGER), CALL_SECONDS)
