"""Forked children: no hang, no copy of the connection, no second voice."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lastcall
from support.fake_agent import eventually, notice

SOURCES = str(Path(lastcall.__file__).parents[1])

# From Python 3.12 on a fork beside threads warns; what happens then is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

DIE_AND_LEAVE_A_CHILD = """
import lastcall, os, sys
guard = lastcall.connect(socket=sys.argv[1])
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
os._exit(9)
"""


def in_child(check):
    """Run a check in a forked child; return its exit status, a signal's number if it hung."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_children_forked_while_the_reader_is_busy_neither_hang_nor_hold_the_connection(
    agent, guard
):
    agent.announce("n-0")
    told = eventually(guard.poll)
    connection = guard._link._connection
    descriptor = connection.fileno()
    done = threading.Event()

    def keep_the_reader_busy():
        number = 0
        while not done.is_set():
            number += 1
            agent.say(notice(f"n-{number % 100}", remaining_seconds=float(number)))

    def check():
        assert connection.fileno() == -1
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(descriptor)
        assert guard.poll(1) is None
        guard.checkpoint(1)
        guard.ignore(told)
        with guard.flush(told) as flush:
            assert flush.saved("/ckpt") is False
        assert flush.stop is False
        guard.close()

    busy = threading.Thread(target=keep_the_reader_busy)
    busy.start()
    try:
        statuses = [in_child(check) for _ in range(50)]
    finally:
        done.set()
        busy.join()

    assert statuses == [0] * 50
    assert guard.poll() is not None
    assert guard.connected
    assert len(agent.hellos) == 1
    assert not agent.all("flushed")
    assert not agent.all("bye")


def test_a_child_may_connect_for_itself(agent, guard):
    def check():
        with lastcall.connect(job="child", socket=agent.path) as own:
            assert own.connected

    assert in_child(check) == 0

    assert agent.wait("hello", job="child")["pid"] != os.getpid()
    assert agent.wait("bye")
    assert guard.connected


def test_the_agent_sees_its_client_die_though_a_child_lives_on(agent):
    process = subprocess.Popen(
        [sys.executable, "-c", DIE_AND_LEAVE_A_CHILD, str(agent.path)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"child\n"
        agent.wait_for_end()
        assert process.wait(5) == 9
        process.stdin.close()
        assert process.stdout.read() == b""


def test_a_flush_that_is_left_in_a_child_is_not_reported(agent, guard):
    agent.announce("n-1")
    with guard.flush(eventually(guard.poll)) as flush:

        def leave():
            with pytest.raises(SystemExit), flush:
                raise SystemExit

        assert in_child(leave) == 0
        assert not agent.all("failed")
        assert flush.saved("/ckpt") is True
