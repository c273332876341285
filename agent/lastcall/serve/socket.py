"""The agent's socket: listens, keeps the sessions, and has the machine's words reach them."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from dataclasses import dataclass

import structlog

from lastcall.core.commands import (
    Advise,
    CallOff,
    Confirm,
    Greet,
    Refuse,
    Tell,
    WatchProcess,
)
from lastcall.core.events import AllTold
from lastcall.serve import peers, translate
from lastcall.serve.base import Clock, Post, Status
from lastcall.serve.connection import READ_BYTES, Connection
from lastcall.serve.limits import Allowance, Slots, raise_descriptor_limit
from lastcall.serve.path import SocketError, SocketPath
from lastcall.serve.processes import Processes
from lastcall.serve.programs import Programs
from lastcall.serve.session import Services, Session
from lastcall.serve.turns import Turns
from lastcall.serve.welcome import welcome_lines
from lastcall.wire.codec import encode
from lastcall.wire.messages import Error, Message, Ok, Withdrawn

__all__ = ["AgentSocket", "SocketError", "SocketSettings"]

BACKLOG = 4096
"""Connections that the kernel keeps while the agent is busy."""

ACCEPTS_PER_ROUND = 16
"""Connections that are let in before the loop goes on to whatever else is due."""

NO_DESCRIPTORS_SECONDS = 1.0
"""How long nobody is let in once the system has no descriptors left."""

FAREWELL_SECONDS = 0.5
"""How long clients may finish what they were saying when the agent leaves."""

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSettings:
    """Where the socket stands, who may use it, and how much one client may ask.

    Attributes:
        mode: permissions in octal digits.
        group: a name or a number; "" leaves the group as it is.
    """

    path: str
    mode: str = "0666"
    group: str = ""
    max_connections: int = 2048
    max_connections_per_user: int = 1536
    messages_per_second: float = 50.0
    bytes_per_second: float = 65536.0


class AgentSocket:
    """The socket that training processes and operators connect to.

    It decides nothing: what clients say becomes events, and commands become lines. The methods
    that carry out commands return at once and never raise for a session that has ended.
    """

    def __init__(
        self,
        settings: SocketSettings,
        *,
        node_name: str,
        agent_version: str,
        post: Post,
        status: Status,
        monotonic: Clock,
        wall: Clock,
    ) -> None:
        self._settings = settings
        self._node_name = node_name
        self._agent_version = agent_version
        self._post = post
        self._monotonic = monotonic
        self._wall = wall
        self._path = SocketPath(settings.path, int(settings.mode, 8), settings.group)
        self._listener: socket.socket | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._turns = Turns()
        self._slots = Slots(settings.max_connections, settings.max_connections_per_user)
        self._services = Services(
            post=post,
            status=status,
            monotonic=monotonic,
            processes=Processes(post, 2 * settings.max_connections),
            programs=Programs(),
            operators=frozenset({0, os.geteuid()}),
        )
        self._scratch = memoryview(bytearray(READ_BYTES))
        self._epoch = secrets.token_hex(4)
        self._opened = 0
        self._opening: set[asyncio.Task[object]] = set()
        self._sessions: dict[str, Session] = {}
        self._empty = asyncio.Event()
        self._log = structlog.get_logger()

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        return self._listener is not None

    async def start(self) -> None:
        """Listen. The process may open as many files as the system allows from now on.

        Raises:
            SocketError: the socket cannot be had; the text is one clear line.
        """
        raise_descriptor_limit()
        self._listener = self._path.listen(BACKLOG)
        self._watch_listener()

    async def close(self, reason: str) -> None:
        """Take the socket away, say bye to everyone, and close, all within about a second."""
        if self._listener is None:
            return
        self._ignore_listener()
        self._path.withdraw()
        self._listener.close()
        self._listener = None
        await asyncio.gather(*self._opening, return_exceptions=True)
        for session in list(self._sessions.values()):
            session.dismiss(reason)
        await self._wait_until_empty(FAREWELL_SECONDS)
        for session in list(self._sessions.values()):
            session.hang_up()
        await self._wait_until_empty(FAREWELL_SECONDS)
        for session in list(self._sessions.values()):
            session.abort()
        await self._wait_until_empty(FAREWELL_SECONDS)
        self._services.processes.close()
        self._services.programs.close()
        self._path.release()

    # --- what the machine wants done -----------------------------------------------------------

    def tell(self, command: Tell) -> None:
        """Send a notice over the connections that it names, and post that this was done."""
        now, wall = self._monotonic(), self._wall()
        line = encode(translate.notice(command.notice, now=now, wall=wall))
        told = sum(self._send(name, line) for name in command.sessions)
        self._post(AllTold(command.notice.id, told))

    def call_off(self, command: CallOff) -> None:
        """Say that a notice no longer stands."""
        line = encode(Withdrawn(command.id, command.reason))
        for name in command.sessions:
            self._send(name, line)

    def greet(self, command: Greet) -> None:
        """Answer a hello."""
        for line in welcome_lines(
            command,
            node_name=self._node_name,
            agent_version=self._agent_version,
            now=self._monotonic(),
            wall=self._wall(),
        ):
            self._send(command.session, line)

    def confirm(self, command: Confirm) -> None:
        """Answer that a message is on record."""
        self._say(command.session, Ok(command.re, command.id))

    def refuse(self, command: Refuse) -> None:
        """Answer that a message could not be taken."""
        self._say(command.session, Error(command.code, command.message))

    def advise(self, command: Advise) -> None:
        """Send what was learned about a job's checkpoints."""
        self._say(command.session, translate.advice(command.advice))

    def watch_process(self, command: WatchProcess) -> None:
        """Post the death of a process known from before, when it comes or if it has come."""
        self._services.processes.watch_again(command.identity, command.pid)

    def _say(self, name: str, message: Message) -> None:
        self._send(name, encode(message))

    def _send(self, name: str, line: bytes) -> bool:
        session = self._sessions.get(name)
        return session is not None and session.send(line)

    # --- who comes and goes --------------------------------------------------------------------

    def _watch_listener(self) -> None:
        self._retry = None
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _ignore_listener(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_ROUND):
            if self._listener is None:
                return
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._log.warning("connections_wait", detail=error.strerror)
                self._ignore_listener()
                self._retry = asyncio.get_running_loop().call_later(
                    NO_DESCRIPTORS_SECONDS, self._watch_listener
                )
                return
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        peer = peers.credentials(connection)
        if not self._slots.take(peer.uid):
            _turn_away(connection)
            return
        self._opened += 1
        session = Session(f"{self._epoch}-{self._opened}", peer, self._services, self._forget)
        self._sessions[session.name] = session
        self._empty.clear()
        protocol = Connection(
            session,
            turns=self._turns,
            allowance=Allowance(
                self._settings.messages_per_second,
                self._settings.bytes_per_second,
                self._monotonic(),
            ),
            monotonic=self._monotonic,
            scratch=self._scratch,
        )
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _forget(self, session: Session) -> None:
        del self._sessions[session.name]
        self._slots.give_back(session.peer.uid)
        if not self._sessions:
            self._empty.set()

    async def _wait_until_empty(self, limit_seconds: float) -> None:
        if self._sessions:
            try:
                async with asyncio.timeout(limit_seconds):
                    await self._empty.wait()
            except TimeoutError:
                pass


def _turn_away(connection: socket.socket) -> None:
    """Refuse a connection at the least cost."""
    with connection:
        try:
            connection.send(encode(Error("rate", "too many connections")))
        except OSError:
            # Whoever does not even wait for the answer needs none.
            return
