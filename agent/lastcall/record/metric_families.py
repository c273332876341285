"""Every counter and histogram, declared once, with all series that can be known at zero."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from lastcall.core.model import Kind, Outcome
from lastcall.record.metric_labels import (
    DRAIN_OUTCOMES,
    DRILL,
    DRILL_OUTCOMES,
    EVICTION_OUTCOMES,
    HOOK_OUTCOMES,
    HOOKS,
    PHASES,
    RESULTS,
    SOURCE_KINDS,
    JobLabels,
    Pairs,
)

LEAD_BUCKETS = (5, 10, 20, 25, 30, 45, 60, 90, 120, 180, 300, 600, 3600, 86400)
SIGNAL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
FLUSH_BUCKETS = (0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
MARGIN_BUCKETS = (-60, -30, -10, -5, 0, 5, 10, 30, 60, 120, 600)
USED_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2)
CHECKPOINT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
DRAIN_BUCKETS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600)


class Families:
    """The families, each an attribute; a source or a job brings its series when it is known."""

    def __init__(
        self, registry: CollectorRegistry, *, jobs: JobLabels, pairs: Pairs, drain_backend: str
    ) -> None:
        self._registry = registry
        self._jobs = jobs
        self._pairs = pairs
        self._declare_notices()
        self._declare_flushes()
        self._declare_jobs()
        self._declare_agent()
        self._fill(drain_backend)

    def know_source(self, source: str) -> None:
        """Make the series of a source, at zero; those that exist stay as they are."""
        new = self._pairs.add(source)
        for pair in new:
            for family in (self.notices, self.withdrawn, self.lead):
                family.labels(*pair)
        if new and source != DRILL:
            self.foreign.labels(source)
            for result in RESULTS:
                self.polls.labels(source, result)

    def know_job(self, job: str) -> str:
        """Make the series of a job, at zero, and return its label."""
        label = self._jobs.label(job)
        for phase in PHASES:
            self.checkpoint.labels(label, phase)
        self.lost_seconds.labels(label)
        self.lost_steps.labels(label)
        return label

    def _declare_notices(self) -> None:
        self.notices = self._counter(
            "notices", "Notices that came into being; drills have source manual.", "source", "kind"
        )
        self.lead = self._histogram(
            "notice_lead_seconds",
            "Deadline minus first sight of a notice.",
            LEAD_BUCKETS,
            "source",
            "kind",
        )
        self.withdrawn = self._counter(
            "notices_withdrawn", "Notices that their source took back.", "source", "kind"
        )
        self.signal = self._histogram(
            "signal_seconds",
            "From first sight of a notice to the last client told.",
            SIGNAL_BUCKETS,
        )
        self.drills = self._counter(
            "drills",
            "Rehearsals that ended: passed when clients were there and all flushed in time, "
            "cut_short when something else ended them.",
            "outcome",
        )

    def _declare_flushes(self) -> None:
        self.flushes = self._counter(
            "flushes",
            "Flushes that ended, one for each client and notice; those of drills have kind manual.",
            "outcome",
            "kind",
        )
        self.flush = self._histogram(
            "flush_seconds", "From told to durable, drills included.", FLUSH_BUCKETS
        )
        self.margin = self._histogram(
            "flush_margin_seconds",
            "Deadline minus durable, drills left out; negative is late.",
            MARGIN_BUCKETS,
        )
        self.used = self._histogram(
            "flush_used_ratio",
            "Told to durable over told to deadline, drills left out; above 1 is late.",
            USED_BUCKETS,
        )

    def _declare_jobs(self) -> None:
        self.checkpoint = self._histogram(
            "checkpoint_seconds",
            "Checkpoints: how long training stood still (stall), and how long until durable.",
            CHECKPOINT_BUCKETS,
            "job",
            "phase",
        )
        self.lost_seconds = self._counter(
            "lost_work_seconds", "Work since the last durable checkpoint, lost to notices.", "job"
        )
        self.lost_steps = self._counter(
            "lost_steps", "Steps that jobs said they had lost when they came back.", "job"
        )

    def _declare_agent(self) -> None:
        self.polls = self._counter("source_polls", "Questions to a source.", "source", "result")
        self.foreign = self._counter(
            "source_foreign_events",
            "Events in a source's answers that were other machines'.",
            "source",
        )
        self.drains = self._counter(
            "drains", "Drains of the node that ended.", "backend", "outcome"
        )
        self.evictions = self._counter(
            "evictions",
            "Pods that were to leave the node; blocked counts each once, at the first refusal.",
            "outcome",
        )
        self.hooks = self._counter(
            "hooks", "Programs of the site's own that ended, or could not start.", "hook", "outcome"
        )
        self.drain = self._histogram(
            "drain_seconds", "How long drains of the node took.", DRAIN_BUCKETS, "backend"
        )

    def _fill(self, drain_backend: str) -> None:
        for source in SOURCE_KINDS:
            self.know_source(source)
        for outcome in Outcome:
            for kind in Kind:
                self.flushes.labels(outcome.value, kind.value)
        for end in DRAIN_OUTCOMES:
            self.drains.labels(drain_backend, end)
        self.drain.labels(drain_backend)
        for end in EVICTION_OUTCOMES:
            self.evictions.labels(end)
        for hook in HOOKS:
            for end in HOOK_OUTCOMES:
                self.hooks.labels(hook, end)
        for end in DRILL_OUTCOMES:
            self.drills.labels(end)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"lastcall_{name}", text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"lastcall_{name}", text, labels, buckets=buckets, registry=self._registry)
