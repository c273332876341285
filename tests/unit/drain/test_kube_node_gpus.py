"""What the condition of the node's GPUs says, and when it is due, on a clock held in hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.facts import GpuHealth, GpuWatchSeen, NodeGpuHealth, NoticeEnded
from lastcall.core.gpu.model import Health, Recovery, WatchState
from lastcall.drain.kubernetes.node_gpus import (
    APART_SECONDS,
    EACH_SECONDS,
    FIRST_SECONDS,
    RECOVERIES,
    SETTLED_SECONDS,
    WORDS_SECONDS,
    GpuReport,
)
from support.kube_api.objects import node
from support.kube_notes import notice

XID_79 = ("False", "Xid79", "xid_79; recommended: reboot the machine")
HEALTHY = ("True", "Healthy", "nothing speaks against a GPU")
A_GPU = GpuHealth(
    gpu="GPU-1",
    index=0,
    health=Health.HEALTHY,
    before=Health.UNKNOWN,
    reasons=(),
    recovery=Recovery.NONE,
    detail="",
)


def health(health, *reasons, recovery=Recovery.NONE, detail=""):
    return NodeGpuHealth(health, reasons, recovery, detail)


def faulty(*reasons, **how):
    return health(Health.FAULTY, *(reasons or ("xid_79",)), recovery=Recovery.REBOOT, **how)


def watch(state):
    return GpuWatchSeen(state=state, detail="", gpu="", call="", pid=None)


class Watched:
    """A node, and an agent on it that writes the condition as soon as it may."""

    def __init__(self):
        self.now = 1000.0
        self.node = node("node-a", ready=True)
        self.writes = []
        self.restart()

    def restart(self):
        self.report = GpuReport(lambda: self.now)

    def hears(self, *facts):
        for fact in facts:
            self.report.note(fact)

    def passes(self, seconds, each_seconds=1.0):
        """Let time pass, each second of which the agent looks whether something is due."""
        for _ in range(round(seconds / each_seconds)):
            self.now += each_seconds
            wanted = self.report.condition(self.node, 1_700_000_000.0 + self.now)
            if wanted is not None:
                self.report.written()
                self.stands(wanted)
                self.writes.append((self.now, *self.said))

    def stands(self, condition):
        """Let the condition be this one, whoever wrote it."""
        others = [one for one in self._conditions if one["type"] != "GPUHealthy"]
        self.node["status"]["conditions"] = [*others, condition]

    @property
    def most_in_an_hour(self):
        times = [at for at, *_ in self.writes]
        return max((sum(0 <= at - first < 3600 for at in times) for first in times), default=0)

    @property
    def said(self):
        (found,) = (one for one in self._conditions if one["type"] == "GPUHealthy")
        return found["status"], found["reason"], found["message"]

    @property
    def _conditions(self):
        return self.node["status"]["conditions"]


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def healthy(watched):
    """One whose condition says for long that all is well."""
    watched.hears(A_GPU, health(Health.HEALTHY))
    watched.passes(3600, each_seconds=25.0)
    watched.writes.clear()
    return watched


# --- what it says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (health(Health.HEALTHY), HEALTHY),
        (faulty(), XID_79),
        (
            health(Health.DEGRADED, "row_remap_pending", recovery=Recovery.RESET_WHEN_IDLE),
            ("True", "Degraded", "row_remap_pending; recommended: reset the GPU when it is idle"),
        ),
        (
            health(Health.UNKNOWN, "driver_unresponsive"),
            ("Unknown", "DriverUnresponsive", "driver_unresponsive"),
        ),
        (health(Health.UNKNOWN), ("Unknown", "Unknown", "")),
    ],
)
def test_it_says_how_the_gpus_are_and_what_helps(watched, fact, said):
    watched.hears(A_GPU, fact)
    watched.passes(2)

    assert watched.said == said


def test_a_reason_that_several_gpus_have_is_named_once(watched):
    watched.hears(faulty("xid_95", "xid_79", "xid_95"))
    watched.passes(2)

    assert watched.said[1:] == ("Xid95", "xid_95, xid_79; recommended: reboot the machine")


def test_every_recovery_has_words():
    assert set(RECOVERIES) == set(Recovery)


def test_while_the_status_stays_so_does_the_time_since_when(healthy):
    (before,) = healthy.node["status"]["conditions"][1:]
    healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
    healthy.passes(SETTLED_SECONDS)
    (after,) = healthy.node["status"]["conditions"][1:]

    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert after["lastHeartbeatTime"] > before["lastHeartbeatTime"]


# --- who gets one -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        (),
        (health(Health.UNKNOWN, "no_driver"),),
        (health(Health.HEALTHY),),
        (watch(WatchState.NO_GPU),),
        (watch(WatchState.OFF), watch(WatchState.STARTING)),
        (faulty(), watch(WatchState.OFF)),
        (NoticeEnded(notice(), "withdrawn", {}),),
    ],
)
def test_a_node_of_which_no_gpu_is_known_gets_none(watched, facts):
    watched.hears(*facts)
    watched.passes(120)

    assert watched.writes == []


def test_a_node_that_should_have_gpus_gets_one(watched):
    watched.hears(faulty("gpu_missing"))
    watched.passes(2)

    assert watched.said[:2] == ("False", "GpuMissing")


@pytest.mark.parametrize(
    ("state", "reason"), [(WatchState.OFF, "NotWatched"), (WatchState.NO_GPU, "NoGPU")]
)
@pytest.mark.parametrize(
    "verdicts", [(), (health(Health.DEGRADED, "row_remap_pending"),), (health(Health.HEALTHY),)]
)
def test_what_stands_is_no_longer_claimed_where_nobody_looks(healthy, state, reason, verdicts):
    healthy.restart()
    healthy.hears(*verdicts, watch(state))
    healthy.passes(60)

    assert [write[1:3] for write in healthy.writes] == [("Unknown", reason)]


@pytest.mark.parametrize("after", [(), (health(Health.UNKNOWN),), (faulty(),)])
def test_a_fault_is_no_longer_claimed_where_the_watch_was_turned_off(healthy, after):
    healthy.hears(faulty())
    healthy.passes(60)
    healthy.restart()
    healthy.hears(faulty(), watch(WatchState.OFF), *after)
    healthy.passes(60)

    assert healthy.said[:2] == ("Unknown", "NotWatched")


@pytest.mark.parametrize(
    "facts",
    [(faulty(), watch(WatchState.NO_GPU)), (watch(WatchState.NO_GPU), faulty())],
    ids=["before", "after"],
)
def test_a_fault_stands_though_no_gpu_can_be_seen_any_more(healthy, facts):
    healthy.hears(*facts)
    healthy.passes(60)

    assert healthy.said == XID_79


def test_what_was_judged_before_holds_again_once_somebody_looks_again(healthy):
    healthy.hears(watch(WatchState.NO_GPU))
    healthy.passes(60)
    healthy.hears(watch(WatchState.WATCHING))
    healthy.passes(60)

    assert healthy.said == HEALTHY


# --- when -------------------------------------------------------------------------------------


def test_a_verdict_waits_a_moment_for_the_cordon(watched):
    assert watched.report.note(A_GPU) is None
    assert watched.report.note(faulty()) == FIRST_SECONDS
    assert watched.report.condition(watched.node, 0.0) is None
    watched.passes(5)

    assert watched.writes == [(1001.0, *XID_79)]


def test_the_same_is_no_news(healthy):
    assert healthy.report.note(health(Health.HEALTHY)) is None
    healthy.passes(600)

    assert healthy.writes == []


def test_a_fault_is_written_at_once_and_what_changes_no_status_once_it_has_held(healthy):
    began = healthy.now
    healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
    healthy.passes(60)
    healthy.hears(faulty())
    healthy.passes(60)

    first, second = (at for at, *_ in healthy.writes)
    assert first == began + SETTLED_SECONDS
    assert second == began + 60 + FIRST_SECONDS


def test_a_fault_is_not_written_sooner_after_the_last_write_than_it_should(healthy):
    healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
    healthy.passes(SETTLED_SECONDS + 1)
    assert healthy.report.note(faulty()) == APART_SECONDS - 1
    healthy.passes(20)

    first, second = (at for at, *_ in healthy.writes)
    assert second - first == APART_SECONDS


@pytest.mark.parametrize(
    "better", [health(Health.HEALTHY), health(Health.UNKNOWN, "driver_unresponsive")]
)
def test_what_is_no_worse_is_written_once_it_has_held(watched, better):
    watched.hears(faulty())
    watched.passes(60)
    watched.hears(better)
    watched.passes(SETTLED_SECONDS - 1)
    assert watched.said == XID_79

    watched.passes(2)
    assert watched.said != XID_79


def test_it_has_held_no_longer_than_it_was_heard_though_the_node_was_seldom_looked_at(healthy):
    healthy.now += 25.0
    healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
    healthy.passes(SETTLED_SECONDS - 1)

    assert healthy.writes == []


def test_a_gpu_that_is_well_and_ill_by_turns_costs_one_write(healthy):
    for _ in range(100):
        healthy.hears(faulty())
        healthy.passes(5)
        healthy.hears(health(Health.HEALTHY))
        healthy.passes(15)

    assert len(healthy.writes) == 1
    assert healthy.said == XID_79


def test_a_reason_that_comes_and_goes_beside_one_that_stands_costs_one_write(healthy):
    for _ in range(90):
        healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
        healthy.passes(20)
        healthy.hears(health(Health.DEGRADED, "row_remap_pending", "temperature_high"))
        healthy.passes(20)

    assert [write[1:3] for write in healthy.writes] == [("True", "Degraded")]


def test_what_stands_and_is_untrue_is_replaced_though_what_is_true_changes_all_the_time(healthy):
    healthy.hears(faulty())
    healthy.passes(5)
    for _ in range(30):
        healthy.hears(health(Health.DEGRADED, "row_remap_pending"))
        healthy.passes(5)
        healthy.hears(health(Health.UNKNOWN, "driver_unresponsive"))
        healthy.passes(5)

    assert healthy.said[0] != "False"


def test_other_words_wait_longer_after_a_write_than_another_status(healthy):
    healthy.hears(faulty())
    healthy.passes(60)
    (written,) = (at for at, *_ in healthy.writes)
    healthy.hears(faulty("xid_95", "xid_79"))
    healthy.passes(WORDS_SECONDS)

    assert healthy.writes[1][0] == written + WORDS_SECONDS
    assert healthy.said[1] == "Xid95"


def test_slow_turns_leave_the_fault_standing_and_its_end_is_written_in_the_end(healthy):
    for _ in range(60):
        healthy.hears(faulty())
        healthy.passes(60, each_seconds=5.0)
        healthy.hears(health(Health.HEALTHY))
        healthy.passes(60, each_seconds=5.0)
    healthy.passes(2 * EACH_SECONDS)

    assert healthy.most_in_an_hour <= 12
    assert healthy.said == HEALTHY


def test_a_rival_that_writes_something_else_each_time_is_not_answered_each_time(healthy):
    healthy.hears(faulty())
    for _ in range(360):
        healthy.passes(10)
        healthy.stands({"type": "GPUHealthy", "status": "True", "reason": "X", "message": "Y"})

    assert 1 < healthy.most_in_an_hour <= 12


REASONS = st.lists(st.sampled_from(["xid_79", "temperature_high", "x"]), max_size=3, unique=True)
FACTS = st.one_of(
    st.builds(health, st.sampled_from(Health)),
    st.builds(lambda of, reasons: health(of, *reasons), st.sampled_from(Health), REASONS),
    st.sampled_from([watch(WatchState.NO_GPU), watch(WatchState.WATCHING), A_GPU]),
)
GAPS = st.one_of(st.integers(1, 60), st.integers(30, 900))
COURSES = st.lists(st.tuples(FACTS, GAPS), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(course=COURSES)
def test_in_any_course_twelve_writes_an_hour_are_the_most_and_the_last_word_is_true(course):
    watched = Watched()
    watched.hears(A_GPU)
    while watched.now < 1000.0 + 2 * 3600:
        for fact, seconds in course:
            watched.hears(fact)
            watched.passes(max(seconds, 10), each_seconds=10.0)
    watched.hears(watch(WatchState.WATCHING), faulty())
    watched.passes(EACH_SECONDS + 10, each_seconds=10.0)

    assert watched.most_in_an_hour <= 12
    assert watched.said[0] == "False"

    watched.hears(health(Health.HEALTHY))
    watched.passes(2 * EACH_SECONDS + 10, each_seconds=10.0)

    assert watched.said == HEALTHY


def test_after_a_restart_the_same_words_are_not_written_again(watched):
    watched.hears(faulty(detail="at 71 °C"))
    watched.passes(60)
    watched.restart()
    watched.hears(A_GPU, health(Health.UNKNOWN))
    watched.passes(10)
    watched.hears(faulty(detail="at 74 °C"))
    watched.passes(120)

    assert len(watched.writes) == 1
