"""How a guard leaves: with what must still be told, and never for long."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import lastcall
from lastcall.client import guard as guard_module
from support.fake_agent import eventually

SOURCES = str(Path(lastcall.__file__).parents[1])

TRAIN = """
import lastcall, sys
guard = lastcall.connect(job="job", socket=sys.argv[1])
for step in range(1000):
    guard.poll(step)
print("trained")
"""

FLUSH_AND_LEAVE = """
import lastcall, sys
guard = lastcall.connect(job="job", socket=sys.argv[1])
with guard.flush(guard.poll(), step=7) as flush:
    flush.saved("/ckpt")
sys.exit(lastcall.EXIT_PREEMPTED)
"""


def run(script, path):
    """Run a script with an agent's socket as its argument; return result and seconds."""
    began = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return result, time.monotonic() - began


def reader_threads():
    return [thread for thread in threading.enumerate() if thread.name == "lastcall-reader"]


def test_closing_says_bye_with_the_reason_and_ends_the_thread(agent):
    guard = lastcall.connect(socket=agent.path)
    assert len(reader_threads()) == 1
    assert reader_threads()[0].daemon

    guard.close("done")
    guard.close("twice")

    assert agent.wait("bye")["reason"] == "done"
    agent.wait_for_end()
    assert len(agent.all("bye")) == 1
    assert reader_threads() == []


def test_after_closing_every_call_does_nothing(agent):
    guard = lastcall.connect(socket=agent.path)
    agent.announce("n-1")
    told = eventually(guard.poll)

    guard.close()

    assert guard.poll(5) is None
    assert guard.connected is False
    guard.checkpoint(5)
    guard.ignore(told)
    began = time.monotonic()
    with guard.flush(told) as flush:
        assert flush.saved("/ckpt") is False
    assert time.monotonic() - began < 0.5


def test_leaving_by_an_exception_names_it(agent):
    with pytest.raises(ZeroDivisionError), lastcall.connect(socket=agent.path):
        raise ZeroDivisionError

    assert agent.wait("bye")["reason"] == "ZeroDivisionError"


def test_closing_tells_first_what_is_still_owed(agent, quick_retries, monkeypatch):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0)
    guard = lastcall.connect(socket=agent.path)
    agent.announce("n-1")
    flush = guard.flush(eventually(guard.poll))
    agent.drop()

    flush.saved("/ckpt")
    guard.checkpoint(9)
    guard.close()

    agent.wait("bye")
    assert agent.all("flushed")
    assert agent.all("checkpoint")


def test_closing_is_bounded_whatever_the_agent_does(agent, monkeypatch):
    monkeypatch.setattr(guard_module, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0)
    agent.answers = False
    guard = lastcall.connect(socket=agent.path)
    agent.announce("n-1")
    with guard.flush(eventually(guard.poll)) as flush:
        flush.saved("/ckpt")
    agent.reads = False
    for step in range(100):
        guard.checkpoint(step, path="x" * 4000)

    began = time.monotonic()
    guard.close()

    assert time.monotonic() - began < 1
    eventually(lambda: reader_threads() == [])
    agent.reads = True


def test_the_bounds_are_those_that_are_promised():
    assert guard_module.CLOSE_SECONDS == 1.0
    assert guard_module.EXIT_SECONDS == 0.2
    assert guard_module.WELCOME_WAIT_SECONDS == 0.2


def test_a_program_runs_the_same_without_an_agent(tmp_path):
    result, seconds = run(TRAIN, tmp_path / "none.sock")

    assert (result.returncode, result.stdout, result.stderr) == (0, "trained\n", "")
    assert seconds < 5


def test_a_program_says_bye_when_it_ends(agent):
    result, _ = run(TRAIN, agent.path)

    assert (result.returncode, result.stdout, result.stderr) == (0, "trained\n", "")
    assert agent.wait("bye")["reason"] == "exit"


def test_a_hanging_agent_does_not_keep_a_program_from_ending(agent):
    agent.welcomes = False

    result, seconds = run(TRAIN, agent.path)

    assert (result.returncode, result.stdout, result.stderr) == (0, "trained\n", "")
    assert seconds < 5


def test_a_program_that_flushes_and_leaves_at_once_is_heard(agent):
    agent.announce("n-1")

    result, _ = run(FLUSH_AND_LEAVE, agent.path)

    assert result.returncode == 143
    assert [message["type"] for message in agent.received] == [
        "hello",
        "ack",
        "intent",
        "flushed",
        "bye",
    ]
