"""What facts about the GPUs do to the metrics."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from lastcall.core import facts
from lastcall.core.facts import Fact
from lastcall.core.gpu.model import WATCH_TROUBLES, Health
from lastcall.core.gpu.xids import COUNTED, OTHER, XIDS
from lastcall.record.metric_labels import GpuLabels

SAVE_BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
LOSS_BUCKETS = (1, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400, 604800)

SAVED = ("yes", "no", "nothing")


class GpuFamilies:
    """Counters and histograms; those of single GPUs are yielded at the scrape.

    A GPU is known from the state, not from a fact: after a restart of the agent nothing may happen
    to it for weeks, and its series must be there at zero all the same.
    """

    def __init__(self, registry: CollectorRegistry, labels: GpuLabels) -> None:
        """Make all series that can be known now, at zero."""
        self._labels = labels
        self._xids: Tally[tuple[str, str]] = Tally()
        self._changes: Tally[tuple[str, str]] = Tally()
        self._troubles = Counter(
            "lastcall_gpu_watch_troubles",
            "How often the watch over the GPUs came to be in trouble.",
            ("state",),
            registry=registry,
        )
        self._losses = Counter(
            "lastcall_gpu_losses",
            "GPUs from which nothing can be saved any more, and whether all work had been saved "
            "since their trouble began; nothing: no training process was connected.",
            ("saved",),
            registry=registry,
        )
        self._sign_to_save = Histogram(
            "lastcall_gpu_sign_to_save_seconds",
            "From the first sign of a GPU's trouble until all work was saved.",
            buckets=SAVE_BUCKETS,
            registry=registry,
        )
        self._sign_to_loss = Histogram(
            "lastcall_gpu_sign_to_loss_seconds",
            "From the first sign of a GPU's trouble until nothing could be saved from it any more.",
            buckets=LOSS_BUCKETS,
            registry=registry,
        )
        for state in WATCH_TROUBLES:
            self._troubles.labels(state.value)
        for saved in SAVED:
            self._losses.labels(saved)

    def recorders(self) -> Mapping[type[Fact], Callable[[Any], None]]:
        """Return what counts each kind of fact."""
        return {
            facts.GpuWatchSeen: self._watch_seen,
            facts.GpuHealth: self._health_changed,
            facts.GpuXid: self._xid_seen,
            facts.GpuWorkSafe: self._work_safe,
            facts.GpuLost: self._gpu_lost,
        }

    def collect(self, known: Iterable[str]) -> Iterator[Metric]:
        """Yield the counters of single GPUs, those of the known ones from zero on.

        Args:
            known: labels of the GPUs that have appeared.
        """
        zeros = {(gpu, str(xid)): 0 for gpu in known for xid in sorted(COUNTED)}
        yield _counted(
            "xid_errors",
            "XID errors that the driver reported, each by its number, rare ones as other.",
            "xid",
            {**zeros, **self._xids},
        )
        healths = {(gpu, health.value): 0 for gpu in known for health in Health}
        yield _counted(
            "health_changes",
            "How often a GPU came to be judged so.",
            "health",
            {**healths, **self._changes},
        )

    def _watch_seen(self, fact: facts.GpuWatchSeen) -> None:
        if fact.state in WATCH_TROUBLES:
            self._troubles.labels(fact.state.value).inc()

    def _health_changed(self, fact: facts.GpuHealth) -> None:
        if fact.gpu and fact.health is not fact.before:
            self._changes[self._labels.label(fact.gpu), fact.health.value] += 1

    def _xid_seen(self, fact: facts.GpuXid) -> None:
        xid = str(fact.xid) if fact.xid in XIDS else OTHER
        self._xids[self._labels.label(fact.gpu), xid] += fact.count

    def _work_safe(self, fact: facts.GpuWorkSafe) -> None:
        self._sign_to_save.observe(max(0.0, fact.seconds))

    def _gpu_lost(self, fact: facts.GpuLost) -> None:
        self._losses.labels(fact.saved if fact.saved in SAVED else "no").inc()
        self._sign_to_loss.observe(max(0.0, fact.seconds))


def _counted(
    name: str, text: str, label: str, counts: Mapping[tuple[str, str], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"lastcall_gpu_{name}", text, labels=("gpu", label))
    for pair, count in counts.items():
        family.add_metric(pair, count)
    return family
