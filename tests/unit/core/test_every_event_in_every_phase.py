"""Whatever happens, in whatever phase a notice is: it is answered, and what was known stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lastcall.core import events
from lastcall.core.commands import CallOff, Command, Confirm, Cordon, Greet, Publish, Refuse, Tell
from lastcall.core.events import (
    Acked,
    AcknowledgeEnded,
    AllTold,
    BackendChecked,
    Beat,
    CheckpointReported,
    ClientJoined,
    ClientLeft,
    CordonEnded,
    CordonFound,
    CordonLifted,
    CordonMissing,
    DrainEnded,
    DrillRequested,
    Event,
    EvictionReported,
    FlushFailed,
    FlushReported,
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuWatchRequested,
    GpuXidCounted,
    HookEnded,
    IdentityLearned,
    Intended,
    ProcessDied,
    Progressed,
    ProvidersFound,
    Rebooted,
    Restored,
    ResumeReported,
    SourcePolled,
    SourceReported,
    Started,
    Tick,
    UncordonEnded,
)
from lastcall.core.gpu.model import Gpu, Health, Holder, Verdict, WatchState
from lastcall.core.machine import EVENTS, TABLE
from lastcall.core.model import Node, Phase
from support.happenings import (
    SCHEDULED,
    SPOT,
    TARGET_STATE,
    drill,
    flushed,
    joined,
    left,
    scheduled,
    spot,
)
from support.story import Decided, Story

LATER = 60.0


def seen(story: Story) -> None:
    story.at(0, SCHEDULED.shows(scheduled(starts_at=86400)))


def told(story: Story) -> None:
    story.at(0, SPOT.shows(spot(ends_at=120)))


def flushing(story: Story) -> None:
    told(story)
    story.at(1, Intended("s0", story.notice().id, "save"))


def draining(story: Story) -> None:
    flushing(story)
    name = story.notice().id
    story.at(2, CordonEnded(name, cordoned=True))
    story.at(30, flushed("s0", name), flushed("s1", name))


def done(story: Story) -> None:
    story.at(0, SPOT.shows(spot(ends_at=30)))
    story.at(40)


def withdrawn(story: Story) -> None:
    told(story)
    story.at(2, SPOT.shows(), SPOT.shows(), SPOT.shows())


ARRANGED: dict[Phase, Callable[[Story], None]] = {
    Phase.SEEN: seen,
    Phase.TOLD: told,
    Phase.FLUSHING: flushing,
    Phase.DRAINING: draining,
    Phase.DONE: done,
    Phase.WITHDRAWN: withdrawn,
}

# With the session "s0" and the id "ID", which stand for a client and a notice that are known.
EXAMPLES: dict[type[Event], Event] = {
    Started: Started(),
    Restored: Restored(Node()),
    Rebooted: Rebooted(),
    Tick: Tick(),
    ProvidersFound: ProvidersFound(("aws",), "dmi: Amazon EC2"),
    IdentityLearned: IdentityLearned("aws", (("instance_type", "p5.48xlarge"),)),
    SourcePolled: SourcePolled("aws", "timeout", "spot/instance-action"),
    SourceReported: SPOT.shows(spot(ends_at=90)),
    GpuWatchChanged: GpuWatchChanged(state=WatchState.WATCHING),
    GpuJudged: GpuJudged(Gpu("GPU-1", 0), Verdict(Health.HEALTHY)),
    GpuGone: GpuGone("GPU-1"),
    GpuXidCounted: GpuXidCounted("GPU-1", 31, 2),
    GpuHoldersSeen: GpuHoldersSeen((Holder(4711, ("GPU-1",), "python train.py"),)),
    GpuWatchRequested: GpuWatchRequested("s0", watched=False),
    ClientJoined: joined("s2", rank=2),
    ClientLeft: left("s0"),
    ProcessDied: ProcessDied("process of s0"),
    Acked: Acked("s0", "ID", 7),
    Intended: Intended("s0", "ID", "save", 8),
    Progressed: Progressed("s0", "ID", "writing", 1, 2),
    FlushReported: flushed("s0", "ID"),
    FlushFailed: FlushFailed("s0", "ID", "disk full"),
    CheckpointReported: CheckpointReported(session="s0", step=5, durable_seconds=3.0),
    ResumeReported: ResumeReported(session="s0", step=5, lost_steps=2),
    Beat: Beat("s0", 6, "step"),
    DrillRequested: drill(),
    AllTold: AllTold("ID", 2),
    CordonEnded: CordonEnded("ID", cordoned=True),
    UncordonEnded: UncordonEnded("ID", uncordoned=True),
    CordonFound: CordonFound("ID", "made before the journal was lost"),
    CordonLifted: CordonLifted("ID", "kubectl"),
    CordonMissing: CordonMissing("the node object was made anew"),
    EvictionReported: EvictionReported("ID", "default/web-0", "evicted"),
    BackendChecked: BackendChecked(up=True, rights=(("patch nodes", True),)),
    DrainEnded: DrainEnded("ID", "drained"),
    HookEnded: HookEnded("ID", "on_notice", 0, "/usr/bin/nomad", "ok", 0, 0.5),
    AcknowledgeEnded: AcknowledgeEnded("ID", accepted=True),
}


def a_node(phase: Phase) -> Story:
    story = Story()
    story.at(0, joined("s0", rank=0), joined("s1", rank=1))
    ARRANGED[phase](story)
    assert story.phase is phase
    return story


def about(event: Event, notice_id: str, session: str = "s0") -> Event:
    """Return the event with this notice and this session, where it names such."""
    changes: dict[str, Any] = {"id": notice_id} if hasattr(event, "id") else {}
    if hasattr(event, "session") and not isinstance(event, ClientJoined):
        changes["session"] = session
    return replace(event, **changes)


def order(command: Command) -> int:
    if isinstance(command, (Tell, CallOff, Greet)):
        return 0
    if isinstance(command, (Confirm, Refuse)):
        return 1
    return 2 if isinstance(command, Cordon) else 3


EVERY_PAIR = pytest.mark.parametrize(
    ("phase", "kind"), [pytest.param(p, k, id=f"{p}-{k.__name__}") for p in Phase for k in EVENTS]
)


def test_there_is_an_example_of_every_event_and_a_way_into_every_phase() -> None:
    named = {each for each in vars(events).values() if isinstance(each, type)}
    assert set(EXAMPLES) == set(EVENTS) == {each for each in named if each.__base__ is Event}
    assert set(ARRANGED) == set(TABLE) == set(Phase)


@EVERY_PAIR
def test_an_event_is_answered_and_the_node_that_came_in_stays_as_it_was(
    phase: Phase, kind: type[Event]
) -> None:
    story = a_node(phase)
    event = about(EXAMPLES[kind], story.notice().id)
    before, shown = copy.deepcopy(story.node), repr(story.node)

    after, commands = story.machine.handle(story.node, event, LATER)

    assert (story.node, repr(story.node)) == (before, shown)
    assert isinstance(after, Node)
    assert [order(command) for command in commands] == sorted(map(order, commands))


@EVERY_PAIR
def test_the_same_event_is_answered_in_the_same_way(phase: Phase, kind: type[Event]) -> None:
    story = a_node(phase)
    event = about(EXAMPLES[kind], story.notice().id)

    first = story.machine.handle(story.node, event, LATER)
    second = story.machine.handle(story.node, event, LATER)

    assert first == second


@EVERY_PAIR
def test_an_event_leaves_nothing_that_a_moment_later_would_be_decided_anyway(
    phase: Phase, kind: type[Event]
) -> None:
    story = a_node(phase)
    event = about(EXAMPLES[kind], story.notice().id)
    after, _ = story.machine.handle(story.node, event, LATER)
    after, _ = story.machine.handle(after, Tick(), LATER)

    again, commands = story.machine.handle(after, Tick(), LATER)

    assert again is after
    assert commands == []


OF_A_SESSION = [kind for kind in EVENTS if "session" in kind.__dataclass_fields__]
OF_A_NOTICE = [kind for kind in EVENTS if "id" in kind.__dataclass_fields__]
OPENS = (ClientJoined, DrillRequested, GpuWatchRequested)
"""Who says it need be no client."""


@pytest.mark.parametrize("kind", [kind for kind in OF_A_SESSION if kind not in OPENS])
@pytest.mark.parametrize("phase", Phase)
def test_a_session_that_is_not_known_changes_nothing(phase: Phase, kind: type[Event]) -> None:
    story = a_node(phase)
    event = about(EXAMPLES[kind], story.notice().id, session="nobody")

    after, commands = story.machine.handle(story.node, event, LATER)

    assert after is story.node
    assert not Decided(commands).commands(Publish)


@pytest.mark.parametrize("kind", OF_A_NOTICE)
@pytest.mark.parametrize("phase", Phase)
def test_a_notice_that_is_not_known_changes_nothing(phase: Phase, kind: type[Event]) -> None:
    story = a_node(phase)

    after, _ = story.machine.handle(story.node, about(EXAMPLES[kind], "no-such-id"), LATER)

    assert after.notices is story.node.notices


@pytest.mark.parametrize("kind", [Acked, Intended, Progressed, FlushReported, FlushFailed])
@pytest.mark.parametrize("notice_id", ["no-such-id", "x" * 4096])
def test_a_client_that_speaks_of_no_notice_is_told_so(kind: type[Event], notice_id: str) -> None:
    story = a_node(Phase.TOLD)

    refusal = story.at(1, about(EXAMPLES[kind], notice_id)).command(Refuse)

    assert (refusal.session, refusal.code) == ("s0", "unknown_id")
    assert len(refusal.message) < 120


def test_a_notice_that_was_not_told_yet_is_none_to_speak_of() -> None:
    story = a_node(Phase.SEEN)

    decided = story.at(1, flushed("s0", story.notice().id))

    assert decided.command(Refuse).code == "unknown_id"


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(Tick(), id="a moment"),
        pytest.param(SPOT.shows(spot(ends_at=120)), id="what is known already"),
        pytest.param(SPOT.shows(spot(ends_at=120.9)), id="a deadline that hardly moved"),
        pytest.param(TARGET_STATE.shows(), id="a scope that is empty"),
        pytest.param(ProcessDied("process of nobody"), id="the death of a stranger"),
        pytest.param(CordonLifted("aws-1"), id="a cordon of another notice that was lifted"),
        pytest.param(EvictionReported("aws-1", "default/web-0", "gone"), id="a pod that left"),
        pytest.param(AcknowledgeEnded("aws-1", accepted=False), id="a provider that declines"),
        pytest.param(AllTold("aws-1", 1), id="word that all were told"),
        pytest.param(drill(), id="a drill while it is serious"),
    ],
)
def test_what_changes_nothing_gives_the_same_node_back(event: Event) -> None:
    story = a_node(Phase.TOLD)

    after, _ = story.machine.handle(story.node, event, LATER)

    assert after is story.node


def test_looking_at_nothing_for_hours_gives_the_same_node_back() -> None:
    story = Story()
    story.at(0, Started(), joined("s0"))
    node = story.node

    for second in range(1, 10_000):
        story.at(second, SPOT.shows())

    assert story.node is node
    assert story.at(10_000, SPOT.shows()) == []
