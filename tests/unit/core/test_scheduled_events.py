"""Events planned days ahead: seen at once, answered in their time, and not again after it."""

from __future__ import annotations

from lastcall.core.commands import CallOff, Cordon, Drain, Tell, Uncordon
from lastcall.core.events import CordonEnded, Rebooted, UncordonEnded
from lastcall.core.facts import FlushSettled, NoticeEnded, NoticeSeen
from lastcall.core.model import Action, Phase
from lastcall.core.policy import Rule
from support.happenings import (
    SCHEDULED,
    flushed,
    joined,
    scheduled,
)
from support.story import a_node, ruled

DAY = 86400.0


def test_an_event_in_three_days_is_seen_and_told_a_quarter_of_an_hour_before() -> None:
    story = a_node()

    decided = story.at(0, SCHEDULED.shows(scheduled(starts_at=3 * DAY)))

    assert decided.fact(NoticeSeen).lead_seconds == 3 * DAY
    assert decided.commands(Tell) == decided.commands(Cordon) == []
    assert story.phase is Phase.SEEN
    assert story.at(3 * DAY - 900.1).commands(Tell) == []
    decided = story.at(3 * DAY - 900)
    assert decided.command(Tell).notice.deadline == 3 * DAY
    assert decided.commands(Cordon)


def test_a_rule_can_have_a_planned_end_answered_at_first_sight() -> None:
    story = a_node(ruled(Rule(code="instance-retirement", act_before_seconds=30 * DAY)))
    retirement = scheduled(14 * DAY, "e1", "instance-retirement", Action.TERMINATE)
    reboot = scheduled(14 * DAY, "e2", "system-reboot")

    decided = story.at(0, SCHEDULED.shows(retirement, reboot))

    assert decided.command(Tell).notice.action == "terminate"
    assert decided.commands(Cordon)
    assert [notice.phase for notice in story.notices()] == [Phase.TOLD, Phase.SEEN]


def test_an_event_that_is_canceled_before_anyone_was_told_ends_in_silence() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=3 * DAY)))

    decided = story.at(DAY, SCHEDULED.shows())

    assert decided.fact(NoticeEnded).ending == "withdrawn"
    assert decided.commands(CallOff) == decided.commands(Uncordon) == []


def test_one_event_listed_for_a_day_is_one_notice_and_one_flush() -> None:
    story = a_node()

    for second in range(0, int(DAY), 60):
        story.at(second, SCHEDULED.shows(scheduled(starts_at=1000)))
        if story.node.open_notices and story.notice().phase is Phase.TOLD:
            story.at(second, flushed("s0", story.notice().id))

    assert len(story.decided.facts(NoticeSeen)) == len(story.decided.facts(FlushSettled)) == 1
    assert len(story.decided.commands(Tell)) == 1
    assert story.notice().ending == "passed"


def test_of_several_events_each_waits_for_its_own_time() -> None:
    story = a_node()
    near, far = scheduled(2000, "near"), scheduled(9 * DAY, "far")
    story.at(0, SCHEDULED.shows(near, far))

    story.at(1100)

    assert [notice.phase for notice in story.notices()] == [Phase.TOLD, Phase.SEEN]


def test_an_event_with_no_readable_time_is_shown_and_not_acted_upon() -> None:
    story = a_node()

    decided = story.at(0, SCHEDULED.shows(scheduled(starts_at=None)))

    assert decided.fact(NoticeSeen).lead_seconds is None
    assert story.at(30 * DAY).commands(Tell) == []
    assert story.machine.wake_at(story.node, story.now) is None


def test_after_its_reboot_an_event_still_listed_is_not_answered_again() -> None:
    story = a_node()
    reboot = scheduled(starts_at=5000)
    story.at(4200, SCHEDULED.shows(reboot))
    story.at(4201, CordonEnded(story.notice().id, cordoned=True))

    decided = story.at(60, Rebooted(), joined("s0"), SCHEDULED.shows(reboot))

    assert decided.commands(Tell) == decided.commands(Drain) == decided.commands(Cordon) == []
    uncordon = decided.command(Uncordon)
    story.at(61, UncordonEnded(uncordon.id, uncordoned=True))
    for second in range(62, 4000, 60):
        assert story.at(second, SCHEDULED.shows(reboot)) == []


def test_after_its_reboot_an_event_that_moves_later_is_answered_again() -> None:
    story = a_node()
    story.at(4200, SCHEDULED.shows(scheduled(starts_at=5000)))
    story.at(60, Rebooted(), joined("s0"), SCHEDULED.shows(scheduled(starts_at=5000)))

    decided = story.at(70, SCHEDULED.shows(scheduled(starts_at=5600)))

    assert decided.fact(NoticeSeen).lead_seconds == 5530
    assert story.at(4700).command(Tell).notice.deadline == 5600


def test_a_reboot_whose_time_had_passed_gives_the_node_back() -> None:
    story = a_node()
    reboot = scheduled(starts_at=5000)
    story.at(4200, SCHEDULED.shows(reboot))
    story.at(4201, CordonEnded(story.notice().id, cordoned=True))
    story.at(5005)
    assert story.notice().ending == "passed"
    assert story.decided.commands(Uncordon) == []

    assert story.at(60, Rebooted()).commands(Uncordon)


def test_an_event_seen_but_not_told_before_a_reboot_is_seen_anew() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=3 * DAY)))
    name = story.notice().id

    ended = story.at(60, Rebooted()).fact(NoticeEnded)
    seen = story.at(61, SCHEDULED.shows(scheduled(starts_at=3 * DAY))).fact(NoticeSeen)

    assert ended.notice.id == seen.notice.id == name
    assert story.phase is Phase.SEEN


def test_a_canceled_event_leaves_an_operators_cordon_alone() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(2, SCHEDULED.shows()).commands(Uncordon)
    story.at(3, UncordonEnded(name, uncordoned=True))

    for second in range(4, 3600, 2):
        assert story.at(second, SCHEDULED.shows()).commands(Uncordon) == []
