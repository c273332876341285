"""What holds after every event of any course of events."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastcall.core.commands import (
    Acknowledge,
    CallOff,
    Command,
    Confirm,
    Cordon,
    Drain,
    Greet,
    Mark,
    Refuse,
    StopDrain,
    Tell,
    Uncordon,
)
from lastcall.core.draining import orders
from lastcall.core.events import Event, Started, Tick
from lastcall.core.facts import FlushSettled, NoticeEnded, NoticeSeen
from lastcall.core.model import Node, Notice, Outcome, Phase, Stance
from lastcall.core.turn import Settings
from lastcall.core.views import NoticeView
from support.courses import Course, Step, courses
from support.story import Decided, Story

ACTS = Settings(acknowledges=frozenset({"azure"}))
WATCHES = Settings(acts=False, acknowledges=frozenset({"azure"}))
CALLED_OFF = ("withdrawn", "superseded", "expired", "rehearsed")

thorough = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class Checked(Story):
    """A story in which every turn is held against what must always be so."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settled: Counter[tuple[str, str]] = Counter()
        self.seen: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.acknowledged: Counter[tuple[str, str]] = Counter()

    def _handle(self, event: Event, now: float) -> None:
        before, as_it_was = self.node, repr(self.node)
        known = len(self.decided)
        twin = self.machine.handle(copy.deepcopy(before), event, now)
        super()._handle(event, now)
        decided = Decided(self.decided[known:])

        assert repr(before) == as_it_was
        assert twin == (self.node, list(decided))
        for fact in decided.facts(FlushSettled):
            self.settled[fact.client, fact.notice.id] += 1
        self.seen.update(fact.notice.id for fact in decided.facts(NoticeSeen))
        self.ended.update(fact.notice.id for fact in decided.facts(NoticeEnded))
        self.acknowledged.update((c.id, c.key) for c in decided.commands(Acknowledge))
        self._check_commands(before, decided)
        self._check_orders(before, decided)
        self._check_node(now)

    def _check_commands(self, before: Node, decided: Decided) -> None:
        known = {*before.notices, *self.node.notices, before.cordoned_for, self.node.cordoned_for}
        ranks = [rank(command) for command in decided]
        assert ranks == sorted(ranks)
        assert {name for command in decided for name in named(command)} <= known
        assert all(count == 1 for count in self.settled.values())
        assert all(count == 1 for count in self.acknowledged.values())
        for shown in views(decided):
            if shown.deadline is not None:
                assert shown.flush_until is not None
                assert shown.flush_until <= shown.deadline
        for ended in decided.facts(NoticeEnded):
            counted = sum(name == ended.notice.id for _, name in self.settled)
            assert sum(ended.outcomes.values()) == counted
            if ended.ending in CALLED_OFF:
                self._check_called_off(before, self.node.notices[ended.notice.id], decided)
        for command in decided.commands(Acknowledge):
            outcomes = {f.outcome for f in self.node.notices[command.id].flushes.values()}
            assert outcomes <= {Outcome.IN_TIME, Outcome.LATE, Outcome.IGNORED}
        if not self.machine.settings.acts:
            acts = (Cordon, Uncordon, Drain, Mark, StopDrain, Acknowledge)
            assert not any(isinstance(command, acts) for command in decided)

    def _check_orders(self, before: Node, decided: Decided) -> None:
        """An order is given exactly where it differs from the one that held."""
        held, holds = (orders(node, self.machine.settings) for node in (before, self.node))
        given = {order.id: order for order in (*decided.commands(Drain), *decided.commands(Mark))}
        changed = {name for name, order in holds.items() if order != held.get(name)}
        assert changed <= given.keys()
        assert all(holds[name] == order for name, order in given.items())
        for command in decided.commands(StopDrain):
            assert command.id in held
            assert not isinstance(holds.get(command.id), Drain)
        for order in holds.values():
            if isinstance(order, Drain):
                assert order.waiting <= order.training
                assert order.began_at <= order.flush_until or order.deadline < order.began_at

    def _check_called_off(self, before: Node, notice: Notice, decided: Decided) -> None:
        had_been_told = before.notices.get(notice.id, notice).told_at is not None
        said = [command for command in decided.commands(CallOff) if command.id == notice.id]
        assert len(said) == (1 if notice.told_at is not None else 0)
        if had_been_told and said:
            clients = [self.node.clients.get(name) for name in notice.flushes]
            assert {c.session for c in clients if c and c.session} == set(said[0].sessions)

    def _check_node(self, now: float) -> None:
        node = self.node
        wake_at = self.machine.wake_at(node, now)
        assert wake_at is None or now < wake_at < float("inf")
        assert self.machine.handle(node, Tick(), now) == (node, [])
        told = [notice for notice in node.notices.values() if notice.told]
        real = [notice for notice in told if notice.stance is Stance.FLUSH and not notice.drill]
        assert len(real) <= 1
        assert sum(notice.drill for notice in told) <= 1
        for notice in node.notices.values():
            assert notice.open == (notice.phase not in (Phase.DONE, Phase.WITHDRAWN))
            assert (notice.phase is Phase.SEEN) <= (notice.told_at is None)
        for session, key in node.sessions.items():
            client = node.clients[key]
            assert client.session == session
            for notice in told:
                assert key in notice.flushes or notice.id in client.handled


