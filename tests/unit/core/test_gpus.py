"""What the node knows of its GPUs, and what it makes known of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.core.commands import Confirm, Tell, WatchGpus
from lastcall.core.events import (
    CheckpointReported,
    CordonEnded,
    DrainEnded,
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuWatchRequested,
    GpuXidCounted,
    Rebooted,
    Started,
)
from lastcall.core.facts import (
    GpuHealth,
    GpuLost,
    GpuWatchSeen,
    GpuWorkSafe,
    GpuXid,
    HolderUnregistered,
    NodeGpuHealth,
)
from lastcall.core.gpu.belief import QUIET_SECONDS
from lastcall.core.gpu.model import (
    NODE,
    Gpu,
    Health,
    Holder,
    Mark,
    Recovery,
    Verdict,
    WatchState,
)
from lastcall.core.gpus import RELEASED_SECONDS, node_verdict, unregistered
from lastcall.core.model import Action, Kind, Sighting, Stance
from support.happenings import SPOT, Scope, flushed, joined, sighting, spot
from support.story import Story, a_node

GPUS = Scope("gpu", "health")
FIRST, SECOND = Gpu("GPU-a", 0, "H100"), Gpu("GPU-b", 1, "H100")
HEALTHY = Verdict(Health.HEALTHY)
REMAP = Mark(reason="row_remap_pending", health=Health.DEGRADED, recovery=Recovery.RESET_WHEN_IDLE)
LOST = Mark(
    reason="lost", health=Health.FAULTY, recovery=Recovery.REBOOT, detail="fell off", lost=True
)
RESET = Mark(reason="recovery_action", health=Health.FAULTY, recovery=Recovery.RESET)


def degraded(since: float = 10) -> Verdict:
    return Verdict(Health.DEGRADED, (replace(REMAP, since=since),))


def faulty(mark: Mark = LOST, since: float = 10) -> Verdict:
    return Verdict(Health.FAULTY, (replace(mark, since=since),))


def fault(code: str = "faulty", action: Action = Action.NONE) -> Sighting:
    return sighting(GPUS, code, Kind.GPU_FAULT, action, code=code, identity="1")


def saved(session: str = "s0") -> CheckpointReported:
    return CheckpointReported(session=session, step=5)


def test_a_verdict_is_news_once() -> None:
    story = Story()

    first = story.at(1, GpuJudged(FIRST, degraded()))
    again = story.at(2, GpuJudged(FIRST, degraded()))

    news = first.fact(GpuHealth)
    assert (news.gpu, news.before, news.health) == ("GPU-a", Health.UNKNOWN, Health.DEGRADED)
    assert (news.reasons, news.recovery) == (("row_remap_pending",), Recovery.RESET_WHEN_IDLE)
    assert again == []


def test_the_node_is_as_its_worst_gpu() -> None:
    story = Story()
    story.at(1, GpuJudged(FIRST, HEALTHY))

    worse = story.at(2, GpuJudged(SECOND, faulty())).fact(NodeGpuHealth)
    better = story.at(3, GpuJudged(SECOND, HEALTHY)).fact(NodeGpuHealth)

    assert (worse.health, worse.reasons, worse.detail) == (Health.FAULTY, ("lost",), "fell off")
    assert (better.health, better.recovery) == (Health.HEALTHY, Recovery.NONE)


def test_what_concerns_all_gpus_counts_for_the_node() -> None:
    story = Story()
    missing = Mark(reason="gpu_missing", health=Health.FAULTY, recovery=Recovery.REBOOT)

    story.at(1, GpuJudged(FIRST, HEALTHY), GpuJudged(NODE, faulty(missing)))

    assert node_verdict(story.node).reasons == ("gpu_missing",)


def test_a_node_whose_gpus_nobody_has_seen_is_unknown() -> None:
    assert node_verdict(Story().node).health is Health.UNKNOWN


def test_how_the_watch_stands_is_news_once_also_over_a_restart() -> None:
    story = Story()
    hangs = GpuWatchChanged(
        state=WatchState.UNRESPONSIVE, detail="no answer", gpu="GPU-a", call="nvmlDeviceGetName"
    )

    first = story.at(1, hangs).facts(GpuWatchSeen)
    starting = GpuWatchChanged(state=WatchState.STARTING)
    again = story.at(2, Started(), starting, hangs).facts(GpuWatchSeen)
    over = story.at(3, GpuWatchChanged(state=WatchState.WATCHING)).fact(GpuWatchSeen)

    assert len(first) == 1
    assert again == []
    assert over.state is WatchState.WATCHING
    assert story.node.gpu_watch is not None
    assert story.node.gpu_watch.since == 3


def test_of_a_burst_of_xids_the_first_is_news_and_each_is_counted() -> None:
    story = Story()

    facts = [
        story.at(at, GpuXidCounted("GPU-a", 95, count)).fact(GpuXid)
        for at, count in ((0, 1), (1, 4000), (170, 2), (171 + QUIET_SECONDS, 1))
    ]

    assert [fact.count for fact in facts] == [1, 4000, 2, 1]
    assert [fact.news for fact in facts] == [True, False, False, True]


def test_another_xid_or_the_same_of_another_gpu_is_news() -> None:
    story = Story()
    story.at(0, GpuXidCounted("GPU-a", 45, 1))

    facts = story.at(1, GpuXidCounted("GPU-a", 62, 1), GpuXidCounted("GPU-b", 45, 1)).facts(GpuXid)

    assert [fact.news for fact in facts] == [True, True]


# --- what was saved in time ------------------------------------------------------------------


def test_work_is_safe_once_every_job_has_saved_since_the_first_sign() -> None:
    story = Story()
    story.at(0, joined("s0", job="a"), joined("s1", job="b"))
    story.at(5, saved("s0"))
    story.at(10, GpuJudged(FIRST, degraded()))

    one = story.at(12, saved("s0")).facts(GpuWorkSafe)
    both = story.at(17, saved("s1")).fact(GpuWorkSafe)
    later = story.at(20, saved("s0")).facts(GpuWorkSafe)

    assert one == later == []
    assert (both.gpu, both.seconds) == ("GPU-a", 7)


def test_a_flush_for_an_advice_makes_work_safe() -> None:
    story = a_node()
    story.at(10, GpuJudged(FIRST, degraded()), GPUS.shows(fault("degraded")))

    decided = story.at(14, flushed("s0", story.notice().id))

    assert decided.fact(GpuWorkSafe).seconds == 4


@pytest.mark.parametrize(("saves", "word"), [(True, "yes"), (False, "no")])
def test_a_lost_gpu_says_whether_its_signs_were_used(saves: bool, word: str) -> None:
    story = a_node()
    story.at(10, GpuJudged(FIRST, degraded()))
    if saves:
        story.at(12, saved())

    lost = story.at(40, GpuJudged(FIRST, faulty())).fact(GpuLost)
    again = story.at(41, GpuJudged(FIRST, faulty())).facts(GpuLost)

    assert (lost.seconds, lost.saved) == (30, word)
    assert again == []


def test_a_gpu_lost_without_a_sign_or_without_anybody_training() -> None:
    trained, idle = a_node(), Story()

    at_once = trained.at(10, GpuJudged(FIRST, faulty())).fact(GpuLost)
    nobody = idle.at(10, GpuJudged(FIRST, faulty())).fact(GpuLost)

    assert (at_once.seconds, at_once.saved) == (0, "no")
    assert nobody.saved == "nothing"


def test_a_gpu_that_recovers_begins_anew() -> None:
    story = a_node()
    story.at(10, GpuJudged(FIRST, degraded()))
    story.at(12, saved())
    story.at(500, GpuJudged(FIRST, HEALTHY))

    lost = story.at(900, GpuJudged(FIRST, faulty(since=900))).fact(GpuLost)

    assert (lost.seconds, lost.saved) == (0, "no")


# --- notices ---------------------------------------------------------------------------------


def test_a_fault_is_a_flush_with_little_time_and_a_drain() -> None:
    story = a_node()

    told = story.at(10, GPUS.shows(fault())).command(Tell).notice

    assert (told.kind, told.source, told.urgency) == (Kind.GPU_FAULT, "gpu", "now")
    assert (told.deadline, told.drains) == (40, True)


def test_a_soft_sign_is_an_advice_that_moves_nothing() -> None:
    story = a_node()

    told = story.at(10, GPUS.shows(fault("degraded"))).command(Tell).notice

    assert (told.urgency, told.deadline, told.drains) == ("soon", None, False)
    assert story.notice().stance is Stance.ADVISE


@pytest.mark.parametrize("fault_first", [True, False])
def test_the_providers_notice_wins_over_a_fault(fault_first: bool) -> None:
    story = a_node()
    both = [GPUS.shows(fault()), SPOT.shows(spot(ends_at=120))]
    for at, event in enumerate(both if fault_first else both[::-1], start=10):
        story.at(at, event)

    (notice,) = (one for one in story.notices() if one.told)

    assert notice.lead.sighting.kind is Kind.PREEMPTION
    assert notice.deadline == 120
    assert notice.final


def test_a_fault_that_ends_does_not_end_the_providers_notice() -> None:
    story = a_node()
    story.at(10, SPOT.shows(spot(ends_at=120)))
    story.at(11, GPUS.shows(fault()))

    story.at(12, GPUS.shows())

    assert story.notice("aws").told
    assert story.notice("aws").deadline == 120


def test_a_fault_that_a_reboot_did_not_mend_is_told_anew() -> None:
    story = a_node()
    story.at(10, GPUS.shows(fault()))

    story.at(200, Rebooted(), joined("s1"))
    again = story.at(210, GPUS.shows(fault())).command(Tell).notice

    assert again.drains
    assert again.deadline == 240


def test_after_a_reboot_the_providers_notice_is_known_and_a_fault_beside_it_is_not() -> None:
    story = a_node()
    story.at(10, SPOT.shows(replace(spot(ends_at=120), identity="i")))
    story.at(11, GPUS.shows(fault()))

    story.at(200, Rebooted())

    assert [claim.sighting.source for claim in story.notice().claims] == ["aws"]
    assert not story.notice().gone


# --- letting go ------------------------------------------------------------------------------


def test_an_operator_lets_the_gpus_go_and_has_them_watched_again() -> None:
    story = Story()

    let_go = story.at(10, GpuWatchRequested("s9", watched=False))
    taken_up = story.at(60, GpuWatchRequested("s9", watched=True))

    assert let_go.command(WatchGpus) == WatchGpus(watched=False)
    assert let_go.command(Confirm).re == "gpu"
    assert taken_up.command(WatchGpus) == WatchGpus(watched=True, repaired=True)
    assert story.node.gpus_released_until is None


def test_gpus_that_nobody_takes_up_are_watched_again_after_a_while() -> None:
    story = Story()
    story.at(10, GpuWatchRequested("s9", watched=False))

    assert story.at(9 + RELEASED_SECONDS).commands(WatchGpus) == []
    assert story.at(10 + RELEASED_SECONDS).command(WatchGpus) == WatchGpus(watched=True)


def test_a_restart_of_the_agent_does_not_take_up_what_was_let_go() -> None:
    story = Story()
    story.at(10, GpuWatchRequested("s9", watched=False))

    assert story.at(20, Started()).command(WatchGpus) == WatchGpus(watched=False)


def drained(mark: Mark, outcome: str = "drained") -> list[WatchGpus]:
    story = a_node()
    story.at(10, GpuJudged(FIRST, faulty(mark)), GPUS.shows(fault()))
    name = story.notice().id
    story.at(11, CordonEnded(name, cordoned=True))
    story.at(12, flushed("s0", name))
    return story.at(14, DrainEnded(name, outcome)).commands(WatchGpus)


def test_after_the_drain_for_a_reset_the_gpus_are_let_go() -> None:
    assert drained(RESET) == [WatchGpus(watched=False)]


def test_where_nobody_drains_they_are_let_go_by_hand_alone() -> None:
    assert drained(RESET, "none") == []


def test_a_node_that_could_not_be_emptied_cannot_be_reset_and_stays_watched() -> None:
    assert drained(RESET, "incomplete") == []


def test_a_reboot_needs_nobody_to_let_go() -> None:
    assert drained(LOST) == []


# --- reboots that do not help ----------------------------------------------------------------


def test_after_two_reboots_in_vain_the_gpu_is_to_be_replaced() -> None:
    story = Story()
    recoveries = []
    for boot in range(4):
        story.at(100 * boot + 1, GpuJudged(FIRST, faulty()))
        recoveries.append(story.node.gpus["GPU-a"].verdict.recovery)
        story.at(100 * boot + 50, Rebooted())

    assert recoveries == [Recovery.REBOOT, Recovery.REBOOT, Recovery.REPLACE, Recovery.REPLACE]


def test_a_boot_in_which_all_was_well_forgets_the_reboots_before() -> None:
    story = Story()
    story.at(1, GpuJudged(FIRST, faulty()))
    story.at(2, Rebooted())
    story.at(3, GpuJudged(FIRST, HEALTHY))
    story.at(4, Rebooted())
    story.at(5, GpuJudged(FIRST, faulty()))
    story.at(6, Rebooted())

    story.at(7, GpuJudged(FIRST, faulty()))

    assert story.node.gpus["GPU-a"].verdict.recovery is Recovery.REBOOT


def test_nothing_that_a_reboot_does_not_help_is_counted() -> None:
    story = Story()
    story.at(1, GpuJudged(FIRST, degraded()))

    story.at(2, Rebooted())

    assert story.node.gpu_reboots == {}
    assert story.node.gpus == {}


# --- who must flush --------------------------------------------------------------------------


def test_a_process_that_holds_a_gpu_and_never_said_hello_is_named_once() -> None:
    story = Story()
    story.at(0, replace(joined("s0"), pid=100))
    stranger = Holder(200, ("GPU-b",), "python old.py", parents=(1,))
    worker = Holder(101, ("GPU-a",), "python train.py", parents=(100, 1))

    named = story.at(1, GpuHoldersSeen((Holder(100, ("GPU-a",)), worker, stranger)))
    again = story.at(2, GpuHoldersSeen((stranger,)))

    assert named.fact(HolderUnregistered) == HolderUnregistered(200, ("GPU-b",), "python old.py")
    assert again.facts(HolderUnregistered) == []
    assert unregistered(story.node) == (stranger,)


def test_a_process_that_says_hello_later_is_named_no_more() -> None:
    story = Story()
    story.at(1, GpuHoldersSeen((Holder(200, ("GPU-b",)),)))

    story.at(2, replace(joined("s0"), pid=200))

    assert unregistered(story.node) == ()


# --- what is forgotten -----------------------------------------------------------------------


def test_a_gpu_that_is_gone_is_held_against_nobody() -> None:
    story = Story()
    story.at(1, GpuJudged(FIRST, HEALTHY), GpuJudged(SECOND, faulty()))

    better = story.at(2, GpuGone("GPU-b")).fact(NodeGpuHealth)
    again = story.at(3, GpuGone("GPU-b"))

    assert (better.health, list(story.node.gpus)) == (Health.HEALTHY, ["GPU-a"])
    assert again == []


def test_a_gpu_that_was_lost_and_has_no_name_any_more_is_one_loss() -> None:
    story = a_node()
    story.at(10, GpuJudged(FIRST, faulty()))

    assert story.at(20, GpuJudged(NODE, faulty())).facts(GpuLost) == []


def test_a_gpu_that_is_lost_before_it_had_a_name_is_a_loss() -> None:
    story = a_node()

    assert story.at(20, GpuJudged(NODE, faulty())).fact(GpuLost).gpu == ""


def test_a_storm_of_errors_changes_what_is_on_record_now_and_then() -> None:
    story = Story()
    nodes = set()
    for second in range(300):
        story.at(second, GpuXidCounted("GPU-a", 31, 100))
        nodes.add(id(story.node.gpu_xids))

    assert len(nodes) <= 300 / 60 + 1


def test_it_is_on_record_when_the_gpus_were_last_mended() -> None:
    story = Story()

    story.at(10, GpuWatchRequested("s9", watched=True))

    assert story.node.gpus_repaired_at == 10


def test_other_words_for_the_same_trouble_are_told_to_nobody() -> None:
    story = a_node()
    story.at(10, GPUS.shows(fault("degraded")))

    again = story.at(11, GPUS.shows(replace(fault("degraded"), reason="hot as well")))

    assert again == []
    assert story.notice().lead.sighting.reason == "hot as well"
