"""The agent may be absent, late, restarted or gone; training notices nothing of it."""

import logging
import socket
import time

import pytest

import lastcall
from lastcall.client import guard as guard_module
from lastcall.client import link
from support.fake_agent import FakeAgent, eventually, notice

pytestmark = pytest.mark.usefixtures("quick_retries")


def test_without_an_agent_nothing_happens_and_one_line_says_so(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="lastcall")

    with lastcall.connect(socket=tmp_path / "none.sock") as guard:
        for step in range(100):
            assert guard.poll(step) is None
        guard.checkpoint(1, path="/ckpt")
        guard.resumed(0, lost_steps=3)
        with guard.section("eval"):
            time.sleep(0.1)
        assert guard.advice is None
        assert guard.remaining_seconds is None
        assert guard.connected is False

    assert caplog.text.count("no agent at") == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("path", ["/nonexistent/" + "x" * 200, "nul\0", "/"])
def test_an_impossible_path_is_no_agent_either(path):
    with lastcall.connect(socket=path) as guard:
        assert guard.poll(1) is None


def test_where_no_thread_can_be_had_training_goes_on_without_one(agent, monkeypatch, caplog):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)

    with lastcall.connect(socket=agent.path) as guard:
        assert guard.poll(1) is None
        guard.checkpoint(1)

    assert "no thread for lastcall" in caplog.text


def test_a_stale_socket_file_is_no_agent_and_costs_no_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(guard_module, "WELCOME_WAIT_SECONDS", 30)
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))

    began = time.monotonic()
    with lastcall.connect(socket=path) as guard:
        assert time.monotonic() - began < 5
        with FakeAgent(path) as agent:
            eventually(lambda: guard.connected)
            assert agent.hellos


def test_an_agent_that_comes_later_is_found(tmp_path):
    with lastcall.connect(socket=tmp_path / "agent.sock") as guard:
        assert guard.poll() is None
        with FakeAgent(tmp_path / "agent.sock") as agent:
            agent.announce("n-1")
            agent.wait("ack")
            assert guard.poll().id == "n-1"


def test_connecting_waits_for_a_hanging_agent_only_briefly(agent):
    agent.welcomes = False

    began = time.monotonic()
    with lastcall.connect(socket=agent.path) as guard:
        assert guard_module.WELCOME_WAIT_SECONDS <= time.monotonic() - began < 2
        assert guard.poll() is None


def test_an_agent_that_never_welcomes_is_tried_again(agent, monkeypatch):
    monkeypatch.setattr(link, "WELCOME_SECONDS", 0.02)
    agent.welcomes = False

    with lastcall.connect(socket=agent.path) as guard:
        agent.wait("hello", count=2)
        agent.welcomes = True
        eventually(lambda: guard.connected)


def test_after_a_restart_the_notice_is_not_polled_twice(agent, guard):
    agent.announce("n-1")
    with guard.flush(eventually(guard.poll)) as flush:
        flush.saved("/ckpt")

    agent.stop()
    agent.start()

    assert agent.wait("hello", count=2)["handled"] == ["n-1"]
    eventually(lambda: guard.connected)
    assert guard.poll() is None
    assert flush.stop is True
    assert len(agent.all("flushed")) == 1


def test_while_the_agent_is_away_its_notice_still_stands(agent, guard):
    agent.announce("n-1")
    eventually(guard.poll)

    agent.stop()
    eventually(lambda: not guard.connected)

    assert guard.poll().id == "n-1"


def test_a_notice_that_a_restarted_agent_does_not_list_is_gone(agent, guard):
    agent.announce("n-1")
    agent.announce("n-2")
    agent.wait("ack", id="n-2")

    agent.notices = [notice("n-2")]
    agent.drop()
    agent.wait("hello", count=2)

    eventually(lambda: guard.poll().id == "n-2")


def test_a_report_reaches_the_agent_that_was_restarted_during_the_flush(agent, guard):
    agent.announce("n-1")

    with guard.flush(eventually(guard.poll), step=7) as flush:
        agent.wait("intent")
        agent.stop()
        eventually(lambda: not guard.connected)
        agent.start()
        assert agent.wait("intent", count=2)["at_step"] == 7
        assert flush.saved("/ckpt") is True

    assert len(agent.all("flushed", id="n-1")) == 1


