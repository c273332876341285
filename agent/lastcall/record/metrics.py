"""What each fact does to the metrics, on a registry of their own."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)

from lastcall.core import facts
from lastcall.core.estimates import JobAdvice
from lastcall.core.facts import Fact
from lastcall.core.model import Node, Outcome
from lastcall.core.views import NoticeView
from lastcall.record.gpu_families import GpuFamilies
from lastcall.record.gpu_readings import GpuReadings
from lastcall.record.gpu_state import GpuCollector
from lastcall.record.metric_families import Families
from lastcall.record.metric_labels import DRILL, PHASES, GpuLabels, JobLabels, Pairs
from lastcall.record.metrics_state import JournalHealth, StateCollector

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

_EXEMPLAR_LENGTH = 100
"""Characters of a notice id in an exemplar; OpenMetrics allows 128 with the label's name."""


class Metrics:
    """Everything that Prometheus is shown.

    A rehearsal is told apart by its labels: its notice has source ``manual``, its flushes have kind
    ``manual``. How long telling and flushing take is measured in rehearsals too; the margin to a
    made-up deadline is not, and neither is work that was never lost.

    Attributes:
        registry: holds every series, and none of another part of the process.
    """

    def __init__(
        self,
        node: Callable[[], Node],
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        advice: Callable[[Node, str], JobAdvice],
        version: str,
        drain_backend: str = "none",
        journal: JournalHealth | None = None,
        gpus: GpuReadings | None = None,
    ) -> None:
        """Make all series that can be known now, at zero.

        Args:
            node: returns what the agent knows now; it is read at each scrape.
            monotonic: returns seconds on the clock that the node's times are on.
            wall: returns Unix seconds.
            advice: returns what is known of a job's next flush.
            version: the agent's.
            drain_backend: what empties the node.
            journal: what is said of its health; ``None`` leaves its series out.
            gpus: where the figures of the GPUs are; ``None`` leaves those out.
        """
        # The client library has this switch for the whole process only.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped
        self.registry = CollectorRegistry()
        self._drain_backend = drain_backend
        jobs, pairs = JobLabels(), Pairs()
        self._families = Families(
            self.registry, jobs=jobs, pairs=pairs, drain_backend=drain_backend
        )
        Gauge(
            "lastcall_build_info",
            "The agent's version and its Python's; always 1.",
            ("version", "python"),
            registry=self.registry,
        ).labels(version, platform.python_version()).set(1)
        self.registry.register(
            StateCollector(
                node,
                monotonic=monotonic,
                wall=wall,
                advice=advice,
                jobs=jobs,
                pairs=pairs,
                journal=journal,
            )
        )
        gpu_labels = GpuLabels()
        gpu_families = GpuFamilies(self.registry, gpu_labels)
        self.registry.register(
            GpuCollector(
                node,
                monotonic=monotonic,
                wall=wall,
                labels=gpu_labels,
                families=gpu_families,
                readings=gpus,
            )
        )
        ProcessCollector(registry=self.registry)
        self._counted_as: dict[str, tuple[str, str]] = {}
        self._recorders: Mapping[type[Fact], Callable[[Any], None]] = {
            facts.SourceAnswered: self._source_answered,
            facts.NoticeSeen: self._notice_seen,
            facts.NoticeChanged: self._notice_changed,
            facts.NoticeEnded: self._notice_ended,
            facts.AllClientsTold: self._clients_told,
            facts.FlushSettled: self._flush_settled,
            facts.WorkLost: self._work_lost,
            facts.CheckpointSeen: self._checkpoint_seen,
            facts.JobResumed: self._job_resumed,
            facts.ClientCame: self._client_came,
            facts.PodMoved: self._pod_moved,
            facts.NodeDrained: self._node_drained,
            facts.HookRan: self._hook_ran,
            **gpu_families.recorders(),
        }

    def record(self, fact: Fact) -> None:
        """Count a fact; quick, without I/O."""
        recorder = self._recorders.get(type(fact))
        if recorder is not None:
            recorder(fact)

    def handler(self) -> Handler:
        """Return a handler for aiohttp that answers in the format the scraper prefers."""
        from prometheus_client.aiohttp import (  # noqa: PLC0415 - it loads all of aiohttp's server
            make_aiohttp_handler,
        )

        return make_aiohttp_handler(self.registry)

    def _source_answered(self, fact: facts.SourceAnswered) -> None:
        self._families.know_source(fact.source)
        self._families.polls.labels(fact.source, fact.result).inc()
        self._families.foreign.labels(fact.source).inc(fact.foreign)

    def _notice_seen(self, fact: facts.NoticeSeen) -> None:
        source = _source(fact.notice)
        self._count_notice(fact.notice)
        if fact.lead_seconds is not None:
            lead = self._families.lead.labels(source, fact.notice.kind.value)
            lead.observe(fact.lead_seconds, _exemplar(fact.notice))

    def _notice_changed(self, fact: facts.NoticeChanged) -> None:
        """Count a notice that a stronger source has taken over, as that source's too."""
        if self._counted_as.get(fact.notice.id) not in (None, _pair(fact.notice)):
            self._count_notice(fact.notice)

    def _count_notice(self, notice: NoticeView) -> None:
        source, kind = self._counted_as[notice.id] = _pair(notice)
        self._families.know_source(source)
        self._families.notices.labels(source, kind).inc()

    def _notice_ended(self, fact: facts.NoticeEnded) -> None:
        self._counted_as.pop(fact.notice.id, None)
        if fact.ending == "withdrawn":
            self._families.withdrawn.labels(_source(fact.notice), fact.notice.kind.value).inc()
        if fact.notice.drill:
            self._families.drills.labels(_drill_outcome(fact)).inc()

    def _clients_told(self, fact: facts.AllClientsTold) -> None:
        if fact.clients:
            self._families.signal.observe(fact.signal_seconds)

    def _flush_settled(self, fact: facts.FlushSettled) -> None:
        kind = DRILL if fact.notice.drill else fact.notice.kind.value
        self._families.flushes.labels(fact.outcome, kind).inc()
        exemplar = _exemplar(fact.notice)
        if fact.flush_seconds is not None:
            self._families.flush.observe(fact.flush_seconds, exemplar)
        if fact.notice.drill:
            return
        if fact.margin_seconds is not None:
            self._families.margin.observe(fact.margin_seconds, exemplar)
        if fact.used_ratio is not None:
            self._families.used.observe(fact.used_ratio, exemplar)

    def _work_lost(self, fact: facts.WorkLost) -> None:
        if not fact.notice.drill:
            label = self._families.know_job(fact.job)
            self._families.lost_seconds.labels(label).inc(max(0.0, fact.seconds))

    def _checkpoint_seen(self, fact: facts.CheckpointSeen) -> None:
        label = self._families.know_job(fact.job)
        for phase, seconds in zip(PHASES, (fact.stall_seconds, fact.durable_seconds), strict=True):
            if seconds is not None:
                self._families.checkpoint.labels(label, phase).observe(seconds)

    def _job_resumed(self, fact: facts.JobResumed) -> None:
        label = self._families.know_job(fact.job)
        self._families.lost_steps.labels(label).inc(fact.lost_steps or 0)

    def _client_came(self, fact: facts.ClientCame) -> None:
        self._families.know_job(fact.job)

    def _pod_moved(self, fact: facts.PodMoved) -> None:
        self._families.evictions.labels(fact.outcome).inc()

    def _node_drained(self, fact: facts.NodeDrained) -> None:
        self._families.drains.labels(self._drain_backend, fact.outcome).inc()
        self._families.drain.labels(self._drain_backend).observe(fact.seconds)

    def _hook_ran(self, fact: facts.HookRan) -> None:
        self._families.hooks.labels(fact.hook, fact.outcome).inc()


def _pair(notice: NoticeView) -> tuple[str, str]:
    return _source(notice), notice.kind.value


def _source(notice: NoticeView) -> str:
    return DRILL if notice.drill else notice.source


def _exemplar(notice: NoticeView) -> dict[str, str]:
    return {"notice_id": notice.id[:_EXEMPLAR_LENGTH]}


def _drill_outcome(fact: facts.NoticeEnded) -> str:
    if fact.ending not in {"rehearsed", "passed"}:
        return "cut_short"
    return "passed" if set(fact.outcomes) == {Outcome.IN_TIME} else "failed"
