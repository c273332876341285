"""Gauges read from what the agent knows at the moment of the scrape, so that none goes stale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lastcall.core.estimates import JobAdvice
from lastcall.core.model import Node, Notice
from lastcall.record.metric_labels import DRILL, JobLabels, Pairs

FITS = {"fits": 1.0, "tight": 0.5, "misses": 0.0}
"""Values of ``lastcall_flush_fits_notice``; there is none while it is unknown."""


class JournalHealth(Protocol):
    """What is shown of the journal."""

    @property
    def healthy(self) -> bool:
        """Whether the disk takes what it is given."""
        ...

    @property
    def errors(self) -> int:
        """Failed attempts and lost events."""
        ...


class StateCollector(Collector):
    """Reads the node at each scrape."""

    def __init__(
        self,
        node: Callable[[], Node],
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        advice: Callable[[Node, str], JobAdvice],
        jobs: JobLabels,
        pairs: Pairs,
        journal: JournalHealth | None,
    ) -> None:
        self._node = node
        self._monotonic = monotonic
        self._wall = wall
        self._advice = advice
        self._jobs = jobs
        self._pairs = pairs
        self._journal = journal

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge as it stands now."""
        node = self._node()
        to_unix = self._wall() - self._monotonic()
        yield from self._of_notices(node, to_unix)
        yield from self._of_sources(node, to_unix)
        yield from self._of_jobs(node, to_unix)
        yield from _of_cordon(node, to_unix)
        yield from _of_backend(node)
        if self._journal is not None:
            yield from _of_journal(self._journal)

    def _of_notices(self, node: Node, to_unix: float) -> Iterator[Metric]:
        active = _gauge("notice_active", "Notices that are open.", "source", "kind")
        deadline = _gauge(
            "notice_deadline_timestamp_seconds",
            "The nearest deadline of an open notice, as Unix time.",
            "source",
            "kind",
        )
        counts = dict.fromkeys(self._pairs, 0)
        deadlines: dict[tuple[str, str], float] = {}
        for notice in node.open_notices:
            named = notice.lead.sighting
            pair = (DRILL if notice.drill else named.source, named.kind.value)
            counts[pair] = counts.get(pair, 0) + 1
            at_unix = _deadline_unix(notice, to_unix)
            if at_unix is not None:
                deadlines[pair] = min(at_unix, deadlines.get(pair, math.inf))
        for pair, count in counts.items():
            active.add_metric(pair, count)
        for pair, at_unix in deadlines.items():
            deadline.add_metric(pair, at_unix)
        yield active
        yield deadline

    def _of_sources(self, node: Node, to_unix: float) -> Iterator[Metric]:
        up = _gauge("source_up", "1 while all that a source is asked is answered well.", "source")
        success = _gauge(
            "source_last_success_timestamp_seconds",
            "When a source last answered well, as Unix time.",
            "source",
        )
        skew = _gauge("clock_skew_seconds", "The node's clock minus the provider's.", "source")
        for source, health in node.sources.items():
            up.add_metric([source], float(health.up))
            if health.last_success is not None:
                success.add_metric([source], _milliseconds(health.last_success + to_unix))
            if health.skew_seconds is not None:
                skew.add_metric([source], health.skew_seconds)
        yield up
        yield success
        yield skew

    def _of_jobs(self, node: Node, to_unix: float) -> Iterator[Metric]:
        clients = _gauge("clients", "Training processes that are connected.", "job")
        predicted = _gauge(
            "flush_predicted_seconds", "How long the next flush is expected to take.", "job"
        )
        fits = _gauge(
            "flush_fits_notice",
            "Whether the next flush fits the warning to be expected: 1 it does, 0.5 it is tight, "
            "0 it does not; no series while that is unknown.",
            "job",
        )
        last = _gauge(
            "checkpoint_last_timestamp_seconds",
            "When the last checkpoint became durable, as Unix time.",
            "job",
        )
        interval = _gauge(
            "checkpoint_advised_interval_seconds",
            "The advised time between checkpoints.",
            "job",
        )
        for label, (connected, jobs) in self._grouped(node).items():
            clients.add_metric([label], connected)
            advised = [self._advice(node, job) for job in jobs]
            # Where jobs share a label it shows the worst of them.
            _add(predicted, label, max, [advice.predicted_seconds for advice in advised])
            _add(fits, label, min, [FITS.get(advice.fits) for advice in advised])
            _add(interval, label, min, [advice.interval_seconds for advice in advised])
            histories = [node.jobs[job].last_at for job in jobs if job in node.jobs]
            shown = [None if at is None else _milliseconds(at + to_unix) for at in histories]
            _add(last, label, min, shown)
        yield from (clients, predicted, fits, last, interval)

    def _grouped(self, node: Node) -> Mapping[str, tuple[int, list[str]]]:
        """Return by label how many clients are connected, and the jobs that count.

        Those are the jobs with a client here; without any, all that are remembered.
        """
        connected = dict.fromkeys(node.jobs, 0)
        for client in node.clients.values():
            present = client.session is not None
            connected[client.job] = connected.get(client.job, 0) + present
        groups: dict[str, list[str]] = {}
        for job in connected:
            groups.setdefault(self._jobs.label(job), []).append(job)
        return {
            label: (
                sum(connected[job] for job in jobs),
                [job for job in jobs if connected[job]] or jobs,
            )
            for label, jobs in groups.items()
        }


def _of_cordon(node: Node, to_unix: float) -> Iterator[Metric]:
    cordoned = _gauge("node_cordoned", "1 while the agent's own cordon stands.")
    cordoned.add_metric([], float(node.cordoned_for is not None))
    yield cordoned
    since = _gauge(
        "node_cordoned_since_timestamp_seconds",
        "Since when the agent's own cordon stands, as Unix time; 0 while it does not.",
    )
    at = node.cordoned_at
    since.add_metric([], 0.0 if at is None else _milliseconds(at + to_unix))
    yield since


def _of_backend(node: Node) -> Iterator[Metric]:
    """Yield what is known of the scheduler; no series where there is none to ask."""
    up = _gauge("backend_up", "1 while the scheduler that the node is drained through answers.")
    allowed = _gauge(
        "backend_allowed", "1 where the agent may do there what a drain takes.", "right"
    )
    if node.backend is not None:
        up.add_metric([], float(node.backend.up))
        for right, granted in node.backend.rights.items():
            allowed.add_metric([right], float(granted))
    yield up
    yield allowed


def _of_journal(journal: JournalHealth) -> Iterator[Metric]:
    up = _gauge("journal_up", "1 while the disk takes what the journal gives it.")
    up.add_metric([], float(journal.healthy))
    yield up
    errors = CounterMetricFamily(
        "lastcall_journal_errors",
        "Failed attempts to write the journal, and events that were let go.",
        labels=(),
    )
    errors.add_metric([], journal.errors)
    yield errors


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lastcall_{name}", text, labels=labels)


def _add(
    family: GaugeMetricFamily,
    label: str,
    worst: Callable[[list[float]], float],
    values: list[float | None],
) -> None:
    known = [value for value in values if value is not None]
    if known:
        family.add_metric([label], worst(known))


def _deadline_unix(notice: Notice, to_unix: float) -> float | None:
    stated = notice.nearest.sighting.deadline_unix
    if stated is not None or notice.deadline is None:
        return stated
    return _milliseconds(notice.deadline + to_unix)


def _milliseconds(seconds: float) -> float:
    """Round to what two clocks read one after the other can be trusted to."""
    return round(seconds, 3)
