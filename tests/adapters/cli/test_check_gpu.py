"""``lastcall check`` looks at the GPUs."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace

import pytest

from lastcall.cli.check import gpu, gpu_probe
from lastcall.cli.check.findings import Level
from lastcall.cli.check.gpu import check_gpu
from lastcall.cli.check.gpu_seen import SHOWN_HOLDERS
from lastcall.cli.check.seen_agent import Presence, SeenAgent
from lastcall.core.gpu.model import NODE as NODE_GPU
from lastcall.core.gpu.model import (
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
from lastcall.core.model import Node
from lastcall.gpu import trail
from lastcall.gpu.trail import Step
from lastcall.gpu.watch_status import NO_LIBRARY, NOT_LOADED
from lastcall.record.status import status
from support.examination import found_by, one_found_by, subject_of
from support.gpus import GPU_0, GPU_1, HEALTHY, LOST, OFF_THE_BUS
from support.nvml import FakeDriver

HELLO = {"type": "hello", "pid": 7, "driver": "550.54.15", "nvml": "12.550.54.15"}
NODE = {
    "type": "node",
    "at": 1.0,
    "driver_count": 2,
    "pci_count": 2,
    "driver": "550.54.15",
    "kernel_driver": "550.54.15",
}
ROUND = {"type": "round", "at": 2.0, "seconds": 0.01}


def look(gpu, *, code=0, call="", **values):
    named = {"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name, "pci": gpu.pci}
    return {"type": "gpu", "at": 1.5, "gpu": named, "code": code, "call": call, "values": values}


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Stand a program in for the probe that prints some lines; return how to choose them."""
    monkeypatch.setattr(gpu.presence, "present", lambda: True)
    monkeypatch.setattr(gpu, "PROBE_SECONDS", 5.0)
    log = tmp_path / "kmsg"
    log.touch()

    def says(*lines, then=""):
        text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
        program = f"import sys; sys.stdout.write({text!r}); sys.stdout.flush()\n{then}"
        monkeypatch.setattr(gpu_probe, "PROGRAM", (sys.executable, "-S", "-c", program))

    says.log = log
    says(HELLO, NODE, look(GPU_0), look(GPU_1), ROUND)
    return says


def found(driver, *settings, agent=None):
    kernel_log = f"gpu.kernel_log={driver.log}"
    return found_by(check_gpu, subject_of(kernel_log, *settings, agent=agent))


def not_ok(findings):
    return [(one.level.value, one.what, one.remedy) for one in findings if one.level != Level.OK]


def seen(node, kernel_log="read"):
    view = status(node, now=1000.0, wall=1700000000.0, agent={"version": "1"})
    view["gpu"]["kernel_log"] = kernel_log
    return SeenAgent(Presence.SHOWN, view)


def watch(state, **more):
    return seen(Node(gpu_watch=GpuWatch(state=state, **more)))


def judged(*records, state=WatchState.WATCHING, **more):
    gpus = {gpu.uuid: GpuRecord(gpu=gpu, verdict=verdict) for gpu, verdict in records}
    return seen(Node(gpus=gpus, gpu_watch=GpuWatch(state=state, **more)))


# --- whether there is anything to look at ----------------------------------------------------


async def test_gpus_that_are_not_to_be_watched_are_not_asked(driver):
    finding = await one_found_by(check_gpu, subject_of("gpu.enabled=false"))

    assert (finding.level, finding.what) == (Level.OK, "not watched: gpu.enabled is false")


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(gpu.presence, "present", lambda: False)
    monkeypatch.setattr(gpu.presence, "library_present", lambda environment: False)


@pytest.mark.parametrize(
    ("setting", "level", "words"),
    [
        ("gpu.enabled=auto", Level.OK, "this machine shows no NVIDIA GPU"),
        ("gpu.enabled=true", Level.PROBLEM, "shows no NVIDIA GPU"),
        ("gpu.expected=8", Level.PROBLEM, "gpu.expected is 8, and this machine shows no NVIDIA"),
    ],
)
async def test_a_machine_without_gpus_is_in_order_unless_they_are_wanted(
    without_gpu, setting, level, words
):
    finding = await one_found_by(check_gpu, subject_of(setting))

    assert finding.level == level
    assert words in finding.what


