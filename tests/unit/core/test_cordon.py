"""The cordon: taken with a notice that drains, given back once, and never one of another's."""

from __future__ import annotations

from lastcall.core.commands import Cordon, Drain, StopDrain, Uncordon
from lastcall.core.cordon import CORDON_AGAIN_SECONDS, FOUND_SECONDS, GIVE_BACK_AGAIN_SECONDS
from lastcall.core.events import (
    CordonEnded,
    CordonFound,
    CordonLifted,
    CordonMissing,
    ProvidersFound,
    SourcePolled,
    Started,
    UncordonEnded,
)
from lastcall.core.facts import Cordoned, CordonLost, NodeDrained, Overruled
from lastcall.core.turn import Settings
from support.happenings import SCHEDULED, SPOT, drill, scheduled, spot
from support.story import Story, a_node


def test_the_cordon_is_given_back_once_and_only_after_the_provider_lets_go() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(200, SPOT.shows(spot(ends_at=120))).commands(Uncordon) == []

    story.at(201, SPOT.shows(), SPOT.shows(), SPOT.shows())
    story.at(202, UncordonEnded(name, uncordoned=True))
    story.at(900, SPOT.shows())

    assert len(story.decided.commands(Uncordon)) == 1
    assert story.node.cordoned_for is None


def test_a_node_that_was_cordoned_by_another_is_not_given_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    foreign = CordonEnded(story.notice().id, cordoned=False, detail="by an admin", foreign=True)
    assert story.at(1, foreign).fact(Cordoned).foreign

    story.at(10, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert len(story.decided.commands(Cordon)) == 1
    assert story.decided.commands(Uncordon) == []


def test_a_node_that_was_cordoned_by_another_is_drained_all_the_same() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    decided = story.at(1, CordonEnded(story.notice().id, cordoned=False, foreign=True))

    assert decided.commands(StopDrain) == []


def test_a_cordon_that_could_not_be_had_is_tried_again_for_as_long_as_it_is_wanted() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    failed = 0.0
    for pause in (*CORDON_AGAIN_SECONDS, CORDON_AGAIN_SECONDS[-1]):
        failed += 1
        story.at(failed, CordonEnded(name, cordoned=False, detail="503"))
        assert story.at(failed + pause - 0.1).commands(Cordon) == []
        failed += pause
        assert story.at(failed).command(Cordon).notice.id == name
    assert len(story.decided.facts(Cordoned)) == 1, "the same trouble again is no news"

    story.at(30, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert story.at(31, CordonEnded(name, cordoned=False)).commands(Cordon) == []
    assert story.at(100).commands(Cordon) == []


def test_the_marks_of_a_drill_are_renewed_for_the_notice_that_takes_its_place() -> None:
    story = a_node()
    story.at(0, drill(300.0, drain=True))
    rehearsal = story.notice().id
    story.at(1, CordonEnded(rehearsal, cordoned=True))

    decided = story.at(2, SPOT.shows(spot(ends_at=122)))

    assert decided.command(Cordon).notice.id == story.notices("aws")[0].id
    assert decided.commands(Uncordon) == []


def test_a_cordon_that_ends_after_the_withdrawal_is_given_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    assert story.at(1, SPOT.shows(), SPOT.shows(), SPOT.shows()).commands(Uncordon) == []

    assert story.at(2, CordonEnded(name, cordoned=True)).command(Uncordon).id == name


def test_lifting_a_cordon_is_tried_again_after_a_pause_for_as_long_as_it_takes() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    story.at(10, SPOT.shows(), SPOT.shows(), SPOT.shows())

    for attempt in range(1, 20):
        moment = 10 + attempt * (GIVE_BACK_AGAIN_SECONDS + 1) - 1
        decided = story.at(moment, UncordonEnded(name, uncordoned=False, detail="503"))
        assert decided.commands(Uncordon) == []
        assert story.at(moment + GIVE_BACK_AGAIN_SECONDS - 0.1).commands(Uncordon) == []
        assert story.at(moment + GIVE_BACK_AGAIN_SECONDS).command(Uncordon).id == name


def test_a_notice_that_comes_while_the_cordon_is_lifted_has_it_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(10, SPOT.shows(), SPOT.shows(), SPOT.shows()).commands(Uncordon)

    assert story.at(11, SPOT.shows(spot(ends_at=131))).commands(Cordon) == []
    decided = story.at(12, UncordonEnded(name, uncordoned=True))

    assert decided.command(Cordon).notice.id == story.notices()[-1].id


def found_by(story: Story, now: float) -> str:
    """Have the node's own marks tell of a cordon that the journal knows nothing of."""
    story.at(now, Started(), CordonFound("aws-preemption-0", "made before the journal was lost"))
    return "aws-preemption-0"


def test_a_cordon_of_a_lost_journal_is_given_back_once_every_provider_has_answered() -> None:
    story = Story()
    name = found_by(story, 0)
    story.at(1, ProvidersFound(("aws",), "configured"), SourcePolled("aws", "timeout", "spot"))
    assert story.at(300).commands(Uncordon) == []

    decided = story.at(301, SourcePolled("aws", "ok", "spot"), SPOT.shows())

    assert decided.command(Uncordon).id == name
    story.at(302, UncordonEnded(name, uncordoned=True))
    assert story.node.cordoned_for is None


def test_a_cordon_of_a_lost_journal_waits_for_every_path_that_may_have_asked_for_it() -> None:
    story = Story()
    name = found_by(story, 0)
    story.at(1, ProvidersFound(("aws",), "configured"), SourcePolled("aws", "ok", "scheduled"))
    assert story.at(FOUND_SECONDS - 0.1).commands(Uncordon) == []
    story.at(FOUND_SECONDS - 0.05, SourcePolled("aws", "timeout", "spot"))
    assert story.at(FOUND_SECONDS + 60).commands(Uncordon) == []

    decided = story.at(FOUND_SECONDS + 61, SourcePolled("aws", "ok", "spot"))

    assert decided.command(Uncordon).id == name


def test_a_cordon_of_a_lost_journal_stays_while_its_notice_is_seen_anew() -> None:
    story = Story()
    found_by(story, 0)
    story.at(1, ProvidersFound(("aws",), "configured"), SPOT.shows(spot(ends_at=100)))

    decided = story.at(2, SourcePolled("aws", "notice", "spot"))

    assert story.decided.command(Cordon).notice.id == story.notice().id
    assert decided.commands(Uncordon) == []


def test_a_cordon_that_is_known_is_not_found() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    assert story.at(2, CordonFound("another")) == []
    assert story.node.cordoned_for == name


def test_a_cordon_that_somebody_lifts_is_not_put_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    decided = story.at(5, CordonLifted(name, "kubectl"))

    assert decided.fact(Overruled).detail == "kubectl"
    assert story.node.cordoned_for is None
    assert story.at(119).commands(Cordon) == []
    assert story.at(300, SPOT.shows(), SPOT.shows(), SPOT.shows()).commands(Uncordon) == []


def test_a_cordon_that_is_gone_though_nobody_lifted_it_is_made_again() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    decided = story.at(2, CordonMissing("the node object was made anew"))

    assert decided.fact(CordonLost).id == name
    assert decided.command(Cordon).notice.id == name
    assert story.at(3, CordonMissing("at the first look")).commands(Cordon) == []


def test_a_deadline_or_a_kind_that_changes_is_written_on_the_node_anew() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(2, SCHEDULED.shows(scheduled(starts_at=600.5))).commands(Cordon) == []

    renewed = story.at(3, SCHEDULED.shows(scheduled(starts_at=500))).command(Cordon)
    assert (renewed.notice.id, renewed.notice.deadline) == (name, 500)
    story.at(4, CordonEnded(name, cordoned=True))
    assert story.node.cordoned_at == 1

    sooner = story.at(5, SPOT.shows(spot(ends_at=125))).command(Cordon)
    assert (sooner.notice.id, sooner.notice.kind, sooner.notice.deadline) == (
        name,
        "preemption",
        125,
    )


def test_a_cordon_that_was_lifted_for_less_than_the_machines_end_is_made_again_for_that() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))
    story.at(2, CordonLifted(name, "kubectl"))

    decided = story.at(3, SPOT.shows(spot(ends_at=123)))

    assert decided.command(Cordon).notice.id == name
    assert decided.command(Drain).id == name


