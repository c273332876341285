"""Wherever the agent is cut off, the journal and the world bring it to the same end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastcall.core.commands import Greet, Tell
from lastcall.core.events import (
    CheckpointReported,
    ClientJoined,
    CordonEnded,
    DrainEnded,
    FlushFailed,
    Intended,
    Progressed,
    Rebooted,
    Started,
    Tick,
    UncordonEnded,
)
from lastcall.core.model import Node, Outcome
from lastcall.core.turn import Settings
from support.courses import Course, Step, courses
from support.happenings import (
    EVENTS,
    LOGIND,
    PREEMPTED,
    REBALANCE,
    SCHEDULED,
    SPOT,
    azure,
    died,
    drill,
    flushed,
    joined,
    left,
    lost,
    preempted,
    rebalance,
    scheduled,
    shutdown,
    spot,
)
from support.story import Decided, Story

SETTINGS = Settings(acknowledges=frozenset({"azure"}))


@dataclass
class Ending:
    """What came of it all: how each notice and each flush ended, and what anybody was told of."""

    endings: dict[str, str] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


def ending(node: Node, told: set[str]) -> Ending:
    result = Ending(told=told)
    for notice in node.notices.values():
        result.endings[notice.id] = notice.ending
        for flush in notice.flushes.values():
            result.outcomes[notice.id, flush.client] = flush.outcome or ""
    return result


def told_in(decided: Decided) -> set[str]:
    greeted = {shown.id for greet in decided.commands(Greet) for shown in greet.notices}
    return greeted | {tell.notice.id for tell in decided.commands(Tell)}


def resumed_after(story: Story, cut: int) -> tuple[Ending, set[str]]:
    """Return the end of a story whose agent was cut off, and the clients that were away then."""
    machine, live, replayed = story.machine, Node(), Node()
    told: set[str] = set()
    for now, event in story.handled[:cut]:
        before = live
        live, commands = machine.handle(before, event, now)
        told |= told_in(Decided(commands))
        # As the runtime does: what changed nothing is not written down.
        if event.journaled and live is not before:
            replayed, _ = machine.handle(replayed, event, now)
    again = Story(SETTINGS, replayed)
    again.now = story.handled[cut - 1][0] if cut else 0.0
    again.at(again.now, Started(), *returning(live))
    for now, event in story.handled[cut:]:
        if not isinstance(event, Tick):
            again.at(now, event)
    again.at(story.now)
    away = {client.key for client in live.clients.values() if client.session is None}
    return ending(again.node, told | told_in(again.decided)), away


def returning(live: Node) -> list[ClientJoined]:
    """Return the hellos of all that were connected, with what each has dealt with."""
    here = [client for client in live.clients.values() if client.session is not None]
    return [
        ClientJoined(
            session=client.session or "",
            identity=client.identity,
            job=client.job,
            rank=client.rank,
            pid=client.pid,
            handled=tuple(sorted(client.handled | dealt_with(live, client.key))),
        )
        for client in here
    ]


def dealt_with(live: Node, client: str) -> set[str]:
    its_own = (Outcome.IN_TIME, Outcome.LATE, Outcome.NOT_DURABLE, Outcome.FAILED, Outcome.IGNORED)
    flushes = ((notice.id, notice.flushes.get(client)) for notice in live.notices.values())
    return {name for name, flush in flushes if flush and flush.outcome in its_own}


# --- stories ---------------------------------------------------------------------------------


def interruption(story: Story) -> None:
    """Three ranks, of which one flushes, one fails and one dies; the drain ends in time."""
    for rank in range(3):
        story.at(0, joined(f"s{rank}", rank=rank))
    story.at(5, CheckpointReported(session="s0", step=4, durable_seconds=9.0))
    story.at(10, SPOT.shows(spot(ends_at=130)))
    name = story.notice().id
    story.at(11, CordonEnded(name, cordoned=True), Intended("s0", name, "save", 9))
    story.at(12, Progressed("s1", name, "writing"), lost("s1"))
    story.at(20, flushed("s0", name), joined("back", process="process of s1", rank=1))
    story.at(30, FlushFailed("back", name, "disk full"), died("s2"))
    story.at(60, DrainEnded(name, "drained"), left("s0"))
    story.at(300)


def silence(story: Story) -> None:
    """Nobody answers; the notice passes, and the machine lives on until it is taken back."""
    story.at(0, joined("s0"), joined("s1", rank=1), SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    story.at(122, flushed("s0", name))
    story.at(200, SPOT.shows(), SPOT.shows(), SPOT.shows())
    story.at(201, UncordonEnded(name, uncordoned=True))


def advice_then_interruption(story: Story) -> None:
    """A flush for the advice, and another one for the interruption after it."""
    story.at(0, joined("s0"), joined("s1", rank=1), REBALANCE.shows(rebalance()))
    story.at(9, flushed("s0", story.notice().id))
    story.at(600, SPOT.shows(spot(ends_at=720)))
    name = story.notices()[-1].id
    story.at(620, flushed("s0", name), flushed("s1", name))
    story.at(630, DrainEnded(name, "drained"))
    story.at(800)


def a_planned_event_is_canceled(story: Story) -> None:
    """Seen for days, told in its time, taken back at the last moment."""
    day = 86400.0
    story.at(0, joined("s0"), SCHEDULED.shows(scheduled(starts_at=3 * day)))
    story.at(3 * day - 600, Intended("s0", story.notice().id, "save"))
    name = story.notice().id
    story.at(3 * day - 500, CordonEnded(name, cordoned=True))
    story.at(3 * day - 9, SCHEDULED.shows())
    story.at(3 * day, UncordonEnded(name, uncordoned=True))
    story.at(3 * day + 100)


def a_drill_gives_way(story: Story) -> None:
    """A drill with a drain, and the real thing in the middle of it."""
    story.at(0, joined("s0"), joined("s1", rank=1), drill(drain=True))
    rehearsal = story.notice().id
    story.at(1, CordonEnded(rehearsal, cordoned=True), flushed("s0", rehearsal))
    story.at(5, LOGIND.shows(shutdown()))
    name = story.notices()[-1].id
    story.at(6, PREEMPTED.shows(preempted()), flushed("s1", name))
    story.at(60)


def a_reboot_in_between(story: Story) -> None:
    """An event that the machine comes back from, still listed afterwards."""
    event = azure("Reboot", 800, cancellable=True, acknowledgeable=True)
    story.at(0, joined("s0"), EVENTS.shows(event))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    story.at(9, flushed("s0", name))
    story.at(20, DrainEnded(name, "drained"))
    story.at(900, Rebooted(), joined("s1"))
    story.at(901, UncordonEnded(name, uncordoned=True), EVENTS.shows(event))
    story.at(960, EVENTS.shows())


STORIES = (
    interruption,
    silence,
    advice_then_interruption,
    a_planned_event_is_canceled,
    a_drill_gives_way,
    a_reboot_in_between,
)


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_cut_off_after_any_event_a_story_has_the_same_end(tell: Callable[[Story], None]) -> None:
    story = Story(SETTINGS)
    tell(story)
    whole = ending(story.node, told_in(story.decided))

    for cut in range(len(story.handled) + 1):
        cut_off, _ = resumed_after(story, cut)
        assert cut_off == whole, f"cut after {story.handled[:cut][-1:]}"


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(courses(restarts=False), st.integers(0, 10_000))
def test_cut_off_anywhere_any_course_has_the_same_end(course: list[Step], where: int) -> None:
    story = Story(SETTINGS)
    told = Course(story)
    for step in course:
        told.take(step)
    told.close()
    whole = ending(story.node, told_in(story.decided))

    cut_off, away = resumed_after(story, where % (len(story.handled) + 1))

    assert cut_off.told == whole.told
    assert cut_off.endings == whole.endings
    # One that was away is waited for anew, so that more may be expected of it, never less.
    extra = cut_off.outcomes.items() - whole.outcomes.items()
    assert whole.outcomes.items() <= cut_off.outcomes.items()
    assert {client for (_, client), _ in extra} <= away


def replayed(story: Story) -> Node:
    node = Node()
    for now, event in story.handled:
        node, _ = story.machine.handle(node, event, now)
    return node


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_the_same_events_give_the_same_node(tell: Callable[[Story], None]) -> None:
    story = Story(SETTINGS)
    tell(story)

    assert replayed(story) == story.node
