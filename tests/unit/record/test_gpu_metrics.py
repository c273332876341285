"""What Prometheus is shown of the GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.core import CounterMetricFamily

from lastcall.core import facts
from lastcall.core.estimates import JobAdvice
from lastcall.core.facts import Fact
from lastcall.core.gpu.model import (
    NODE,
    WATCH_TROUBLES,
    Gpu,
    GpuRecord,
    GpuWatch,
    Health,
    Holder,
    NodeLook,
    Recovery,
    Verdict,
    WatchState,
)
from lastcall.core.gpu.xids import COUNTED, XIDS
from lastcall.core.model import Node
from lastcall.record import gpu_figures
from lastcall.record.metric_labels import GPU_LIMIT
from lastcall.record.metrics import Metrics
from support.gpus import DEGRADED, GPU_0, GPU_1, HEALTHY, LOST, VALUES, FixedReadings

NOW = 1000.0
BOOTED_UNIX = 1700000000.0
A, B = GPU_0.uuid, GPU_1.uuid
EIGHT = {"expected": 8}


class Shown:
    """The metrics of a node with GPUs, and their values by name and labels."""

    def __init__(self, *records: GpuRecord, watch: GpuWatch | None = None) -> None:
        self.node = Node(gpus={one.gpu.uuid: one for one in records}, gpu_watch=watch)
        self.now = NOW
        self.readings = FixedReadings()
        self.metrics = Metrics(
            lambda: self.node,
            monotonic=lambda: self.now,
            wall=lambda: BOOTED_UNIX + self.now,
            advice=lambda _, __: JobAdvice(None, "unknown", None),
            version="1.2.3",
            gpus=self.readings,
        )

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"lastcall_{name}", labels)

    def count(self, *events: Fact) -> None:
        for fact in events:
            self.metrics.record(fact)

    def series(self, name: str = "") -> list[tuple[str, dict[str, str]]]:
        """Return name and labels of a metric's series, or of all that tell of GPUs."""
        samples = [
            (sample.name.removeprefix("lastcall_"), sample.labels)
            for family in self.metrics.registry.collect()
            for sample in family.samples
        ]
        return [one for one in samples if one[0] == name or (not name and "gpu" in one[0])]

    def holding(self, name: str, label: str, **labels: str) -> list[str]:
        """Return the states of a state set that are said to hold."""
        return [
            found[label]
            for _, found in self.series(name)
            if labels.items() <= found.items() and self(name, **found) == 1.0
        ]


def record(gpu: Gpu, verdict: Verdict = HEALTHY) -> GpuRecord:
    return GpuRecord(gpu=gpu, verdict=verdict)


def xid(gpu: str, number: int, count: int = 1) -> facts.GpuXid:
    return facts.GpuXid(gpu, number, count, "", news=True)


def judged(gpu: str, health: Health, before: Health = Health.HEALTHY) -> facts.GpuHealth:
    return facts.GpuHealth(
        gpu=gpu,
        index=0,
        health=health,
        before=before,
        reasons=(),
        recovery=Recovery.NONE,
        detail="",
    )


# --- counted ---------------------------------------------------------------------------------


def test_the_same_xid_twice_counts_two() -> None:
    shown = Shown(record(GPU_0))

    shown.count(xid(A, 79), xid(A, 79))

    assert shown("gpu_xid_errors_total", gpu=A, xid="79") == 2


def test_two_xids_at_the_same_time_are_both_counted() -> None:
    shown = Shown(record(GPU_0))

    shown.count(xid(A, 62), xid(A, 45))

    assert shown("gpu_xid_errors_total", gpu=A, xid="62") == 1
    assert shown("gpu_xid_errors_total", gpu=A, xid="45") == 1


def test_a_flood_of_one_xid_is_counted_exactly() -> None:
    shown = Shown(record(GPU_0))

    shown.count(xid(A, 95), xid(A, 95, 99_999))

    assert shown("gpu_xid_errors_total", gpu=A, xid="95") == 100_000


def test_a_gpu_has_the_common_xids_at_zero_before_any_happens() -> None:
    shown = Shown(record(GPU_0))

    zeros = {labels["xid"] for _, labels in shown.series("gpu_xid_errors_total")}

    assert zeros == {str(number) for number in COUNTED}
    assert shown("gpu_xid_errors_total", gpu=A, xid=str(min(COUNTED))) == 0


def test_xids_that_nobody_knows_share_a_label() -> None:
    shown = Shown(record(GPU_0))
    unknown = [number for number in range(5000, 6000) if number not in XIDS]

    shown.count(*[xid(A, number) for number in unknown])

    assert shown("gpu_xid_errors_total", gpu=A, xid="other") == len(unknown)


def test_an_xid_of_a_gpu_that_is_not_known_is_counted_all_the_same() -> None:
    shown = Shown()

    shown.count(xid("", 79))

    assert shown("gpu_xid_errors_total", gpu="unknown", xid="79") == 1


