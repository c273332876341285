"""The probe's life: it begins with the driver, looks round, and ends whenever it is to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastcall.gpu import trail
from lastcall.gpu.trail import Step
from support.fake_agent import eventually
from support.nvml import FakeDriver
from support.running_probe import RunningProbe, add_pci_gpus, load_kernel_driver


@pytest.fixture
def fake(tmp_path: Path, nvml_library: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "nvml", nvml_library, gpus=2)


@pytest.fixture
def trail_fd() -> Iterator[int]:
    fd = os.memfd_create("trail")
    yield fd
    os.close(fd)


def test_it_tells_of_the_driver_the_machine_and_each_gpu(fake: FakeDriver) -> None:
    # Given a machine with two GPUs and a third on the bus that the driver does not count
    add_pci_gpus(fake, 3)
    load_kernel_driver(fake, "550.54.15")

    # When the probe is started
    with RunningProbe(fake) as probe:
        lines = probe.begun()

        # Then it says who it is, what the machine has, and how each GPU is
        hello = {
            "type": "hello",
            "pid": probe.process.pid,
            "driver": "550.54.15",
            "nvml": "12.550.54.15",
        }
        assert lines[0] == hello
        [node] = [line for line in lines if line["type"] == "node"]
        assert {**node, "at": 0} == {
            "type": "node",
            "at": 0,
            "driver_count": 2,
            "pci_count": 3,
            "control_openable": None,
            "driver": "550.54.15",
            "kernel_driver": "550.54.15",
        }
        assert [line["gpu"] for line in lines if line["type"] == "gpu"] == [
            {
                "uuid": fake.uuid(gpu),
                "index": gpu,
                "name": "NVIDIA H100 80GB HBM3",
                "pci": fake.pci(gpu),
            }
            for gpu in range(2)
        ]
        assert {"type": "stream", "ok": True, "code": 0, "text": ""} in lines

        # When a GPU comes that was not there
        fake.count(3)
        probe.say("look")
        lines = probe.until(lambda line: line["type"] == "round")

        # Then it is looked at as well, and the new count is told
        assert [line["gpu"]["index"] for line in lines if line["type"] == "gpu"] == [0, 1, 2]
        assert [line["driver_count"] for line in lines if line["type"] == "node"] == [3]

        # And the driver was begun with once, and each GPU met once
        assert fake.calls("nvmlInitWithFlags") == 1
        assert fake.calls("nvmlDeviceGetHandleByIndex_v2") == 3

        # When its parent hangs up, then it ends
        assert probe.hang_up() == 0
        assert probe.errors() == ""


def test_a_machine_without_gpus_is_no_failure_and_one_round_is_all_where_no_more_is_wanted(
    fake: FakeDriver,
) -> None:
    fake.count(0)

    with RunningProbe(fake, once=True) as probe:
        assert probe.heard("node")["driver_count"] == 0
        assert probe.round() == {}
        assert probe.ended() == 0


def test_the_trail_names_the_call_that_hangs_and_the_end_of_input_ends_it(
    fake: FakeDriver, trail_fd: int
) -> None:
    with RunningProbe(fake, trail_fd=trail_fd, pass_fds=[trail_fd]) as probe:
        # Given a probe between two rounds: it is in no call
        probe.round()
        assert trail.read(trail_fd) == Step("", at=pytest.approx(time.monotonic(), abs=60))

        # When a call hangs for one GPU
        fake.hang("nvmlDeviceGetTemperature", gpu=1)
        probe.say("look")
        assert probe.heard("gpu")["gpu"]["index"] == 0
        eventually(lambda: _call(trail_fd) == "nvmlDeviceGetTemperature")

        # Then that GPU and that call stand in the trail
        step = trail.read(trail_fd)
        assert step is not None
        assert (step.gpu, step.index, step.pci) == (fake.uuid(1), 1, fake.pci(1))
        assert step.at == pytest.approx(time.monotonic(), abs=60)

        # And the end of its input ends it all the same
        assert probe.hang_up() == 0


def test_a_hang_before_the_first_look_is_in_the_trail(fake: FakeDriver, trail_fd: int) -> None:
    fake.hang("nvmlDeviceGetHandleByIndex_v2", gpu=1)

    with RunningProbe(fake, trail_fd=trail_fd, pass_fds=[trail_fd]) as probe:
        probe.heard("hello")
        eventually(lambda: fake.calls("nvmlDeviceGetHandleByIndex_v2", gpu=1))
        assert trail.read(trail_fd) == Step(
            "nvmlDeviceGetHandleByIndex", index=1, at=pytest.approx(time.monotonic(), abs=60)
        )

        probe.process.terminate()
        assert probe.ended() == -signal.SIGTERM


def test_it_dies_with_its_parent_whatever_it_hangs_in(fake: FakeDriver) -> None:
    # Given a probe whose input stays open and that does not heed SIGTERM, since it hangs
    fake.hang("nvmlInitWithFlags", stubborn=True)
    read_end, write_end = os.pipe()
    starts_one = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-m', 'lastcall.gpu.probe'])\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", starts_one],
        stdin=subprocess.PIPE,
        stdout=write_end,
        env={**os.environ, **fake.environment},
    )
    os.close(write_end)
    eventually(lambda: fake.calls("nvmlInitWithFlags"))

    # When its parent is killed, then nobody holds its output any more
    with parent, os.fdopen(read_end, "rb") as output:
        parent.kill()
        parent.wait()
        assert output.read() == b""


def test_it_ends_when_nobody_reads_it(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.round()
        assert probe.process.stdout is not None
        probe.process.stdout.close()
        probe.say("look")
        assert probe.ended() == 0
        assert probe.errors() == ""


def test_a_driver_that_cannot_be_used_is_told(fake: FakeDriver) -> None:
    fake.break_init(18)

    with RunningProbe(fake) as probe:
        failed = probe.line()
        assert failed is not None
        assert failed.pop("text")
        assert failed == {"type": "failed", "call": "nvmlInitWithFlags", "code": 18}
        assert probe.ended() == 3


def test_a_library_that_cannot_be_loaded_is_told(fake: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")

    with RunningProbe(fake, environment={"LD_LIBRARY_PATH": str(tmp_path)}) as probe:
        assert probe.line() == {
            "type": "failed",
            "call": "nvmlInitWithFlags",
            "code": 12,
            "text": "NVML Shared Library Not Found",
        }
        assert probe.ended() == 3


def test_a_missing_package_is_told(fake: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError\n")

    with RunningProbe(fake, environment={"PYTHONPATH": str(tmp_path)}) as probe:
        failed = probe.line()
        assert failed is not None
        assert failed["code"] == 12
        assert failed["text"] == "the package nvidia-ml-py is not installed (lastcall's extra gpu)"
        assert probe.ended() == 3


def test_gpus_that_cannot_be_counted_are_told(fake: FakeDriver) -> None:
    fake.fail("nvmlDeviceGetCount_v2", 999)

    with RunningProbe(fake) as probe:
        failed = probe.heard("failed")
        assert (failed["call"], failed["code"]) == ("nvmlDeviceGetCount", 999)
        assert probe.ended() == 3


def test_a_session_that_is_over_ends_the_probe(fake: FakeDriver) -> None:
    with RunningProbe(fake) as probe:
        probe.round()
        fake.fail("nvmlDeviceGetTemperature", 1)
        probe.say("look")
        failed = probe.heard("failed")
        assert (failed["call"], failed["code"]) == ("nvmlDeviceGetTemperature", 1)
        assert probe.ended() == 3


def test_wrong_settings_are_said(fake: FakeDriver) -> None:
    with RunningProbe(fake, polls=5) as probe:
        assert probe.ended() == 2
        assert "poll_seconds" in probe.errors()


def test_many_rounds_cost_no_files(fake: FakeDriver) -> None:
    # Given the parts of the probe in one process, as the probe puts them together
    goes_round = """
import os
from pathlib import Path
from lastcall.gpu.probe.calls import Calls
from lastcall.gpu.probe.lines import Lines
from lastcall.gpu.probe.node import NodeObserver
from lastcall.gpu.probe.rounds import Rounds
from lastcall.gpu.probe.session import Session

calls = Calls(None)
session = Session(calls)
session.begin()
nowhere = Path("/nowhere")
node = NodeObserver(calls, "", sysfs=nowhere, proc=nowhere, dev=nowhere)
rounds = Rounds(session, calls, node, Lines(os.open(os.devnull, os.O_WRONLY)))
rounds.go()
before = os.listdir("/proc/self/fd")
for _ in range(1000):
    rounds.go(thorough=False)
assert os.listdir("/proc/self/fd") == before
"""
    # When it goes round a thousand times, then it holds as many files as after the first
    subprocess.run(
        [sys.executable, "-c", goes_round],
        env={**os.environ, **fake.environment},
        check=True,
        timeout=30,
    )
    assert fake.calls("nvmlDeviceGetTemperature", gpu=0) == 1001
    assert fake.calls("nvmlInitWithFlags") == 1


def _call(trail_fd: int) -> str:
    step = trail.read(trail_fd)
    return step.call if step else ""
