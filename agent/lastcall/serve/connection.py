"""Lines in and out of one connection, within bounds: no client can make it wait, grow or stop.

A client that says too much is read more slowly; nothing of it is dropped, so that a report at the
end of a flood arrives. A client that does not take what it is sent is cut off: it gets all that
stands when it comes back.
"""

from __future__ import annotations

import asyncio
import os
import select
from asyncio.trsock import TransportSocket
from collections.abc import Callable
from typing import Protocol, cast

from lastcall.serve.base import Clock
from lastcall.serve.limits import Allowance
from lastcall.serve.turns import Turns
from lastcall.wire.messages import CLIENT_LINE_LIMIT

READ_BYTES = CLIENT_LINE_LIMIT
"""The most that is taken at once."""

LEFTOVER_BYTES = 512 * 1024
"""The most that is taken of what a dead process leaves behind in the kernel's buffer."""

LAST_BYTES = 4 * READ_BYTES
"""The most that is taken at once of what a connection holds that is closed under us."""

LINES_PER_TURN = 4

REST_SECONDS = 0.1
"""The least that a client rests that has said too much: often is dear."""

UNSENT_BYTES = 256 * 1024
"""What may wait for a client to read, beyond what the kernel holds."""

UNSENT_SECONDS = 2.0
"""How long it may wait."""

LINGER_SECONDS = 1.0
"""How long a client that has said its last word may still read the answers."""


