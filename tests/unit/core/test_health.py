"""What is known of the sources: trouble is news when it comes, changes or goes."""

from __future__ import annotations

import pytest

from lastcall.core.events import IdentityLearned, ProvidersFound, SourcePolled
from lastcall.core.facts import ClockWrong, ProviderSettled, SourceAnswered
from support.happenings import SPOT, spot
from support.story import Story, a_node

TROUBLES = ("timeout", "error", "throttled", "unauthorized", "malformed")


def poll(story: Story, now: float, result: str, scope: str = "a", **more: float) -> SourceAnswered:
    return story.at(now, SourcePolled("aws", result, scope, **more)).fact(SourceAnswered)


def test_the_first_answer_is_news() -> None:
    story = Story()

    answered = poll(story, 1, "ok")

    assert (answered.changed, answered.up) == (True, True)
    assert poll(story, 2, "notice").changed is False


@pytest.mark.parametrize("result", TROUBLES)
def test_trouble_is_news_once_and_so_is_its_end(result: str) -> None:
    story = Story()
    poll(story, 1, "ok")

    changed = [poll(story, 2 + n, result) for n in range(100)]
    over = poll(story, 200, "ok")

    assert [answer.changed for answer in changed] == [True] + [False] * 99
    assert not any(answer.up for answer in changed)
    assert (over.changed, over.up) == (True, True)


def test_trouble_of_another_kind_is_news() -> None:
    story = Story()
    poll(story, 1, "timeout")

    assert poll(story, 2, "throttled").changed is True


def test_a_source_is_up_only_when_all_its_scopes_answer() -> None:
    story = Story()
    poll(story, 1, "timeout", "a")
    assert poll(story, 2, "ok", "b").up is False
    assert story.node.sources["aws"].last_success == 2

    assert poll(story, 3, "ok", "a").up is True


def test_the_skew_that_was_seen_last_stands() -> None:
    story = Story()
    poll(story, 1, "ok", skew_seconds=300.0)

    assert poll(story, 2, "timeout").skew_seconds == 300


def test_trouble_takes_no_notice_back() -> None:
    story = a_node()
    story.at(0, SPOT.shows(spot(ends_at=120)))

    for second, result in enumerate(TROUBLES * 10):
        poll(story, second, result)

    assert story.notice().open


def test_who_is_watched_and_what_the_machine_is() -> None:
    story = Story()

    decided = story.at(1, ProvidersFound(("aws",), "dmi: Amazon EC2"))
    story.at(2, IdentityLearned("aws", (("zone", "a"), ("instance_type", "p5"))))
    story.at(3, IdentityLearned("aws", (("zone", "b"),)))

    assert decided.fact(ProviderSettled) == ProviderSettled(("aws",), "dmi: Amazon EC2")
    assert story.node.providers == ("aws",)
    assert story.node.identity == {"zone": "b", "instance_type": "p5"}


def test_a_clock_that_is_far_off_is_said_once_until_it_was_right_again() -> None:
    story = Story()

    for second in range(5):
        poll(story, second, "ok", skew_seconds=300.0)
    poll(story, 6, "ok", skew_seconds=0.1)
    poll(story, 7, "ok", skew_seconds=-40.0)

    said = [fact.skew_seconds for fact in story.decided.facts(ClockWrong)]
    assert said == [300.0, -40.0]
