"""What the probe makes of the driver's events: every XID counted, and a stream that comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.fake_agent import eventually
from support.nvml import FakeDriver
from support.running_probe import Line, RunningProbe

FLOOD = 100_000
RECOVERY_ACTION_CHANGED = 0x8000
PERFORMANCE_STATE_CHANGED = 0x4


@pytest.fixture
def fake(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "nvml", nvml_library, gpus=2)


def test_xids_are_all_told_and_a_look_follows_at_once(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.begun()

        # When two different XIDs come together, and one of them twice
        fake.xid(0, 45)
        fake.xid(0, 62)
        fake.xid(1, 62, count=2)

        # Then all are counted, each for its GPU
        lines = [*_until_told(probe, 4), *probe.until(lambda line: line["type"] == "round")]
        assert _told(lines) == {
            (fake.uuid(0), 45): 1,
            (fake.uuid(0), 62): 1,
            (fake.uuid(1), 62): 2,
        }
        # And the GPUs were looked at, without waiting for their time
        first_xid = next(line["at"] for line in lines if line["type"] == "xid")
        looks = [line for line in lines if line["type"] == "gpu"]
        assert looks[0]["at"] >= first_xid
        assert "remap_pending" in looks[0]["values"]
        assert looks[0]["at"] - first_xid < 1.0


def test_the_error_that_ends_all_calls_loses_none_that_came_before(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.begun()

        fake.xid(0, 95, count=5)
        fake.xid(1, 119)

        lines = _until_told(probe, 6)
        assert _told(lines) == {(fake.uuid(0), 95): 5, (fake.uuid(1), 119): 1}


def test_an_event_without_an_xid_wakes_and_says_nothing(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.begun()

        fake.field(1, 230, 1)
        fake.event(1, PERFORMANCE_STATE_CHANGED)
        fake.event(1, RECOVERY_ACTION_CHANGED)

        lines = probe.until(lambda line: line["type"] == "round")
        assert _told(lines) == {}
        assert lines[1]["values"]["recovery_action"] == 1


def test_a_flood_of_one_xid_is_counted_exactly_in_few_lines(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.begun()
        before = _private_kibibytes(probe)

        fake.xid(0, 95, count=FLOOD)
        lines = _until_told(probe, FLOOD)

        assert _told(lines) == {(fake.uuid(0), 95): FLOOD}
        seconds = lines[-1]["at"] - lines[0]["at"]
        assert len([line for line in lines if line["type"] == "xid"]) <= seconds + 2
        assert _private_kibibytes(probe) - before < 512


def test_a_lost_gpu_does_not_end_the_stream_of_the_others(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.begun()

        # When a GPU falls off the bus, and waiting fails from then on
        fake.lose(1, xid=79)
        lines = probe.until(lambda line: line["type"] == "stream" and line["ok"])

        # Then its XID is told with its name, and the stream comes back without it
        assert _told(lines) == {(fake.uuid(1), 79): 1}
        assert [line["code"] for line in lines if line["type"] == "stream"] == [15, 0]
        fake.xid(0, 31)
        assert _told(_until_told(probe, 1)) == {(fake.uuid(0), 31): 1}
        assert fake.calls("nvmlEventSetWait_v2") < 20


def test_a_stream_that_fails_for_good_is_tried_less_and_less_often(fake: FakeDriver) -> None:
    fake.fail("nvmlEventSetWait_v2", 15)

    with RunningProbe(fake) as probe:
        probe.begun()
        begun = time.monotonic()
        eventually(lambda: fake.calls("nvmlEventSetCreate") >= 4)

        # Pauses of 0.1, 0.2 and 0.4 seconds came between; looks go on
        assert time.monotonic() - begun > 0.4
        assert fake.calls("nvmlEventSetFree") >= 3
        assert probe.look()[0]["code"] == 0


def test_a_gpu_that_lacks_some_kinds_of_events_is_heard_with_the_others(
    fake: FakeDriver,
) -> None:
    fake.set(0, "supported_events", 0x8)
    fake.set(1, "supported_events", 0)

    with RunningProbe(fake) as probe:
        probe.begun()
        fake.xid(1, 31)
        fake.xid(0, 13)

        assert _told(_until_told(probe, 1)) == {(fake.uuid(0), 13): 1}


def test_a_registration_that_leaves_the_set_undefined_is_begun_anew_without(
    fake: FakeDriver,
) -> None:
    fake.fail("nvmlDeviceRegisterEvents", 999, gpu=1)

    with RunningProbe(fake) as probe:
        assert [line["ok"] for line in probe.begun() if line["type"] == "stream"] == [True]
        fake.xid(0, 13)
        assert _told(_until_told(probe, 1)) == {(fake.uuid(0), 13): 1}

    assert fake.calls("nvmlEventSetFree") == 1
    assert fake.calls("nvmlDeviceRegisterEvents", gpu=1) == 1


def test_a_driver_without_events_is_looked_at_all_the_same(
    tmp_path: Path, nvml_library: Path
) -> None:
    fake = FakeDriver(tmp_path / "nvml", nvml_library, without=("nvmlEventSetWait_v2",))

    with RunningProbe(fake) as probe:
        [stream] = [line for line in probe.begun() if line["type"] == "stream"]
        assert (stream["ok"], stream["code"]) == (False, 13)
        assert probe.look()[0]["code"] == 0


def test_a_gpu_that_comes_later_is_heard_as_well(fake: FakeDriver) -> None:
    fake.fail("nvmlDeviceGetHandleByIndex_v2", 23, gpu=1)

    with RunningProbe(fake) as probe:
        probe.begun()
        fake.clear("nvmlDeviceGetHandleByIndex_v2")
        assert probe.look()[1]["code"] == 0
        fake.xid(0, 13)  # ends the wait that began without it
        _until_told(probe, 1)
        eventually(lambda: fake.calls("nvmlDeviceRegisterEvents", gpu=1))
        fake.xid(1, 31)

        assert _told(_until_told(probe, 1)) == {(fake.uuid(1), 31): 1}


def test_a_wait_that_does_not_come_back_is_told(fake: FakeDriver) -> None:
    # Given the probe's waiting thread, in a call that hangs
    fake.hang("nvmlEventSetWait_v2")
    waits = """
