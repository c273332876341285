"""What facts and the state do to single series."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from lastcall.core import facts
from lastcall.core.estimates import JobAdvice, JobHistory
from lastcall.core.model import (
    Action,
    Claim,
    Client,
    DeadlineQuality,
    Kind,
    Node,
    Notice,
    Outcome,
    Phase,
    Response,
    Sighting,
    SourceHealth,
    Stance,
    Urgency,
)
from lastcall.core.views import NoticeView
from lastcall.record.metric_labels import JOB_LIMIT
from lastcall.record.metrics import Metrics

BOOTED_UNIX = 1700000000.0
NOW = 1000.0

VIEW = NoticeView(
    id="aws-preemption-1",
    phase=Phase.TOLD,
    kind=Kind.PREEMPTION,
    source="aws",
    sources=("aws",),
    action=Action.TERMINATE,
    urgency=Urgency.NOW,
    first_seen=NOW,
    deadline=NOW + 120,
    deadline_unix=None,
    deadline_quality=DeadlineQuality.PROVIDER,
    flush_until=NOW + 110,
    cancellable=False,
    drill=False,
    reason="",
    supersedes=(),
)
DRILL = replace(VIEW, source="manual", drill=True)
SETTLED = facts.FlushSettled(
    notice=VIEW,
    client="c",
    job="llama",
    rank=0,
    outcome=Outcome.IN_TIME,
    flush_seconds=12.0,
    margin_seconds=108.0,
    used_ratio=0.1,
    step=9,
    path="/ckpt/9",
    cause="",
)


class Shown:
    """The metrics of a node, and their values by name and labels."""

    def __init__(self, node: Node | None = None, **advice: JobAdvice) -> None:
        self.node = node if node is not None else Node()
        self.metrics = Metrics(
            lambda: self.node,
            monotonic=lambda: NOW,
            wall=lambda: BOOTED_UNIX + NOW,
            advice=lambda _, job: advice.get(job, JobAdvice(None, "unknown", None)),
            version="1.2.3",
        )

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"lastcall_{name}", labels)

    def labels(self, name: str) -> set[tuple[str, ...]]:
        """Return the label values that a metric has series for."""
        return {
            tuple(sample.labels[label] for label in sorted(sample.labels))
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"lastcall_{name}"
        }


def notice(
    source: str = "aws",
    *,
    kind: Kind = Kind.PREEMPTION,
    deadline: float | None = None,
    deadline_unix: float | None = None,
    drill: bool = False,
) -> Notice:
    sighting = Sighting(
        source=source,
        scope="s",
        key="k",
        kind=kind,
        action=Action.TERMINATE,
        deadline=deadline,
        deadline_unix=deadline_unix,
        drill=drill,
    )
    claim = Claim(sighting, Response(Stance.FLUSH, drain=True), NOW)
    return Notice(id=f"{source}-{deadline}", phase=Phase.TOLD, first_seen=NOW, claims=(claim,))


def node_with(*notices: Notice) -> Node:
    return Node(notices={item.id: item for item in notices})


def client(job: str, *, key: str = "", connected: bool = True) -> Client:
    return Client(
        key=key or job,
        identity=key or job,
        session=(key or job) if connected else None,
        job=job,
        joined_at=NOW,
    )


def node_of(*clients: Client, **jobs: JobHistory) -> Node:
    return Node(clients={item.key: item for item in clients}, jobs=jobs)


# --- facts -----------------------------------------------------------------------------------


def test_every_outcome_of_every_kind_is_there_from_the_start() -> None:
    shown = Shown()

    assert shown.labels("flushes_total") == {(k.value, o.value) for k in Kind for o in Outcome}
    assert all(
        shown("flushes_total", kind=k, outcome=o) == 0 for k, o in shown.labels("flushes_total")
    )


def test_no_series_says_when_it_was_created() -> None:
    shown = Shown()
    shown.metrics.record(SETTLED)

    text = generate_openmetrics(shown.metrics.registry).decode()

    assert "_created" not in text


def test_a_flush_in_time_fills_every_histogram() -> None:
    shown = Shown()

    shown.metrics.record(SETTLED)

    assert shown("flushes_total", outcome="in_time", kind="preemption") == 1
    assert shown("flush_seconds_sum") == 12.0
    assert shown("flush_used_ratio_sum") == 0.1
    assert shown("flush_margin_seconds_bucket", le="120.0") == 1
    assert shown("flush_margin_seconds_bucket", le="60.0") == 0


def test_a_late_flush_is_below_the_bound_of_zero() -> None:
    shown = Shown()

    shown.metrics.record(replace(SETTLED, outcome=Outcome.LATE, margin_seconds=-3.0))

    assert shown("flush_margin_seconds_bucket", le="0.0") == 1
    assert shown("flush_margin_seconds_bucket", le="-5.0") == 0


def test_a_flush_that_never_was_has_no_duration() -> None:
    shown = Shown()

    shown.metrics.record(
        replace(
            SETTLED,
            outcome=Outcome.MISSED,
            flush_seconds=None,
            margin_seconds=None,
            used_ratio=None,
        )
    )

    assert shown("flushes_total", outcome="missed", kind="preemption") == 1
    assert shown("flush_seconds_count") == 0


def test_exemplars_name_the_notice_where_the_format_has_them() -> None:
    shown = Shown()
    shown.metrics.record(facts.NoticeSeen(VIEW, 120.0))
    shown.metrics.record(SETTLED)

    text = generate_openmetrics(shown.metrics.registry).decode()

    named = {
        line.partition("{")[0]
        for line in text.splitlines()
        if f'# {{notice_id="{VIEW.id}"}}' in line
    }
    assert named == {
        "lastcall_notice_lead_seconds_bucket",
        "lastcall_flush_seconds_bucket",
        "lastcall_flush_margin_seconds_bucket",
        "lastcall_flush_used_ratio_bucket",
    }


def test_an_id_too_long_for_an_exemplar_is_cut() -> None:
    shown = Shown()

    shown.metrics.record(facts.NoticeSeen(replace(VIEW, id="x" * 500), 120.0))

    assert shown("notices_total", source="aws", kind="preemption") == 1


@pytest.mark.parametrize(
    ("ending", "outcomes", "counted"),
    [
        ("rehearsed", {"in_time": 2}, "passed"),
        ("rehearsed", {"in_time": 1, "late": 1}, "failed"),
        ("passed", {"missed": 1}, "failed"),
        ("rehearsed", {}, "failed"),
        ("superseded", {"withdrawn": 1}, "cut_short"),
    ],
)
def test_a_drill_passes_only_if_all_flushed_in_time(
    ending: str, outcomes: dict[str, int], counted: str
) -> None:
    shown = Shown()

    shown.metrics.record(facts.NoticeEnded(DRILL, ending, outcomes))

    assert shown("drills_total", outcome=counted) == 1


def test_a_drill_loses_no_work() -> None:
    shown = Shown()

    shown.metrics.record(facts.WorkLost(DRILL, "llama", 300.0))

    assert shown.labels("lost_work_seconds_total") == set()


def test_only_a_withdrawn_notice_counts_as_withdrawn() -> None:
    shown = Shown()

    for ending in ("passed", "superseded", "withdrawn"):
        shown.metrics.record(facts.NoticeEnded(VIEW, ending, {}))

    assert shown("notices_withdrawn_total", source="aws", kind="preemption") == 1
    assert shown("drills_total", outcome="passed") == 0


def test_where_there_was_nobody_to_tell_no_time_is_measured() -> None:
    shown = Shown()

    shown.metrics.record(facts.AllClientsTold(VIEW, 0, 0.001))

    assert shown("signal_seconds_count") == 0


def test_a_job_that_comes_has_its_series_at_zero() -> None:
    shown = Shown()

    shown.metrics.record(facts.ClientCame("c", "llama", 0, 42, returned=False))

    assert shown("checkpoint_seconds_count", job="llama", phase="stall") == 0
    assert shown("checkpoint_seconds_count", job="llama", phase="durable") == 0
    assert shown("lost_work_seconds_total", job="llama") == 0
    assert shown("lost_steps_total", job="llama") == 0


def test_a_checkpoint_measures_what_the_client_measured() -> None:
    shown = Shown()

    shown.metrics.record(facts.CheckpointSeen("llama", 3, None, 0.5, None))

    assert shown("checkpoint_seconds_sum", job="llama", phase="stall") == 0.5
    assert shown("checkpoint_seconds_count", job="llama", phase="durable") == 0


def test_work_and_steps_lost_add_up() -> None:
    shown = Shown()

    shown.metrics.record(facts.WorkLost(VIEW, "llama", 30.0))
    shown.metrics.record(facts.WorkLost(VIEW, "llama", 12.5))
    shown.metrics.record(facts.JobResumed("llama", 9, 17, None))
    shown.metrics.record(facts.JobResumed("llama", 9, None, None))

    assert shown("lost_work_seconds_total", job="llama") == 42.5
    assert shown("lost_steps_total", job="llama") == 17


def test_any_number_of_jobs_costs_a_limited_number_of_series() -> None:
    shown = Shown(node_of(*[client(f"job-{number}") for number in range(200)]))

    for number in range(200):
        shown.metrics.record(facts.WorkLost(VIEW, f"job-{number}", 1.0))

    assert len(shown.labels("lost_work_seconds_total")) == JOB_LIMIT + 1
    assert shown("lost_work_seconds_total", job="other") == 200 - JOB_LIMIT
    assert len(shown.labels("clients")) == JOB_LIMIT + 1
    assert shown("clients", job="other") == 200 - JOB_LIMIT


def test_a_source_nobody_listed_has_all_its_series_from_its_first_answer() -> None:
    shown = Shown()

    shown.metrics.record(
        facts.SourceAnswered(
            source="newcloud",
            scope="",
            result="ok",
            up=True,
            changed=True,
            detail="",
            skew_seconds=None,
            foreign=2,
        )
    )

    assert shown("source_polls_total", source="newcloud", result="ok") == 1
    assert shown("source_polls_total", source="newcloud", result="timeout") == 0
    assert shown("source_foreign_events_total", source="newcloud") == 2
    assert shown("notices_total", source="newcloud", kind="preemption") == 0
    assert shown("notice_active", source="newcloud", kind="preemption") == 0


def test_a_drain_is_counted_for_its_backend() -> None:
    metrics = Metrics(
        Node,
        monotonic=lambda: NOW,
        wall=lambda: BOOTED_UNIX,
        advice=lambda _, __: JobAdvice(None, "unknown", None),
        version="1.2.3",
        drain_backend="slurm",
    )

    metrics.record(facts.NodeDrained("n", "incomplete", 25.0, ""))

    value = metrics.registry.get_sample_value
    assert value("lastcall_drains_total", {"backend": "slurm", "outcome": "incomplete"}) == 1
    assert value("lastcall_drains_total", {"backend": "slurm", "outcome": "drained"}) == 0
    assert value("lastcall_drain_seconds_sum", {"backend": "slurm"}) == 25.0


def test_a_program_of_the_site_s_own_is_counted_by_what_came_of_it() -> None:
    shown = Shown()

    shown.metrics.record(
        facts.HookRan("n", "on_notice", 0, "/site/drain", "not_started", None, 0.0, "")
    )

    assert shown("hooks_total", hook="on_notice", outcome="not_started") == 1
    assert shown("hooks_total", hook="on_notice", outcome="ok") == 0


# --- the state -------------------------------------------------------------------------------


def test_an_open_notice_is_active_until_it_ends() -> None:
    shown = Shown(node_with(notice()))
    assert shown("notice_active", source="aws", kind="preemption") == 1

    shown.node = node_with(replace(notice(), ended_at=NOW))

    assert shown("notice_active", source="aws", kind="preemption") == 0
    assert shown.labels("notice_deadline_timestamp_seconds") == set()


def test_of_two_notices_of_one_kind_the_nearest_deadline_is_shown() -> None:
    shown = Shown(node_with(notice(deadline=NOW + 60), notice(deadline=NOW + 30)))

    assert shown("notice_active", source="aws", kind="preemption") == 2
    assert (
        shown("notice_deadline_timestamp_seconds", source="aws", kind="preemption")
        == BOOTED_UNIX + NOW + 30
    )


def test_a_deadline_is_shown_as_the_provider_stated_it() -> None:
    shown = Shown(node_with(notice(deadline=NOW + 60, deadline_unix=1700009999.0)))

    deadline = shown("notice_deadline_timestamp_seconds", source="aws", kind="preemption")

    assert deadline == 1700009999.0


def test_an_open_drill_is_active_under_its_own_source() -> None:
    shown = Shown(node_with(notice("manual", drill=True)))

    assert shown("notice_active", source="manual", kind="preemption") == 1
    assert shown("notice_active", source="aws", kind="preemption") == 0


def test_a_notice_of_a_pair_nobody_listed_is_shown_all_the_same() -> None:
    shown = Shown(node_with(notice("gcp", kind=Kind.SHUTDOWN)))

    assert shown("notice_active", source="gcp", kind="shutdown") == 1


def test_only_sources_that_were_asked_are_up_or_down() -> None:
    sources = {
        "aws": SourceHealth(result="ok", last_success=NOW - 1, skew_seconds=0.5),
        "azure": SourceHealth({"events": "timeout"}, "timeout"),
    }
    shown = Shown(Node(sources=sources))

    assert shown.labels("source_up") == {("aws",), ("azure",)}
    assert shown("source_up", source="aws") == 1
    assert shown("source_up", source="azure") == 0
    assert shown("source_last_success_timestamp_seconds", source="aws") == BOOTED_UNIX + NOW - 1
    assert shown.labels("source_last_success_timestamp_seconds") == {("aws",)}
    assert shown("clock_skew_seconds", source="aws") == 0.5


def test_clients_are_those_that_are_connected() -> None:
    node = node_of(
        client("a", key="1"), client("a", key="2", connected=False), gone=JobHistory(last_at=1.0)
    )
    shown = Shown(node)

    assert shown("clients", job="a") == 1
    assert shown("clients", job="gone") == 0


@pytest.mark.parametrize(
    ("fits", "value"), [("fits", 1.0), ("tight", 0.5), ("misses", 0.0), ("unknown", None)]
)
def test_whether_a_flush_fits_is_a_number_or_no_series(fits: str, value: float | None) -> None:
    shown = Shown(node_of(client("a")), a=JobAdvice(None, fits, None))

    assert shown("flush_fits_notice", job="a") == value


def test_advice_and_the_last_checkpoint_are_shown_for_a_job() -> None:
    node = node_of(client("a"), a=JobHistory(last_at=NOW - 40))
    shown = Shown(node, a=JobAdvice(600.0, "fits", 9.0))

    assert shown("flush_predicted_seconds", job="a") == 9.0
    assert shown("checkpoint_advised_interval_seconds", job="a") == 600.0
    assert shown("checkpoint_last_timestamp_seconds", job="a") == BOOTED_UNIX + NOW - 40


def test_jobs_that_share_a_label_show_the_worst_of_those_that_are_here() -> None:
    node = node_of(
        client("a\n", key="1"),
        client("a\t", key="2"),
        **{
            "a\n": JobHistory(last_at=NOW - 10),
            "a\t": JobHistory(last_at=NOW - 90),
            "a\r": JobHistory(last_at=NOW - 900),
        },
    )
    shown = Shown(
        node,
        **{
            "a\n": JobAdvice(600.0, "fits", 9.0),
            "a\t": JobAdvice(300.0, "misses", 90.0),
            "a\r": JobAdvice(1.0, "misses", 900.0),
        },
    )

    assert shown("clients", job="a_") == 2
    assert shown("flush_predicted_seconds", job="a_") == 90.0
    assert shown("flush_fits_notice", job="a_") == 0.0
    assert shown("checkpoint_advised_interval_seconds", job="a_") == 300.0
    assert shown("checkpoint_last_timestamp_seconds", job="a_") == BOOTED_UNIX + NOW - 90


def test_the_cordon_is_shown_while_it_stands() -> None:
    assert Shown(Node())("node_cordoned") == 0
    assert Shown(Node(cordoned_for="n"))("node_cordoned") == 1


class FailedJournal:
    healthy = False
    errors = 3


def test_the_journal_shows_its_health() -> None:
    metrics = Metrics(
        Node,
        monotonic=lambda: NOW,
        wall=lambda: BOOTED_UNIX,
        advice=lambda _, __: JobAdvice(None, "unknown", None),
        version="1.2.3",
        journal=FailedJournal(),
    )

    assert metrics.registry.get_sample_value("lastcall_journal_up") == 0
    assert metrics.registry.get_sample_value("lastcall_journal_errors_total") == 3


def test_two_agents_in_one_process_share_no_series() -> None:
    first, second = Shown(), Shown()

    first.metrics.record(SETTLED)

    assert second("flushes_total", outcome="in_time", kind="preemption") == 0


def test_a_notice_that_a_stronger_source_takes_over_is_counted_as_that_sources_too() -> None:
    shown = Shown()
    fault = replace(VIEW, id="n9", source="gpu", kind=Kind.GPU_FAULT)
    shown.metrics.record(facts.NoticeSeen(fault, 30.0))

    for _ in range(2):
        shown.metrics.record(facts.NoticeChanged(replace(VIEW, id="n9")))

    assert shown("notices_total", source="gpu", kind="gpu_fault") == 1
    assert shown("notices_total", source=VIEW.source, kind=VIEW.kind.value) == 1
