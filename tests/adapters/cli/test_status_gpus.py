"""The GPUs in ``lastcall status``."""

from __future__ import annotations

import re

import pytest

from lastcall.cli import status_gpus
from lastcall.cli.gpu_words import RECOVERIES, TROUBLES
from lastcall.cli.status_view import render
from lastcall.cli.terminal import Style
from lastcall.core.events import GpuHoldersSeen, GpuJudged, GpuWatchChanged, GpuWatchRequested
from lastcall.core.gpu.model import (
    NODE,
    WATCH_TROUBLES,
    Gpu,
    Health,
    Holder,
    Mark,
    Recovery,
    Verdict,
    WatchState,
)
from lastcall.gpu.watch_status import NO_LIBRARY, NO_PACKAGE, NO_RIGHT, NOT_LOADED
from support.gpus import DEGRADED, GPU_0, GPU_1, HEALTHY, LOST
from support.happenings import UNIX_AT_ZERO


def lines_of(agent, run, capsys, monkeypatch):
    """Return what the command shows at the agent's own time."""
    monkeypatch.setattr("lastcall.cli.status.time.time", lambda: UNIX_AT_ZERO + agent.story.now)
    assert run("status") == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def lines(agent, run, capsys, monkeypatch):
    return lambda: lines_of(agent, run, capsys, monkeypatch)


def line_with(lines, words):
    (line,) = [line for line in lines if words in line]
    return line


def test_every_trouble_and_every_recovery_is_told_what_helps() -> None:
    assert set(TROUBLES) == set(WATCH_TROUBLES)
    assert set(RECOVERIES) == set(Recovery) - {Recovery.NONE}


@pytest.mark.parametrize(
    "state", [WatchState.OFF, WatchState.NO_GPU, WatchState.STARTING, WatchState.WATCHING]
)
def test_without_gpus_and_without_trouble_nothing_is_said_of_them(agent, lines, state):
    agent.story.at(100.0, GpuWatchChanged(state=state))

    assert not [line for line in lines() if "GPU" in line]


def test_each_gpu_has_a_line(agent, lines):
    agent.story.at(200.0, GpuJudged(GPU_0, HEALTHY), GpuJudged(GPU_1, LOST))
    agent.readings.read(GPU_0, 199.0)

    shown = lines()
    healthy, lost = line_with(shown, "  healthy  "), line_with(shown, "  faulty  ")
    assert re.split("  +", healthy) == [
        *("0", "H100 80GB HBM3", "healthy", "-", "61 C", "97%", "70.0 GiB of 80.0 GiB", "-"),
    ]
    assert re.split("  +", lost) == [
        *("1", "H100 80GB HBM3", "faulty", "reboot", "-", "-", "-", "xid_79, row_remap_pending"),
    ]


def test_old_figures_are_not_shown(agent, lines):
    agent.story.at(200.0, GpuJudged(GPU_0, DEGRADED))
    agent.readings.read(GPU_0, 100.0)

    cells = re.split("  +", line_with(lines(), "  degraded  "))
    assert cells[2:] == ["degraded", "reset when idle", "-", "-", "-", "row_remap_pending"]


@pytest.mark.parametrize("state", TROUBLES)
def test_a_watch_in_trouble_is_one_line_with_what_helps(agent, lines, state):
    agent.story.at(100.0, GpuWatchChanged(state=WatchState(state), detail="as it is"))
    agent.story.at(190.0)

    line = line_with(lines(), "watch over the GPUs")
    assert f"is {state.replace('_', ' ')} for 90 s: as it is -> {TROUBLES[state]}" in line


@pytest.mark.parametrize(
    ("detail", "helps"),
    [
        (NOT_LOADED, "modprobe nvidia"),
        (NO_LIBRARY, "gpu.hostLibraries"),
        (NO_PACKAGE, "make install again"),
        (NO_RIGHT, "open the device files"),
        ("the driver refused; nvmlInitWithFlags: so (15)", "nvidia-smi must answer"),
    ],
)
def test_what_is_missing_of_the_driver_decides_what_helps(agent, lines, detail, helps):
    agent.story.at(100.0, GpuWatchChanged(state=WatchState.NO_DRIVER, detail=detail))

    line = line_with(lines(), "watch over the GPUs")
    assert helps in line.partition(f"{detail} -> ")[2]


