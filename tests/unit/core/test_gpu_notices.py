"""What the node's processes are told of GPUs: the judge's sightings, told to the real machine."""

from __future__ import annotations

from lastcall.core.commands import Confirm, Tell
from lastcall.core.events import Intended, SourceReported
from lastcall.core.model import Outcome, Phase
from support.happenings import flushed
from support.judged_gpus import Watched
from support.story import Decided, Story, a_node


class Told:
    """GPUs whose faults are told to a node with one training process."""

    def __init__(self) -> None:
        self.gpus = Watched()
        self.story: Story = a_node()
        self.report()

    def report(self) -> Decided:
        """Tell the machine, at the GPUs' time, what is reported of them."""
        report = SourceReported("gpu", "health", self.gpus.reported)
        return self.story.at(self.gpus.now, report)

    def advise(self) -> str:
        """Degrade a GPU; return the id of the notice that was told of it."""
        self.gpus.look(0, remap_pending=1)
        return self.report().command(Tell).notice.id

    def lose(self) -> Decided:
        """Lose the other GPU a moment later."""
        self.gpus.wait(2)
        self.gpus.look(1, code=15)
        return self.report()

    def find(self) -> Decided:
        """Have the other GPU back, for as long as it takes."""
        self.gpus.looks(3, 1)
        self.gpus.wait(180)
        return self.report()


def test_a_fault_takes_the_place_of_the_advice_before_it() -> None:
    node = Told()
    advice = node.advise()

    notice = node.lose().command(Tell).notice

    assert notice.supersedes == (advice,)
    old, _ = node.story.notices()
    assert (old.phase, old.ending) == (Phase.WITHDRAWN, "superseded")


def test_a_save_under_way_for_the_advice_serves_the_fault_as_well() -> None:
    node = Told()
    advice = node.advise()
    node.story.at(node.gpus.now + 1, Intended("s0", advice, "save"))
    notice = node.lose().command(Tell).notice
    served = (*notice.supersedes, notice.id)

    decided = node.story.at(node.gpus.now + 5, *(flushed("s0", each) for each in served))

    assert [command.id for command in decided.commands(Confirm)] == [advice, notice.id]
    fault = node.story.node.notices[notice.id]
    assert [flush.outcome for flush in fault.flushes.values()] == [Outcome.IN_TIME]


def test_an_advice_that_outlives_the_fault_is_not_given_again() -> None:
    node = Told()
    node.advise()
    node.lose()

    decided = node.find()

    assert [sighting.key for sighting in node.gpus.reported] == ["degraded"]
    assert decided.commands(Tell) == []
    assert len(node.story.notices()) == 2


def test_a_second_fault_finds_the_advice_as_the_first_left_it() -> None:
    node = Told()
    node.advise()
    node.lose()
    node.find()

    again = node.lose()
    after = node.find()

    assert len(again.commands(Tell)) == 1
    assert after.commands(Tell) == []
