"""What must reach the agent is kept until it has; what need not is dropped."""

import threading

import pytest

from lastcall.client.bell import Bell
from lastcall.client.outbox import QUEUE_LIMIT, REPORTS_LIMIT, Outbox
from lastcall.wire.messages import Ack, Checkpoint, Failed, Flushed, Ok, Resumed


@pytest.fixture
def outbox():
    bell = Bell()
    yield Outbox(bell)
    bell.close()


def test_a_report_is_sent_again_on_each_connection_until_it_is_acknowledged(outbox):
    report = Flushed("n-1", "/ckpt", 7)
    outbox.put(report)

    outbox.connected()
    assert outbox.take() == [report]
    outbox.disconnected()
    outbox.connected()
    assert outbox.take() == [report]
    outbox.acknowledged(Ok("flushed", "n-1"))
    outbox.disconnected()
    outbox.connected()

    assert outbox.take() == []
    assert not outbox.waiting


def test_an_ok_to_something_else_settles_no_report(outbox):
    outbox.put(Failed("n-1", "disk full"))

    outbox.acknowledged(Ok("flushed", "n-1"))
    outbox.acknowledged(Ok("failed", "n-2"))
    outbox.acknowledged(Ok("checkpoint"))
    assert outbox.waiting
    outbox.acknowledged(Ok("failed", "n-1"))

    assert not outbox.waiting


def test_an_ok_without_an_id_settles_the_oldest_report_of_its_type(outbox):
    outbox.put(Failed("n-0", "disk full"))
    outbox.put(Flushed("n-1", "/ckpt", 7))
    outbox.put(Flushed("n-2", "/ckpt", 7))

    outbox.acknowledged(Ok("flushed"))
    outbox.connected()

    assert [report.id for report in outbox.take()] == ["n-0", "n-2"]


def test_a_report_for_a_notice_that_the_agent_does_not_know_is_given_up(outbox):
    outbox.put(Flushed("n-1", "/ckpt", 7))
    outbox.put(Flushed("n-2", "/ckpt", 7))

    outbox.unknown(known={"n-2"})
    outbox.connected()

    assert [report.id for report in outbox.take()] == ["n-2"]


def test_without_a_connection_only_the_newest_checkpoint_is_kept(outbox):
    outbox.put(Checkpoint(1))
    outbox.put(Resumed(0))
    outbox.put(Checkpoint(2))
    outbox.put(Ack("n-1"))

    outbox.connected()

    assert outbox.take() == [Checkpoint(2), Resumed(0)]


def test_a_checkpoint_that_did_not_get_out_before_the_connection_ended_is_kept(outbox):
    outbox.connected()
    outbox.put(Checkpoint(1))
    outbox.put(Ack("n-1"))

    outbox.disconnected()
    outbox.connected()

    assert outbox.take() == [Checkpoint(1)]


def test_a_slow_agent_costs_telemetry_and_no_report(outbox):
    outbox.connected()

    for step in range(10 * QUEUE_LIMIT):
        outbox.put(Checkpoint(step))
    outbox.put(Flushed("n-1", "/ckpt", 7))

    messages = outbox.take()
    assert len(messages) == QUEUE_LIMIT + 1
    assert messages[-1] == Flushed("n-1", "/ckpt", 7)


def test_reports_that_nobody_acknowledges_do_not_pile_up(outbox):
    for number in range(10 * REPORTS_LIMIT):
        outbox.put(Flushed(f"n-{number}", "/ckpt", 7))

    outbox.connected()

    ids = [report.id for report in outbox.take()]
    assert len(ids) == REPORTS_LIMIT
    assert ids[-1] == f"n-{10 * REPORTS_LIMIT - 1}"


def test_waiting_ends_with_the_acknowledgement(outbox):
    outbox.put(Flushed("n-1", "/ckpt", 7))
    threading.Timer(0.01, outbox.acknowledged, [Ok("flushed", "n-1")]).start()

    assert outbox.wait(["n-1"], timeout_seconds=5)


def test_waiting_ends_with_its_time(outbox):
    outbox.put(Flushed("n-1", "/ckpt", 7))

    assert not outbox.wait(["n-1"], timeout_seconds=0.01)
    assert outbox.wait(["n-2"], timeout_seconds=0)


def test_once_closed_nobody_waits_and_nothing_is_taken(outbox):
    outbox.put(Flushed("n-1", "/ckpt", 7))
    threading.Timer(0.01, outbox.close).start()

    assert not outbox.wait(["n-1"], timeout_seconds=5)
    outbox.put(Flushed("n-2", "/ckpt", 7))
    outbox.connected()

    assert [report.id for report in outbox.take()] == ["n-1"]
