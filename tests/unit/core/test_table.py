"""Every row of the table: what makes it fire, and what only just does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from lastcall.core.events import Acked, DrainEnded, Event, Intended
from lastcall.core.machine import TABLE, Row
from lastcall.core.model import Notice, Phase, Stance
from lastcall.core.policy import Policy, Rule
from lastcall.core.turn import Settings, Turn
from support.happenings import (
    EVENTS,
    LOGIND,
    REBALANCE,
    SCHEDULED,
    SPOT,
    azure,
    drill,
    flushed,
    joined,
    rebalance,
    scheduled,
    shutdown,
    spot,
)
from support.story import Story

Scene = Callable[[Story], object]


@dataclass(frozen=True)
class Case:
    """How a row's phase is reached, what then fires it, and what only nearly does."""

    given: Scene
    fires: Scene
    holds_back: Scene
    settings: Settings | None = None


def given(*scenes: Scene) -> Scene:
    """Return the scenes one after another."""
    return lambda story: [scene(story) for scene in scenes]


def at(seconds: float, *happenings: Event) -> Scene:
    """Return a scene at one moment."""
    return lambda story: story.at(seconds, *happenings)


def first(story: Story) -> str:
    """Return the id of the notice that the case is about."""
    return story.notices()[0].id


def intends(seconds: float, session: str = "s0", will: str = "save") -> Scene:
    return lambda story: story.at(seconds, Intended(session, first(story), will))


def acks(seconds: float) -> Scene:
    return lambda story: story.at(seconds, Acked("s0", first(story), 7))


def flushes(seconds: float, *sessions: str) -> Scene:
    return lambda story: story.at(
        seconds, *(flushed(session, first(story)) for session in sessions)
    )


def drains(seconds: float, outcome: str) -> Scene:
    return lambda story: story.at(seconds, DrainEnded(first(story), outcome))


WATCHING = Settings(acts=False)
SAYS_WHEN_DONE = Settings(acknowledges=frozenset({"azure"}))
WATCHES_A_SHUTDOWN = Settings(acts=False, acknowledges=frozenset({"shutdown"}))
ONLY_SHOWS_A_SHUTDOWN = Settings(
    policy=Policy((Rule(kind="shutdown", stance=Stance.INFORM),)),
    acknowledges=frozenset({"shutdown"}),
)
SHOWN_FOR_A_MINUTE = Settings(
    policy=Policy((Rule(kind="rebalance", stance=Stance.INFORM, expires_seconds=60),))
)
SOON_OVER = Settings(policy=Policy((Rule(kind="preemption", expires_seconds=100),)))

TWO_HERE = at(0, joined("s0", rank=0), joined("s1", rank=1))
TAKEN_BACK_SOON = at(1, SPOT.shows(spot(120)))
TWO_LOOKS_WITHOUT = at(50, SPOT.shows(), SPOT.shows())
A_THIRD = at(51, SPOT.shows())
A_THIRD_OF_ANOTHER_SCOPE = at(51, REBALANCE.shows())
A_REAL_NOTICE = at(20, SPOT.shows(spot(400)))
AN_ADVICE = at(20, REBALANCE.shows(rebalance()))

A_SHUTDOWN = at(1, LOGIND.shows(shutdown(60)))
A_SHUTDOWN_THAT_DOES_NOT_WAIT = at(0, LOGIND.shows(shutdown(60, acknowledgeable=False)))

gone = given(TWO_LOOKS_WITHOUT, A_THIRD), given(TWO_LOOKS_WITHOUT, A_THIRD_OF_ANOTHER_SCOPE)
superseded = A_REAL_NOTICE, at(20, SCHEDULED.shows(scheduled(starts_at=86400)))
expired = at(1800), at(1799.9)
overdue = at(120), at(119.9)
passed = at(125), at(124.9)

told = given(TWO_HERE, TAKEN_BACK_SOON)
flushing = given(told, intends(2))
draining = given(told, flushes(30, "s0", "s1"))
going_down = given(TWO_HERE, A_SHUTDOWN)
advised = given(TWO_HERE, at(0, REBALANCE.shows(rebalance())))
advised_and_flushing = given(advised, intends(2))
rehearsing = given(TWO_HERE, at(1, drill()))
rehearsing_flush = given(rehearsing, intends(2))
rehearsing_drain = given(TWO_HERE, at(1, drill(drain=True)), flushes(5, "s0", "s1"))

