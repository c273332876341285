"""How the GPUs are at the moment of the scrape: watched, healthy, counted; and their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lastcall.core.gpu.model import GpuRecord, Health, NodeLook, WatchState
from lastcall.core.gpus import node_verdict, unregistered
from lastcall.core.model import Node
from lastcall.record import gpu_figures
from lastcall.record.gpu_families import GpuFamilies
from lastcall.record.gpu_readings import GpuReadings, SeenGpus
from lastcall.record.metric_labels import OTHER, GpuLabels

COUNT_SECONDS = 180.0
"""The age up to which the last count of the GPUs is shown; they are counted once a minute."""

NAME_LENGTH = 64
"""Characters in the label of a model's name."""


class GpuCollector(Collector):
    """Reads the node and the last figures at each scrape.

    Of a GPU beyond those with labels of their own no gauge is shown: several would be one series.
    """

    def __init__(
        self,
        node: Callable[[], Node],
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        labels: GpuLabels,
        families: GpuFamilies,
        readings: GpuReadings | None,
    ) -> None:
        self._node = node
        self._monotonic = monotonic
        self._wall = wall
        self._labels = labels
        self._families = families
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """Yield every metric as it stands now."""
        node, now = self._node(), self._monotonic()
        seen = SeenGpus(node, self._readings, now)
        labels = {uuid: self._labels.label(uuid) for uuid in seen.records}
        yield from self._families.collect(dict.fromkeys(labels.values()))
        yield from _of_node(node)
        yield self._counts(node, now)
        stream = _gauge("event_stream_up", "1 while the driver's own word of errors is heard.")
        if seen.event_stream_up is not None:
            stream.add_metric([], float(seen.event_stream_up))
        yield stream
        own = {uuid: label for uuid, label in labels.items() if label != OTHER}
        yield from _of_gpus(seen, own, self._wall() - now)
        fresh = {label: figures for uuid, label in own.items() if (figures := seen.fresh(uuid))}
        idle = _gauge("idle_ratio", "Share of the last minutes in which nothing ran.", "gpu")
        for label, figures in fresh.items():
            if figures.idle_ratio is not None:
                idle.add_metric([label], figures.idle_ratio)
        yield idle
        yield from gpu_figures.collect((label, one.values) for label, one in fresh.items())

    def _counts(self, node: Node, now: float) -> GaugeMetricFamily:
        counts = GaugeMetricFamily(
            "lastcall_gpus",
            "GPUs: counted by the driver, on the PCI bus, and how many there should be.",
            labels=("count",),
        )
        readings = self._readings
        if readings is None:
            return counts
        look = readings.node_look()
        if look is not None and look.at < now - max(COUNT_SECONDS, readings.fresh_seconds):
            look = None
        known = _known_counts(look, readings.expected)
        if node.gpu_watch is not None and node.gpu_watch.state is WatchState.NO_GPU:
            known["driver"] = 0
        for count, value in known.items():
            counts.add_metric([count], value)
        return counts


def _known_counts(look: NodeLook | None, expected: int) -> dict[str, int]:
    counts = {}
    if look is not None:
        counts["driver"] = look.driver_count
        if look.pci_count is not None:
            counts["pci"] = look.pci_count
    should_be = expected or counts.get("pci")
    return counts if should_be is None else counts | {"expected": should_be}


def _of_node(node: Node) -> Iterator[Metric]:
    watch = WatchState.OFF if node.gpu_watch is None else node.gpu_watch.state
    states = _gauge(
        "watch", "How it stands with the watch over the GPUs: 1 for the state.", "state"
    )
    for state in WatchState:
        states.add_metric([state.value], float(state is watch))
    yield states
    health = node_verdict(node).health
    healths = GaugeMetricFamily(
        "lastcall_gpus_health",
        "How the GPUs are, taken together, as the worst of them is: 1 for that.",
        labels=("health",),
    )
    for one in Health:
        healths.add_metric([one.value], float(one is health))
    yield healths
    holders = _gauge(
        "unregistered_processes",
        "Processes that compute on GPUs and have not said hello: nobody can ask them to flush.",
    )
    holders.add_metric([], len(unregistered(node)))
    yield holders


def _of_gpus(seen: SeenGpus, labels: dict[str, str], to_unix: float) -> Iterator[Metric]:
    info = _gauge("info", "A GPU of the node; always 1.", "gpu", "index", "model", "pci")
    up = _gauge("up", "1 while a GPU answers.", "gpu")
    health = _gauge("health", "How a GPU is: 1 for that, 0 for the others.", "gpu", "health")
    success = _gauge(
        "last_success_timestamp_seconds",
        "When a GPU last let itself be looked at, as Unix time.",
        "gpu",
    )
    for uuid, label in labels.items():
        record = seen.records[uuid]
        info.add_metric([label, *_about(record)], 1.0)
        up.add_metric([label], float(seen.is_up(uuid)))
        for one in Health:
            health.add_metric([label, one.value], float(one is record.verdict.health))
        if uuid in seen.figures:
            success.add_metric([label], round(seen.figures[uuid].at + to_unix, 3))
    yield from (info, up, health, success)


def _about(record: GpuRecord) -> tuple[str, str, str]:
    gpu = record.gpu
    index = str(gpu.index) if gpu.index >= 0 else ""
    return index, gpu.name[:NAME_LENGTH], gpu.pci[:NAME_LENGTH]


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lastcall_gpu_{name}", text, labels=labels)
