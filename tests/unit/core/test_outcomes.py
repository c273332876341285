"""How one client's flush ends, with the figures that go with each end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lastcall.core.commands import Confirm
from lastcall.core.events import CheckpointReported, Event, FlushFailed, Intended
from lastcall.core.facts import CheckpointSeen, FlushOverdue, FlushSettled, NoticeEnded, WorkLost
from lastcall.core.model import Outcome
from lastcall.core.turn import Settings
from support.happenings import (
    REBALANCE,
    SPOT,
    died,
    drill,
    flushed,
    joined,
    left,
    rebalance,
    spot,
)
from support.story import Decided, Story

WATCHING = Settings(acts=False)


def told(settings: Settings = WATCHING) -> Story:
    """Return a story in which one client was told at 0 of an end at 120."""
    story = Story(settings)
    story.at(0, joined("s0"), SPOT.shows(spot(ends_at=120)))
    return story


def figures(decided: Decided) -> tuple[float | None, float | None, float | None]:
    settled = decided.fact(FlushSettled)
    return settled.flush_seconds, settled.margin_seconds, settled.used_ratio


def outcome(story: Story) -> str:
    return story.decided.fact(FlushSettled).outcome


def test_in_time() -> None:
    story = told()

    decided = story.at(30, flushed("s0", story.notice().id, bytes=7))

    assert outcome(story) == Outcome.IN_TIME
    assert figures(decided) == (30, 90, 0.25)
    settled = decided.fact(FlushSettled)
    assert (settled.job, settled.rank, settled.step, settled.path) == ("llama", 0, 9, "/ckpt/9")
    assert decided.command(Confirm) == Confirm("s0", "flushed", story.notice().id)
    assert decided.facts(WorkLost) == []


def test_at_the_deadline_is_in_time() -> None:
    story = told()

    decided = story.at(120, flushed("s0", story.notice().id))

    assert outcome(story) == Outcome.IN_TIME
    assert figures(decided) == (120, 0, 1)


def test_late() -> None:
    story = told()

    decided = story.at(123, flushed("s0", story.notice().id))

    assert outcome(story) == Outcome.LATE
    assert figures(decided) == (123, -3, 1.025)
    assert decided.fact(FlushOverdue).clients == (story.decided.fact(FlushSettled).client,)
    assert decided.facts(WorkLost) == []


def test_failed() -> None:
    story = told()

    decided = story.at(30, FlushFailed("s0", story.notice().id, "disk full"))

    assert outcome(story) == Outcome.FAILED
    assert figures(decided) == (None, None, None)
    assert decided.fact(FlushSettled).cause == "disk full"
    assert decided.fact(WorkLost).seconds == 30
    assert decided.command(Confirm) == Confirm("s0", "failed", story.notice().id)


def test_missed_is_said_a_little_after_the_deadline() -> None:
    story = told()

    assert story.at(124.9).facts(FlushSettled) == []
    decided = story.at(125)

    assert outcome(story) == Outcome.MISSED
    assert figures(decided) == (None, None, None)
    assert decided.fact(WorkLost).seconds == 125
    assert decided.fact(NoticeEnded).outcomes == {"missed": 1}


@pytest.mark.parametrize("end", [died("s0"), left("s0")], ids=["death", "farewell"])
def test_missed_at_once_when_the_process_is_gone(end: Event) -> None:
    story = told()

    decided = story.at(30, end)

    assert outcome(story) == Outcome.MISSED
    assert decided.fact(WorkLost).seconds == 30


@pytest.mark.parametrize("path", ["/mnt/nvme", "/mnt/nvme/step-9", "/scratch/x"])
def test_not_durable_on_a_path_that_dies_with_the_node(path: str) -> None:
    story = told(Settings(acts=False, volatile_paths=("/mnt/nvme/", "/scratch")))

    decided = story.at(30, flushed("s0", story.notice().id, path=path))

    assert outcome(story) == Outcome.NOT_DURABLE
    assert figures(decided) == (None, None, None)
    assert decided.fact(WorkLost).seconds == 30
    assert decided.facts(CheckpointSeen) == []
    assert decided.command(Confirm).re == "flushed"


@pytest.mark.parametrize("path", ["/mnt/nvme2/9", "/data/mnt/nvme/9", "relative"])
def test_a_path_beside_a_volatile_one_is_durable(path: str) -> None:
    story = told(Settings(acts=False, volatile_paths=("/mnt/nvme",)))

    story.at(30, flushed("s0", story.notice().id, path=path))

    assert outcome(story) == Outcome.IN_TIME


def test_not_durable_when_the_client_itself_knows() -> None:
    story = told()

    story.at(120, flushed("s0", story.notice().id, durable=False))

    assert outcome(story) == Outcome.NOT_DURABLE


def test_ignored() -> None:
    story = told()

    decided = story.at(30, Intended("s0", story.notice().id, "ignore"))

    assert outcome(story) == Outcome.IGNORED
    assert figures(decided) == (None, None, None)
    assert decided.facts(WorkLost) == []


def test_withdrawn() -> None:
    story = told()

    decided = story.at(30, SPOT.shows(), SPOT.shows(), SPOT.shows())

    assert outcome(story) == Outcome.WITHDRAWN
    assert figures(decided) == (None, None, None)
    assert decided.facts(WorkLost) == []
    assert decided.fact(NoticeEnded).outcomes == {"withdrawn": 1}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda story: story.at(1800), id="the advice expires"),
        pytest.param(lambda story: story.at(50, died("s0")), id="the process dies"),
    ],
)
def test_an_advice_that_nobody_followed_is_ignored_and_nothing_is_lost_with_it(
    end: Callable[[Story], object],
) -> None:
    story = Story()
    story.at(0, joined("s0"), REBALANCE.shows(rebalance()))

    end(story)

    assert outcome(story) == Outcome.IGNORED
    assert story.decided.facts(WorkLost) == []


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(lambda name: flushed("s0", name), id="flushed"),
        pytest.param(lambda name: FlushFailed("s0", name, "disk full"), id="failed"),
        pytest.param(lambda name: Intended("s0", name, "ignore"), id="ignore"),
        pytest.param(lambda _: died("s0"), id="death"),
        pytest.param(lambda _: SPOT.shows(), id="withdrawal"),
    ],
)
def test_a_flush_ends_only_once(second: Callable[[str], Event]) -> None:
    story = told()
    name = story.notice().id
    story.at(30, flushed("s0", name))

    story.at(40, *[second(name)] * 3)
    story.at(200)

    assert outcome(story) == Outcome.IN_TIME
    assert story.decided.fact(NoticeEnded).outcomes == {"in_time": 1}


def test_a_flush_that_comes_after_the_end_is_on_record_and_changes_no_outcome() -> None:
    story = told()
    story.at(126)

    decided = story.at(127, flushed("s0", story.notice().id))

    assert decided.facts(FlushSettled) == []
    assert decided.fact(CheckpointSeen).step == 9
    assert decided.command(Confirm).re == "flushed"


def test_what_is_told_after_its_time_leaves_nothing_to_use() -> None:
    story = Story(WATCHING)
    story.at(100, joined("s0"), SPOT.shows(spot(ends_at=90)))

    decided = story.at(103, flushed("s0", story.notice().id))

    assert outcome(story) == Outcome.LATE
    assert figures(decided) == (3, -13, None)


def test_the_work_of_a_job_is_lost_once_for_all_its_ranks() -> None:
    story = Story(WATCHING)
    for rank in range(8):
        story.at(0, joined(f"s{rank}", rank=rank))
    story.at(0, joined("other", job="bert"))
    story.at(10, CheckpointReported(session="s3", step=4))
    story.at(100, SPOT.shows(spot(ends_at=220)))

    decided = story.at(225)

    assert len(decided.facts(FlushSettled)) == 9
    lost = {fact.job: fact.seconds for fact in decided.facts(WorkLost)}
    assert lost == {"llama": 215, "bert": 225}
    assert len(decided.facts(WorkLost)) == 2


def test_nothing_is_lost_in_a_drill() -> None:
    story = Story()
    story.at(0, joined("s0"), drill(lead_seconds=30))

    decided = story.at(35)

    assert outcome(story) == Outcome.MISSED
    assert decided.facts(WorkLost) == []


def test_a_process_that_came_after_the_last_checkpoint_loses_only_what_it_did_itself() -> None:
    story = Story(WATCHING)
    story.at(0, joined("s0"), CheckpointReported(session="s0", step=7))
    story.at(100, left("s0"), joined("s1"))
    story.at(101, SPOT.shows(spot(ends_at=120)))

    assert story.at(110, died("s1")).fact(WorkLost).seconds == 10