import threading, time
from lastcall.gpu.probe.calls import Calls
from lastcall.gpu.probe.lines import Lines
from lastcall.gpu.probe.session import Session
from lastcall.gpu.probe.waiter import Waiter

session = Session(Calls(None))
session.begin()
session.meet()
waiter = Waiter(Lines(), lambda: session.devices, lambda: None, lambda: None)
threading.Thread(target=waiter.run, daemon=True).start()
for seconds in (29, 31, 33):
    waiter.check(time.monotonic() + seconds)
"""
    # When the time passes, then it is told, once
    done = subprocess.run(
        [sys.executable, "-c", waits],
        env={**os.environ, **fake.environment},
        check=True,
        stdout=subprocess.PIPE,
        timeout=30,
    )
    [line] = done.stdout.splitlines()
    assert json.loads(line) == {
        "type": "stream",
        "ok": False,
        "code": 10,
        "text": "a call does not come back",
    }


def _until_told(probe: RunningProbe, count: int) -> list[Line]:
    told = 0

    def complete(line: Line) -> bool:
        nonlocal told
        told += line["count"] if line["type"] == "xid" else 0
        return told >= count

    return probe.until(complete)


def _told(lines: list[Line]) -> Counter[tuple[str, int]]:
    told: Counter[tuple[str, int]] = Counter()
    for line in lines:
        if line["type"] == "xid":
            told[line["uuid"], line["xid"]] += line["count"]
    return told


def _private_kibibytes(probe: RunningProbe) -> int:
    rollup = Path(f"/proc/{probe.process.pid}/smaps_rollup").read_text()
    [dirty] = [line.split()[1] for line in rollup.splitlines() if line.startswith("Private_Dirty:")]
    return int(dirty)