async def test_gpus_that_the_agent_says_are_gone_are_a_problem_where_none_shows(without_gpu):
    gone = Mark(
        reason="gpu_missing",
        health=Health.FAULTY,
        recovery=Recovery.REBOOT,
        detail="there is no GPU",
    )
    agent = judged((NODE_GPU, Verdict(Health.FAULTY, (gone,))), state=WatchState.NO_GPU)

    findings = await found_by(check_gpu, subject_of("gpu.expected=8", agent=agent))

    assert not_ok(findings) == [("problem", "all GPUs: there is no GPU", "reboot the node")]


async def test_gpus_that_the_agent_alone_sees_are_not_denied(without_gpu):
    agent = judged((GPU_0, HEALTHY))

    ((level, what, _),) = not_ok(await found_by(check_gpu, subject_of(agent=agent)))

    assert level == "note"
    assert "no sign of the GPUs that the running agent watches" in what


WANTED = [
    ("gpu.enabled=auto", "warning"),
    ("gpu.enabled=true", "problem"),
    ("gpu.expected=2", "problem"),
]


@pytest.mark.parametrize(("setting", "level"), WANTED)
async def test_where_the_package_is_missing_it_is_said_how_to_get_it(
    driver, monkeypatch, setting, level
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    (finding,) = not_ok(await found(driver, setting))

    assert finding[0] == level
    assert "nvidia-ml-py" in finding[1]
    assert "make install again, or pip install '.[gpu]' in the source" in finding[2]


# --- what the driver says --------------------------------------------------------------------


async def test_good_gpus_are_named_with_their_driver(driver):
    findings = await found(driver)

    assert not_ok(findings) == []
    assert [one.what for one in findings] == [
        "driver 550.54.15, NVML 12.550.54.15: 2 NVIDIA H100 80GB HBM3",
        f"the kernel's own lines about GPU errors can be read from {driver.log}",
    ]


def refuses(driver, code, text):
    failed = {"type": "failed", "call": "nvmlInitWithFlags", "code": code, "text": text}
    driver(failed, then="raise SystemExit(3)")


@pytest.mark.parametrize(
    ("code", "text", "remedy"),
    [
        (18, "Driver/library version mismatch", "reboot the node"),
        (999, "", "nvidia-smi must answer"),
    ],
)
async def test_a_driver_that_does_not_take_us_in_is_a_problem(driver, code, text, remedy):
    refuses(driver, code, text)

    ((level, what, cure),) = not_ok(await found(driver))

    assert level == "problem"
    assert what.endswith(f"nvmlInitWithFlags: {text or 'code 999'}")
    assert remedy in cure


@pytest.mark.parametrize(
    ("code", "text", "remedy"),
    [
        (4, "Insufficient Permissions", "open the device files /dev/nvidia*"),
        (9, "Driver Not Loaded", "modprobe nvidia"),
        (12, "NVML Shared Library Not Found", "by the chart's gpu.visible or gpu.hostLibraries"),
        (12, "the package nvidia-ml-py is not installed", "pip install '.[gpu]'"),
    ],
)
async def test_what_is_missing_of_a_driver_is_told_apart(driver, code, text, remedy):
    refuses(driver, code, text)

    ((level, what, cure),) = not_ok(await found(driver))

    assert level == "warning"
    assert what.endswith(f"nvmlInitWithFlags: {text}")
    assert remedy in cure


@pytest.mark.parametrize(("setting", "level"), WANTED)
async def test_a_missing_driver_is_a_problem_where_gpus_are_wanted(driver, setting, level):
    refuses(driver, 9, "Driver Not Loaded")

    ((said, *_),) = not_ok(await found(driver, setting))

    assert said == level


@pytest.mark.parametrize(("setting", "level"), WANTED)
async def test_a_driver_that_the_agent_misses_too_is_spoken_of_once(driver, setting, level):
    refuses(driver, 12, "NVML Shared Library Not Found")
    agent = watch(WatchState.NO_DRIVER, detail=f"{NO_LIBRARY}; nvmlInitWithFlags: … (12)")

    ((said, what, cure),) = not_ok(await found(driver, setting, agent=agent))

    assert said == level
    assert what.startswith(f"the running agent's watch is no driver: {NO_LIBRARY}; ")
    assert "hand them in" in cure


@pytest.mark.parametrize(
    ("line", "level", "what", "remedy"),
    [
        (look(GPU_1, code=15, call="nvmlDeviceGetUUID"), "problem", "code 15", "reboot the node"),
        (look(GPU_1, code=16, call="x"), "problem", "does not answer", f"--id={GPU_1.uuid}"),
        (look(GPU_1, code=999, call="x"), "problem", "code 999", "NVRM"),
        (look(GPU_1, recovery_action=1), "problem", "wants a reset", "lastcall gpu release"),
        (look(GPU_1, recovery_action=3), "warning", "use several GPUs", "end the jobs"),
        (look(GPU_1, recovery_action=42), "problem", "not known here (42)", "reboot"),
        (look(GPU_1, remap_pending=1), "warning", "replaced at its next reset", "nothing runs"),
        (look(GPU_1, remap_failed=1), "problem", "could not be remapped", "out of service"),
        (look(GPU_1, persistence=0), "warning", "is off for GPU 1:", "nvidia-smi -pm 1"),
    ],
)
async def test_what_the_driver_holds_against_a_gpu_is_one_line(driver, line, level, what, remedy):
    driver(HELLO, NODE, look(GPU_0, recovery_action=0, remap_pending=0, persistence=1), line, ROUND)

    ((said, words, cure),) = not_ok(await found(driver))

    assert said == level
    assert what in words
    assert "GPU 1" in words
    assert remedy in cure


@pytest.mark.parametrize(
    ("node", "expected", "short"),
    [
        (NODE, 0, None),
        (NODE | {"driver_count": 1}, 0, "the driver counts 1 of 2 GPUs"),
        (NODE | {"pci_count": None}, 0, None),
        (NODE | {"control_openable": True}, 2, None),
        (
            NODE | {"control_openable": False},
            2,
            "the driver's control device, /dev/nvidiactl, cannot be opened",
        ),
        (NODE, 8, "the driver counts 2 of 8 GPUs"),
    ],
)
async def test_gpus_are_counted_against_those_expected_and_must_be_within_reach(
    driver, node, expected, short
):
    driver(HELLO, node, look(GPU_0), look(GPU_1), ROUND)

    findings = not_ok(await found(driver, f"gpu.expected={expected}"))

    assert [what for _, what, _ in findings] == ([short] if short else [])


async def test_a_driver_that_was_replaced_under_its_module_is_said(driver):
    driver(HELLO, NODE | {"kernel_driver": "535.1"}, look(GPU_0), look(GPU_1), ROUND)

    ((level, what, _),) = not_ok(await found(driver))

    assert level == "warning"
    assert what == "the driver's library is 550.54.15, its kernel module 535.1"


async def test_lines_that_are_none_are_passed_over(driver):
    driver("\x1b[2J", "{", HELLO, {"type": "novelty"}, NODE, look(GPU_0), look(GPU_1), ROUND)

    assert not_ok(await found(driver)) == []


async def test_a_driver_that_hangs_is_left_behind_and_the_call_is_named(driver, monkeypatch):
    monkeypatch.setattr(gpu, "PROBE_SECONDS", 0.4)
    step = Step("nvmlDeviceGetTemperature", GPU_1.uuid, 1, GPU_1.pci, 1.0)
    monkeypatch.setattr(trail, "read", lambda fd: step)
    driver(HELLO, NODE, look(GPU_0), then="import time; time.sleep(60)")

    findings = await found(driver)

    ((level, what, remedy),) = not_ok(findings)
    assert level == "problem"
    assert what.endswith(
        "not answered all within 0.4 s: it is in nvmlDeviceGetTemperature for GPU 1"
    )
    assert "reboot the node" in remedy
    assert "1 NVIDIA H100" in findings[0].what


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ended by signal 11"),
        ("raise SystemExit(1)", "ended with code 1"),
    ],
)
async def test_a_probe_that_ends_early_is_said_to(driver, end, words):
    driver(HELLO, then=f"import sys; sys.stderr.close()\n{end}")

    ((level, what, _),) = not_ok(await found(driver))

    assert level == "problem"
    assert words in what