CASES: dict[tuple[Phase, str], Case] = {
    (Phase.SEEN, "gone"): Case(
        at(0, SCHEDULED.shows(scheduled(starts_at=86400))),
        at(1, SCHEDULED.shows()),
        at(1, SPOT.shows()),
    ),
    (Phase.SEEN, "expired"): Case(
        at(0, REBALANCE.shows(rebalance())), at(60), at(59.9), SHOWN_FOR_A_MINUTE
    ),
    (Phase.SEEN, "joins"): Case(
        given(
            TWO_HERE,
            at(0, SCHEDULED.shows(scheduled(starts_at=1000))),
            at(50, SPOT.shows(spot(400))),
        ),
        at(100),
        at(99.9),
    ),
    (Phase.SEEN, "due"): Case(
        given(TWO_HERE, at(0, SCHEDULED.shows(scheduled(starts_at=1000)))), at(100), at(99.9)
    ),
    (Phase.SEEN, "ready_to_go"): Case(
        A_SHUTDOWN_THAT_DOES_NOT_WAIT,
        A_SHUTDOWN,
        A_SHUTDOWN_THAT_DOES_NOT_WAIT,
        ONLY_SHOWS_A_SHUTDOWN,
    ),
    (Phase.TOLD, "gone"): Case(told, *gone),
    (Phase.TOLD, "superseded"): Case(advised, *superseded),
    (Phase.TOLD, "expired"): Case(advised, *expired),
    (Phase.TOLD, "flushes_over"): Case(told, flushes(5, "s0", "s1"), flushes(5, "s0"), WATCHING),
    (Phase.TOLD, "overdue"): Case(told, *overdue, WATCHING),
    (Phase.TOLD, "passed"): Case(told, *passed, WATCHING),
    (Phase.TOLD, "rehearsed"): Case(rehearsing, flushes(5, "s0", "s1"), flushes(5, "s0")),
    (Phase.TOLD, "flushed"): Case(told, flushes(5, "s0", "s1"), flushes(5, "s0")),
    (Phase.TOLD, "begun"): Case(told, intends(5), acks(5)),
    (Phase.TOLD, "ready_to_go"): Case(
        going_down, flushes(5, "s0", "s1"), flushes(5, "s0"), WATCHES_A_SHUTDOWN
    ),
    (Phase.FLUSHING, "gone"): Case(flushing, *gone),
    (Phase.FLUSHING, "superseded"): Case(advised_and_flushing, *superseded),
    (Phase.FLUSHING, "expired"): Case(advised_and_flushing, *expired),
    (Phase.FLUSHING, "flushes_over"): Case(flushing, at(110), at(109.9), WATCHING),
    (Phase.FLUSHING, "overdue"): Case(flushing, *overdue, WATCHING),
    (Phase.FLUSHING, "passed"): Case(flushing, *passed, WATCHING),
    (Phase.FLUSHING, "rehearsed"): Case(rehearsing_flush, flushes(5, "s0", "s1"), flushes(5, "s0")),
    (Phase.FLUSHING, "flushed"): Case(flushing, at(110), at(109.9)),
    (Phase.FLUSHING, "ready_to_go"): Case(
        given(going_down, intends(2)), flushes(5, "s0", "s1"), flushes(5, "s0"), WATCHES_A_SHUTDOWN
    ),
    (Phase.DRAINING, "gone"): Case(draining, *gone),
    (Phase.DRAINING, "superseded"): Case(rehearsing_drain, A_REAL_NOTICE, AN_ADVICE),
    (Phase.DRAINING, "expired"): Case(
        given(TWO_HERE, at(0, SPOT.shows(spot(120))), flushes(30, "s0", "s1")),
        at(100),
        at(99.9),
        SOON_OVER,
    ),
    (Phase.DRAINING, "overdue"): Case(
        given(flushing, flushes(30, "s0"), at(115)), at(120), given(flushes(116, "s1"), at(120))
    ),
    (Phase.DRAINING, "passed"): Case(draining, *passed),
    (Phase.DRAINING, "rehearsed"): Case(
        rehearsing_drain, drains(6, "drained"), at(6, DrainEnded("another", "drained"))
    ),
    (Phase.DRAINING, "ready_to_go"): Case(
        given(
            TWO_HERE,
            at(1, EVENTS.shows(azure("Preempt", 30, acknowledgeable=True))),
            flushes(5, "s0", "s1"),
        ),
        drains(6, "drained"),
        drains(6, "incomplete"),
        SAYS_WHEN_DONE,
    ),
}

ROWS = {(phase, row.when.__name__): row for phase, rows in TABLE.items() for row in rows}
EVERY_ROW = pytest.mark.parametrize(
    ("phase", "name"), [pytest.param(*key, id="-".join(key)) for key in ROWS]
)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Phase, str]]:
    """Holds what the table does: the notice, the phase it was in, and the row's condition."""
    taken: list[tuple[str, Phase, str]] = []

    def watched(row: Row) -> Row:
        def then(turn: Turn, notice: Notice) -> Notice:
            taken.append((notice.id, notice.phase, row.when.__name__))
            return row.then(turn, notice)

        return replace(row, then=then)

    for phase, rows in TABLE.items():
        monkeypatch.setitem(TABLE, phase, tuple(watched(row) for row in rows))
    return taken


def test_every_row_has_a_case() -> None:
    assert list(CASES) == list(ROWS)


@EVERY_ROW
def test_a_row_fires_when_its_condition_holds(
    phase: Phase, name: str, taken: list[tuple[str, Phase, str]]
) -> None:
    case = CASES[phase, name]
    story = Story(case.settings)
    case.given(story)
    notice_id = first(story)
    assert story.node.notices[notice_id].phase is phase
    assert (notice_id, phase, name) not in taken

    case.fires(story)

    assert (notice_id, phase, name) in taken
    to = ROWS[phase, name].to
    assert story.node.notices[notice_id].phase is (to or phase)


@EVERY_ROW
def test_a_row_holds_back_while_its_condition_only_nearly_holds(
    phase: Phase, name: str, taken: list[tuple[str, Phase, str]]
) -> None:
    case = CASES[phase, name]
    story = Story(case.settings)
    case.given(story)
    notice_id = first(story)

    case.holds_back(story)

    assert (notice_id, phase, name) not in taken
    assert story.node.notices[notice_id].phase is phase


def test_nothing_leads_out_of_an_end() -> None:
    assert TABLE[Phase.DONE] == TABLE[Phase.WITHDRAWN] == ()
