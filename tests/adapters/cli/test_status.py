"""``lastcall status``: the agent's view for people and for programs."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from lastcall.core.events import (
    Acked,
    Beat,
    CheckpointReported,
    CordonEnded,
    Progressed,
    SourcePolled,
)
from support.happenings import SPOT, drill, flushed, joined, lost, spot


def lines_of(capsys):
    return capsys.readouterr().out.splitlines()


def line_with(lines, words):
    (line,) = [line for line in lines if words in line]
    return line


def test_a_quiet_node_is_said_to_be_quiet(agent, run, capsys):
    code = run("status")

    lines = lines_of(capsys)
    assert code == 0
    assert lines[0] == "lastcall 0.1.0 on node-1, mode act, up 1 h 2 min"
    assert line_with(lines, "now ").split() == ["now", "quiet,", "no", "notice", "is", "open"]
    assert line_with(lines, "provider ").endswith("aws (configured)")
    assert line_with(lines, "journal").endswith("ok")
    assert line_with(lines, "drain").endswith("backend none, node not cordoned")
    assert "no client is connected" in lines


def test_a_source_shows_since_when_it_answers_and_how_the_clocks_differ(agent, run, capsys):
    agent.story.at(112.0)

    run("status")

    row = line_with(lines_of(capsys), "up   ")
    assert row.split() == ["aws", "up", "12", "s", "ago", "+0.2", "s", "-"]


def test_a_source_that_is_down_shows_its_trouble(agent, run, capsys):
    agent.story.at(130.0, SourcePolled("aws", "timeout", "spot"))

    run("status")

    row = line_with(lines_of(capsys), "down")
    assert row.split() == ["aws", "down", "30", "s", "ago", "+0.2", "s", "spot:", "timeout"]


def test_an_open_notice_shows_what_is_left_of_it(agent, run, capsys):
    agent.story.at(110.0, joined("a"), SPOT.shows(spot(230.0)))
    agent.story.at(130.0)

    run("status")

    lines = lines_of(capsys)
    assert line_with(lines, "now ").endswith("told, 1 open, 100 s left, 1 flush awaited")
    row = line_with(lines, "aws-preemption-")
    assert "preemption  terminate  told   100 s      90 s    1 awaited" in row


def test_an_assumed_deadline_is_marked(agent, run, capsys):
    agent.story.at(110.0, SPOT.shows(spot(None)))

    run("status")

    assert "120 s (assumed)" in line_with(lines_of(capsys), "aws-preemption-")


def test_a_drill_is_marked(agent, run, capsys):
    agent.story.at(110.0, joined("a"), drill())

    run("status")

    assert "(drill)" in line_with(lines_of(capsys), "manual-preemption-")


@pytest.mark.parametrize(
    ("say", "shown"),
    [
        (lambda key: [], "told"),
        (lambda key: [Acked("a", key)], "has the notice, not saving yet"),
        (
            lambda key: [Progressed("a", key, "writing", 1024, 4096)],
            "saving writing 1.0 KiB of 4.0 KiB",
        ),
        (lambda key: [flushed("a", key)], "in_time after 0.0 s"),
    ],
)
def test_each_process_shows_how_far_its_flush_is(agent, run, capsys, say, shown):
    agent.story.at(110.0, joined("a", job="bert"), SPOT.shows(spot(230.0)))
    agent.story.at(110.0, *say(agent.story.notice().id))

    run("status")

    assert line_with(lines_of(capsys), "4242").endswith(shown)


def test_a_process_shows_where_it_stands(agent, run, capsys):
    agent.story.at(110.0, joined("a"), CheckpointReported(session="a", step=50))
    agent.story.at(118.0, Beat("a", 54, "eval"))
    agent.story.at(120.0)

    run("status")

    row = line_with(lines_of(capsys), "4242").split()
    assert row == ["llama", "0", "4242", "54", "2.0", "s", "ago", "eval", "10", "s", "-"]


def test_a_process_without_a_connection_is_away(agent, run, capsys):
    agent.story.at(110.0, joined("a"))
    agent.story.at(115.0, lost("a"))
    agent.story.at(120.0)

    run("status")

    assert "away 5.0 s" in line_with(lines_of(capsys), "4242")


def test_a_job_shows_its_checkpoints_and_the_advice(agent, run, capsys):
    report = CheckpointReported(session="a", step=50, stall_seconds=2.0, durable_seconds=4.0)
    agent.story.at(110.0, joined("a"), report)
    agent.story.at(120.0)

    run("status")

    row = line_with(lines_of(capsys), "step 50")
    assert row.split("  ")[0] == "llama"
    assert "10 s ago, step 50" in row
    assert "4.0 s        fits" in row


def test_an_ended_notice_shows_what_came_of_it(agent, run, capsys):
    agent.story.at(110.0, joined("a"), SPOT.shows(spot(230.0)))
    agent.story.at(112.0, flushed("a", agent.story.notice().id))
    agent.story.at(240.0)

    run("status")

    lines = lines_of(capsys)
    assert "deadline passed" in line_with(lines, "aws-preemption-")
    assert line_with(lines, "aws-preemption-").endswith("1 in_time")


def test_a_cordon_is_shown(agent, run, capsys):
    agent.story.at(110.0, SPOT.shows(spot(230.0)))
    agent.story.at(111.0, CordonEnded(agent.story.notice().id, cordoned=True))

    run("status")

    assert "node cordoned for aws-preemption-" in line_with(lines_of(capsys), "drain ")


def test_what_the_agent_leaves_out_is_said(agent, run, capsys):
    agent.left_out = {"clients": 400}

    run("status")

    assert lines_of(capsys)[-1] == "400 clients more than the agent can show"


def test_nothing_that_a_client_says_steers_the_terminal(agent, run, capsys):
    agent.story.at(110.0, joined("a", job="x\x1b[2J\n\u202eevil\x07"))

    run("status")

    out = capsys.readouterr().out
    assert not set("\x1b\x07\u202e") & set(out)
    assert r"x\x1b[2J\n\u202eevil\x07" in out


def test_without_a_terminal_there_are_no_colours(agent, run, capsys):
    run("status")

    assert "\x1b" not in capsys.readouterr().out


def test_json_is_what_the_agent_says(agent, run, capsys):
    agent.story.at(110.0, joined("a"))

    code = run("status", "--json")

    assert code == 0
    view = json.loads(capsys.readouterr().out)
    assert view == {"type": "status", **agent.view()}


def interrupt():
    """Do what Ctrl-C does."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_watch_shows_it_again_until_it_is_interrupted(agent, run, capsys):
    agent.plan = lambda _: interrupt() if agent.asked == 3 else None

    code = run("status", "--watch")

    assert code == 0
    assert capsys.readouterr().out.count("lastcall 0.1.0 on node-1") >= 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_watch_on_a_terminal_draws_over_what_it_drew(agent, run, monkeypatch):
    agent.plan = lambda _: interrupt() if agent.asked == 3 else None
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    run("status", "--watch")

    assert terminal.getvalue().count("\x1b[H\x1b[J") >= 2


