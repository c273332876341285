"""``lastcall drill``: what it asks of the agent, what it prints, and its exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.core.events import Beat, CheckpointReported, DrainEnded, FlushFailed, ProcessDied
from lastcall.core.model import Kind
from support.happenings import SPOT, drill, flushed, joined, spot


def flush_all(*sessions, path="/ckpt/9"):
    """Plan that every process flushes at the first look after it was told."""

    def plan(story):
        for notice in story.node.open_notices:
            for session in sessions:
                story.at(story.now, flushed(session, notice.id, path))

    return plan


def test_a_drill_in_which_all_flush_in_time_succeeds(agent, run, capsys):
    agent.story.at(110.0, joined("a", rank=0), joined("b", rank=1))
    agent.seconds_per_look = 2.0
    agent.plan = flush_all("a", "b")

    code = run("drill", "--lead", "30")

    out = capsys.readouterr().out
    assert code == 0
    assert out.splitlines()[0].split("  ")[0] == "CLIENT"
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert [row[1:3] for row in rows] == [["0", "in_time"], ["1", "in_time"]]
    assert rows[0][3:] == ["2.0", "s", "28", "s", "9", "/ckpt/9"]
    assert "all flushed in time" in out


def test_what_the_flush_saved_is_told_for_each_job(agent, run, capsys):
    agent.story.at(110.0, joined("a"), CheckpointReported(session="a", step=5))
    agent.story.at(170.0)
    agent.plan = flush_all("a")

    run("drill")

    expected = "llama: the flush saved 60 s of work, steps 6 to 9"
    assert expected in capsys.readouterr().out.splitlines()


def test_where_nothing_is_flushed_the_loss_is_up_to_the_last_step_that_was_heard(
    agent, run, capsys
):
    agent.story.at(110.0, joined("a"), CheckpointReported(session="a", step=50))
    agent.story.at(170.0, Beat("a", 54))
    agent.seconds_per_look = 20.0

    code = run("drill")

    assert code == 1
    expected = "llama: did not flush: 80 s of work, steps 51 to 54 would be lost"
    assert expected in capsys.readouterr().out.splitlines()


def test_where_a_part_of_a_job_does_not_flush_its_work_would_be_lost(agent, run, capsys):
    agent.story.at(110.0, joined("a"), joined("b", rank=1))
    agent.seconds_per_look = 10.0
    agent.plan = flush_all("a")

    run("drill")

    expected = "llama: 1 of 2 did not flush in time: 10 s of work (no checkpoint reported)"
    assert f"{expected} would be lost" in capsys.readouterr().out.splitlines()


def test_of_a_drill_that_is_cut_short_nothing_is_said_to_be_lost(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.story.at(170.0)

    def preempt(story):
        if any(notice.drill for notice in story.node.open_notices):
            story.at(story.now, SPOT.shows(spot(story.now + 120.0)))

    agent.plan = preempt

    run("drill")

    assert "of work" not in capsys.readouterr().out


def test_a_job_without_a_checkpoint_has_all_saved_since_it_came(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.story.at(170.0)
    agent.plan = flush_all("a")

    run("drill")

    out = capsys.readouterr().out
    assert "llama: the flush saved 60 s of work (no checkpoint reported)" in out.splitlines()


def test_one_process_that_does_not_flush_fails_the_drill(agent, run, capsys):
    agent.story.at(110.0, joined("a"), joined("b", rank=1))
    agent.seconds_per_look = 10.0
    agent.plan = flush_all("a")

    code = run("drill")

    out = capsys.readouterr().out
    assert code == 1
    assert "missed (no report before the deadline)" in out
    assert "not rehearsed well: 1 of 2 did not flush in time" in out


def test_a_flush_that_fails_shows_its_cause(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.plan = lambda story: [
        story.at(story.now, FlushFailed("a", notice.id, "disk full\x1b[2J"))
        for notice in story.node.open_notices
    ]

    code = run("drill")

    out = capsys.readouterr().out
    assert code == 1
    assert r"failed (disk full\x1b[2J)" in out


def test_a_late_flush_is_no_success(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.seconds_per_look = 31.0
    agent.plan = flush_all("a")

    code = run("drill", "--lead", "30")

    out = capsys.readouterr().out
    assert code == 1
    assert "-1.0 s" in out
    assert "llama: flushed too late: " in out


def test_a_checkpoint_that_would_die_with_the_node_is_no_success(agent, run, capsys):
    machine = agent.story.machine
    machine.settings = replace(machine.settings, volatile_paths=("/dev/shm",))
    agent.story.at(110.0, joined("a"))
    agent.plan = flush_all("a", path="/dev/shm/ckpt")

    assert run("drill") == 1
    out = capsys.readouterr().out
    assert "not_durable" in out
    assert "llama: flushed to a path that dies with the machine: " in out


def test_a_process_that_dies_in_the_drill_has_missed_it(agent, run, capsys):
    agent.story.at(110.0, joined("a", rank=7))
    agent.plan = lambda story: [
        story.at(story.now, ProcessDied("process of a")) for _ in story.node.open_notices
    ]

    code = run("drill")

    out = capsys.readouterr().out
    assert code == 1
    assert out.splitlines()[1].split()[:3] == ["llama", "7", "missed"]


def test_without_any_process_there_is_nothing_to_rehearse_on(agent, run, capsys):
    code = run("drill")

    assert code == 1
    assert capsys.readouterr().err == "error: no process is connected: nothing to rehearse on\n"
    assert not agent.story.node.notices


def test_a_real_notice_cuts_a_drill_short(agent, run, capsys):
    agent.story.at(110.0, joined("a"))

    def preempt(story):
        if any(notice.drill for notice in story.node.open_notices):
            story.at(story.now, SPOT.shows(spot(story.now + 120.0)))

    agent.plan = preempt

    code = run("drill")

    assert code == 1
    assert "the drill was cut short: superseded" in capsys.readouterr().out


def test_a_drill_beside_a_real_notice_is_refused(agent, run, capsys):
    agent.story.at(110.0, joined("a"), SPOT.shows(spot(230.0)))

    code = run("drill")

    assert code == 1
    assert "the agent refused: no drill now" in capsys.readouterr().err


def test_a_drill_beside_another_is_told_which_and_when_it_ends(agent, run, capsys):
    agent.facts["flush_late_seconds"] = 5.0
    agent.story.at(110.0, joined("a"), drill(lead_seconds=30.0))
    agent.story.at(133.0)

    code = run("drill")

    (open_drill,) = agent.story.node.open_notices
    expected = f"a drill is still under way: {open_drill.id} ends in 12 s at the latest"
    assert code == 1
    assert capsys.readouterr().err == f"error: {expected}\n"


def test_an_agent_that_does_not_say_how_long_it_waits_is_not_guessed_at(agent, run, capsys):
    agent.story.at(110.0, joined("a"), drill(lead_seconds=30.0))

    assert run("drill") == 1

    (open_drill,) = agent.story.node.open_notices
    said = f"error: a drill is still under way: {open_drill.id}\n"
    assert capsys.readouterr().err == said


def test_while_late_flushes_are_waited_for_that_is_said_once(agent, run, capsys):
    agent.facts["flush_late_seconds"] = 5.0
    agent.story.at(110.0, joined("a"))
    agent.seconds_per_look = 1.0

    run("drill", "--lead", "2")

    said = "the deadline has passed: waiting for 5.0 s for late flushes\n"
    assert capsys.readouterr().err.count(said) == 1


def test_flushes_that_the_agent_cannot_show_are_not_taken_for_good(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.plan = flush_all("a")
    agent.left_out = {"flushes": 3}

    assert run("drill") == 1
    assert "more flushes than the agent can show" in capsys.readouterr().out


def drained_as(outcome):
    """Plan that every process flushes, and that the drain then ends in this way."""

    def plan(story):
        flush_all("a")(story)
        for notice in story.node.open_notices:
            story.at(story.now, DrainEnded(notice.id, outcome))

    return plan


def test_kind_lead_and_drain_reach_the_agent(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.plan = drained_as("drained")

    code = run("drill", "--kind", "preemption", "--lead", "45", "--drain")

    (notice,) = agent.story.node.notices.values()
    assert code == 0
    assert notice.lead.sighting.kind is Kind.PREEMPTION
    assert notice.deadline == 110.0 + 45.0
    assert notice.drains
    assert "drained, by none" in capsys.readouterr().out.splitlines()


def test_without_a_drain_backend_a_drain_is_said_not_to_have_been(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.plan = drained_as("none")

    assert run("drill", "--drain") == 0
    assert "not drained: no drain backend" in capsys.readouterr().out.splitlines()


def test_an_agent_that_only_observes_is_said_not_to_have_drained(agent, run, capsys):
    machine = agent.story.machine
    machine.settings = replace(machine.settings, acts=False)
    agent.facts["mode"] = "observe"
    agent.story.at(110.0, joined("a"))
    agent.plan = flush_all("a")

    assert run("drill", "--drain") == 0
    assert "not drained: the agent only observes" in capsys.readouterr().out.splitlines()


def test_a_drain_that_does_not_end_in_time_fails_the_drill(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.seconds_per_look = 10.0
    agent.plan = flush_all("a")

    assert run("drill", "--drain") == 1
    assert "the drain did not end in time" in capsys.readouterr().out


def test_a_drain_that_does_not_end_well_fails_the_drill(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.plan = drained_as("incomplete")

    assert run("drill", "--drain") == 1
    out = capsys.readouterr().out
    assert "not drained: incomplete" in out.splitlines()
    assert "the drain is incomplete" in out


@pytest.mark.parametrize("lead", ["0", "-5", "0.5", "nan", "inf", "86401", "soon", ""])
def test_an_impossible_lead_is_wrong_usage(run, capsys, lead):
    with pytest.raises(SystemExit) as stop:
        run("drill", f"--lead={lead}")

    assert stop.value.code == 2
    assert "needs a number of seconds from 1 to 86400" in capsys.readouterr().err


def test_without_an_agent_one_line_says_so(run, capsys):
    code = run("drill")

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "is the agent running?" in captured.err


def test_what_each_kind_means_is_said_in_the_help(run, capsys):
    with pytest.raises(SystemExit):
        run("drill", "--help")

    words = " ".join(capsys.readouterr().out.split())
    assert "flush.late_seconds" in words
    for kind in Kind:
        assert f"{kind}: " in words