class Talk(Protocol):
    """What a connection's lines are handed to."""

    def opened(self, connection: Connection) -> None:
        """The connection stands."""

    def hear(self, line: bytes) -> None:
        """A line has come, here without its newline."""

    def exceed(self) -> None:
        """The client has said too much and rests."""

    def overflow(self) -> None:
        """The client's line is too long; nothing after it can be understood."""

    def end(self, why: str) -> None:
        """No further line will come."""

    def closed(self) -> None:
        """The connection is gone."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection.

    Args:
        talk: whom its lines are handed to.
        turns: where it waits to hand them over.
        allowance: what it may say.
        monotonic: the allowance's clock.
        scratch: where bytes are read to first, shared by all connections of a loop.
    """

    def __init__(
        self,
        talk: Talk,
        *,
        turns: Turns,
        allowance: Allowance,
        monotonic: Clock,
        scratch: memoryview,
    ) -> None:
        self._talk = talk
        self._turns = turns
        self._allowance = allowance
        self._monotonic = monotonic
        self._scratch = scratch
        self._transport: asyncio.Transport | None = None
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._pending = bytearray()
        self._held = False
        self._no_more_input = False
        self._orphaned = False
        self._leftover_bytes = 0
        self._ended = False
        self._closed = False
        self._why = "it hung up"

    # --- for the talk --------------------------------------------------------------------------

    @property
    def socket(self) -> TransportSocket | None:
        """The socket under it, while it stands."""
        if self._transport is None:
            return None
        return cast("TransportSocket", self._transport.get_extra_info("socket"))

    @property
    def line_waits(self) -> bool:
        """Whether a line has come that was not handed over yet."""
        return b"\n" in self._pending

    def hold(self) -> None:
        """Hand over no line until :meth:`release`."""
        self._held = True

    def release(self) -> None:
        """Go on handing over lines."""
        self._held = False
        self._turns.join(self)

    def send(self, line: bytes) -> bool:
        """Hand a line to the kernel, at once where it has room; return whether that went well."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        transport.write(line)
        self._watch_unsent()
        return not transport.is_closing()

    def finish(self) -> None:
        """Hear no more, and close once everything is sent."""
        self._pending.clear()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def part(self) -> None:
        """Hear no more, and close once the client has had time to read what was sent."""
        self._pending.clear()
        self._end()
        self._after(LINGER_SECONDS, self.finish)

    def exhaust(self) -> None:
        """Take what a dead process has left in the socket, and close: a copy may be open still."""
        if self._transport is None or self._ended:
            return
        self._transport.pause_reading()
        self._leftover_bytes = LEFTOVER_BYTES
        self._orphaned = True
        self._why = "its process died"
        self._no_more_input = True
        self._cease(self._go_on)
        self._allowance.lift()
        self._turns.join(self)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- for the event loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self._talk.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's word for it
        """Return where to read to."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        if self._ended:
            return
        self._pending += self._scratch[:nbytes]
        if len(self._pending) >= CLIENT_LINE_LIMIT and self._transport is not None:
            self._transport.pause_reading()
        self._turns.join(self)

    def eof_received(self) -> bool:
        """Take in that the client will write no more; it may still read."""
        if self._ended:
            return False
        self._no_more_input = True
        self._turns.join(self)
        return True

    def pause_writing(self) -> None:
        """Cut off a client that does not read."""
        self._why = "it did not read what it was sent"
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - all mean the same
        """Take in that the connection is gone, and what came before that."""
        if not self._ended:
            # A failed write ends the connection while the last report may lie there unread.
            self._leftover_bytes = LAST_BYTES
            while self._read_leftover():
                pass
        self._transport = None
        self._no_more_input = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._allowance.lift()
        self._turns.join(self)

    def take_turn(self) -> bool:
        """Hand over a few lines; return whether there may be more."""
        for _ in range(LINES_PER_TURN):
            if self._held or self._go_on in self._timers:
                return False
            end = self._pending.find(b"\n", 0, CLIENT_LINE_LIMIT)
            if end < 0:
                self._run_dry()
                return False
            rest_seconds = self._allowance.wait_seconds(self._monotonic())
            if rest_seconds > 0:
                self._rest(rest_seconds)
                return False
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            self._allowance.spend(len(line) + 1)
            self._talk.hear(line)
        return True

    # --- inside --------------------------------------------------------------------------------

    def _run_dry(self) -> None:
        """Do what is next when no whole line waits."""
        if self._transport is None:
            self._end()
            if not self._closed:
                self._closed = True
                self._talk.closed()
        elif self._ended:
            pass
        elif len(self._pending) >= CLIENT_LINE_LIMIT:
            self._talk.overflow()
        elif self._read_leftover():
            # Piece by piece: many that die at once must not fill our memory with what they left.
            self._turns.join(self)
        elif self._no_more_input:
            self._end()
            if self._orphaned or self._hung_up():
                self._transport.close()
            else:
                self._after(LINGER_SECONDS, self.finish)
        else:
            self._transport.resume_reading()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._cease(self._go_on)
            self._talk.end(self._why)

    def _rest(self, duration_seconds: float) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            self._after(max(duration_seconds, REST_SECONDS), self._go_on)
            self._talk.exceed()

    def _go_on(self) -> None:
        self._turns.join(self)

    def _watch_unsent(self) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._after(UNSENT_SECONDS, self._check_unsent)

    def _check_unsent(self) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.pause_writing()

    def _read_leftover(self) -> bool:
        """Take a piece of what was left behind; return whether there was one."""
        socket = self.socket
        if socket is None or self._leftover_bytes <= 0:
            return False
        try:
            chunk = os.read(socket.fileno(), READ_BYTES)
        except OSError:
            return False
        self._pending += chunk
        self._leftover_bytes -= len(chunk)
        return bool(chunk)

    def _hung_up(self) -> bool:
        """Return whether the client has closed its end, rather than only ceased to write."""
        if self.socket is None:
            return True
        poller = select.poll()
        poller.register(self.socket, 0)
        return bool(poller.poll(0))

    def _after(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Do something later, unless it is to be done already."""
        if action not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[action] = loop.call_later(delay_seconds, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        del self._timers[action]
        action()

    def _cease(self, action: Callable[[], None]) -> None:
        timer = self._timers.pop(action, None)
        if timer is not None:
            timer.cancel()