def rank(command: Command) -> int:
    if isinstance(command, (Tell, CallOff, Greet)):
        return 0
    if isinstance(command, (Confirm, Refuse)):
        return 1
    return 2 if isinstance(command, Cordon) else 3


def named(command: Command) -> Iterator[str]:
    """Yield the ids of the notices that a command is about."""
    if isinstance(command, (Tell, Cordon)):
        yield command.notice.id
    elif isinstance(command, (CallOff, Uncordon, Acknowledge, Drain, Mark, StopDrain)):
        yield command.id
    elif isinstance(command, Greet):
        yield from (notice.id for notice in command.notices)
    elif isinstance(command, Confirm) and command.id is not None:
        yield command.id


def views(decided: Decided) -> Iterator[NoticeView]:
    for command in decided:
        if isinstance(command, (Tell, Cordon)):
            yield command.notice
        elif isinstance(command, Greet):
            yield from command.notices


@thorough
@given(st.sampled_from([ACTS, WATCHES]), courses(restarts=True))
def test_every_turn_keeps_its_promises(with_settings: Settings, course: list[Step]) -> None:
    told = Course(Checked(with_settings))

    for step in course:
        told.take(step)


@thorough
@given(courses(restarts=True))
def test_every_notice_ends_once_when_all_sources_let_go_and_time_passes(course: list[Step]) -> None:
    story = Checked(ACTS)
    told = Course(story)
    for step in course:
        told.take(step)

    told.close()

    assert story.node.open_notices == []
    assert story.seen == story.ended
    assert not any(notice.unsettled for notice in story.notices() if notice.ending != "rebooted")


@thorough
@given(courses(restarts=True))
def test_woken_only_by_time_the_machine_comes_to_rest(course: list[Step]) -> None:
    story = Story(ACTS)
    told = Course(story)
    for step in course:
        told.take(step)
    node, now, wakes = story.node, story.now, 0

    while (moment := story.machine.wake_at(node, now)) is not None:
        assert moment > now
        node, _ = story.machine.handle(node, Tick(), moment)
        now, wakes = moment, wakes + 1
        assert wakes < 200


@thorough
@given(courses(restarts=True))
def test_a_moment_in_between_at_which_nothing_is_due_changes_nothing(course: list[Step]) -> None:
    plain, ticked = Story(ACTS), Story(ACTS)
    one, other = Course(plain), Course(ticked)
    plain.at(0, Started())
    ticked.at(0, Started())

    for step in course:
        half = step.pause_seconds / 2
        one.take(step)
        ticked.at(ticked.now + half, Tick())
        other.take(replace(step, pause_seconds=half))

    assert plain.decided == ticked.decided