def test_any_number_of_gpus_costs_a_limited_number_of_series() -> None:
    gpus = [Gpu(f"GPU-{number}", number) for number in range(GPU_LIMIT * 2)]
    shown = Shown(*[record(gpu) for gpu in gpus])

    shown.count(*[xid(gpu.uuid, 79) for gpu in gpus])

    assert len({labels["gpu"] for _, labels in shown.series("gpu_up")}) == GPU_LIMIT
    assert len({labels["gpu"] for _, labels in shown.series("gpu_xid_errors_total")}) == (
        GPU_LIMIT + 1
    )
    assert shown("gpu_xid_errors_total", gpu="other", xid="79") == GPU_LIMIT
    assert len(shown.series("gpu_health")) == len(
        {tuple(sorted(labels.items())) for _, labels in shown.series("gpu_health")}
    )


def test_a_change_of_health_is_counted_and_a_change_of_reasons_is_not() -> None:
    shown = Shown(record(GPU_0))

    shown.count(
        judged(A, Health.FAULTY),
        judged(A, Health.FAULTY, Health.FAULTY),
        judged("", Health.FAULTY),
    )

    assert shown("gpu_health_changes_total", gpu=A, health="faulty") == 1
    assert shown("gpu_health_changes_total", gpu=A, health="healthy") == 0


@pytest.mark.parametrize("state", WatchState)
def test_a_watch_that_comes_to_be_in_trouble_is_counted(state: WatchState) -> None:
    shown = Shown()

    shown.count(facts.GpuWatchSeen(state=state, detail="", gpu="", call="", pid=None))

    expected = 1 if state in WATCH_TROUBLES else None
    assert shown("gpu_watch_troubles_total", state=state.value) == expected


def test_how_long_a_sign_came_before_the_save_and_before_the_loss_is_measured() -> None:
    shown = Shown(record(GPU_0))

    shown.count(facts.GpuWorkSafe(A, 14.0), facts.GpuLost(A, 200.0, "yes"))

    assert shown("gpu_sign_to_save_seconds_sum") == 14.0
    assert shown("gpu_sign_to_loss_seconds_sum") == 200.0
    assert shown("gpu_losses_total", saved="yes") == 1
    assert shown("gpu_losses_total", saved="no") == 0


# --- the state -------------------------------------------------------------------------------


def test_a_node_without_gpus_shows_no_series_of_one() -> None:
    shown = Shown(watch=GpuWatch(state=WatchState.NO_GPU))

    assert [labels for _, labels in shown.series() if "gpu" in labels] == []
    assert shown.holding("gpu_watch", "state") == ["no_gpu"]
    assert shown.holding("gpus_health", "health") == ["unknown"]
    assert shown("gpu_unregistered_processes") == 0


def test_a_gpu_that_is_known_from_before_a_restart_has_its_series_though_nobody_has_looked() -> (
    None
):
    shown = Shown(record(GPU_0, DEGRADED))

    assert shown("gpu_up", gpu=A) == 0
    assert shown.holding("gpu_health", "health", gpu=A) == ["degraded"]
    assert shown("gpu_xid_errors_total", gpu=A, xid=str(min(COUNTED))) == 0
    assert shown("gpu_last_success_timestamp_seconds", gpu=A) is None


def test_one_lost_gpu_hides_nothing_of_the_other() -> None:
    shown = Shown(record(GPU_0), record(GPU_1, LOST))
    shown.readings.read(GPU_0, NOW - 1)
    shown.readings.read(GPU_1, NOW - 6)

    assert (shown("gpu_up", gpu=A), shown("gpu_up", gpu=B)) == (1, 0)
    assert shown("gpu_temperature_celsius", gpu=A) == 61.0
    assert shown.holding("gpu_health", "health", gpu=A) == ["healthy"]
    assert shown.holding("gpu_health", "health", gpu=B) == ["faulty"]
    assert shown.holding("gpus_health", "health") == ["faulty"]


def test_a_gpu_that_a_call_hangs_on_is_not_up() -> None:
    hanging = GpuWatch(state=WatchState.UNRESPONSIVE, gpu=B, call="nvmlDeviceGetTemperature")
    shown = Shown(record(GPU_0), record(GPU_1), watch=hanging)
    shown.readings.read(GPU_0, NOW - 1)
    shown.readings.read(GPU_1, NOW - 1)

    assert (shown("gpu_up", gpu=A), shown("gpu_up", gpu=B)) == (1, 0)


def test_figures_are_shown_while_they_are_fresh_and_then_only_their_age() -> None:
    shown = Shown(record(GPU_0))
    shown.readings.read(GPU_0, NOW, idle_ratio=0.25)
    shown.now = NOW + shown.readings.fresh_seconds
    assert shown("gpu_temperature_celsius", gpu=A) == 61.0
    assert shown("gpu_idle_ratio", gpu=A) == 0.25

    shown.now += 0.1

    figures = {f"gpu_{row.name}" for row in gpu_figures.ROWS} | {"gpu_throttled", "gpu_idle_ratio"}
    assert {name.removesuffix("_total") for name, _ in shown.series()} & figures == set()
    assert shown("gpu_last_success_timestamp_seconds", gpu=A) == BOOTED_UNIX + NOW
    assert shown("gpu_up", gpu=A) == 0
    assert shown.holding("gpu_health", "health", gpu=A) == ["healthy"]


