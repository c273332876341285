"""Which notice stands though its cordon was lifted, by what has been heard."""

from __future__ import annotations

import pytest

from lastcall.drain.kubernetes.node_lifted import Lifted


@pytest.fixture
def lifted():
    known = Lifted()
    known.cordoned("n-1")
    return known


def test_a_cordon_that_stands_is_not_lifted(lifted):
    assert lifted.standing("") == ""


def test_a_notice_whose_cordon_was_lifted_stands_until_it_ends(lifted):
    lifted.lifted("n-1")
    assert lifted.standing("") == "n-1"

    lifted.ended("n-0")
    assert lifted.standing("n-1") == "n-1"

    lifted.ended("n-1")
    assert lifted.standing("n-1") == ""


def test_a_cordon_that_is_made_again_is_lifted_no_more(lifted):
    lifted.lifted("n-1")
    lifted.cordoned("n-1")

    assert lifted.standing("") == ""


@pytest.mark.parametrize("ended", [True, False])
def test_a_cordon_of_a_notice_that_does_not_stand_leaves_nothing_to_say(lifted, ended):
    if ended:
        lifted.ended("n-1")
    lifted.lifted("n-1" if ended else "n-0")

    assert lifted.standing("") == ""


def test_after_a_restart_the_condition_is_believed_until_the_notice_ends():
    restarted = Lifted()
    assert restarted.standing("n-1") == "n-1"

    restarted.ended("n-1")
    assert restarted.standing("n-1") == ""