async def test_a_probe_that_cannot_be_started_is_a_problem(driver, monkeypatch):
    monkeypatch.setattr(gpu_probe, "PROGRAM", ("/nowhere/python",))

    ((level, what, _),) = not_ok(await found(driver))

    assert level == "problem"
    assert "the probe cannot be started" in what


# --- the kernel's log ------------------------------------------------------------------------


async def test_a_kernel_log_that_cannot_be_read_is_worth_a_note(driver, tmp_path):
    driver.log.unlink()

    ((level, what, remedy),) = not_ok(await found(driver))

    assert level == "note"
    assert f"{driver.log} cannot be read (No such file or directory)" in what
    assert "docs/reference/unit.md#the-kernels-log" in remedy
    assert "gpu.privileged and gpu.kernelLog" in remedy


async def test_a_directory_is_no_kernel_log(driver):
    driver.log.unlink()
    driver.log.mkdir()

    ((level, what, _),) = not_ok(await found(driver))

    assert (level, "cannot be read (Is a directory)" in what) == ("note", True)


async def test_no_kernel_log_is_looked_for_where_none_is_wanted(driver):
    ((level, what, _),) = not_ok(await found(driver, "gpu.kernel_log="))

    assert (level, "gpu.kernel_log is empty" in what) == ("note", True)


