"""A flush from the decision to the agent's word, and all the ways it can end."""

import logging
import time

import pytest

from lastcall.client import flush as flush_module
from lastcall.client import link
from lastcall.client.notice import Notice
from support.fake_agent import eventually


@pytest.fixture
def notice(agent, guard):
    agent.announce("n-1")
    return eventually(guard.poll)


@pytest.fixture
def brief_answers(monkeypatch):
    monkeypatch.setattr(flush_module, "ANSWER_SECONDS", 0.05)


def test_the_loop_of_the_readme_saves_once_and_reports_it(agent, guard):
    agent.announce("n-1")
    agent.wait("ack")

    for step in range(100, 200):
        if told := guard.poll(step):
            with guard.flush(told, step=step) as flush:
                flush.saved("/ckpt/step-100", bytes=10**9, format="dcp")
            break

    flushed = agent.wait("flushed")
    assert agent.wait("intent", will="save")["at_step"] == 100
    assert flushed.pop("stall_seconds") >= 0
    assert flushed.pop("durable_seconds") >= 0
    assert flushed == {
        "type": "flushed",
        "id": "n-1",
        "path": "/ckpt/step-100",
        "step": 100,
        "bytes": 10**9,
        "format": "dcp",
        "durable": True,
    }
    assert guard.poll() is None
    assert not agent.all("failed")


def test_the_decision_is_told_before_the_save_begins(agent, guard, notice):
    with guard.flush(notice, step=7) as flush:
        assert agent.wait("intent")["at_step"] == 7
        assert not agent.all("flushed")
        flush.saved("/ckpt")


def test_saved_returns_when_the_agent_has_it(agent, guard, notice):
    with guard.flush(notice) as flush:
        assert flush.saved("/ckpt") is True

    assert agent.all("flushed")


def test_saved_waits_a_bounded_time_for_a_silent_agent(agent, guard, notice, brief_answers):
    agent.answers = False

    with guard.flush(notice) as flush:
        began = time.monotonic()
        assert flush.saved("/ckpt") is False
        taken_seconds = time.monotonic() - began

    assert 0.05 <= taken_seconds < 1
    guard._outbox.unknown(known=())


def test_saved_measures_what_the_caller_did_not(agent, guard, notice):
    with guard.flush(notice) as flush:
        time.sleep(0.02)
        flush.saved("/ckpt", durable_seconds=2.5)

    flushed = agent.wait("flushed")
    assert 0.02 <= flushed["stall_seconds"] < 1
    assert flushed["durable_seconds"] == 2.5


def test_a_path_that_dies_with_the_node_is_told_as_such(agent, guard, notice):
    with guard.flush(notice) as flush:
        flush.saved("/dev/shm/ckpt", durable=False)

    assert agent.wait("flushed")["durable"] is False


def test_the_step_of_a_checkpoint_is_the_callers_the_flushs_or_the_last_one(agent, guard):
    guard.poll(1)
    for key, of_flush, of_saved in (("a", None, None), ("b", 2, None), ("c", 2, 3)):
        agent.announce(key)
        with guard.flush(eventually(guard.poll), step=of_flush) as flush:
            flush.saved("/ckpt", step=of_saved)

    assert [flushed["step"] for flushed in agent.all("flushed")] == [1, 2, 3]


def test_saving_twice_is_reported_once_and_logged(agent, guard, notice, caplog):
    with guard.flush(notice) as flush:
        assert flush.saved("/first") is True
        assert flush.saved("/second") is False
        assert flush.failed("too late") is False

    assert [flushed["path"] for flushed in agent.all("flushed")] == ["/first"]
    assert not agent.all("failed")
    assert caplog.text.count("settled already") == 2


def test_an_exception_is_reported_and_goes_on(agent, guard, notice):
    with pytest.raises(OSError, match="No space"), guard.flush(notice):
        raise OSError(28, "No space left on device")

    assert agent.wait("failed")["reason"] == "OSError: [Errno 28] No space left on device"
    assert guard.poll() is None


def test_a_long_exception_is_cut_to_what_the_line_holds(agent, guard, notice):
    with pytest.raises(ValueError, match="x"), guard.flush(notice):
        raise ValueError("\0\ud800" + "x\N{FIRE}" * 100_000)

    assert agent.wait("failed")["reason"].startswith("ValueError: ")


def test_an_exception_after_the_save_spoils_nothing(agent, guard, notice):
    def save_and_be_interrupted():
        with guard.flush(notice) as flush:
            flush.saved("/ckpt")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_and_be_interrupted()

    assert agent.all("flushed")
    assert not agent.all("failed")


def test_a_body_without_a_word_counts_as_failed(agent, guard, notice):
    with guard.flush(notice):
        pass

    assert agent.wait("failed")["reason"] == "the flush ended without saved()"


def test_a_failure_may_be_said_outright(agent, guard, notice):
    with guard.flush(notice) as flush:
        assert flush.failed("no time left") is True

    assert agent.wait("failed")["reason"] == "no time left"
    assert not agent.all("flushed")


