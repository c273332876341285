"""Long answers: what does not fit into a line is left out by the item, never by the byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.commands import Greet
from lastcall.serve.status_line import status_line
from lastcall.serve.welcome import welcome_lines
from lastcall.wire.codec import decode
from lastcall.wire.messages import AGENT_LINE_LIMIT, AGENT_MESSAGES, Notice, Welcome
from support.agent_socket import view


def status(clients=0, jobs=0, notices=(), name="x" * 100):
    return {
        "agent": {"version": "1"},
        "notices": [
            {"id": f"n-{number}", "flushes": [{"client": name, "rank": rank} for rank in range(n)]}
            for number, n in enumerate(notices)
        ],
        "clients": [{"client": f"{name}-{number}"} for number in range(clients)],
        "jobs": [{"job": f"{name}-{number}"} for number in range(jobs)],
    }


def shown(content):
    line = status_line(content)
    assert line.endswith(b"\n")
    assert len(line) <= AGENT_LINE_LIMIT
    return json.loads(line)


# --- status ----------------------------------------------------------------------------------


def test_a_status_that_fits_is_sent_whole():
    content = status(clients=10, jobs=2, notices=[10])

    assert shown(content) == {"type": "status", **content}


def test_of_too_many_clients_as_many_as_fit_are_shown_and_the_rest_is_counted():
    answer = shown(status(clients=2000))

    assert 400 < len(answer["clients"]) < 2000
    assert answer["left_out"] == {"clients": 2000 - len(answer["clients"])}
    assert answer["clients"] == status(clients=2000)["clients"][: len(answer["clients"])]


def test_flushes_are_shown_before_clients():
    answer = shown(status(clients=2000, notices=[300]))

    assert len(answer["notices"][0]["flushes"]) == 300
    assert set(answer["left_out"]) == {"clients"}


def test_the_flushes_of_the_first_notice_are_shown_before_those_of_the_next():
    answer = shown(status(clients=50, notices=[450, 450]))

    assert len(answer["notices"][0]["flushes"]) == 450
    assert answer["left_out"]["flushes"] > 0
    assert answer["agent"] == {"version": "1"}


def test_gpus_and_their_processes_are_shown_before_clients():
    gpus = [{"gpu": f"GPU-{number}", "figures": {"x" * 600: 1.0}} for number in range(16)]
    holders = [{"pid": number, "command": "y" * 60} for number in range(50)]
    gpu = {"health": "healthy", "gpus": gpus, "unregistered": holders}

    answer = shown(status(clients=2000) | {"gpu": gpu})

    assert answer["gpu"] == gpu
    assert set(answer["left_out"]) == {"clients"}


def test_of_too_many_processes_on_the_gpus_as_many_as_fit_are_shown_and_the_rest_is_counted():
    holders = [{"pid": number, "command": "y" * 60} for number in range(2000)]
    gpu = {"health": "healthy", "gpus": [], "unregistered": holders}

    answer = shown(status(jobs=2) | {"gpu": gpu})

    seen = answer["gpu"]["unregistered"]
    assert 400 < len(seen) < 2000
    assert seen == holders[: len(seen)]
    assert answer["left_out"] == {"unregistered": 2000 - len(seen)}
    assert len(answer["jobs"]) == 2


@settings(max_examples=30)
@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.lists(st.integers(0, 300), max_size=5),
    st.integers(200, 3000),
    st.text(max_size=20),
)
def test_any_status_fits_and_every_item_is_shown_or_counted(clients, jobs, notices, limit, name):
    content = status(clients, jobs, notices, name)

    line = status_line(content, limit + 300)

    answer = json.loads(line)
    assert len(line) <= limit + 300
    left_out = answer.get("left_out", {})
    assert len(answer["clients"]) + left_out.get("clients", 0) == clients
    assert len(answer["jobs"]) + left_out.get("jobs", 0) == jobs
    assert len(answer["notices"]) + left_out.get("notices", 0) == len(notices)


# --- welcome ---------------------------------------------------------------------------------


def greeted(notices):
    lines = welcome_lines(
        Greet("s-1", tuple(notices)), node_name="node", agent_version="1", now=0.0, wall=0.0
    )
    return [decode(line, AGENT_MESSAGES) for line in lines]


def test_a_welcome_lists_every_open_notice():
    (welcome,) = greeted([view("n-1"), view("n-2")])

    assert isinstance(welcome, Welcome)
    assert (welcome.node, welcome.agent, welcome.session) == ("node", "1", "s-1")
    assert [notice.id for notice in welcome.notices] == ["n-1", "n-2"]


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_notices_that_a_welcome_has_no_room_for_follow_it(letter):
    ids = [f"n-{number}" for number in range(200)]

    welcome, *later = greeted(view(key, reason=letter * 1000) for key in ids)

    assert isinstance(welcome, Welcome)
    assert welcome.notices
    assert all(isinstance(notice, Notice) for notice in later)
    assert [notice.id for notice in (*welcome.notices, *later)] == ids


def test_no_line_of_a_welcome_is_too_long():
    notices = tuple(view(f"n-{number}", reason="😀" * 1000) for number in range(200))

    for line in welcome_lines(
        Greet("s", notices), node_name="n" * 253, agent_version="1", now=0.0, wall=0.0
    ):
        assert len(line) <= AGENT_LINE_LIMIT