def test_what_speaks_most_against_a_gpu_has_a_line_with_its_uuid(agent, lines):
    agent.story.at(200.0, GpuJudged(GPU_0, HEALTHY), GpuJudged(GPU_1, LOST))

    shown = lines()
    assert f"GPU 1, {GPU_1.uuid}: GPU has fallen off the bus" in shown
    assert not [line for line in shown if GPU_0.uuid in line]


def test_what_is_known_of_a_gpu_without_a_uuid_is_not_said_of_all(agent, lines):
    of_one = [
        Mark(reason="no_permission", health=Health.UNKNOWN, detail="GPU 2: the agent may not"),
        Mark(reason="gpu_lost", health=Health.FAULTY, detail="00000000:1B:00.0: it is lost: x"),
    ]
    agent.story.at(100.0, GpuJudged(NODE, Verdict(Health.FAULTY, tuple(of_one))))

    shown = lines()
    assert "GPU 2: the agent may not" in shown
    assert "00000000:1B:00.0: it is lost: x" in shown


def test_a_crash_is_not_called_a_hang(agent, lines):
    agent.story.at(
        100.0,
        GpuWatchChanged(
            state=WatchState.CRASHED,
            gpu=GPU_1.uuid,
            call="nvmlDeviceGetTemperature",
            detail="the probe was killed by signal 11",
        ),
    )

    assert "does not come back" not in line_with(lines(), "crashed")


def test_a_call_that_hangs_is_named_with_its_gpu_and_the_process_that_stays(agent, lines):
    agent.story.at(
        100.0,
        GpuJudged(GPU_1, HEALTHY),
        GpuWatchChanged(
            state=WatchState.UNRESPONSIVE,
            gpu=GPU_1.uuid,
            call="nvmlDeviceGetTemperature",
            pid=4711,
        ),
    )

    line = line_with(lines(), "unresponsive")
    hang = "nvmlDeviceGetTemperature on GPU 1 does not come back, process 4711 cannot be ended"
    assert hang in line


def test_gpus_that_are_let_go_are_said_to_be_with_the_way_back(agent, lines):
    agent.story.at(
        100.0,
        GpuWatchRequested("cli", watched=False),
        GpuWatchChanged(state=WatchState.RELEASED),
    )
    agent.story.at(160.0)

    line = line_with(lines(), "let go")
    assert line == "the GPUs are let go, for 9 min 0 s more; once reset: lastcall gpu watch"


def test_what_is_held_against_all_gpus_together_has_a_line(agent, lines):
    mark = Mark(reason="gpu_missing", health=Health.FAULTY, detail="7 of 8 GPUs")
    agent.story.at(100.0, GpuJudged(NODE, Verdict(Health.FAULTY, (mark,))))

    assert "all GPUs: 7 of 8 GPUs" in lines()


def test_processes_without_a_hello_have_a_line_each_up_to_a_limit(agent, lines):
    hostile = Holder(41, (GPU_1.uuid, GPU_0.uuid), "python \x1b[2J" + "x" * 500)
    more = [Holder(100 + n, ("GPU-of-no-index",)) for n in range(status_gpus.SHOWN_HOLDERS + 2)]
    agent.story.at(
        100.0,
        GpuJudged(GPU_0, HEALTHY),
        GpuJudged(GPU_1, HEALTHY),
        GpuHoldersSeen((hostile, *more)),
    )

    shown = lines()
    line = line_with(shown, "process 41 ")
    assert r"(python \x1b[2Jxxx" in line
    assert line.endswith(
        "x…) computes on GPU 0, 1 and has not said hello: nobody can ask it to flush"
    )
    assert len(line) < 160
    assert line_with(shown, "process 100 ").startswith("process 100 computes on GPU-of-no-index ")
    assert "and 3 more such processes" in shown


def test_names_and_reasons_of_any_length_stay_within_the_line(agent, lines):
    marks = tuple(Mark(reason=f"reason_{n}" * 5, health=Health.DEGRADED) for n in range(40))
    gpu = Gpu("GPU-cccc", 2, "Tesla\n" + "T" * 200)
    agent.story.at(100.0, GpuJudged(gpu, Verdict(Health.DEGRADED, marks)))

    assert len(line_with(lines(), "degraded")) < 160


def test_health_has_the_colours_of_everything_else(agent, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    agent.story.at(100.0, GpuJudged(GPU_0, HEALTHY), GpuJudged(GPU_1, LOST))

    text = render(agent.view(), Style(Terminal()), UNIX_AT_ZERO + 100)

    assert "\x1b[32mhealthy\x1b[0m" in text
    assert "\x1b[31mfaulty\x1b[0m" in text
