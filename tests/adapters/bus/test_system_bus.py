"""The connection to the bus, against a real dbus-daemon."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from lastcall.bus.messages import Answer, Call, Trouble, get
from lastcall.bus.system_bus import SystemBus
from support.fake_bus import Fails, FakeBus, FakeService, Returns, a_bus, hurry
from support.watched_source import until

NAME, PATH, INTERFACE = "com.example.Thing", "/com/example/thing", "com.example.Thing"
SECONDS = 2.0


class Listener:
    """Keeps what a bus passes on."""

    def __init__(self, bus: SystemBus) -> None:
        self.owners: list[str] = []
        self.heard: list[tuple[str, tuple[Any, ...]]] = []
        bus.watch(
            NAME,
            path=PATH,
            interface=INTERFACE,
            came_or_went=self.owners.append,
            heard=lambda member, body: self.heard.append((member, body)),
        )

    async def sees_service(self) -> None:
        await until(lambda: bool(self.owners) and bool(self.owners[-1]))

    async def sees_nobody(self) -> None:
        await until(lambda: bool(self.owners) and not self.owners[-1])


def asks(member: str, signature: str = "", *body: Any) -> Call:
    return Call(NAME, PATH, INTERFACE, member, signature, body)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def daemon() -> AsyncIterator[FakeBus]:
    async with a_bus() as daemon:
        yield daemon


@asynccontextmanager
async def offered(daemon: FakeBus, **methods: Any) -> AsyncIterator[FakeService]:
    service = FakeService(NAME)
    service.methods = {f"{INTERFACE}.{name}": method for name, method in methods.items()}
    await service.offer(daemon.address)
    try:
        yield service
    finally:
        await service.withdraw()


async def test_a_call_returns_plain_values(daemon: FakeBus) -> None:
    def look() -> Returns:
        return Returns("a{sv}v", [{"one": Variant("u", 1)}, Variant("s", "two")])

    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon, Look=look), bus.in_use():
        await listener.sees_service()

        answer = await bus.call(asks("Look"), SECONDS)

    assert answer == Answer(({"one": 1}, "two"))


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        ("org.freedesktop.DBus.Error.AccessDenied", Trouble.DENIED),
        ("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", Trouble.DENIED),
        ("com.example.NotToday", Trouble.REFUSED),
    ],
)
async def test_an_error_is_an_answer(daemon: FakeBus, error: str, trouble: Trouble) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon, Look=lambda: Fails(error, "no")), bus.in_use():
        await listener.sees_service()

        answer = await bus.call(asks("Look"), SECONDS)

    assert (answer.trouble, answer.error, answer.detail) == (trouble, error, "no")


async def test_a_service_that_is_not_there_is_an_answer(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with bus.in_use():
        await listener.sees_nobody()

        answer = await bus.call(get(NAME, PATH, INTERFACE, "Thing"), SECONDS)

    assert answer.trouble is Trouble.NO_SERVICE


async def test_a_call_that_nobody_answers_ends_in_time(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon, Look=Returns) as service, bus.in_use():
        service.delay_seconds = 60
        await listener.sees_service()

        answer = await bus.call(asks("Look"), 0.05)

    assert answer.trouble is Trouble.TIMEOUT


async def test_a_descriptor_that_comes_too_late_is_closed(daemon: FakeBus) -> None:
    reader, writer = os.pipe()
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with (
        offered(daemon, Lock=lambda: Returns("h", [0], [writer])) as service,
        bus.in_use(),
    ):
        service.delay_seconds = 0.1
        await listener.sees_service()

        answer = await bus.call(asks("Lock"), 0.01)

        assert answer.trouble is Trouble.TIMEOUT
        os.set_blocking(reader, False)
        await until(lambda: _is_at_end(reader))
    os.close(reader)


async def test_a_descriptor_for_a_caller_that_has_just_gone_is_closed(daemon: FakeBus) -> None:
    reader, writer = os.pipe()
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon, Lock=Returns) as service, bus.in_use():
        service.delay_seconds = 60
        await listener.sees_service()
        calling = asyncio.create_task(bus.call(asks("Lock"), 60))
        await until(lambda: bool(service.asked))
        assert bus._connection is not None
        (serial,) = bus._connection._waiting
        answer = Message(
            message_type=MessageType.METHOD_RETURN,
            reply_serial=serial,
            signature="h",
            body=[0],
            unix_fds=[writer],
        )

        bus._connection._take(answer)
        calling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await calling
    assert _is_at_end(reader)
    os.close(reader)


def _is_at_end(reader: int) -> bool:
    try:
        return os.read(reader, 1) == b""
    except BlockingIOError:
        return False


async def test_a_call_cannot_be_made_of_nonsense(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with bus.in_use():
        await listener.sees_nobody()

        answers = [
            await bus.call(asks("Look", "u", "no number"), SECONDS),
            await bus.call(Call("not a name", PATH, INTERFACE, "Look"), SECONDS),
        ]

    assert [answer.trouble for answer in answers] == [Trouble.REFUSED, Trouble.REFUSED]


async def test_signals_of_the_service_are_heard(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon) as service, bus.in_use():
        await listener.sees_service()

        await service.signal(PATH, f"{INTERFACE}.Said", "sv", "a", Variant("b", True))

        await until(lambda: bool(listener.heard))
    assert listener.heard == [("Said", ("a", True))]


async def test_a_signal_of_anybody_else_is_not_heard(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon) as service, bus.in_use():
        await listener.sees_service()
        stranger = await MessageBus(daemon.address).connect()
        assert bus._connection is not None
        forged = Message.new_signal(PATH, INTERFACE, "Forged", "", [])
        forged.destination = bus._connection._bus.unique_name
        await stranger.send(forged)
        assert (await _ping(stranger, forged.destination)) is MessageType.METHOD_RETURN

        await service.signal(PATH, f"{INTERFACE}.Said", "")

        await until(lambda: bool(listener.heard))
        stranger.disconnect()
        await stranger.wait_for_disconnect()  # type: ignore[no-untyped-call]  # it has none
    assert listener.heard == [("Said", ())]


async def _ping(stranger: MessageBus, name: str | None) -> MessageType:
    """Return once the bus has delivered what was sent before."""
    message = Message(name, "/", "org.freedesktop.DBus.Peer", "Ping")
    return (await stranger.call(message)).message_type


async def test_a_service_that_restarts_is_known_by_its_new_name(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with bus.in_use():
        async with offered(daemon):
            await listener.sees_service()
            first = listener.owners[-1]
        await listener.sees_nobody()
        async with offered(daemon) as service:
            await listener.sees_service()
            assert listener.owners[-1] != first

            await service.signal(PATH, f"{INTERFACE}.Said", "")

            await until(lambda: bool(listener.heard))


async def test_a_bus_that_is_lost_is_found_again(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with bus.in_use():
        async with offered(daemon, Look=Returns) as service:
            service.delay_seconds = 60
            await listener.sees_service()
            waiting = asyncio.create_task(bus.call(asks("Look"), 60))
            await until(lambda: bool(service.asked))

            await daemon.stop()

            assert (await waiting).trouble is Trouble.NO_BUS
            await listener.sees_nobody()
        absence = await bus.call(asks("Look"), SECONDS)
        assert absence.trouble is Trouble.NO_BUS
        assert absence == bus.absence
        await daemon.start()
        async with offered(daemon, Look=Returns):
            await listener.sees_service()
            assert bus.absence is None
            assert (await bus.call(asks("Look"), SECONDS)).trouble is None


async def test_a_machine_without_a_bus_says_so(tmp_path: Path) -> None:
    bus = SystemBus(f"unix:path={tmp_path}/none")
    listener = Listener(bus)
    async with bus.in_use():
        await listener.sees_nobody()

        answer = await bus.call(asks("Look"), SECONDS)

    assert answer.trouble is Trouble.NO_BUS
    assert answer.detail == "no system bus: No such file or directory"


async def test_a_socket_that_is_no_bus_says_so(tmp_path: Path) -> None:
    async def chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(chat, tmp_path / "s")
    bus = SystemBus(f"unix:path={tmp_path}/s")
    listener = Listener(bus)
    async with server, bus.in_use():
        await listener.sees_nobody()

    assert bus.absence is not None
    assert bus.absence.trouble is Trouble.DENIED


async def test_a_missing_library_is_named_with_its_remedy(
    daemon: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "lastcall.bus.connection", raising=False)
    monkeypatch.setitem(sys.modules, "dbus_fast", None)
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with bus.in_use():
        await listener.sees_nobody()

    assert bus.absence is not None
    assert bus.absence.detail.endswith("pip install 'lastcall[systemd]'")


async def test_two_users_share_a_connection_until_the_last_has_gone(daemon: FakeBus) -> None:
    bus = SystemBus(daemon.address)
    listener = Listener(bus)
    async with offered(daemon, Look=Returns):
        async with bus.in_use():
            async with bus.in_use():
                await listener.sees_service()
            assert (await bus.call(asks("Look"), SECONDS)).trouble is None
        assert bus.absence is not None
        assert [bool(owner) for owner in listener.owners] == [True]
