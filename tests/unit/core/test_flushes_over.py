"""When flushes are over is made known once, and so is that the machine goes on after all."""

from __future__ import annotations

from lastcall.core.commands import Tell
from lastcall.core.events import DrainEnded, HookEnded, Rebooted, SourceReported
from lastcall.core.facts import (
    FlushesOver,
    FlushSettled,
    HookRan,
    NodeDrained,
    NoticeChanged,
    NoticeCleared,
    NoticeEnded,
    NoticeTold,
)
from lastcall.core.model import Phase
from lastcall.core.policy import Rule
from lastcall.core.turn import Settings
from support.happenings import (
    PREEMPTED,
    REBALANCE,
    SCHEDULED,
    SPOT,
    died,
    drill,
    flushed,
    joined,
    preempted,
    rebalance,
    scheduled,
    spot,
)
from support.story import Story, a_node, ruled


def two_here(settings: Settings | None = None) -> Story:
    story = a_node(settings)
    story.at(0, joined("s1", rank=1))
    return story


def test_flushes_are_over_with_the_last_one() -> None:
    story = two_here()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    assert story.at(20, flushed("s0", name)).facts(FlushesOver) == []

    decided = story.at(30, flushed("s1", name))

    fact = decided.fact(FlushesOver)
    assert (fact.notice.id, fact.outcomes, fact.unfinished) == (name, {"in_time": 2}, 0)
    published = [c.fact for c in decided if hasattr(c, "fact")]
    assert published.index(fact) > published.index(decided.fact(FlushSettled))


def test_flushes_are_over_when_their_time_is_up() -> None:
    story = two_here()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    story.at(20, flushed("s0", story.notice().id))
    assert story.at(109.9).facts(FlushesOver) == []

    fact = story.at(110).fact(FlushesOver)

    assert (fact.outcomes, fact.unfinished) == ({"in_time": 1}, 1)


def test_a_process_that_died_is_not_waited_for() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert story.at(5, died("s0")).fact(FlushesOver).outcomes == {"missed": 1}


def test_where_nobody_trains_they_are_over_at_once() -> None:
    decided = Story().at(0, SPOT.shows(spot(ends_at=120)))

    assert decided.fact(NoticeTold).clients == 0
    assert decided.fact(FlushesOver).outcomes == {}


def test_they_are_over_only_once() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(20, flushed("s0", name))

    decided = story.at(21, joined("s1", rank=1))
    decided += story.at(30, flushed("s1", name))
    decided += story.at(130)

    assert [
        fact for c in decided if isinstance(fact := getattr(c, "fact", None), FlushesOver)
    ] == []


def test_it_is_made_known_where_the_agent_only_watches() -> None:
    story = two_here(Settings(acts=False))
    story.at(0, SPOT.shows(spot(ends_at=120)))

    assert story.at(115).fact(FlushesOver).unfinished == 2


def test_it_is_made_known_before_a_drill_is_over() -> None:
    story = a_node()
    story.at(0, drill(lead_seconds=30))

    decided = story.at(5, flushed("s0", story.notice().id))

    assert not decided.fact(FlushesOver).notice.drains
    assert decided.fact(NoticeEnded).ending == "rehearsed"


def test_an_advice_that_all_have_taken_is_over_too() -> None:
    story = a_node()
    story.at(0, REBALANCE.shows(rebalance()))

    decided = story.at(9, flushed("s0", story.notice().id))

    assert decided.fact(FlushesOver).notice.urgency == "soon"


def test_a_notice_that_is_withdrawn_first_never_has_them_over() -> None:
    story = a_node()
    story.at(0, PREEMPTED.shows(preempted()))

    story.at(5, PREEMPTED.shows())
    story.at(60)

    assert story.decided.facts(FlushesOver) == []
    assert story.decided.fact(NoticeEnded).ending == "withdrawn"


def test_a_machine_that_was_held_up_past_the_deadline_says_it_before_the_end() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    story.node, commands = story.machine.handle(story.node, SPOT.shows(spot(ends_at=120)), 500.0)

    said = [type(c.fact) for c in commands if hasattr(c, "fact")]
    assert said.index(FlushesOver) < said.index(NoticeEnded)


# --- the drain ---------------------------------------------------------------------------------


def test_a_drain_that_is_over_first_is_told_with_the_flushes() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    early = story.at(1, DrainEnded(name, "none")).fact(NodeDrained)

    fact = story.at(20, flushed("s0", name)).fact(FlushesOver)

    assert early.notice is not None
    assert early.notice.phase is Phase.TOLD
    assert fact.drained == "none"


def test_a_drain_that_is_over_last_finds_the_notice_draining() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    assert story.at(20, flushed("s0", name)).fact(FlushesOver).drained is None

    fact = story.at(40, DrainEnded(name, "drained")).fact(NodeDrained)

    assert fact.notice is not None
    assert (fact.notice.id, fact.notice.phase) == (name, Phase.DRAINING)


# --- what a notice is seen to be ---------------------------------------------------------------


def test_a_notice_shows_whether_it_was_told_and_whether_the_node_is_drained_for_it() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=86400)))

    unheard = story.at(10, SCHEDULED.shows()).fact(NoticeEnded).notice
    heard = story.at(20, SPOT.shows(spot(ends_at=140))).fact(NoticeTold).notice

    assert (unheard.told, unheard.drains) == (False, True)
    assert (heard.told, heard.drains) == (True, True)


def test_after_a_reboot_a_notice_still_shows_what_it_was() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    fact = story.at(60, Rebooted()).fact(NoticeEnded)

    assert (fact.ending, fact.notice.told, fact.notice.drains) == ("rebooted", True, True)


def test_clients_are_not_told_again_when_only_the_drain_comes_to_it() -> None:
    rule = Rule(source="aws", kind="preemption", drain=False)
    story = a_node(ruled(rule))
    story.at(0, SPOT.shows(spot(ends_at=120)))
    later = SourceReported("aws", "maintenance", (scheduled(starts_at=800),))

    decided = story.at(1, later)

    assert decided.fact(NoticeChanged).notice.drains
    assert decided.commands(Tell) == []


# --- the machine goes on -----------------------------------------------------------------------


def test_a_machine_that_is_still_here_when_its_notice_is_gone_goes_on() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    assert story.at(130).fact(NoticeEnded).ending == "passed"
    assert story.at(131, SPOT.shows(), SPOT.shows()).facts(NoticeCleared) == []

    fact = story.at(132, SPOT.shows()).fact(NoticeCleared)

    assert fact.notice.id == story.notice().id
    assert story.at(133, SPOT.shows()).facts(NoticeCleared) == []


# --- programs of the site's own ----------------------------------------------------------------


def test_what_came_of_a_site_s_program_is_made_known_and_changes_nothing() -> None:
    story = a_node()
    before = story.node

    decided = story.at(
        1, HookEnded("n-1", "on_notice", 1, "/site/drain", "failed", 3, 0.5, "no such node")
    )

    assert decided.fact(HookRan) == HookRan(
        "n-1", "on_notice", 1, "/site/drain", "failed", 3, 0.5, "no such node"
    )
    assert story.node is before
