"""The status shows the GPUs: how they are, how they are watched, and who holds them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastcall.core.gpu.model import (
    NODE,
    Gpu,
    GpuRecord,
    GpuWatch,
    Health,
    Holder,
    Mark,
    Recovery,
    Verdict,
    WatchState,
)
from lastcall.core.model import Client, Node
from lastcall.record.gpu_status import DETAIL_LENGTH
from lastcall.record.status import status
from support.gpus import GPU_0, GPU_1, HEALTHY, LOST, VALUES, FixedReadings

NOW = 1000.0
BOOTED_UNIX = 1700000000.0
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "status.md"

ONE_IS_LOST = Node(
    gpus={
        GPU_1.uuid: GpuRecord(gpu=GPU_1, verdict=LOST, sign_at=140.0, safe_at=155.0, lost_at=150.0),
        GPU_0.uuid: GpuRecord(gpu=GPU_0, verdict=HEALTHY),
    },
    gpu_watch=GpuWatch(
        state=WatchState.UNRESPONSIVE,
        detail="no answer for 30 s",
        since=160.0,
        gpu=GPU_1.uuid,
        call="nvmlDeviceGetTemperature",
        pid=77,
    ),
    gpu_holders=(Holder(41, (GPU_0.uuid,), "python train.py", (40, 1)),),
    gpus_released_until=1600.0,
)


def shown(node: Node, readings: FixedReadings | None = None) -> dict[str, Any]:
    whole = status(node, now=NOW, wall=BOOTED_UNIX + NOW, agent={}, gpus=readings)
    gpu: dict[str, Any] = json.loads(json.dumps(whole["gpu"], allow_nan=False))
    return gpu


def test_a_node_without_gpus_has_nothing_to_show_of_them() -> None:
    assert shown(Node()) == {
        "watch": None,
        "kernel_log": "off",
        "event_stream_up": None,
        "health": "unknown",
        "reasons": [],
        "recovery": "none",
        "marks": [],
        "released_until_unix": None,
        "gpus": [],
        "unregistered": [],
    }


def test_the_gpus_together_are_as_the_worst_of_them() -> None:
    gpu = shown(ONE_IS_LOST)

    assert (gpu["health"], gpu["recovery"]) == ("faulty", "reboot")
    assert gpu["reasons"] == ["xid_79", "row_remap_pending"]
    assert gpu["released_until_unix"] == BOOTED_UNIX + 1600


def test_the_watch_names_the_call_that_hangs_and_the_process_that_cannot_be_ended() -> None:
    assert shown(ONE_IS_LOST)["watch"] == {
        "state": "unresponsive",
        "detail": "no answer for 30 s",
        "since_unix": BOOTED_UNIX + 160,
        "gpu": GPU_1.uuid,
        "call": "nvmlDeviceGetTemperature",
        "pid": 77,
    }


def test_a_lost_gpu_shows_what_speaks_against_it_and_what_was_saved_in_time() -> None:
    _, lost = shown(ONE_IS_LOST)["gpus"]

    assert (lost["gpu"], lost["index"], lost["up"], lost["health"]) == (
        GPU_1.uuid,
        1,
        False,
        "faulty",
    )
    assert lost["reasons"] == ["xid_79", "row_remap_pending"]
    assert lost["marks"][1] == {
        "reason": "xid_79",
        "health": "faulty",
        "recovery": "reboot",
        "detail": "GPU has fallen off the bus",
        "since_unix": BOOTED_UNIX + 150,
        "xid": 79,
    }
    assert lost["sign_unix"] == BOOTED_UNIX + 140
    assert lost["safe_unix"] == BOOTED_UNIX + 155
    assert lost["lost_unix"] == BOOTED_UNIX + 150
    assert (lost["figures"], lost["figures_age_seconds"]) == ({}, None)


def test_gpus_stand_in_the_drivers_order_and_one_it_no_longer_counts_comes_last() -> None:
    gone = Gpu("GPU-0000")
    node = Node(gpus={gpu.uuid: GpuRecord(gpu=gpu) for gpu in (gone, GPU_1, GPU_0)})

    assert [gpu["index"] for gpu in shown(node)["gpus"]] == [0, 1, None]


def test_fresh_figures_are_shown_and_old_ones_only_by_their_age() -> None:
    readings = FixedReadings()
    readings.read(GPU_0, NOW - 2.5, idle_ratio=0.125)
    readings.read(GPU_1, NOW - 60.0, idle_ratio=0.5)

    fresh, old = shown(ONE_IS_LOST, readings)["gpus"]

    assert (fresh["up"], fresh["figures_age_seconds"], fresh["idle_ratio"]) == (True, 2.5, 0.125)
    assert fresh["figures"] == VALUES
    assert (old["figures"], old["figures_age_seconds"], old["idle_ratio"]) == ({}, 60.0, None)


def test_a_gpu_that_was_only_looked_at_is_there_and_unknown() -> None:
    readings = FixedReadings()
    readings.read(GPU_0, NOW)

    (gpu,) = shown(Node(), readings)["gpus"]

    assert (gpu["name"], gpu["health"]) == (GPU_0.name, "unknown")


def test_a_figure_that_no_number_stands_for_is_left_out() -> None:
    readings = FixedReadings()
    readings.read(GPU_0, NOW, power_watts=math.inf, temperature_celsius=61.0)

    (gpu,) = shown(Node(), readings)["gpus"]

    assert gpu["figures"] == {"temperature_celsius": 61.0}


def test_what_is_held_against_all_gpus_together_stands_above_them_and_long_words_are_cut() -> None:
    mark = Mark(
        reason="gpu_missing", health=Health.FAULTY, recovery=Recovery.REBOOT, detail="7 of 8 " * 99
    )
    node = Node(gpus={"": GpuRecord(gpu=NODE, verdict=Verdict(Health.FAULTY, (mark,)))})

    gpu = shown(node)

    assert gpu["gpus"] == []
    assert [one["reason"] for one in gpu["marks"]] == ["gpu_missing"]
    assert len(gpu["marks"][0]["detail"]) == DETAIL_LENGTH


def test_a_process_is_named_until_it_or_a_parent_says_hello() -> None:
    assert shown(ONE_IS_LOST)["unregistered"] == [
        {"pid": 41, "gpus": [GPU_0.uuid], "command": "python train.py"}
    ]

    client = Client(key="c", identity="40@1", session="s", job="llama", joined_at=1.0, pid=40)

    assert shown(replace(ONE_IS_LOST, clients={"c": client}))["unregistered"] == []


def test_every_key_is_described_in_the_reference() -> None:
    readings = FixedReadings()
    readings.read(GPU_0, NOW)
    of_all = {"": GpuRecord(gpu=NODE, verdict=LOST)}
    gpu = shown(replace(ONE_IS_LOST, gpus=of_all | dict(ONE_IS_LOST.gpus)), readings)
    _, part = PAGE.read_text(encoding="utf-8").split("\n## `gpu`\n")
    described = set(re.findall(r"`([a-z_]+)`", part.split("\n## ")[0]))

    keys = set(gpu).union(gpu["watch"], gpu["marks"][0], gpu["unregistered"][0], *gpu["gpus"])

    assert keys - described == set()