def test_every_signal_of_a_gpu_has_a_series() -> None:
    shown = Shown(record(GPU_0))
    shown.readings.read(GPU_0, NOW)

    names = {name for name, labels in shown.series() if labels.get("gpu") == A}

    for row in gpu_figures.ROWS:
        assert f"gpu_{row.name}{'_total' if row.counter else ''}" in names
    assert shown("gpu_ecc_errors_total", gpu=A, kind="corrected") == 3
    assert shown("gpu_nvlink_errors_total", gpu=A, kind="replay") == 1
    assert shown("gpu_throttle_seconds_total", gpu=A, reason="hw_thermal") == 12.0


@pytest.mark.parametrize("signal", sorted(VALUES))
def test_one_signal_that_is_missing_or_broken_leaves_the_others(signal: str) -> None:
    shown = Shown(record(GPU_0))
    whole = len(_figure_series(shown, VALUES))

    without = _figure_series(shown, {name: VALUES[name] for name in VALUES if name != signal})
    broken = _figure_series(shown, VALUES | {signal: math.nan})

    assert without == broken
    assert whole - len(without) == (4 if signal == "throttle_reasons" else 1)


def _figure_series(shown: Shown, values: dict[str, float]) -> list[tuple[str, dict[str, str]]]:
    shown.readings.read(GPU_0, NOW, **values)
    return list(_of(shown))


def _of(shown: Shown) -> Iterator[tuple[str, dict[str, str]]]:
    names = tuple(f"gpu_{row.name}" for row in gpu_figures.ROWS)
    return (one for one in shown.series() if one[0].startswith((*names, "gpu_throttled")))


def test_of_the_reasons_to_slow_down_only_those_that_tell_of_trouble_are_shown() -> None:
    shown = Shown(record(GPU_0))
    shown.readings.read(GPU_0, NOW, throttle_reasons=float(0x1 | 0x4 | 0x80))

    assert shown.holding("gpu_throttled", "reason", gpu=A) == ["power_brake"]
    assert len(shown.series("gpu_throttled")) == 4


def test_a_counter_that_goes_back_is_shown_as_it_is() -> None:
    shown = Shown(record(GPU_0))
    shown.readings.read(GPU_0, NOW, ecc_corrected=900.0)
    assert shown("gpu_ecc_errors_total", gpu=A, kind="corrected") == 900

    shown.readings.read(GPU_0, NOW, ecc_corrected=2.0)

    assert shown("gpu_ecc_errors_total", gpu=A, kind="corrected") == 2


def test_what_stands_for_all_gpus_together_is_no_gpu() -> None:
    shown = Shown(record(NODE, LOST), record(GPU_0))

    assert {labels["gpu"] for _, labels in shown.series("gpu_up")} == {A}
    assert shown.holding("gpus_health", "health") == ["faulty"]


@pytest.mark.parametrize(
    ("look", "expected", "counts"),
    [
        (None, 0, {}),
        (None, 8, {"expected": 8}),
        (NodeLook(at=NOW - 60, driver_count=7), 0, {"driver": 7}),
        (NodeLook(at=NOW - 60, driver_count=7, pci_count=8), 0, {"driver": 7, "pci": 8, **EIGHT}),
        (NodeLook(at=NOW - 60, driver_count=7, pci_count=7), 8, {"driver": 7, "pci": 7, **EIGHT}),
        (NodeLook(at=NOW - 600, driver_count=7, pci_count=8), 8, EIGHT),
    ],
)
def test_gpus_are_counted_for_as_long_as_the_count_is_of_now(
    look: NodeLook | None, expected: int, counts: dict[str, int]
) -> None:
    shown = Shown()
    shown.readings.look, shown.readings.expected = look, expected

    found = {count: shown("gpus", count=count) for count in ("driver", "pci", "expected")}

    assert {count: value for count, value in found.items() if value is not None} == counts


def test_processes_that_nobody_can_ask_are_counted() -> None:
    shown = Shown(record(GPU_0))
    shown.node = replace(shown.node, gpu_holders=(Holder(41, (A,)), Holder(42, (A, B))))

    assert shown("gpu_unregistered_processes") == 2


def test_figures_are_counters_only_where_they_only_grow() -> None:
    families = list(gpu_figures.collect([(A, VALUES)]))

    counters = {one.name for one in families if isinstance(one, CounterMetricFamily)}

    assert counters == {
        f"lastcall_gpu_{name}"
        for name in ("ecc_errors", "remapped_rows", "throttle_seconds", "pcie_replays")
    } | {"lastcall_gpu_nvlink_errors"}


def test_where_there_is_no_gpu_the_driver_counts_none() -> None:
    shown = Shown(watch=GpuWatch(state=WatchState.NO_GPU))
    shown.readings.expected = 8

    found = {count: shown("gpus", count=count) for count in ("driver", "pci", "expected")}

    assert found == {"driver": 0, "pci": None, "expected": 8}
