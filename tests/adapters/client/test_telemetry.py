"""What the agent learns of a job besides its flushes."""

import math
import time

import pytest

import lastcall
from lastcall.client import link
from support.fake_agent import FakeAgent, eventually


def test_a_routine_checkpoint_is_told_with_what_is_known_of_it(agent, guard):
    guard.checkpoint(
        100, path="/ckpt/100", bytes=10**9, stall_seconds=1.5, durable_seconds=20, format="dcp"
    )

    assert agent.wait("checkpoint") == {
        "type": "checkpoint",
        "step": 100,
        "path": "/ckpt/100",
        "bytes": 10**9,
        "stall_seconds": 1.5,
        "durable_seconds": 20.0,
        "format": "dcp",
    }


def test_what_is_not_a_number_is_left_out_of_it(agent, guard):
    guard.checkpoint(100, bytes="many", stall_seconds=math.nan, durable_seconds=-1)

    assert agent.wait("checkpoint") == {"type": "checkpoint", "step": 100}


def test_a_step_that_is_none_is_logged_and_not_told(agent, guard, caplog):
    guard.checkpoint("hundred")
    guard.resumed(None)
    guard.checkpoint(1)

    agent.wait("checkpoint", step=1)
    assert len(agent.all("checkpoint")) == 1
    assert not agent.all("resumed")
    assert caplog.text.count("must be a number") == 2


def test_a_resumed_job_tells_what_it_had_lost(agent, guard):
    guard.resumed(90, saved_unix=1_800_000_000.5, lost_steps=10, path="/ckpt/90")

    assert agent.wait("resumed") == {
        "type": "resumed",
        "step": 90,
        "saved_unix": 1_800_000_000.5,
        "lost_steps": 10,
        "path": "/ckpt/90",
    }


def test_what_was_said_before_the_agent_came_is_told_to_it(tmp_path, quick_retries):
    with lastcall.connect(socket=tmp_path / "agent.sock") as guard:
        guard.resumed(90)
        guard.checkpoint(100)
        guard.checkpoint(200)
        with FakeAgent(tmp_path / "agent.sock") as agent:
            agent.wait("resumed")
            assert agent.wait("checkpoint")["step"] == 200
            assert len(agent.all("checkpoint")) == 1


def test_heartbeats_say_where_the_loop_stands(agent, monkeypatch):
    monkeypatch.setattr(link, "HEARTBEAT_SECONDS", 0.01)
    with lastcall.connect(socket=agent.path) as guard:
        agent.wait("heartbeat")
        guard.poll(7)
        agent.wait("heartbeat", step=7)
        with guard.section("eval"):
            agent.wait("heartbeat", section="eval")
            with guard.section("generate\0"):
                agent.wait("heartbeat", section="generate\N{REPLACEMENT CHARACTER}")
            count = len(agent.all("heartbeat", section="eval"))
            agent.wait("heartbeat", count=count + 1, section="eval")
        eventually(lambda: "section" not in agent.all("heartbeat")[-1])


def test_heartbeats_are_dropped_while_the_socket_is_full(agent, monkeypatch):
    monkeypatch.setattr(link, "HEARTBEAT_SECONDS", 0.0)
    agent.reads = False
    with lastcall.connect(socket=agent.path) as guard:
        agent.reads = True
        eventually(lambda: guard.connected)
        agent.reads = False
        for step in range(100):
            guard.checkpoint(step, path="x" * 4000)
        connection = guard._link._connection

        def stuffed() -> bool:
            before = len(connection._outgoing)
            time.sleep(0.02)
            return not connection.idle and len(connection._outgoing) == before

        # All that was queued must be on its way, or it is taken for a heartbeat.
        eventually(stuffed)

        before = len(connection._outgoing)
        time.sleep(0.05)

        assert len(connection._outgoing) <= before
        agent.reads = True


def test_the_section_ends_with_its_body_whatever_happens(guard):
    with pytest.raises(ValueError, match="no"), guard.section("eval"):
        raise ValueError("no")

    assert guard._ledger.section is None


def test_the_newest_advice_is_kept(agent, guard):
    assert guard.advice is None

    for interval in (600.0, 900.0):
        agent.say(
            {
                "type": "advice",
                "checkpoint_interval_seconds": interval,
                "flush_fits": "tight",
                "predicted_flush_seconds": 80.0,
            }
        )

    eventually(lambda: guard.advice and guard.advice.checkpoint_interval_seconds == 900)
    assert guard.advice.flush_fits == "tight"
    assert guard.advice.predicted_flush_seconds == 80