@pytest.mark.parametrize(
    ("says", "level", "words"),
    [
        ("read", "ok", "the running agent reads the kernel's own lines"),
        ("off", "note", "does not read the kernel's log: XID errors are known by their numbers"),
        ("it may not be read", "note", "it may not be read: XID errors are known by"),
    ],
)
async def test_beside_an_agent_its_own_kernel_log_counts(driver, says, level, words):
    driver.log.unlink()

    findings = await found(driver, agent=seen(Node(), kernel_log=says))

    assert (findings[-1].level, words in findings[-1].what) == (level, True)


# --- what the running agent says -------------------------------------------------------------


async def test_a_released_driver_is_not_opened(driver):
    driver(then="raise SystemExit(9)")

    ((level, what, remedy),) = not_ok(await found(driver, agent=watch(WatchState.RELEASED)))

    assert (level, remedy) == ("note", "once reset: lastcall gpu watch")
    assert "let go" in what


async def test_a_driver_that_hangs_for_the_agent_is_not_asked_once_more(driver):
    driver(then="raise SystemExit(9)")
    hanging = watch(WatchState.UNRESPONSIVE, call="nvmlDeviceGetName", pid=77, detail="30 s")

    ((level, what, remedy),) = not_ok(await found(driver, agent=hanging))

    assert level == "problem"
    assert what.endswith(
        "is unresponsive: 30 s; nvmlDeviceGetName does not come back, process 77 cannot be ended"
    )
    assert "reboot" in remedy


async def test_a_call_that_the_agent_has_named_is_not_named_twice(driver):
    detail = "nvmlDeviceGetName on GPU 1 did not come back within 30 seconds"
    agent = watch(WatchState.UNRESPONSIVE, call="nvmlDeviceGetName", detail=detail)

    ((_, what, _),) = not_ok(await found(driver, agent=agent))

    assert what == f"the running agent's watch is unresponsive: {detail}"


async def test_a_crash_is_not_called_a_hang(driver):
    agent = watch(WatchState.CRASHED, call="nvmlDeviceGetName", detail="the probe was killed")

    ((level, what, _),) = not_ok(await found(driver, agent=agent))

    assert (level, what) == (
        "problem",
        "the running agent's watch is crashed: the probe was killed",
    )


UNREACHED = Gpu("", 1)
"""What a new process knows of a GPU whose handle it cannot have."""


@pytest.mark.parametrize("now", [GPU_1, UNREACHED, Gpu("", 7, pci=GPU_1.pci)])
async def test_a_gpu_that_the_agent_has_judged_is_spoken_of_once(driver, now):
    driver(HELLO, NODE, look(GPU_0), look(now, code=15, call="x"), ROUND)

    findings = not_ok(await found(driver, agent=judged((GPU_0, HEALTHY), (GPU_1, LOST))))

    assert findings == [
        (
            "problem",
            "GPU 1 is faulty: xid_79, row_remap_pending: GPU has fallen off the bus",
            "reboot the node",
        )
    ]


async def test_a_gpu_that_never_had_a_uuid_is_spoken_of_once_and_as_one(driver):
    driver(HELLO, NODE, look(GPU_0), look(UNREACHED, code=15, call="x"), ROUND)
    mark = replace(OFF_THE_BUS, detail="GPU 1: it is lost: x answered 15")

    agent = judged((NODE_GPU, Verdict(Health.FAULTY, (mark,))))

    findings = not_ok(await found(driver, agent=agent))
    assert findings == [("problem", "GPU 1: it is lost: x answered 15", "reboot the node")]


