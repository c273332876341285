"""A signal as a notice: only where asked for, beside whatever handler was there."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lastcall
from support.fake_agent import eventually

SOURCES = str(Path(lastcall.__file__).parents[1])

TERMINATE_AFTER_A_CLOSE_IN_A_THREAD = """
import lastcall, os, signal, threading
guard = lastcall.connect(socket="/nonexistent/agent.sock")
guard.install_signal_fallback(signal.SIGTERM)
closer = threading.Thread(target=guard.close)
closer.start()
closer.join()
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""


@pytest.fixture
def calls():
    """A handler of the program's own for SIGUSR1, and the signals that it got."""
    calls = []

    def handler(signum, frame):
        calls.append(signum)

    before = signal.signal(signal.SIGUSR1, handler)
    yield calls
    assert signal.getsignal(signal.SIGUSR1) is handler
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def alone(tmp_path):
    with lastcall.connect(socket=tmp_path / "none.sock") as guard:
        yield guard


def strike(signum=signal.SIGUSR1):
    signal.raise_signal(signum)


def test_no_handler_is_installed_unless_asked_for(alone):
    before = signal.getsignal(signal.SIGTERM)

    alone.poll(1)

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_becomes_a_notice_and_the_handler_before_is_called(calls, alone):
    alone.install_signal_fallback(signal.SIGUSR1)

    strike()

    told = alone.poll(1)
    assert (told.kind, told.source, told.urgency) == ("termination", "signal", "now")
    assert told.remaining_seconds is None
    assert told.deadline_quality == "none"
    assert "SIGUSR1" in told.reason
    assert calls == [signal.SIGUSR1]
    alone.close()


def test_two_signals_are_one_save(calls, alone):
    alone.install_signal_fallback(signal.SIGUSR1)
    alone.install_signal_fallback(signal.SIGUSR1)
    strike()

    with alone.flush(alone.poll(1)) as flush:
        strike()
        flush.saved("/ckpt")
    strike()

    assert alone.poll(2) is None
    assert flush.stop is True
    assert len(calls) == 3
    alone.close()


def test_a_flush_for_a_signal_is_a_checkpoint_to_the_agent(calls, agent, guard):
    guard.install_signal_fallback(signal.SIGUSR1)
    strike()

    with guard.flush(guard.poll(1), step=7) as flush:
        flush.progress("writing")
        flush.saved("/ckpt", bytes=5)

    checkpoint = agent.wait("checkpoint")
    assert (checkpoint["step"], checkpoint["path"], checkpoint["bytes"]) == (7, "/ckpt", 5)
    assert {message["type"] for message in agent.received} == {"hello", "checkpoint"}
    guard.close()


def test_a_signal_on_top_of_the_agents_notice_is_no_second_save(calls, agent, guard):
    guard.install_signal_fallback(signal.SIGUSR1)
    agent.announce("n-1")

    with guard.flush(eventually(guard.poll)) as flush:
        strike()
        assert guard.poll() is None
        flush.saved("/ckpt")

    assert guard.poll() is None
    guard.close()


def test_the_agents_notice_during_the_flush_for_a_signal_is_served_too(calls, agent, guard):
    guard.install_signal_fallback(signal.SIGUSR1)
    strike()

    with guard.flush(guard.poll(1), step=7) as flush:
        agent.announce("n-1")
        agent.wait("intent", id="n-1")
        assert flush.saved("/ckpt") is True

    assert agent.wait("flushed")["id"] == "n-1"
    assert guard.poll() is None
    guard.close()


def test_a_handler_that_was_installed_later_is_left_in_place(calls, alone):
    ours = signal.getsignal(signal.SIGUSR1)
    alone.install_signal_fallback(signal.SIGUSR1)

    def later(signum, frame):
        calls.append("later")

    signal.signal(signal.SIGUSR1, later)
    alone.close()

    assert signal.getsignal(signal.SIGUSR1) is later
    signal.signal(signal.SIGUSR1, ours)


def test_another_thread_is_told_clearly_that_it_may_not(alone):
    errors = []

    def install():
        try:
            alone.install_signal_fallback(signal.SIGUSR1)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()

    assert len(errors) == 1
    assert "main thread" in errors[0]


def test_a_handler_that_python_cannot_call_is_refused(alone, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda signum: None)

    with pytest.raises(RuntimeError, match="not installed from Python"):
        alone.install_signal_fallback(signal.SIGUSR1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_dies_of_the_signal_as_it_would_without_us(alone):
    before = signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    try:
        alone.install_signal_fallback(signal.SIGUSR2)
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGUSR2)
            os._exit(0)

        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert status == -signal.SIGUSR2
        alone.close()
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_closed_in_another_thread_the_process_can_still_be_terminated():
    result = subprocess.run(
        [sys.executable, "-c", TERMINATE_AFTER_A_CLOSE_IN_A_THREAD],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        check=False,
        timeout=20,
    )

    assert (result.returncode, result.stderr) == (-signal.SIGTERM, b"")
