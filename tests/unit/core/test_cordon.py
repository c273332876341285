"""The cordon: taken with a notice that drains, given back once, and never one of another's."""

from __future__ import annotations

from lastcall.core.commands import Cordon, Uncordon
from lastcall.core.events import CordonEnded, UncordonEnded
from lastcall.core.results import GIVE_BACK_AGAIN_SECONDS
from support.happenings import (
    SPOT,
    spot,
)
from support.story import a_node


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
    story.at(1, CordonEnded(story.notice().id, cordoned=False, detail="was cordoned already"))

    story.at(10, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert story.decided.commands(Uncordon) == []


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
