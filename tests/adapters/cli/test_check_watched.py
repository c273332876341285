"""What is found about the provider beside a running agent, whose own sources count."""

from __future__ import annotations

from lastcall.cli.check.findings import Level
from lastcall.cli.check.seen_agent import look_at_agent
from lastcall.cli.check.watched import check_watched
from lastcall.core.events import IdentityLearned, ProvidersFound, SourcePolled
from support.examination import found_by, one_found_by, subject_of
from support.happenings import SPOT, spot

UNREACHABLE = "notices.aws.endpoint=http://127.0.0.1:9"


async def beside(agent):
    looked = await look_at_agent(str(agent.path))
    return subject_of("notices.provider=aws", UNREACHABLE, agent=looked)


async def test_a_provider_that_answers_the_agent_is_good_whatever_was_read_here(agent):
    agent.story.at(110.0, IdentityLearned("aws", (("instance_type", "p5.48xlarge"),)))

    how, answered, clock = await found_by(check_watched, await beside(agent))

    assert how.what == "the running agent watches aws (configured)"
    assert answered.what == "aws answers it: p5.48xlarge"
    assert [how.level, answered.level, clock.level] == [Level.OK] * 3
    assert clock.what == "this clock is 0.2 s ahead of that of aws"


async def test_a_provider_that_does_not_answer_the_agent_is_a_problem(agent):
    agent.story.at(
        110.0, SourcePolled("aws", "timeout", "spot"), SourcePolled("aws", "throttled", "events")
    )

    _, silent, throttled, _ = await found_by(check_watched, await beside(agent))

    assert (silent.level, throttled.level) == (Level.PROBLEM, Level.WARNING)
    assert silent.what == "aws, asked by the running agent: timeout for spot"
    assert throttled.what == "aws, asked by the running agent: throttled for events"


async def test_a_notice_that_stands_is_worth_a_note(agent):
    agent.story.at(110.0, SPOT.shows(spot(230.0)))

    found = await found_by(check_watched, await beside(agent))

    (note,) = [one for one in found if one.level is Level.NOTE]
    assert note.what.startswith("aws announces now: preemption")


async def test_a_provider_that_has_not_answered_yet_is_a_warning(agent):
    agent.story.at(110.0, ProvidersFound(("azure",), "the firmware says so"))

    _, waits = await found_by(check_watched, await beside(agent))

    assert waits.level is Level.WARNING
    assert waits.what == "azure has not answered the running agent yet"


async def test_an_agent_that_is_to_watch_none_is_good(agent):
    agent.story.at(110.0, ProvidersFound((), "configured: none"))

    one = await one_found_by(check_watched, await beside(agent))

    assert (one.level, one.what) == (
        Level.OK,
        "the running agent watches none, as it is configured",
    )


async def test_an_agent_that_finds_none_is_a_warning(agent):
    agent.story.at(110.0, ProvidersFound((), "no provider found; looking again"))

    one = await one_found_by(check_watched, await beside(agent))

    assert one.level is Level.WARNING
    assert one.what == "the running agent has found none: no provider found; looking again"


async def test_an_agent_that_is_still_looking_leaves_the_look_to_the_command(agent):
    agent.story.at(110.0, ProvidersFound((), ""))

    one = await one_found_by(check_watched, await beside(agent))

    assert one.level is Level.PROBLEM
    assert "aws at http://127.0.0.1:9" in one.what
