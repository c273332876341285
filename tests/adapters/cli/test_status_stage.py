"""``lastcall status`` in words for people: where a notice stands once its flushes are over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.cli.status_stage import ending, ends_in_seconds, outlook, stage
from lastcall.core.events import DrainEnded, FlushFailed, Intended
from support.happenings import REBALANCE as ADVICE
from support.happenings import SPOT, died, drill, flushed, joined, rebalance, spot


def line_with(text, words):
    (line,) = [line for line in text.splitlines() if words in line]
    return line


def preempted(agent, *clients):
    """Let a notice of two minutes come at 110, and return its id."""
    agent.story.at(110.0, *(joined(client, rank=n) for n, client in enumerate(clients)))
    agent.story.at(110.0, SPOT.shows(spot(230.0)))
    return agent.story.notice().id


def shown(agent):
    """Return the first notice as the agent shows it."""
    return agent.view()["notices"][0]


def test_after_the_flush_nothing_is_said_to_be_drained_where_nothing_is(agent, run, capsys):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))

    run("status")

    out = capsys.readouterr().out
    assert line_with(out, "now ").endswith("flushed; the machine goes in 119 s")
    assert "  flushed  119 s" in line_with(out, key)
    assert "draining" not in out


def test_the_keys_stay_the_cores_own(agent):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))

    assert (shown(agent)["phase"], shown(agent)["drained"]) == ("draining", "none")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("drained", "drained; the machine goes in 119 s"),
        ("incomplete", "drain incomplete; the machine goes in 119 s"),
        ("failed", "drain failed; the machine goes in 119 s"),
    ],
)
def test_a_drain_that_is_over_says_how_it_ended(agent, run, capsys, outcome, words):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, outcome))

    run("status")

    assert line_with(capsys.readouterr().out, "now ").endswith(words)


def test_a_drain_under_way_is_one(agent, run, capsys):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key))

    run("status")

    assert line_with(capsys.readouterr().out, "now ").endswith("draining, 1 open, 119 s left")


def test_where_flushes_are_awaited_in_the_reserve_that_is_what_is_said(agent):
    key = preempted(agent, "a", "b")
    agent.story.at(221.0, flushed("a", key), DrainEnded(key, "none"))
    assert stage(shown(agent)) == "told"

    agent.story.at(222.0, Intended("b", key, "save"))

    assert (stage(shown(agent)), outlook(shown(agent))) == ("flushing", None)


def test_a_flush_that_failed_is_over_and_not_called_flushed(agent):
    key = preempted(agent, "a")
    agent.story.at(111.0, FlushFailed("a", key, "disk full"), DrainEnded(key, "none"))

    assert stage(shown(agent)) == "flushes over"


def test_without_processes_there_is_nothing_to_flush(agent):
    key = preempted(agent)
    agent.story.at(111.0, DrainEnded(key, "none"))

    assert stage(shown(agent)) == "nothing to flush"
    assert outlook(shown(agent)) == "the machine goes in 119 s"


def test_an_agent_that_only_observes_has_flushed_too(agent):
    machine = agent.story.machine
    machine.settings = replace(machine.settings, acts=False)
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key))

    assert stage(shown(agent)) == "flushed"


def test_after_an_advice_no_machine_is_said_to_go(agent):
    agent.story.at(110.0, joined("a"), ADVICE.shows(rebalance()))
    agent.story.at(111.0, flushed("a", agent.story.notice().id))

    assert (stage(shown(agent)), outlook(shown(agent))) == ("flushed", None)


@pytest.mark.parametrize("action", ["none", "reboot", "terminate"])
def test_after_a_gpu_fault_no_machine_is_said_to_go(agent, action):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))
    fault = shown(agent) | {"kind": "gpu_fault", "action": action}

    assert outlook(fault) == "the time to flush ends in 119 s"
    assert outlook(fault | {"drill": True}) == "the drill ends in 119 s"


def test_flushes_that_are_not_shown_are_not_taken_for_done(agent):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))

    assert stage(shown(agent), is_whole=False) == "not drained"


@pytest.mark.parametrize(
    ("action", "words"),
    [("reboot", "the machine reboots in 119 s"), ("stop", "the machine goes in 119 s")],
)
def test_what_comes_next_is_what_the_provider_does(agent, action, words):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))

    assert outlook({**shown(agent), "action": action}) == words


# --- after the deadline ----------------------------------------------------------------------


def test_after_the_deadline_late_flushes_are_said_to_count(agent, run, capsys):
    agent.facts["flush_late_seconds"] = 5.0
    key = preempted(agent, "a")
    agent.story.at(232.0)

    run("status")

    out = capsys.readouterr().out
    assert "the deadline has passed, 1 flush awaited, late ones count for " in line_with(
        out, "now "
    )
    assert "  over, late ones count for " in line_with(out, key)


def test_after_the_deadline_nothing_is_awaited_of_those_that_flushed(agent, run, capsys):
    key = preempted(agent, "a")
    agent.story.at(111.0, flushed("a", key), DrainEnded(key, "none"))
    agent.story.at(232.0)

    run("status")

    out = capsys.readouterr().out
    assert line_with(out, "now ").endswith("flushed; the deadline has passed")
    assert "  flushed  over  " in line_with(out, key)


def test_a_notice_ends_when_late_flushes_no_longer_count(agent):
    facts = {"flush_late_seconds": 5.0}
    preempted(agent, "a")
    assert ends_in_seconds(shown(agent), facts, now_unix=0.0) == 125.0

    agent.story.at(232.0)

    late = shown(agent)
    assert ends_in_seconds(late, facts, now_unix=late["deadline_unix"] + 2.0) == 3.0
    assert ends_in_seconds(late, facts, now_unix=late["deadline_unix"] + 9.0) == 0.0
    assert ends_in_seconds(late, {}, now_unix=0.0) is None


# --- the end ---------------------------------------------------------------------------------


def test_a_drill_in_which_all_flushed_is_rehearsed(agent):
    agent.story.at(110.0, joined("a"), drill())
    agent.story.at(111.0, flushed("a", agent.story.notice().id))

    assert ending(shown(agent)) == "rehearsed"


@pytest.mark.parametrize("happens", [(died("a"),), ()])
def test_a_drill_whose_only_process_died_or_slept_does_not_read_as_a_success(agent, happens):
    agent.story.at(110.0, joined("a"), drill(lead_seconds=30.0))
    agent.story.at(150.0, *happens)

    assert ending(shown(agent)) == "drill over: 1 of 1 not in time"


def test_a_drill_with_nobody_there_says_so(agent):
    agent.story.at(110.0, drill())

    assert ending(shown(agent)) == "drill over: nobody was there"


def test_a_real_notice_ends_at_its_deadline(agent):
    preempted(agent, "a")
    agent.story.at(240.0)

    assert ending(shown(agent)) == "deadline passed"