def test_a_report_made_without_an_agent_is_sent_once_there_is_one(agent, guard, monkeypatch):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0.01)
    agent.announce("n-1")
    with guard.flush(eventually(guard.poll)) as flush:
        agent.stop()
        assert flush.saved("/ckpt") is False

    agent.start()

    assert agent.wait("flushed")["path"] == "/ckpt"
    eventually(lambda: not guard._outbox.waiting)


def test_a_report_that_was_not_acknowledged_is_sent_again(agent, guard, monkeypatch):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0.01)
    agent.announce("n-1")
    agent.answers = False
    with guard.flush(eventually(guard.poll)) as flush:
        assert flush.saved("/ckpt") is False
    agent.wait("flushed")

    agent.answers = True
    agent.drop()

    agent.wait("flushed", count=2)
    eventually(lambda: not guard._outbox.waiting)


def test_a_report_that_no_agent_knows_what_to_do_with_is_given_up(agent, guard):
    agent.announce("n-1")
    agent.answers = False
    agent.notices = []
    flush = guard.flush(eventually(guard.poll))
    agent.drop()
    eventually(lambda: guard.remaining_seconds is None)

    flush.saved("/ckpt")
    agent.wait("flushed")
    agent.say({"type": "error", "code": "unknown_id", "message": "no notice has the id 'n-1'"})

    eventually(lambda: not guard._outbox.waiting)


def test_a_report_that_a_new_agent_does_not_know_yet_is_sent_once_it_does(
    agent, guard, monkeypatch
):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0.01)
    agent.announce("n-1")
    flush = guard.flush(eventually(guard.poll))
    agent.answers = False
    flush.saved("/ckpt")
    agent.wait("flushed")
    agent.notices = []
    agent.drop()
    agent.wait("flushed", count=2)
    assert agent.hellos[-1]["handled"] == []
    agent.say({"type": "error", "code": "unknown_id", "message": "no notice has the id 'n-1'"})
    eventually(lambda: not guard._outbox.waiting)

    agent.announce("n-1")

    assert agent.wait("flushed", count=3)["path"] == "/ckpt"
    assert guard.poll() is None


def test_a_pending_report_is_tried_at_once_however_long_the_pause(agent, monkeypatch):
    monkeypatch.setattr(link, "FIRST_RETRY_SECONDS", 600)
    monkeypatch.setattr(link, "LAST_RETRY_SECONDS", 600)
    with lastcall.connect(socket=agent.path) as guard:
        agent.announce("n-1")
        flush = guard.flush(eventually(guard.poll))
        agent.drop()
        eventually(lambda: not guard.connected)

        assert flush.saved("/ckpt") is True


def test_the_pauses_grow_from_the_first_to_the_last(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "FIRST_RETRY_SECONDS", 1.0)
    monkeypatch.setattr(link, "LAST_RETRY_SECONDS", 5.0)
    pauses = []

    def rest(self, duration_seconds, *, patient):
        pauses.append(duration_seconds)
        self._closing = len(pauses) == 6
        return False

    monkeypatch.setattr(link.Link, "_rest", rest)
    with lastcall.connect(socket=tmp_path / "none.sock") as guard:
        guard._link._thread.join(5)

    for pause, most in zip(pauses, [1, 2, 4, 5, 5, 5], strict=True):
        assert most / 2 <= pause <= most


def test_an_agent_of_another_version_is_left_alone_for_long(agent, caplog, monkeypatch):
    pauses = []

    def rest(self, duration_seconds, *, patient):
        pauses.append((duration_seconds, patient))
        self._closing = len(pauses) == 3
        return False

    monkeypatch.setattr(link.Link, "_rest", rest)
    agent.welcomes = False
    with lastcall.connect(socket=agent.path) as guard:
        for count in (1, 2, 3):
            agent.wait("hello", count=count)
            agent.say({"type": "error", "code": "version", "message": "version 9 alone"})
            agent.wait_for_end(count)
        assert guard.poll() is None

    assert pauses == [(link.REFUSED_RETRY_SECONDS, True)] * 3
    assert caplog.text.count("version 9 alone") == 1
