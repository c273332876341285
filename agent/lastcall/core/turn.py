"""One turn of the machine: the node as it becomes, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lastcall.core.commands import (
    CallOff,
    Command,
    Confirm,
    Cordon,
    Greet,
    Publish,
    Refuse,
    Tell,
)
from lastcall.core.facts import Fact
from lastcall.core.model import Client, Node, Notice
from lastcall.core.policy import Policy
from lastcall.core.views import NoticeView, view

K = TypeVar("K")
V = TypeVar("V")

_ORDER: tuple[tuple[type[Command], ...], ...] = (
    (Tell, CallOff, Greet),
    (Confirm, Refuse),
    (Cordon,),
)
"""Nothing stands before the bytes to the clients, and nothing else before the cordon."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the site has decided.

    Attributes:
        acts: whether the node may be cordoned, drained and handed back, or only watched.
        reserve_seconds: kept back from the deadline for the drain and the commit.
        late_seconds: how long after the deadline a flush may still report as late.
        volatile_paths: paths that die with the node.
        acknowledges: sources whose provider is told once all is flushed and drained.
        prior_interruption_seconds: mean time between interruptions, assumed until measured.
    """

    policy: Policy = field(default_factory=Policy)
    acts: bool = True
    reserve_seconds: float = 10.0
    late_seconds: float = 5.0
    volatile_paths: tuple[str, ...] = ()
    acknowledges: frozenset[str] = frozenset()
    prior_interruption_seconds: float = 21600.0


class Turn:
    """Collects what one event changes; the node that came in stays as it was."""

    def __init__(self, node: Node, now: float, settings: Settings) -> None:
        self.node = node
        self.now = now
        self.settings = settings
        self._commands: list[Command] = []

    @property
    def commands(self) -> list[Command]:
        """What is to be done, in order."""
        return sorted(self._commands, key=_rank)

    def do(self, command: Command) -> None:
        """Have something done."""
        self._commands.append(command)

    def publish(self, fact: Fact) -> None:
        """Make a fact known."""
        self._commands.append(Publish(fact))

    def change(self, **fields: Any) -> None:
        """Change fields of the node."""
        self.node = replace(self.node, **fields)

    def put_notice(self, notice: Notice) -> Notice:
        """Keep a notice as it is now, and return it."""
        if self.node.notices.get(notice.id) is not notice:
            self.change(notices=with_item(self.node.notices, notice.id, notice))
        return notice

    def put_client(self, client: Client) -> Client:
        """Keep a client as it is now, and return it."""
        if self.node.clients.get(client.key) is not client:
            self.change(clients=with_item(self.node.clients, client.key, client))
        return client

    def client_of(self, session: str) -> Client | None:
        """Return the client that a connection speaks for."""
        return self.node.clients.get(self.node.sessions.get(session, ""))

    def sessions_of(self, clients: Iterable[str]) -> tuple[str, ...]:
        """Return the connections of those clients that have one."""
        known = (self.node.clients.get(key) for key in clients)
        return tuple(client.session for client in known if client and client.session)

    def view(self, notice: Notice) -> NoticeView:
        """Return what is shown of a notice."""
        return view(notice, self.settings.reserve_seconds)


def _rank(command: Command) -> int:
    return next((n for n, kinds in enumerate(_ORDER) if isinstance(command, kinds)), len(_ORDER))


def with_item(items: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    """Return the mapping with one item set."""
    return {**items, key: value}


def without(items: Mapping[K, V], key: K) -> dict[K, V]:
    """Return the mapping with one item left out."""
    return {k: v for k, v in items.items() if k != key}
