"""What is seen of the agent behind the socket, and that it is left in peace."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lastcall._version import __version__
from lastcall.cli.check.agent import check_agent
from lastcall.cli.check.findings import Level
from lastcall.cli.check.seen_agent import Presence, SeenAgent, look_at_agent
from support.examination import found_by, one_found_by, subject_of
from support.happenings import joined


async def seen(agent, node_name="node-1"):
    agent.facts["version"] = agent.facts["version"].replace("0.1.0", __version__)
    looked = await look_at_agent(str(agent.path))
    return subject_of(f"socket.path={agent.path}", f"node_name={node_name}", agent=looked)


async def test_an_agent_that_runs_says_what_it_is(agent):
    agent.story.at(110.0, joined("a"))

    one = await one_found_by(check_agent, await seen(agent))

    assert one.level is Level.OK
    assert (
        one.what == f"version {__version__} runs, up 1 h 2 min, mode act, 1 client, 0 notices open"
    )
    assert agent.asked == 1


async def test_an_agent_of_another_version_is_a_warning(agent):
    agent.facts["version"] = "99.0"

    _, warning = await found_by(check_agent, await seen(agent))

    assert warning.level is Level.WARNING
    assert "it is version 99.0" in warning.what


async def test_an_agent_with_another_name_for_the_node_is_a_warning(agent):
    _, warning = await found_by(check_agent, await seen(agent, node_name="elsewhere"))

    assert warning.level is Level.WARNING
    assert "'node-1'" in warning.what
    assert "'elsewhere'" in warning.what


async def test_an_agent_with_other_settings_is_one_warning_that_names_them(agent):
    agent.facts |= {"state_dir": "/elsewhere", "http_listen": "127.0.0.1:9855"}

    _, warning = await found_by(check_agent, await seen(agent))

    assert warning.level is Level.WARNING
    assert warning.what == (
        "the running agent uses state_dir=/elsewhere and http.listen=127.0.0.1:9855, "
        "this command reads /var/lib/lastcall and 0.0.0.0:9855"
    )
    assert "same --config, --set" in warning.remedy


async def test_another_provider_than_the_agents_is_told_where_one_is_set(agent):
    looked = await look_at_agent(str(agent.path))

    _, warning = await found_by(
        check_agent, subject_of("node_name=node-1", "notices.provider=gcp", agent=looked)
    )

    said = "the running agent uses notices.provider=aws, this command reads gcp"
    assert warning.what == said


async def test_a_journal_that_is_not_written_is_a_problem(agent):
    agent.facts["journal"] = "No space left on device"

    _, problem = await found_by(check_agent, await seen(agent))

    assert problem.level is Level.PROBLEM
    assert "No space left on device" in problem.what
    assert "LastcallJournalNotWritten" in problem.remedy


async def test_an_agent_that_shows_its_view_to_others_alone_runs_all_the_same(agent):
    agent.refusals.append("root and the agent's user may ask for that")

    subject = await seen(agent)
    one = await one_found_by(check_agent, subject)

    assert subject.agent.runs
    assert one.level is Level.NOTE
    assert "root and the agent's user" in one.what


@pytest.mark.parametrize("left_behind", [False, True])
async def test_no_agent_is_worth_a_note(tmp_path, left_behind):
    path = tmp_path / "agent.sock"
    if left_behind:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))

    looked = await look_at_agent(str(path))
    one = await one_found_by(check_agent, subject_of(agent=looked))

    assert looked.presence is Presence.ABSENT
    assert one.level is Level.NOTE
    assert ("nobody listens at" if left_behind else "no socket stands at") in one.what


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "no answer within 0.1 s"),
        (b"", "hung up"),
        (b"hello\n", "not JSON"),
        (b'{"type":"status"}\n', "no status"),
        (b"x" * 200_000, "no end"),
    ],
)
async def test_whatever_listens_and_gives_no_view_is_a_problem(tmp_path, answer, said):
    async def serve(reader, writer):
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    path = str(tmp_path / "agent.sock")
    async with await asyncio.start_unix_server(serve, path):
        looked = await look_at_agent(path, timeout_seconds=0.1 if answer is None else 5.0)
    one = await one_found_by(check_agent, subject_of(f"socket.path={path}", agent=looked))

    assert looked.presence is Presence.SILENT
    assert one.level is Level.PROBLEM
    assert said in one.what


async def test_a_socket_that_this_user_may_not_use_is_a_warning():
    looked = SeenAgent(Presence.CLOSED, detail="permission denied")

    one = await one_found_by(check_agent, subject_of(agent=looked))

    assert one.level is Level.WARNING
    assert "socket.mode" in one.remedy
