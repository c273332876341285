"""``lastcall gpu``: lets go of the GPUs and takes them up again."""

from __future__ import annotations

import pytest

from lastcall.core.events import GpuJudged, GpuWatchChanged
from lastcall.core.gpu.model import WatchState
from lastcall.gpu.watch_status import NOT_LOADED
from support.gpus import GPU_0, GPU_1, HEALTHY
from support.happenings import UNIX_AT_ZERO


@pytest.fixture
def watched(agent, monkeypatch):
    """An agent that watches two GPUs."""
    monkeypatch.setattr("lastcall.cli.gpu.time.time", lambda: UNIX_AT_ZERO + agent.story.now)
    agent.story.at(
        110.0,
        GpuWatchChanged(state=WatchState.WATCHING),
        GpuJudged(GPU_0, HEALTHY),
        GpuJudged(GPU_1, HEALTHY),
    )
    return agent


def obeys(*changes, after_looks=3):
    """Plan that the watch does as it was told, some looks after that."""
    left = [*changes]

    def plan(story):
        nonlocal after_looks
        after_looks -= 1
        if after_looks <= 0 and left:
            story.at(story.now, left.pop(0))

    return plan


def released(**more):
    return GpuWatchChanged(state=WatchState.RELEASED, **more)


def test_release_waits_until_the_gpus_are_let_go_and_says_what_comes_next(watched, run, capsys):
    watched.plan = obeys(released())

    code = run("gpu", "release")

    out = capsys.readouterr().out
    assert code == 0
    assert out == (
        "the GPUs are let go for 10 min 0 s; reset them (nvidia-smi --gpu-reset --id=UUID), then "
        "say: lastcall gpu watch\n"
    )
    assert watched.story.node.gpus_released_until == watched.story.now + 600
    assert watched.asked >= 3


def test_a_process_that_stays_inside_the_driver_is_named(watched, run, capsys):
    watched.plan = obeys(released(call="nvmlDeviceGetTemperature", gpu=GPU_1.uuid, pid=4711))

    code = run("gpu", "release")

    err = capsys.readouterr().err
    assert code == 1
    assert "the driver is still held open: nvmlDeviceGetTemperature on GPU 1 does not" in err
    assert "process 4711 cannot be ended; the GPUs cannot be reset: reboot the node" in err


def test_a_process_that_ends_while_it_is_waited_for_is_no_trouble(watched, run, capsys):
    watched.plan = obeys(released(pid=4711), released())

    assert run("gpu", "release") == 0


def test_gpus_that_are_not_let_go_in_time_fail_the_command(watched, run, capsys):
    code = run("gpu", "release")

    assert code == 1
    assert "the GPUs were not let go within 0.1 s: watching" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "words"),
    [(WatchState.OFF, "it does not watch any"), (WatchState.NO_GPU, "there are none")],
)
def test_where_nothing_is_open_there_is_nothing_to_let_go(agent, run, capsys, state, words):
    agent.story.at(110.0, GpuWatchChanged(state=state))

    code = run("gpu", "release")

    assert code == 0
    assert capsys.readouterr().out == f"the agent does not have the GPUs open: {words}\n"
    assert agent.story.node.gpus_released_until is None


def test_watch_waits_until_they_are_watched_again(watched, run, capsys):
    watched.plan = obeys(released())
    run("gpu", "release")
    starting = GpuWatchChanged(state=WatchState.STARTING)
    watched.plan = obeys(starting, GpuWatchChanged(state=WatchState.WATCHING))
    capsys.readouterr()

    code = run("gpu", "watch")

    assert code == 0
    assert capsys.readouterr().out == "the GPUs are watched again, 2 are known\n"
    assert watched.story.node.gpus_released_until is None


def test_a_slow_start_of_the_watch_is_no_failure(watched, run, capsys):
    watched.story.at(120.0, GpuWatchChanged(state=WatchState.STARTING))

    assert run("gpu", "watch") == 0
    assert capsys.readouterr().out == "the GPUs are watched again, it is starting\n"


def test_a_watch_that_comes_to_nothing_says_why_and_what_helps(watched, run, capsys):
    watched.story.at(120.0, released())
    watched.plan = obeys(GpuWatchChanged(state=WatchState.NO_DRIVER, detail=NOT_LOADED))

    code = run("gpu", "watch")

    err = capsys.readouterr().err
    assert code == 1
    assert f"error: the GPUs are not watched: no driver: {NOT_LOADED} -> load the driver" in err


def test_an_old_trouble_is_not_taken_for_the_answer(watched, run, capsys):
    watched.story.at(120.0, GpuWatchChanged(state=WatchState.CRASHED, detail="signal 11"))
    watched.plan = obeys(GpuWatchChanged(state=WatchState.WATCHING))

    assert run("gpu", "watch") == 0


@pytest.mark.parametrize("action", ["release", "watch"])
def test_who_may_not_ask_is_refused_for_what_they_asked(agent, run, capsys, action):
    agent.refusals = ["status is for root and the agent's own user"]

    assert run("gpu", action) == 1
    assert "refused: gpu is for root and the agent's own user" in capsys.readouterr().err


def test_an_agent_of_an_older_version_is_told_apart(agent, run, capsys, monkeypatch):
    monkeypatch.setattr(agent, "view", dict)

    assert run("gpu", "release") == 1
    assert "the agent is of another version" in capsys.readouterr().err


def test_without_an_action_the_usage_is_shown(run, capsys):
    with pytest.raises(SystemExit) as stop:
        run("gpu")

    assert stop.value.code == 2
    assert "ACTION" in capsys.readouterr().err
