"""One connection's conversation: hello first, then everything in order; never more than lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lastcall.core.events import ClientLeft, DrillRequested, GpuWatchRequested
from lastcall.core.model import Kind
from lastcall.serve import peers, translate
from lastcall.serve.base import Clock, Post, Status
from lastcall.serve.connection import Connection
from lastcall.serve.peers import Peer
from lastcall.serve.processes import Processes, Watched
from lastcall.serve.programs import Programs
from lastcall.serve.status_line import status_line
from lastcall.wire.codec import WireError, decode, encode
from lastcall.wire.messages import (
    CLIENT_LINE_LIMIT,
    CLIENT_MESSAGES,
    PROTOCOL,
    Bye,
    DrillRequest,
    Error,
    FromClient,
    GpuRequest,
    Hello,
    Message,
    StatusRequest,
)

HELLO_SECONDS = 2.0
"""How long a client may take to say hello."""

PROGRAM_SECONDS = 0.1
"""How long a hello waits until it is known what program says it."""

BAD_LINES_LIMIT = 10
"""Lines in a row that are no messages, before the client is given up."""

COMPLAINT_SECONDS = 1.0
"""The least between two errors about the same flood."""

LEAD_SECONDS = (1.0, 86400.0)
"""The shortest and the longest warning of a drill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every session needs of the agent.

    Attributes:
        operators: users that may ask for the status, for drills, and to let go of the GPUs.
    """

    post: Post
    status: Status
    monotonic: Clock
    processes: Processes
    programs: Programs
    operators: frozenset[int]


class Session:
    """What was said on one connection so far, and what it means.

    Attributes:
        name: what events and commands call it.
    """

    def __init__(
        self, name: str, peer: Peer, services: Services, closed: Callable[[Session], None]
    ) -> None:
        self.name = name
        self.peer = peer
        self._services = services
        self._closed = closed
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hello: Hello | None = None
        self._identity = ""
        self._watched: Watched | None = None
        self._joined = False
        self._farewell: Bye | None = None
        self._dismissed = False
        self._bad_lines = 0
        self._complained_at: float | None = None
        self._why = ""

    # --- to the client -------------------------------------------------------------------------

    def send(self, line: bytes) -> bool:
        """Hand a line to the kernel; return whether that went well."""
        return self._connection is not None and self._connection.send(line)

    def say(self, message: Message) -> None:
        """Send a message."""
        self.send(encode(message))

    def dismiss(self, reason: str) -> None:
        """Say that the agent leaves; the client's end of the line is no news from now on."""
        self._dismissed = True
        self.say(Bye(reason))

    def hang_up(self) -> None:
        """Close once everything is sent."""
        self._cancel_timer()
        if self._connection is not None:
            self._connection.finish()

    def abort(self) -> None:
        """Close at once."""
        if self._connection is not None:
            self._connection.abort()

    # --- from the connection -------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Wait for the hello."""
        self._connection = connection
        self._set_timer(HELLO_SECONDS, self._hello_is_late)

    def hear(self, line: bytes) -> None:
        """Take in a line."""
        try:
            message = decode(line, CLIENT_MESSAGES)
        except WireError as fault:
            self._take_fault(fault)
            return
        self._bad_lines = 0
        match message:
            case StatusRequest() | DrillRequest() | GpuRequest():
                self._operate(message)
            case Bye():
                self._take_farewell(message)
            case Hello() if self._hello is None:
                self._take_hello(message)
            case Hello():
                self._complain("bad_message", "hello was said already")
            case _ if self._hello is None:
                self._reject("bad_message", "hello must come first")
            case _:
                self._take(message)

    def exceed(self) -> None:
        """Tell the client that it says too much."""
        now = self._services.monotonic()
        if self._complained_at is None or now >= self._complained_at + COMPLAINT_SECONDS:
            self._complained_at = now
            self._complain("rate", "too many messages or bytes; they are read more slowly")

    def overflow(self) -> None:
        """Give up a client whose lines have no end."""
        self._reject("too_long", f"a line must be at most {CLIENT_LINE_LIMIT} bytes long")

    def end(self, why: str) -> None:
        """Make known that the client has left."""
        self._cancel_timer()
        if self._joined and not (self._dismissed and self._farewell is None):
            farewell = self._farewell
            reason = self._why or why if farewell is None else farewell.reason or ""
            self._services.post(
                ClientLeft(
                    self.name,
                    said_bye=farewell is not None,
                    reason=translate.clean(reason, translate.REASON_LENGTH),
                )
            )
        if self._watched is not None and self._connection is not None:
            self._services.processes.let_go(self._watched, self._connection)

    def closed(self) -> None:
        """Let the agent forget this session."""
        self._closed(self)

    # --- what was said -------------------------------------------------------------------------

    def _take_hello(self, hello: Hello) -> None:
        lowest, highest = hello.protocol
        if not lowest <= PROTOCOL <= highest:
            self._reject(
                "version", f"this agent speaks version {PROTOCOL}, not {lowest} to {highest}"
            )
            return
        connection = self._connection
        if connection is None:
            return
        self._hello = hello
        self._cancel_timer()
        process = peers.look_behind(connection.socket, self.peer)
        self._identity = translate.identity(process, self.peer, hello)
        self._watched = self._services.processes.watch(self._identity, process, connection)
        if self.peer.pid:
            connection.hold()
            self._set_timer(PROGRAM_SECONDS, self._join)
            self._services.programs.ask(self.peer.pid, self._join)
        else:
            self._join()

    def _join(self, command: str = "") -> None:
        if self._joined or self._hello is None or self._connection is None or self._dismissed:
            return
        self._joined = True
        self._cancel_timer()
        self._services.post(
            translate.joined(
                self._hello,
                session=self.name,
                identity=self._identity,
                peer=self.peer,
                cgroup=peers.control_group(self.peer.pid) if self.peer.pid else "",
                command=command,
            )
        )
        self._connection.release()

    def _take(self, message: FromClient) -> None:
        event = translate.event(message, self.name)
        if event is not None:
            self._services.post(event)

    def _take_farewell(self, farewell: Bye) -> None:
        self._farewell = farewell
        if self._connection is not None:
            self._connection.part()

    def _operate(self, message: StatusRequest | DrillRequest | GpuRequest) -> None:
        if self.peer.uid not in self._services.operators:
            self._complain("unauthorized", f"{message.type} is for root and the agent's own user")
            return
        if self._hello is None:
            # An operator's command is no training process: it says no hello.
            self._cancel_timer()
        match message:
            case StatusRequest():
                self.send(status_line(self._services.status()))
            case DrillRequest():
                self._request_drill(message)
            case GpuRequest():
                self._services.post(GpuWatchRequested(self.name, message.watched))

    def _request_drill(self, request: DrillRequest) -> None:
        shortest, longest = LEAD_SECONDS
        if request.kind not in tuple(Kind):
            self._complain("bad_message", f"kind must be one of {_listed(Kind)}")
        elif not shortest <= request.lead_seconds <= longest:
            self._complain("bad_message", f"lead_seconds must be from {shortest:g} to {longest:g}")
        else:
            self._services.post(
                DrillRequested(self.name, request.lead_seconds, Kind(request.kind), request.drain)
            )

    # --- what was wrong ------------------------------------------------------------------------

    def _take_fault(self, fault: WireError) -> None:
        if fault.code == "bad_message":
            self._bad_lines += 1
        if self._bad_lines >= BAD_LINES_LIMIT:
            self._reject(fault.code, f"{BAD_LINES_LIMIT} bad lines in a row: {fault}")
        else:
            self._complain(fault.code, str(fault))

    def _hello_is_late(self) -> None:
        if self._connection is not None and self._connection.line_waits:
            # It is our loop that was late, not the client.
            self._set_timer(HELLO_SECONDS, self._hello_is_late)
        else:
            self._reject("bad_message", f"no hello within {HELLO_SECONDS:g} s")

    def _complain(self, code: str, message: str) -> None:
        self.say(Error(code, message))

    def _reject(self, code: str, message: str) -> None:
        self._why = message
        self._complain(code, message)
        self.hang_up()

    def _set_timer(self, delay_seconds: float, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(delay_seconds, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
