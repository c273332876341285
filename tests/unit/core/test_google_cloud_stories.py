"""What Google Cloud says, and what becomes of it."""

from __future__ import annotations

import pytest

from lastcall.core.commands import CallOff, Cordon, Tell, Uncordon
from lastcall.core.events import CordonEnded, Started
from lastcall.core.facts import NoticeChanged, NoticeEnded, NoticeSeen
from lastcall.core.model import DeadlineQuality, Phase
from lastcall.core.policy import Policy
from lastcall.core.turn import Settings
from support.happenings import (
    LOGIND,
    MAINTENANCE,
    PREEMPTED,
    host_maintenance,
    joined,
    preempted,
    shutdown,
)
from support.story import a_node

HOUR = 3600.0


def test_another_key_that_says_none_takes_no_preemption_back() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))
    story.at(1, CordonEnded(story.notice().id, cordoned=True))

    decided = story.at(2, MAINTENANCE.shows())

    assert decided == []
    assert story.notice().open


def test_a_preemption_names_no_time_and_is_given_the_shortest_that_google_states() -> None:
    story = a_node()

    shown = story.at(0, PREEMPTED.shows(preempted())).command(Tell).notice

    assert (shown.deadline, shown.deadline_unix) == (30, None)
    assert shown.deadline_quality is DeadlineQuality.ASSUMED
    assert shown.flush_until == 20


@pytest.mark.parametrize(
    ("assumed", "deadline"),
    [({"gcp": 120.0}, 120), ({"gcp.preemption": 90.0, "gcp": 120.0}, 90), ({"azure": 9.0}, 30)],
)
def test_a_machine_with_longer_notice_uses_all_of_it(
    assumed: dict[str, float], deadline: float
) -> None:
    story = a_node(Settings(policy=Policy(assumed_lead_seconds=assumed)))

    story.at(0, PREEMPTED.shows(preempted()))

    assert story.notice().deadline == deadline
    story.at(deadline + 4.9)
    assert story.notice().open


def test_a_restart_leaves_an_assumed_deadline_where_it_was() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))
    name = story.notice().id

    decided = story.at(
        12, Started(), joined("s1", process="process of s0"), PREEMPTED.shows(preempted())
    )

    assert story.notice().deadline == 30
    assert story.notice().id == name
    assert decided.commands(Tell) == decided.facts(NoticeSeen) == []


def test_a_shutdown_before_the_preemption_is_known_is_one_notice() -> None:
    story = a_node()
    story.at(0, LOGIND.shows(shutdown()))

    decided = story.at(4, PREEMPTED.shows(preempted()))

    notice = story.notice()
    assert notice.lead.sighting.source == "shutdown"
    assert notice.first_seen == 0
    assert notice.deadline == 5
    assert decided.facts(NoticeSeen) == []
    assert decided.fact(NoticeChanged).notice.sources == ("shutdown", "gcp")


def test_a_preemption_then_a_shutdown_keeps_the_earlier_deadline() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))

    story.at(4, LOGIND.shows(shutdown()))

    notice = story.notice()
    assert notice.lead.sighting.source == "gcp"
    assert notice.deadline == 9


def test_the_notice_stands_while_any_that_raised_it_still_does() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))
    story.at(1, LOGIND.shows(shutdown()))

    story.at(2, PREEMPTED.shows())
    assert story.notice().open

    assert story.at(3, LOGIND.shows()).fact(NoticeEnded).ending == "withdrawn"


def test_a_live_migration_is_shown_and_nobody_is_told() -> None:
    story = a_node()

    decided = story.at(0, MAINTENANCE.shows(host_maintenance("MIGRATE_ON_HOST_MAINTENANCE")))

    assert decided.facts(NoticeSeen)
    assert decided.commands(Tell) == decided.commands(Cordon) == []
    assert story.phase is Phase.SEEN


def test_a_gpu_machine_has_an_hour_before_its_host_is_maintained() -> None:
    story = a_node()
    story.at(0, MAINTENANCE.shows(host_maintenance("MIGRATE_ON_HOST_MAINTENANCE")))

    decided = story.at(5, MAINTENANCE.shows(host_maintenance("TERMINATE_ON_HOST_MAINTENANCE")))
    real = decided.command(Tell).notice
    story.at(6, CordonEnded(real.id, cordoned=True))

    assert real.deadline == 5 + HOUR
    decided = story.at(60, MAINTENANCE.shows())
    assert decided.command(CallOff).id == real.id
    assert decided.commands(Uncordon)


def test_back_to_none_leaves_a_node_that_was_not_cordoned_by_us_alone() -> None:
    story = a_node()
    story.at(0, MAINTENANCE.shows(host_maintenance("TERMINATE_ON_HOST_MAINTENANCE")))

    assert story.at(60, MAINTENANCE.shows()).commands(Uncordon) == []
