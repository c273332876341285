"""When the machine asks to be woken: never in the past, never for ever, and never without need."""

from __future__ import annotations

from lastcall.core.events import CordonEnded, Tick, UncordonEnded
from lastcall.core.machine import Machine
from lastcall.core.model import Action, Node
from lastcall.core.turn import Settings
from support.happenings import (
    MAINTENANCE,
    REBALANCE,
    SCHEDULED,
    SPOT,
    flushed,
    host_maintenance,
    joined,
    lost,
    rebalance,
    scheduled,
    spot,
)
from support.story import Story, a_node


def moments(story: Story) -> list[float]:
    """Return when the machine wakes by itself, until it has nothing to wait for."""
    machine, node, now = story.machine, story.node, story.now
    seen: list[float] = []
    while (moment := machine.wake_at(node, now)) is not None:
        assert moment > now
        assert len(seen) < 100
        now = moment
        seen.append(moment)
        node, _ = machine.handle(node, Tick(), now)
    return seen


def test_an_empty_node_sleeps() -> None:
    assert Machine(Settings()).wake_at(Node(), 0.0) is None


def test_a_notice_is_woken_for_its_budget_its_deadline_and_its_end() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert moments(story) == [110, 120, 125]


def test_a_planned_event_is_woken_for_when_it_is_to_be_told() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=10_000)))

    assert moments(story) == [9100, 9990, 10_000, 10_005]


def test_a_notice_that_is_told_late_still_has_its_time_to_report() -> None:
    story = a_node()
    story.at(100, SPOT.shows(spot(ends_at=90)))

    assert moments(story) == [105]


def test_an_advice_is_woken_for_its_end() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance()))

    assert moments(story) == [1800]


def test_what_is_only_shown_wakes_nobody() -> None:
    story = a_node()

    story.at(0, MAINTENANCE.shows(host_maintenance("MIGRATE_ON_HOST_MAINTENANCE")))

    assert moments(story) == []


def test_what_has_ended_wakes_nobody() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120, action=Action.STOP)))
    story.at(1, flushed("s0", story.notice().id), SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert moments(story) == []


def test_a_client_that_is_away_is_forgotten_in_time() -> None:
    story = a_node()
    story.at(5, lost("s0"))

    assert moments(story) == [65]


def test_a_client_that_is_away_and_awaited_does_not_keep_the_machine_awake() -> None:
    story = a_node()
    story.at(0, joined("s1", rank=1), SPOT.shows(spot(ends_at=120)), lost("s0"))

    assert moments(story) == [60, 110, 120, 125]


def test_a_cordon_that_could_not_be_lifted_is_woken_for() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True), SPOT.shows(), SPOT.shows(), SPOT.shows())
    assert story.machine.wake_at(story.node, story.now) is None

    story.at(2, UncordonEnded(name, uncordoned=False, detail="503"))

    assert moments(story) == [12]