async def test_too_few_gpus_are_spoken_of_once(driver):
    driver(HELLO, NODE | {"driver_count": 1}, look(GPU_0), ROUND)
    mark = Mark(reason="gpu_missing", health=Health.FAULTY, detail="the driver counts 1 of 2")

    agent = judged((NODE_GPU, Verdict(Health.FAULTY, (mark,))))

    assert [what for _, what, _ in not_ok(await found(driver, agent=agent))] == [
        "all GPUs: the driver counts 1 of 2"
    ]


async def test_a_driver_that_is_missing_is_left_to_what_helps_the_watch(driver):
    refuses(driver, 9, "Driver Not Loaded")
    mark = Mark(reason="driver_missing", health=Health.DEGRADED, detail="there is no driver")
    agent = judged(
        (NODE_GPU, Verdict(Health.DEGRADED, (mark,))),
        state=WatchState.NO_DRIVER,
        detail=NOT_LOADED,
    )

    ((_, what, remedy),) = not_ok(await found(driver, agent=agent))

    assert what == f"the running agent's watch is no driver: {NOT_LOADED}"
    assert "modprobe nvidia" in remedy


async def test_where_no_recovery_is_needed_the_runbook_is_named(driver):
    hot = Mark(reason="temperature", health=Health.DEGRADED, detail="91 °C")
    agent = judged((GPU_0, HEALTHY), (GPU_1, Verdict(Health.DEGRADED, (hot,))))

    assert not_ok(await found(driver, agent=agent)) == [
        (
            "warning",
            "GPU 1 is degraded: temperature: 91 °C",
            "see the runbook LastcallGpuDegraded, by its reason",
        )
    ]


@pytest.mark.parametrize(
    ("state", "helps"),
    [
        (WatchState.WATCHING, f"nvidia-smi --gpu-reset --id={GPU_1.uuid}"),
        (WatchState.UNRESPONSIVE, "reboot the node"),
        (WatchState.CRASHED, "see the agent's log"),
    ],
)
async def test_while_the_driver_does_not_answer_nobody_is_sent_to_nvidia_smi(driver, state, helps):
    mark = replace(OFF_THE_BUS, reason="xid_119", recovery=Recovery.RESET)
    agent = judged((GPU_1, Verdict(Health.FAULTY, (mark,))), state=state, detail="so")

    (*_, (level, what, remedy)) = not_ok(await found(driver, agent=agent))

    assert (level, "xid_119" in what) == ("problem", True)
    assert helps in remedy
    assert ("nvidia-smi" in remedy) == (state is WatchState.WATCHING)


async def test_processes_that_nobody_can_ask_are_named_up_to_a_limit(driver):
    holders = tuple(Holder(40 + n, (GPU_0.uuid,), "python x.py") for n in range(SHOWN_HOLDERS + 2))
    node = Node(gpus={GPU_0.uuid: GpuRecord(gpu=GPU_0, verdict=HEALTHY)}, gpu_holders=holders)

    findings = not_ok(await found(driver, agent=seen(node)))

    assert [level for level, *_ in findings] == ["warning"] * SHOWN_HOLDERS + ["note"]
    assert findings[0][1] == (
        "process 40 (python x.py) computes on GPU 0 and has not said hello: "
        "nobody can ask it to flush"
    )
    assert findings[-1][1] == "and 2 more such processes"


async def test_an_agent_of_an_older_version_says_nothing_of_gpus(driver):
    agent = SeenAgent(Presence.SHOWN, {"agent": {"version": "0.0.1"}})

    assert not_ok(await found(driver, agent=agent)) == []


# --- by the agent's own probe ----------------------------------------------------------------


def test_the_probe_looks_once_and_ends(nvml_library, tmp_path, monkeypatch):
    fake = FakeDriver(tmp_path, nvml_library, gpus=2)
    fake.set(1, "remap_pending", 1)
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)

    probed = gpu_probe.probe(30.0)

    assert (probed.complete, probed.exit_code, probed.step) == (True, 0, None)
    assert probed.hello.driver == "550.54.15"
    assert probed.node.driver_count == 2
    assert [look.values["remap_pending"] for look in probed.looks] == [0, 1]


def test_a_call_that_hangs_is_read_from_the_trail(nvml_library, tmp_path, monkeypatch):
    fake = FakeDriver(tmp_path, nvml_library, gpus=2)
    fake.hang("nvmlDeviceGetTemperature", gpu=1)
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)

    probed = gpu_probe.probe(0.5)

    assert (probed.complete, probed.exit_code) == (False, None)
    assert (probed.step.call, probed.step.index) == ("nvmlDeviceGetTemperature", 1)