def test_a_drain_that_is_stopped_is_made_known() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id
    story.at(1, CordonEnded(name, cordoned=True))

    lifted = story.at(5, CordonLifted(name, "kubectl")).fact(NodeDrained)
    assert (lifted.outcome, lifted.seconds) == ("stopped", 5)

    other = a_node()
    other.at(0, SPOT.shows(spot(ends_at=120)))
    withdrawn = other.at(2, SPOT.shows(), SPOT.shows(), SPOT.shows()).fact(NodeDrained)
    assert withdrawn.detail == "its notice stands no more"


def test_who_lifts_the_cordon_stops_a_drain_but_none_of_a_machine_that_goes() -> None:
    story = a_node()
    story.at(0, SCHEDULED.shows(scheduled(starts_at=600)))
    name = story.notice().id
    assert story.decided.command(Drain).id == name
    story.at(1, CordonEnded(name, cordoned=True))
    assert story.at(2, CordonLifted(name, "kubectl")).command(StopDrain).id == name

    other = a_node()
    other.at(0, SPOT.shows(spot(ends_at=120)))
    name = other.notice().id
    other.at(1, CordonEnded(name, cordoned=True))
    assert other.at(2, CordonLifted(name, "kubectl")).commands(StopDrain) == []


def test_an_agent_that_only_watches_leaves_every_cordon_alone() -> None:
    story = Story(Settings(acts=False))
    found_by(story, 0)
    story.at(1, ProvidersFound((), "configured: none"), SPOT.shows(spot(ends_at=121)))

    story.at(300, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert story.decided.commands(Cordon) == story.decided.commands(Uncordon) == []
