"""The thread that keeps the connection to the agent: connects for ever, listens, sends."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable

from lastcall.client import lifecycle, values
from lastcall.client.bell import Bell
from lastcall.client.connection import Connection
from lastcall.client.ledger import Ledger
from lastcall.client.notice import Notice
from lastcall.client.outbox import Outbox
from lastcall.wire import messages
from lastcall.wire.codec import WireError, decode
from lastcall.wire.messages import (
    AGENT_MESSAGES,
    PROTOCOL,
    Advice,
    Bye,
    Error,
    FromAgent,
    Heartbeat,
    Hello,
    Ok,
    Welcome,
    Withdrawn,
)

HEARTBEAT_SECONDS = 5.0
"""Between two heartbeats."""

WELCOME_SECONDS = 5.0
"""How long an agent may take to answer ``hello``."""

FIRST_RETRY_SECONDS = 0.2
LAST_RETRY_SECONDS = 5.0
"""Between attempts to connect: doubled from the first to the last, each shortened at random."""

REFUSED_RETRY_SECONDS = 60.0
"""Before the next attempt where the agent speaks no version of ours: it must be replaced first."""

STEADY_SECONDS = 5.0
"""A connection that has lasted this long lets the retries start from the first again."""

ODD_LINES_LIMIT = 10
"""Lines of one connection that are no messages, before it is given up."""

_log = logging.getLogger("lastcall")


class VersionRefusedError(Exception):
    """The agent speaks no version of the protocol that this client speaks."""


class Link:
    """The reader thread and all that belongs to it alone.

    Attributes:
        tried: set once the first attempt to reach the agent has succeeded or failed.
    """

    def __init__(
        self, path: str, hello: Callable[[], Hello], ledger: Ledger, outbox: Outbox, bell: Bell
    ) -> None:
        self.tried = threading.Event()
        self._path = path
        self._hello = hello
        self._ledger = ledger
        self._outbox = outbox
        self._bell = bell
        self._connection: Connection | None = None
        self._welcomed = False
        self._odd_lines = 0
        self._complaints: set[str] = set()
        self._heartbeat_at = 0.0
        self._farewell: Bye | None = None
        self._closing = False
        self._close_by = 0.0
        self._thread = threading.Thread(target=self._run, name="lastcall-reader", daemon=True)

    @property
    def connected(self) -> bool:
        """Whether an agent has welcomed this process and is still there."""
        return self._welcomed

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: the system allows no further thread.
        """
        self._thread.start()

    def close(self, reason: str | None, timeout_seconds: float) -> None:
        """Say bye and end the thread; it is left to itself where that takes longer."""
        self._farewell = Bye(reason)
        self._close_by = time.monotonic() + timeout_seconds
        self._closing = True
        self._bell.ring()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def abandon(self) -> None:
        """Close what a forked child has inherited; the connection stays its parent's."""
        self._welcomed = False
        self._closing = True
        if self._connection is not None:
            self._connection.abandon()
        self._bell.close()

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        try:
            while not self._closing:
                began = time.monotonic()
                refused = self._attempt()
                if time.monotonic() - began > STEADY_SECONDS:
                    retry_seconds = FIRST_RETRY_SECONDS
                if refused:
                    self._rest(REFUSED_RETRY_SECONDS, patient=True)
                elif self._rest(retry_seconds * _jitter(), patient=False):
                    retry_seconds = FIRST_RETRY_SECONDS
                else:
                    retry_seconds = min(2 * retry_seconds, LAST_RETRY_SECONDS)
        finally:
            self._bell.close()

    def _attempt(self) -> bool:
        """Hold one connection for as long as it lasts; return whether the agent refused it."""
        try:
            with lifecycle.DESCRIPTORS:
                self._connection = Connection()
            self._connection.open(self._path)
            self._converse(self._connection)
        except VersionRefusedError as refusal:
            self._complain("version", f"the agent at {self._path} refuses this client: {refusal}")
            return True
        except (OSError, ValueError) as error:
            self._report_absence(error)
        except Exception:  # noqa: BLE001 - a fault of ours must end neither the thread nor training
            _log.exception("fault in the lastcall reader; it connects anew")
        finally:
            self._welcomed = False
            self._outbox.disconnected()
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self.tried.set()
        return False

    def _converse(self, connection: Connection) -> None:
        self._odd_lines = 0
        connection.send(values.line(self._hello()))
        welcome_by = time.monotonic() + WELCOME_SECONDS
        while True:
            for line in connection.receive():
                self._hear(line)
            now = time.monotonic()
            if self._welcomed:
                self._speak(connection, now)
            elif now >= welcome_by:
                raise ConnectionError(f"no welcome within {WELCOME_SECONDS:g} s")
            connection.drain()
            if self._closing and (
                not self._welcomed or now >= self._close_by or self._all_said(connection)
            ):
                return
            until = self._heartbeat_at if self._welcomed else welcome_by
            self._wait(min(until, self._close_by) if self._closing else until, connection)

    def _speak(self, connection: Connection, now: float) -> None:
        """Hand the socket what waits, but only once it has taken what it was given before."""
        if connection.idle:
            for message in self._outbox.take():
                connection.send(values.line(message))
            if self._closing and self._farewell is not None:
                connection.send(values.line(self._farewell))
                self._farewell = None
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + HEARTBEAT_SECONDS
            if connection.idle:
                connection.send(values.line(self._heartbeat()))

    def _all_said(self, connection: Connection) -> bool:
        return connection.idle and self._farewell is None

    def _heartbeat(self) -> Heartbeat:
        ledger = self._ledger
        return Heartbeat(values.whole(ledger.step), values.text_or_none(ledger.section))

    def _wait(self, until: float, connection: Connection | None = None) -> bool:
        """Wait for the bell, the socket or a moment; return whether it was the bell."""
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        if connection is not None:
            poller.register(connection, select.POLLIN | (0 if connection.idle else select.POLLOUT))
        ready = poller.poll(max(0.0, until - time.monotonic()) * 1000)
        rung = any(descriptor == self._bell.fileno() for descriptor, _ in ready)
        if rung:
            self._bell.hush()
        return rung

    def _rest(self, duration_seconds: float, *, patient: bool) -> bool:
        """Wait before the next attempt; return early, and true, if a report calls for one."""
        until = time.monotonic() + duration_seconds
        while not self._closing and time.monotonic() < until:
            if self._wait(until) and not patient and self._outbox.waiting:
                return True
        return False

    # --- what the agent says -------------------------------------------------------------------

    def _hear(self, line: bytes) -> None:
        try:
            message = decode(line, AGENT_MESSAGES)
        except WireError as fault:
            self._complain(fault.code, f"the agent sent what is no message: {fault}")
            # An agent newer than this client may say what it does not know; that is no fault.
            self._odd_lines += fault.code != "unknown_type"
            if self._odd_lines > ODD_LINES_LIMIT:
                raise ConnectionError("the agent does not speak the protocol") from None
            return
        if self._welcomed or isinstance(message, Welcome | Error | Bye):
            self._obey(message)

    def _obey(self, message: FromAgent) -> None:
        match message:
            case Welcome():
                self._enter(message)
            case messages.Notice():
                _announce(self._ledger.receive(message, time.monotonic()))
            case Withdrawn():
                self._ledger.withdraw(message.id)
                _log.info("notice %s is withdrawn: %s", message.id, message.reason)
            case Advice():
                self._ledger.advice = message
            case Ok():
                self._outbox.acknowledged(message)
            case Error():
                self._take_error(message)
            case Bye():
                raise ConnectionError(f"the agent left: {message.reason or 'no reason given'}")

    def _enter(self, welcome: Welcome) -> None:
        if welcome.protocol != PROTOCOL:
            raise VersionRefusedError(f"it speaks version {welcome.protocol}, not {PROTOCOL}")
        self._outbox.connected()
        news = self._ledger.list_anew(welcome.notices, time.monotonic())
        self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        self._welcomed = True
        self.tried.set()
        self._complaints.clear()
        for notice in news:
            _announce(notice)
        _log.info("connected to the agent %s on %s", welcome.agent, welcome.node)

    def _take_error(self, error: Error) -> None:
        if error.code == "version":
            raise VersionRefusedError(error.message)
        if error.code == "unknown_id":
            self._outbox.unknown(self._ledger.open_ids)
        self._complain(error.code, f"the agent answered {error.code}: {error.message}")

    def _complain(self, about: str, words: str) -> None:
        """Log a thing once, until the next welcome."""
        if about not in self._complaints:
            self._complaints.add(about)
            _log.warning("%s", words)

    def _report_absence(self, error: Exception) -> None:
        if "absent" not in self._complaints and not self._closing:
            self._complaints.add("absent")
            _log.info("no agent at %s (%s); training goes on without it", self._path, error)


def _announce(notice: Notice | None) -> None:
    if notice is None:
        return
    left = notice.remaining_seconds
    _log.warning(
        "%s (notice %s, %s)",
        _headline(notice),
        notice.id,
        "no deadline" if left is None else f"{left:.0f} s left",
    )


def _headline(notice: Notice) -> str:
    """Return what the notice says, in one line; of a drill first that it is one."""
    if not notice.drill:
        return f"{notice.kind} from {notice.source}: {notice.reason or notice.action}"
    words = notice.reason or "drill"
    if not words.startswith("drill"):
        words = f"drill: {words}"
    return words if notice.kind == "manual" else f"{words}: {notice.kind}"


def _jitter() -> float:
    """Return a factor between a half and one, without touching the program's random state."""
    return 0.5 + os.urandom(1)[0] / 510