def test_watch_outlives_an_agent_that_does_not_answer_for_a_while(agent, run, capsys):
    def plan(_):
        if agent.asked == 1:
            agent.refusals.append("not now")
        elif agent.asked == 3:
            interrupt()

    agent.plan = plan

    code = run("status", "--watch")

    captured = capsys.readouterr()
    assert code == 0
    assert captured.err == "error: the agent refused: not now\n"
    assert captured.out.count("lastcall 0.1.0 on node-1") >= 2


def test_without_an_agent_one_line_says_so(run, capsys, tmp_path):
    code = run("status")

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err == (
        f"error: cannot reach the agent at {tmp_path}/agent.sock: no such socket; is the agent "
        "running? If it listens elsewhere, give --socket or set LASTCALL_SOCKET, as the agent was "
        "given\n"
    )


def test_an_agent_that_has_ended_is_told_apart(run, capsys, tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "agent.sock"))

    assert run("status") == 1
    assert "nobody listens there" in capsys.readouterr().err


def test_a_refusal_is_shown_in_the_agents_words(agent, run, capsys):
    agent.refusals.append("status is for root and the agent's own user")

    assert run("status") == 1
    assert "status is for root" in capsys.readouterr().err


def test_an_agent_of_another_version_is_named_as_the_cause(agent, run, capsys):
    del agent.facts["mode"]

    assert run("status") == 1
    assert "the agent is of another version" in capsys.readouterr().err


def test_it_needs_none_of_the_agents_own_packages():
    code = (
        "import sys, lastcall.cli.main\n"
        "lastcall.cli.main.parser()\n"
        "print(sorted({'aiohttp', 'msgspec', 'structlog', 'prometheus_client', 'psutil'}"
        " & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )

    assert found.stdout == "[]\n"
