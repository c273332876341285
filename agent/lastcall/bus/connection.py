"""One connection to a message bus, by dbus-fast; the only file that knows that library."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from dbus_fast import BusType, Message, MessageFlag, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import AuthError, DBusFastError
from dbus_fast.unpack import unpack_variants

from lastcall.bus.messages import Answer, BusError, Call, Signal, Trouble

CONNECT_SECONDS = 5.0
"""How long the bus may take to let us in."""

CLOSE_SECONDS = 1.0
"""How long the end of a connection is waited for."""

_TROUBLES = {
    "org.freedesktop.DBus.Error.AccessDenied": Trouble.DENIED,
    "org.freedesktop.DBus.Error.AuthFailed": Trouble.DENIED,
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": Trouble.DENIED,
    "org.freedesktop.DBus.Error.ServiceUnknown": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.NameHasNoOwner": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.UnknownObject": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.UnknownInterface": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.UnknownMethod": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.UnknownProperty": Trouble.NO_SERVICE,
    "org.freedesktop.DBus.Error.NoReply": Trouble.TIMEOUT,
    "org.freedesktop.DBus.Error.Timeout": Trouble.TIMEOUT,
    "org.freedesktop.DBus.Error.TimedOut": Trouble.TIMEOUT,
}
"""The names of errors (D-Bus specification and ``sd-bus-errors(3)``); any other is a refusal."""


class Connection:
    """A connection that stands, until it ends.

    Args:
        heard: takes each signal that reaches us; it must not raise or block.
    """

    def __init__(self, heard: Callable[[Signal], None]) -> None:
        self._heard = heard
        self._waiting: dict[int, asyncio.Future[Message | None]] = {}
        self._bus: MessageBus

    async def open(self, address: str = "") -> None:
        """Connect.

        Args:
            address: a D-Bus address; empty for the system's bus, wherever
                ``DBUS_SYSTEM_BUS_ADDRESS`` or the specification says it is.

        Raises:
            BusError: there is no bus, or it does not let us in.
        """
        try:
            self._bus = MessageBus(address or None, BusType.SYSTEM, negotiate_unix_fd=True)
            self._bus.add_message_handler(self._take)
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._bus.connect()
        except TimeoutError:
            raise BusError(f"the system bus does not answer within {CONNECT_SECONDS:g} s") from None
        except (PermissionError, AuthError) as error:
            raise BusError(f"the system bus lets us not in: {error}", Trouble.DENIED) from error
        except (OSError, EOFError, DBusFastError) as error:
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BusError(f"no system bus: {text}") from error

    async def call(self, call: Call, seconds: float) -> Answer:
        """Call a method and return what came of it, within a time.

        A service that is not there is not started for it.
        """
        if not self._bus.connected:
            return Answer(trouble=Trouble.NO_BUS, detail="the connection to the bus has ended")
        serial = self._bus.next_serial()
        answer = self._waiting[serial] = asyncio.get_running_loop().create_future()
        try:
            self._bus.send(_message(call, serial)).add_done_callback(_forget_error)
        except DBusFastError as error:
            del self._waiting[serial]
            return Answer(trouble=Trouble.REFUSED, detail=f"it cannot be asked: {error}")
        except OSError as error:
            del self._waiting[serial]
            return Answer(trouble=Trouble.NO_BUS, detail=f"the bus was lost: {error.strerror}")
        try:
            await asyncio.wait((answer,), timeout=seconds)
        except asyncio.CancelledError:
            _close_all(answer.result() if answer.done() else None)
            raise
        finally:
            self._waiting.pop(serial, None)
        if not answer.done():
            detail = f"{call.member}: no answer within {seconds:.3g} s"
            return Answer(trouble=Trouble.TIMEOUT, detail=detail)
        return _answer(answer.result())

    async def ended(self) -> str:
        """Return once the connection has ended, with the reason."""
        try:
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]  # it has none
        except (OSError, EOFError, DBusFastError) as error:
            detail = f"the connection to the bus was lost: {str(error) or type(error).__name__}"
        else:
            detail = "the connection to the bus has ended"
        self._give_up()
        return detail

    async def close(self) -> None:
        """End the connection; calls that wait are answered with that."""
        if self._bus.connected:
            self._bus.disconnect()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.ended()
        self._give_up()

    def _give_up(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(None)

    def _take(self, message: Message) -> None:
        """Take in a message; descriptors that nobody waits for any more are closed.

        A lock that came too late would otherwise be held with nobody knowing of it.
        """
        if message.message_type is MessageType.SIGNAL:
            self._heard(
                Signal(
                    message.sender or "",
                    message.path or "",
                    message.interface or "",
                    message.member or "",
                    tuple(unpack_variants(message.body)),
                )
            )
        answer = self._waiting.pop(message.reply_serial or 0, None)
        if answer is not None and not answer.done():
            answer.set_result(message)
            return
        _close_all(message)


def _close_all(message: Message | None) -> None:
    for descriptor in () if message is None else message.unix_fds:
        os.close(descriptor)


def _message(call: Call, serial: int) -> Message:
    return Message(
        destination=call.destination,
        path=call.path,
        interface=call.interface,
        member=call.member,
        signature=call.signature,
        body=list(call.body),
        flags=MessageFlag.NO_AUTOSTART,
        serial=serial,
    )


def _answer(reply: Message | None) -> Answer:
    if reply is None:
        return Answer(trouble=Trouble.NO_BUS, detail="the connection to the bus was lost")
    body = tuple(unpack_variants(reply.body))
    if reply.message_type is MessageType.ERROR:
        name = reply.error_name or ""
        text = body[0] if body and isinstance(body[0], str) else name
        return Answer(trouble=_TROUBLES.get(name, Trouble.REFUSED), error=name, detail=text)
    return Answer(body, tuple(reply.unix_fds))


def _forget_error(sent: asyncio.Future[None]) -> None:
    """Leave the word on a message that could not be sent to the connection's end."""
    if not sent.cancelled():
        sent.exception()
