"""A bus of the test's own: a real dbus-daemon, on which the test itself offers services."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from lastcall.bus import system_bus
from support.needs import need_program

CONFIG = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
"""


class FakeBus:
    """A dbus-daemon that can be stopped and started at the same address."""

    def __init__(self, folder: Path) -> None:
        """Keep its socket and its configuration in a folder with a short path."""
        self._program = need_program("dbus-daemon", "dbus")
        self._config = folder / "bus.conf"
        self._socket = folder / "bus"
        self._config.write_text(CONFIG.format(socket=self._socket))
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"unix:path={self._socket}"

    async def start(self) -> None:
        """Be there; return once it listens."""
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            f"--config-file={self._config}",
            "--nofork",
            "--print-address=1",
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.startswith(b"unix:"), "dbus-daemon did not start"

    async def stop(self) -> None:
        """Be gone, and the socket with it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.communicate()
            self._socket.unlink(missing_ok=True)


@asynccontextmanager
async def a_bus() -> AsyncIterator[FakeBus]:
    """Run a bus while the block runs."""
    # Not pytest's own folder: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="bus-"))
    bus = FakeBus(folder)
    try:
        await bus.start()
        yield bus
    finally:
        await bus.stop()
        shutil.rmtree(folder)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a bus that is lost looked for again within a moment."""
    monkeypatch.setattr(system_bus, "SHORTEST_BACK_OFF_SECONDS", 0.01)
    monkeypatch.setattr(system_bus, "LONGEST_BACK_OFF_SECONDS", 0.05)


@dataclass(frozen=True)
class Returns:
    """What a method returns; descriptors that go along are closed once they are sent."""

    signature: str = ""
    body: Sequence[Any] = ()
    descriptors: Sequence[int] = ()


@dataclass(frozen=True)
class Fails:
    """The error that a method answers with."""

    name: str
    text: str = "it does not want to"


Reaction = Returns | Fails | Awaitable[Returns | Fails]
Method = Callable[..., Reaction]


class FakeService:
    """A service on the bus, with methods that are plain functions.

    Attributes:
        methods: by ``interface.member``; each takes the values of the call.
        path: the object of the call that is being answered.
        asked: the members that were called, in order, with their values.
        delay_seconds: how long each answer takes.
    """

    def __init__(self, name: str) -> None:
        """Offer nothing yet."""
        self.name = name
        self.methods: dict[str, Method] = {}
        self.path = ""
        self.asked: list[tuple[str, list[Any]]] = []
        self.delay_seconds = 0.0
        self._bus: MessageBus | None = None
        self._answers: set[asyncio.Task[None]] = set()

    async def offer(self, address: str) -> None:
        """Come onto the bus."""
        self._bus = await MessageBus(address, negotiate_unix_fd=True).connect()
        self._bus.add_message_handler(self._take)
        await self._bus.request_name(self.name)

    async def withdraw(self) -> None:
        """Leave the bus."""
        for answer in self._answers:
            answer.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)
        bus, self._bus = self._bus, None
        if bus is not None and bus.connected:
            bus.disconnect()
            await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]  # it has none

    async def signal(self, path: str, member: str, signature: str, *body: Any) -> None:
        """Say something to all who listen; the member carries its interface."""
        assert self._bus is not None
        interface, _, name = member.rpartition(".")
        await self._bus.send(Message.new_signal(path, interface, name, signature, list(body)))

    def calls(self, member: str) -> list[list[Any]]:
        """Return the values of each call of a member."""
        return [values for name, values in self.asked if name == member]

    def _take(self, message: Message) -> bool:
        method = self.methods.get(f"{message.interface}.{message.member}")
        if message.message_type is not MessageType.METHOD_CALL or method is None:
            return False
        self.asked.append((message.member or "", message.body))
        task = asyncio.create_task(self._answer(message, method))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return True

    async def _answer(self, message: Message, method: Method) -> None:
        await asyncio.sleep(self.delay_seconds)
        self.path = message.path or ""
        reaction = method(*message.body)
        if isinstance(reaction, Awaitable):
            reaction = await reaction
        if self._bus is None or not self._bus.connected:
            return
        if isinstance(reaction, Fails):
            await self._bus.send(Message.new_error(message, reaction.name, reaction.text))
            return
        descriptors = list(reaction.descriptors)
        await self._bus.send(
            Message.new_method_return(message, reaction.signature, list(reaction.body), descriptors)
        )
        for descriptor in descriptors:
            os.close(descriptor)


def properties(values: dict[str, Variant]) -> Returns:
    """Return what ``GetAll`` answers."""
    return Returns("a{sv}", [values])
