"""What holds of the judge whatever it is told, in whatever order."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.gpu.judge import EMPTY, Belief, News, sightings, take, verdicts, wake_at
from lastcall.core.gpu.model import Gpu, Health, Look, NodeLook, WatchState, XidSeen
from lastcall.core.gpu.news import Moment, NoiseExpected, Remembered, Repaired, WatchSaid
from lastcall.core.gpu.rules import make_rules
from lastcall.core.gpu.signal_rules import SIGNALS

RULES = make_rules(expected=2)
GPUS = [
    Gpu(f"GPU-{name}", index, "NVIDIA H100 80GB HBM3", f"0:{index}")
    for index, name in enumerate("ab")
]
NAMELESS = Gpu("", 1, "", "0:1")
SIGNAL_NAMES = sorted(
    {name for rule in SIGNALS for name in rule.reads}
    | {"utilization_ratio", "nvlink_present", "mig", "call_seconds_max"}
)

thorough = settings(max_examples=30, deadline=None, derandomize=True, database=None)

figures = st.one_of(
    st.sampled_from([0.0, 1.0, 3.0, 16.0, 100.0, 1e6, -1.0, math.nan, math.inf, -math.inf, 1e300]),
    st.floats(),
)
readings = st.builds(
    lambda action, others: {**others, **action},
    st.sampled_from(
        [{}, {"recovery_action": 0.0}, {"recovery_action": 0.0}, {"recovery_action": 1.0}]
    ),
    st.just({}) | st.dictionaries(st.sampled_from(SIGNAL_NAMES), figures, max_size=4),
)
at = st.just(0.0)
looks = st.builds(
    Look,
    gpu=st.sampled_from([*GPUS, NAMELESS]),
    at=at,
    code=st.sampled_from([0, 0, 0, 0, 4, 7, 11, 15, 16, 17, 28, 999]),
    values=readings,
    codes=st.dictionaries(st.sampled_from(SIGNAL_NAMES), st.sampled_from([3, 13, 14, 999])),
)
xids = st.builds(
    XidSeen,
    uuid=st.sampled_from([*(gpu.uuid for gpu in GPUS), "", "GPU-new"]),
    xid=st.sampled_from([13, 43, 45, 48, 63, 79, 94, 95, 119, 143, 145, 154, 999, 5000]),
    at=at,
    count=st.integers(0, 5),
    text=st.sampled_from(["", "Fatal XC0", "Nonfatal", "changed from 0x1 to 0x0", "to 0x2"]),
    past=st.booleans(),
)
others = st.one_of(
    st.builds(Moment, at),
    st.builds(
        WatchSaid,
        at,
        st.sampled_from([*WatchState, WatchState.WATCHING, WatchState.WATCHING]),
        gpu=st.sampled_from(["", GPUS[0].uuid]),
    ),
    st.builds(
        NodeLook,
        at=at,
        driver_count=st.integers(0, 3),
        pci_count=st.sampled_from([None, 2]),
        control_openable=st.sampled_from([None, True, False]),
        driver=st.just("1"),
        kernel_driver=st.sampled_from(["", "1", "2"]),
    ),
    st.builds(NoiseExpected, at, st.floats(0, 2000)),
    st.builds(Repaired, at),
    st.builds(
        Remembered, at, faulty=st.none() | st.just(900.0), degraded=st.none() | st.just(950.0)
    ),
)
courses = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 1.0, 5.0, 5.0, 60.0, 400.0]), looks | xids | others),
    min_size=20,
    max_size=60,
)


def told(course: list[tuple[float, News]]) -> list[tuple[Belief, News, Belief]]:
    """Tell a course of news, each at its time; return what was believed before and after each."""
    belief, now, steps = EMPTY, 1000.0, []
    for seconds, what in course:
        now += seconds
        is_past = isinstance(what, XidSeen) and what.past
        news = _at(what, now - 500.0 if is_past else now)
        after = take(belief, news, RULES)
        steps.append((belief, news, after))
        belief = after
    return steps


def _is_silence(news: News) -> bool:
    return isinstance(news, WatchSaid) and news.state is not WatchState.WATCHING


def _at(news: News, at: float) -> News:
    values = {name: getattr(news, name) for name in type(news).__dataclass_fields__}
    return type(news)(**{**values, "at": at})


@thorough
@given(courses)
def test_any_news_in_any_order_is_judged(course: list[tuple[float, News]]) -> None:
    for _, news, belief in told(course):
        judged = verdicts(belief)
        assert "" in judged or belief is EMPTY
        for uuid, (gpu, verdict) in judged.items():
            assert gpu.uuid == uuid
            worst = [mark.health for mark in verdict.marks if mark.health is not Health.HEALTHY]
            if worst:
                assert verdict.health is not Health.HEALTHY
            assert all(mark.reason and mark.detail for mark in verdict.marks)
            assert verdict.health in (Health.HEALTHY, Health.UNKNOWN) or worst
        reported = sightings(belief)
        keys = [sighting.key for sighting in reported or ()]
        assert keys in ([], ["faulty"], ["degraded"], ["faulty", "degraded"])
        assert all(len(sighting.reason) <= 200 for sighting in reported or ())
        due = wake_at(belief)
        assert due is None or due > news.at or isinstance(news, XidSeen)


@thorough
@given(courses)
def test_a_gpu_is_faulty_no_more_only_where_it_is_looked_at_or_repaired(
    course: list[tuple[float, News]],
) -> None:
    for before, news, after in told(course):
        for uuid, (_, old) in verdicts(before).items():
            judged = verdicts(after).get(uuid)
            is_faulty = judged is not None and judged[1].health is Health.FAULTY
            if old.health is not Health.FAULTY or is_faulty:
                continue
            if uuid:
                its_look = isinstance(news, Look) and news.gpu.uuid == uuid
                assert its_look or isinstance(news, Repaired)
            else:
                assert isinstance(news, Look | NodeLook | WatchSaid | Repaired | XidSeen)


@thorough
@given(courses)
def test_a_gpu_is_well_only_where_it_has_answered_and_the_watch_has_not_lost_sight_of_it(
    course: list[tuple[float, News]],
) -> None:
    answered: set[str] = set()
    for _, news, after in told(course):
        if isinstance(news, Look) and news.code in (0, 17, 28, 999):
            answered.add(news.gpu.uuid)
        elif isinstance(news, Look):
            answered.discard(news.gpu.uuid)
        elif isinstance(news, Repaired) or _is_silence(news):
            answered.clear()
        healthy = {
            uuid
            for uuid, (_, verdict) in verdicts(after).items()
            if uuid and verdict.health is Health.HEALTHY
        }
        assert healthy <= answered


@thorough
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(SIGNAL_NAMES), st.sampled_from([2, 3, 13, 25, 26, 27, 10, 999])
        )
    )
)
def test_what_cannot_be_read_never_speaks_against_a_gpu(refusals: list[dict[str, int]]) -> None:
    belief = take(EMPTY, WatchSaid(0.0, WatchState.WATCHING), RULES)
    for step, codes in enumerate(refusals):
        for gpu in GPUS:
            values = {"call_seconds_max": 0.1}
            if gpu is GPUS[0]:
                values["power_watts"] = 300.0
            belief = take(belief, Look(gpu=gpu, at=5.0 * step, codes=codes, values=values), RULES)
        health = [verdicts(belief)[gpu.uuid][1].health for gpu in GPUS]
        assert health == [Health.HEALTHY, Health.UNKNOWN]


@thorough
@given(courses)
def test_an_agent_that_restarts_forgets_no_fault(course: list[tuple[float, News]]) -> None:
    _, news, belief = told(course)[-1]
    again = take(EMPTY, Remembered(news.at + 10, verdicts(belief)), RULES)
    for uuid, (_, verdict) in verdicts(belief).items():
        kept = {mark for mark in verdict.marks if mark.health is Health.FAULTY and uuid}
        assert kept <= set(verdicts(again)[uuid][1].marks)