def test_a_save_under_way_may_be_awaited_instead(agent, guard, notice):
    flush = guard.finish_inflight(notice, step=90)
    assert agent.wait("intent") == {
        "type": "intent",
        "id": "n-1",
        "will": "finish_inflight",
        "at_step": 90,
    }
    assert guard.poll() is None

    flush.saved("/ckpt/step-90")

    assert agent.wait("flushed")["step"] == 90


def test_progress_is_told_but_not_more_often_than_is_of_use(agent, guard, notice):
    with guard.flush(notice) as flush:
        for written in range(10_000):
            flush.progress("writing", bytes=written, total_bytes=10_000)
        flush.progress("committing")
        flush.saved("/ckpt")

    writing = agent.all("progress", phase="writing")
    assert writing[0]["total_bytes"] == 10_000
    assert len(writing) < 100
    assert len(agent.all("progress", phase="committing")) == 1


def test_a_size_in_the_place_of_the_phase_is_warned_of_once_and_not_told(
    agent, guard, notice, caplog
):
    with guard.flush(notice) as flush:
        flush.progress(1000, 4000)
        flush.progress(2000, 4000)
        flush.progress("writing", 3000, 4000)
        flush.saved("/ckpt")

    (told,) = agent.all("progress")
    assert (told["phase"], told["bytes"], told["total_bytes"]) == ("writing", 3000, 4000)
    assert caplog.text.count("a value of type int: it is not told") == 1


def test_progress_without_a_phase_is_told(agent, guard, notice):
    with guard.flush(notice) as flush:
        flush.progress(bytes=1000, total_bytes=4000)
        flush.saved("/ckpt")

    assert agent.wait("progress")["bytes"] == 1000


def test_training_stops_after_a_real_notice(agent, guard, notice):
    with guard.flush(notice) as flush:
        flush.saved("/ckpt")

    assert flush.stop is True
    guard.close()
    assert flush.stop is True


def test_training_goes_on_once_the_notice_is_withdrawn_during_the_flush(agent, guard, notice):
    with guard.flush(notice) as flush:
        assert flush.stop is True
        agent.withdraw("n-1")
        eventually(lambda: flush.stop is False)
        began = time.monotonic()
        flush.saved("/ckpt")

    assert time.monotonic() - began < 0.5
    assert agent.wait("flushed")["id"] == "n-1"
    assert flush.stop is False
    assert guard.poll() is None


@pytest.mark.parametrize("changes", [{"urgency": "soon"}, {"drill": True}])
def test_training_goes_on_after_an_advice_or_a_drill(agent, guard, changes):
    agent.announce("n-1", **changes)

    with guard.flush(eventually(guard.poll)) as flush:
        flush.saved("/ckpt")

    assert agent.wait("flushed")["id"] == "n-1"
    assert flush.stop is False


@pytest.mark.parametrize(
    "changes", [{"urgency": "soon", "remaining_seconds": None}, {"drill": True}]
)
def test_a_real_notice_during_the_flush_of_an_advice_or_a_drill_is_served_too(
    agent, guard, changes
):
    agent.announce("early", **changes)

    with guard.flush(eventually(guard.poll), step=7) as flush:
        agent.announce("real", supersedes=["early"], remaining_seconds=30.0)
        agent.withdraw("early")
        assert agent.wait("intent", id="real")["at_step"] == 7
        flush.progress("writing")
        assert flush.saved("/ckpt") is True
        assert flush.remaining_seconds == pytest.approx(30, abs=5)

    assert flush.stop is True
    assert guard.poll() is None
    assert [flushed["id"] for flushed in agent.all("flushed")] == ["early", "real"]
    assert agent.all("progress", id="real")


def test_a_real_notice_after_the_save_but_before_training_goes_on_is_served_too(agent, guard):
    agent.announce("early", urgency="soon")

    with guard.flush(eventually(guard.poll), step=7) as flush:
        flush.saved("/ckpt")
        agent.announce("real", supersedes=["early"])
        assert agent.wait("flushed", id="real")["path"] == "/ckpt"

    assert flush.stop is True
    assert guard.poll() is None


def test_a_notice_is_logged_but_the_flag_does_not_wait_for_the_log(agent, guard, caplog):
    caplog.set_level(logging.INFO, logger="lastcall")

    agent.announce("n-1", reason="spot interruption")
    eventually(guard.poll)

    eventually(lambda: "spot interruption" in caplog.text)


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("manual", "drill asked for by an operator", "drill asked for by an operator"),
        ("preemption", "drill asked for by us", "drill asked for by us: preemption"),
        ("manual", "", "drill"),
        ("manual", "quarterly", "drill: quarterly"),
    ],
)
def test_a_drill_is_announced_as_one(kind, reason, words, caplog):
    drill = Notice(id="n-1", kind=kind, source="manual", drill=True, reason=reason)

    link._announce(drill)

    assert caplog.messages == [f"{words} (notice n-1, no deadline)"]
