"""Tells the machine a story, event by event at given times, and keeps all that it decides."""

from __future__ import annotations

from typing import TypeVar

from lastcall.core.commands import Command, Publish
from lastcall.core.events import Event, Tick
from lastcall.core.facts import Fact
from lastcall.core.machine import Machine
from lastcall.core.model import Node, Notice, Phase
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings
from support.happenings import joined

C = TypeVar("C", bound=Command)
F = TypeVar("F", bound=Fact)


class Decided(list[Command]):
    """Commands in the order in which they were decided."""

    def commands(self, kind: type[C]) -> list[C]:
        """Return those of one type."""
        return [command for command in self if isinstance(command, kind)]

    def command(self, kind: type[C]) -> C:
        """Return the only one of a type."""
        (command,) = self.commands(kind)
        return command

    def facts(self, kind: type[F]) -> list[F]:
        """Return the facts of one type that are to be made known."""
        published = (command.fact for command in self.commands(Publish))
        return [fact for fact in published if isinstance(fact, kind)]

    def fact(self, kind: type[F]) -> F:
        """Return the only fact of a type."""
        (fact,) = self.facts(kind)
        return fact


class Story:
    """A node and its machine, woken when it asks to be, with time as an argument.

    Attributes:
        node: what is known now.
        now: on the monotonic clock.
        decided: everything that was decided so far.
        handled: every event so far with its time, those between two calls included.
    """

    def __init__(self, settings: Settings | None = None, node: Node | None = None) -> None:
        """Begin at the second 0, with an empty node unless one is given."""
        self.machine = Machine(settings or Settings())
        self.node = node or Node()
        self.now = 0.0
        self.decided = Decided()
        self.handled: list[tuple[float, Event]] = []

    def at(self, now: float, *events: Event) -> Decided:
        """Let time pass, then have events happen; return what was decided meanwhile and then."""
        before = len(self.decided)
        while (moment := self.machine.wake_at(self.node, self.now)) is not None and moment <= now:
            self._handle(Tick(), moment)
        self.now = now
        for event in events:
            self._handle(event, now)
        return Decided(self.decided[before:])

    def notice(self, source: str = "") -> Notice:
        """Return the only notice that was ever seen, or the only one that a source named."""
        (notice,) = self.notices(source)
        return notice

    def notices(self, source: str = "") -> list[Notice]:
        """Return the notices that are known, those that have ended included."""
        known = self.node.notices.values()
        return [one for one in known if source in ("", one.lead.sighting.source)]

    @property
    def phase(self) -> Phase:
        """Where the only notice stands."""
        return self.notice().phase

    def _handle(self, event: Event, now: float) -> None:
        self.node, commands = self.machine.handle(self.node, event, now)
        self.now = now
        self.handled.append((now, event))
        self.decided.extend(commands)


def a_node(settings: Settings | None = None) -> Story:
    """Return the story of a node with one training process, connected as ``s0``."""
    story = Story(settings)
    story.at(0, joined("s0"))
    return story


def ruled(*rules: Rule) -> Settings:
    """Return settings in which the site has rules of its own."""
    return Settings(policy=Policy(rules))
