"""How a notice reaches the training loop, and what a poll without one costs."""

import sys
import threading

import pytest

import lastcall
from support.fake_agent import eventually, notice


def test_a_guard_says_who_it_is(agent):
    with lastcall.connect(job="llama-ft", rank=3, local_rank=1, world_size=8, socket=agent.path):
        hello = agent.wait("hello")

    assert hello["protocol"] == [1, 1]
    assert (hello["job"], hello["rank"], hello["local_rank"], hello["world_size"]) == (
        "llama-ft",
        3,
        1,
        8,
    )
    assert hello["client"] == f"lastcall-py/{lastcall.__version__}"


def test_the_environment_names_job_and_agent(agent, monkeypatch):
    monkeypatch.setenv("LASTCALL_SOCKET", str(agent.path))
    monkeypatch.setenv("LASTCALL_JOB", "from-the-environment")
    monkeypatch.setenv("RANK", "5")

    with lastcall.connect() as guard:
        hello = agent.wait("hello")

    assert (hello["job"], hello["rank"]) == ("from-the-environment", 5)
    assert guard.identity.job == "from-the-environment"


def test_an_open_notice_is_there_at_the_first_poll(agent):
    agent.notices = [notice("n-1")]

    with lastcall.connect(socket=agent.path) as guard:
        assert guard.poll(0).id == "n-1"


def test_a_notice_is_acknowledged_with_the_last_step_while_training_is_busy(agent, guard):
    guard.poll(41)

    agent.announce("n-1")

    assert agent.wait("ack")["step"] == 41
    told = guard.poll(42)
    assert (told.id, told.kind, told.action) == ("n-1", "preemption", "terminate")
    assert told.remaining_seconds == pytest.approx(120, abs=5)
    assert guard.remaining_seconds == pytest.approx(120, abs=5)


def test_poll_returns_a_notice_until_it_is_dealt_with(agent, guard):
    agent.announce("n-1")

    assert eventually(guard.poll) == guard.poll() == guard.poll(2)


def test_an_update_moves_the_deadline(agent, guard):
    agent.announce("n-1")
    eventually(guard.poll)

    agent.announce("n-1", remaining_seconds=20.0)

    eventually(lambda: guard.poll().remaining_seconds < 21)


def test_a_withdrawn_notice_is_not_polled(agent, guard):
    agent.announce("n-1")
    eventually(guard.poll)

    agent.withdraw("n-1")

    eventually(lambda: guard.poll() is None)
    assert guard.remaining_seconds is None


def test_an_ignored_notice_is_told_and_not_polled_again(agent, guard):
    agent.announce("n-1")

    guard.poll(17)
    guard.ignore(eventually(guard.poll))

    assert agent.wait("intent") == {"type": "intent", "id": "n-1", "will": "ignore", "at_step": 17}
    assert guard.poll() is None


def test_a_poll_without_a_notice_calls_nothing_and_waits_for_nothing(guard):
    events = []

    def note(frame, event, argument):
        if frame.f_globals["__name__"].startswith("lastcall"):
            events.append((event, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        for step in range(100):
            guard.poll(step)
    finally:
        sys.setprofile(None)

    # A lock taken, a clock read or a system call made would each show as a "c_call".
    assert events == [("call", "poll"), ("return", "poll")] * 100


def test_many_threads_may_poll_and_flush_while_notices_come(agent, guard):
    faults = []
    done = threading.Event()

    def train():
        try:
            step = 0
            while not done.is_set():
                step += 1
                if told := guard.poll(step):
                    with guard.flush(told, step=step) as flush:
                        flush.saved(f"/ckpt/{step}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the main thread shows it
            faults.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        agent.announce(f"n-{number}")
    for number in range(20):
        agent.wait("flushed", id=f"n-{number}")
    done.set()
    for thread in threads:
        thread.join()

    assert faults == []
    assert guard.poll() is None


def test_what_is_odd_for_a_step_is_not_told_and_harms_nothing(agent, guard):
    for odd in ("seven", -1, float("nan"), object()):
        guard.poll(odd)

    agent.announce("n-1")

    assert "step" not in agent.wait("ack")
