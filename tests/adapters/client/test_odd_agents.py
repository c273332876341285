"""An agent that is faulty, hostile or newer than this client does no harm to training."""

import json
import os
import socket
import threading
import time

import pytest

import lastcall
from lastcall.client import link
from lastcall.wire.messages import AGENT_LINE_LIMIT
from support.fake_agent import eventually, notice


def test_a_message_of_an_unknown_type_is_passed_over(agent, guard):
    for _ in range(2 * link.ODD_LINES_LIMIT):
        agent.say({"type": "from-the-future", "notices": []})

    agent.announce("n-1", added_in="version 9")

    assert eventually(guard.poll).id == "n-1"
    assert len(agent.hellos) == 1


def test_a_few_garbled_lines_are_passed_over_and_logged_once(agent, guard, caplog):
    for _ in range(link.ODD_LINES_LIMIT):
        agent.say_raw(b"\x00\xff not a message {\n")

    agent.announce("n-1")

    assert eventually(guard.poll).id == "n-1"
    assert caplog.text.count("what is no message") == 1
    assert len(agent.hellos) == 1


def test_an_agent_that_only_sends_garbage_is_left_and_tried_again(agent, guard):
    agent.say_raw(b"garbage\n" * (link.ODD_LINES_LIMIT + 1))

    agent.wait("hello", count=2)
    eventually(lambda: guard.connected)


def test_a_line_beyond_the_limit_ends_the_connection(agent, guard):
    agent.say_raw(b"x" * (AGENT_LINE_LIMIT + 1))

    agent.wait("hello", count=2)
    eventually(lambda: guard.connected)


def test_a_line_of_just_the_limit_is_heard(agent, guard):
    content = json.dumps(notice("n-1") | {"padding": ""}).encode()
    padding = b"x" * (AGENT_LINE_LIMIT - 1 - len(content))

    agent.say_raw(content.replace(b'"padding": ""', b'"padding": "' + padding + b'"') + b"\n")

    assert eventually(guard.poll).id == "n-1"
    assert len(agent.hellos) == 1


def test_a_message_that_drips_in_byte_by_byte_is_put_together(agent, guard):
    for byte in json.dumps(notice("n-1")).encode() + b"\n":
        agent.say_raw(bytes([byte]))

    assert eventually(guard.poll).id == "n-1"


def test_several_messages_in_one_piece_are_all_heard(agent, guard):
    agent.say_raw(b"".join(json.dumps(notice(f"n-{i}")).encode() + b"\n" for i in range(50)))

    agent.wait("ack", id="n-49")
    assert len(guard._ledger.open_ids) == 50


def test_before_its_welcome_an_agent_can_announce_nothing(agent, caplog):
    agent.welcomes = False
    with lastcall.connect(socket=agent.path) as guard:
        agent.wait("hello")
        agent.say(notice("early"))
        agent.say({"type": "error", "code": "rate", "message": "what came before is read by now"})
        eventually(lambda: "read by now" in caplog.text)
        assert guard.poll() is None
        agent.say(
            {
                "type": "welcome",
                "protocol": 1,
                "agent": "0.0",
                "node": "node-1",
                "session": "s-1",
                "notices": [notice("n-1")],
            }
        )

        assert eventually(guard.poll).id == "n-1"
        assert guard._ledger.open_ids == {"n-1"}


@pytest.mark.parametrize("code", ["bad_message", "rate", "unauthorized", "unknown_id"])
def test_an_error_is_logged_once_and_the_connection_goes_on(agent, guard, caplog, code):
    for _ in range(5):
        agent.say({"type": "error", "code": code, "message": "no"})
    agent.announce("n-1")

    eventually(guard.poll)
    assert caplog.text.count(f"answered {code}") == 1
    assert len(agent.hellos) == 1


def test_an_agent_that_says_bye_is_tried_again(agent, guard):
    agent.say({"type": "bye", "reason": "restarting"})

    agent.wait("hello", count=2)


def test_an_agent_that_stops_reading_costs_training_nothing(agent, guard, monkeypatch):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0.05)
    agent.announce("n-1")
    told = eventually(guard.poll)
    agent.reads = False

    slowest_seconds = 0.0
    for step in range(3000):
        began = time.monotonic()
        guard.poll(step)
        guard.checkpoint(step, path="/ckpt/" + "x" * 500)
        slowest_seconds = max(slowest_seconds, time.monotonic() - began)
    with guard.flush(told) as flush:
        assert flush.saved("/ckpt") is False
    assert slowest_seconds < 0.5

    agent.reads = True
    assert agent.wait("flushed")["path"] == "/ckpt"
    assert len(agent.all("checkpoint")) < 3000


def test_more_than_the_socket_takes_at_once_arrives_whole(agent, guard, monkeypatch):
    monkeypatch.setattr("lastcall.client.flush.ANSWER_SECONDS", 0)
    for number in range(40):
        agent.announce(f"n-{number}")
    agent.wait("ack", id="n-39")
    agent.reads = False

    for number in range(40):
        told = guard.poll(number)
        with guard.flush(told) as flush:
            flush.saved(f"/{number:02}/" + "x" * 4000)
    time.sleep(0.05)
    agent.reads = True

    agent.wait("flushed", count=40)
    assert {len(flushed["path"]) for flushed in agent.all("flushed")} == {4004}


def test_a_fault_of_our_own_ends_neither_thread_nor_training(agent, guard, monkeypatch, caplog):
    def stumble(self, message, now):
        raise ZeroDivisionError("ours")

    with monkeypatch.context() as patch:
        patch.setattr("lastcall.client.ledger.Ledger.receive", stumble)
        agent.say(notice("n-1"))
        eventually(lambda: "fault in the lastcall reader" in caplog.text)
    agent.announce("n-2")

    eventually(guard.poll)


def test_many_connections_refused_in_a_row_leave_no_descriptors(tmp_path, quick_retries):
    path = tmp_path / "agent.sock"
    served = threading.Event()
    before = len(os.listdir("/proc/self/fd"))

    def slam(listener):
        for _ in range(20):
            listener.accept()[0].close()
        served.set()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=slam, args=(listener,))
        thread.start()
        with lastcall.connect(socket=path) as guard:
            assert served.wait(10)
            assert guard.poll() is None
        thread.join()

    assert len(os.listdir("/proc/self/fd")) == before
