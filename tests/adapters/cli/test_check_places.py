"""The places an installation needs: the socket's, the journal's, the pages', its settings."""

from __future__ import annotations

import grp
import os
import shutil
import socket
from collections import namedtuple

import pytest

from lastcall.cli.check import settings as settings_check
from lastcall.cli.check import state_dir as state_check
from lastcall.cli.check.findings import Level
from lastcall.cli.check.pages import check_pages
from lastcall.cli.check.seen_agent import Presence, SeenAgent
from lastcall.cli.check.settings import check_node_name, check_settings
from lastcall.cli.check.socket_place import check_socket
from lastcall.cli.check.state_dir import check_state_dir
from support.examination import found_by, one_found_by, subject_of
from support.raw_http import http_answer, raw_server
from support.running_agent import free_port

RUNNING = SeenAgent(Presence.SHOWN, {"agent": {}})


@pytest.fixture
def tmp_path(tmp_path):
    """A directory that lets everybody in, as the socket's should."""
    tmp_path.chmod(0o755)
    return tmp_path


# --- the configuration -----------------------------------------------------------------------


async def test_settings_are_counted_by_where_they_come_from(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('node_name = "n-1"\n[socket]\nmode = "0600"\n')

    one = await one_found_by(check_settings, subject_of("http.listen=", file=file))

    assert (one.level, one.what) == (Level.OK, f"{file}; settings: 2 set by it, 1 by flags")


async def test_a_setting_without_effect_is_a_warning_with_its_place(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('\n[report]\npushgateway = "http://gateway:9091"\n')

    _, pending = await found_by(check_settings, subject_of(file=file))

    assert pending.level is Level.WARNING
    assert pending.what.startswith(f"report.pushgateway ({file}:3) is not in effect")


async def test_an_agent_that_only_observes_is_worth_a_note():
    _, note = await found_by(check_settings, subject_of("mode=observe"))

    assert (note.level, note.check) == (Level.NOTE, settings_check.CHECK)


@pytest.mark.parametrize(
    ("name", "level"),
    [("gpu-7", Level.OK), ("localhost", Level.WARNING), ("localhost.localdomain", Level.WARNING)],
)
async def test_a_node_name_that_names_every_machine_is_a_warning(name, level):
    one = await one_found_by(check_node_name, subject_of(f"node_name={name}"))

    assert one.level is level
    assert f"{name} (flag --set node_name)" in one.what


# --- the socket ------------------------------------------------------------------------------


def at(path, *settings):
    return subject_of(f"socket.path={path}", *settings)


async def test_a_place_where_an_agent_can_listen_is_good_and_left_untouched(tmp_path):
    one = await one_found_by(check_socket, at(tmp_path / "run" / "agent.sock"))

    assert one.level is Level.OK
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.touch(), "is no socket"),
    ],
)
async def test_something_else_in_the_sockets_place_is_a_problem(tmp_path, make, said):
    make(tmp_path / "agent.sock")

    one = await one_found_by(check_socket, at(tmp_path / "agent.sock"))

    assert one.level is Level.PROBLEM
    assert said in one.what


async def test_a_socket_left_behind_is_no_trouble(tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "agent.sock"))

    one = await one_found_by(check_socket, at(tmp_path / "agent.sock"))

    assert one.level is Level.OK


async def test_a_missing_parent_is_a_problem(tmp_path):
    one = await one_found_by(check_socket, at(tmp_path / "no" / "such" / "agent.sock"))

    assert one.level is Level.PROBLEM
    assert one.what == f"the directory {tmp_path}/no does not exist"
    assert f"mkdir -p {tmp_path}/no/such" in one.remedy


async def test_a_file_where_the_directory_should_be_is_a_problem(tmp_path):
    (tmp_path / "run").touch()

    one = await one_found_by(check_socket, at(tmp_path / "run" / "agent.sock"))

    assert one.what == f"{tmp_path}/run is no directory"


async def test_a_group_that_does_not_exist_is_a_problem(tmp_path):
    one = await one_found_by(
        check_socket, at(tmp_path / "agent.sock", "socket.group=no-such-group")
    )

    assert one.level is Level.PROBLEM
    assert "no-such-group" in one.what


async def test_the_own_group_is_good(tmp_path):
    own = grp.getgrgid(os.getegid()).gr_name

    one = await one_found_by(check_socket, at(tmp_path / "agent.sock", f"socket.group={own}"))

    assert one.level is Level.OK


@pytest.mark.parametrize(("mode", "level"), [("0666", Level.WARNING), ("0600", Level.OK)])
@pytest.mark.parametrize("agent", [SeenAgent(), RUNNING])
async def test_a_directory_that_keeps_clients_out_is_a_warning(tmp_path, mode, level, agent):
    (tmp_path / "run").mkdir(mode=0o700)
    settings = (f"socket.path={tmp_path}/run/agent.sock", f"socket.mode={mode}")

    one = await one_found_by(check_socket, subject_of(*settings, agent=agent))

    assert one.level is level
    assert level is Level.OK or f"chmod o+x {tmp_path}/run" in one.remedy


@pytest.mark.parametrize("presence", [Presence.SHOWN, Presence.PRIVATE, Presence.SILENT])
async def test_a_socket_that_is_listened_on_is_not_said_to_be_in_the_way(tmp_path, presence):
    agent = SeenAgent(presence, {"agent": {}})
    subject = subject_of(f"socket.path={tmp_path}/agent.sock", "socket.group=none", agent=agent)

    one = await one_found_by(check_socket, subject)

    assert one.level is Level.OK
    assert "is listened on" in one.what


# --- the state directory ---------------------------------------------------------------------


def kept_in(path, *settings, agent=None):
    return subject_of(
        f"state_dir={path}", "flush.volatile_paths=[]", *settings, agent=agent or SeenAgent()
    )


async def test_a_directory_that_takes_the_journal_is_good_and_left_empty(tmp_path):
    one = await one_found_by(check_state_dir, kept_in(tmp_path))

    assert one.level is Level.OK
    assert "GiB are left" in one.what or "TiB are left" in one.what or "MiB" in one.what
    assert list(tmp_path.iterdir()) == []


async def test_a_directory_that_is_made_at_the_start_is_not_made_before(tmp_path):
    one = await one_found_by(check_state_dir, kept_in(tmp_path / "a" / "b"))

    assert one.level is Level.OK
    assert "which is made at the start" in one.what
    assert list(tmp_path.iterdir()) == []


async def test_a_file_in_its_place_is_a_problem(tmp_path):
    (tmp_path / "state").touch()

    one = await one_found_by(check_state_dir, kept_in(tmp_path / "state" / "below"))

    assert (one.level, one.what) == (Level.PROBLEM, f"{tmp_path}/state is no directory")


async def test_little_space_is_a_warning(tmp_path, monkeypatch):
    usage = namedtuple("Usage", "total used free")(10, 9, 1024 * 1024)  # noqa: PYI024 - as shutil has it
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    one = await one_found_by(check_state_dir, kept_in(tmp_path))

    assert one.level is Level.WARNING
    assert one.what == f"1.0 MiB are left at {tmp_path}; the journal may need 10.0 MiB"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError(13, "")])
async def test_a_disk_that_takes_nothing_is_a_problem(tmp_path, monkeypatch, error):
    def refuse(**_):
        raise error

    monkeypatch.setattr(state_check.tempfile, "TemporaryFile", refuse)
    one = await one_found_by(check_state_dir, kept_in(tmp_path))

    assert one.level is Level.PROBLEM
    assert str(tmp_path) in one.what


async def test_a_directory_that_a_reboot_empties_is_a_warning(tmp_path):
    warning, rest = await found_by(
        check_state_dir, subject_of(f"state_dir={tmp_path}", f'flush.volatile_paths=["{tmp_path}"]')
    )

    assert (warning.level, rest.level) == (Level.WARNING, Level.OK)
    assert "a reboot empties" in warning.what


async def test_what_a_running_agent_writes_is_not_written_to(tmp_path, monkeypatch):
    monkeypatch.delattr(state_check.tempfile, "TemporaryFile")

    one = await one_found_by(check_state_dir, kept_in(tmp_path, agent=RUNNING))

    assert one.level is Level.OK
    assert one.what.startswith("the running agent does not say where its journal is")


async def test_the_journal_of_a_running_agent_is_where_the_agent_says(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    agent = SeenAgent(Presence.SHOWN, {"agent": {"state_dir": str(theirs)}})

    one = await one_found_by(check_state_dir, kept_in(tmp_path / "ours", agent=agent))

    assert one.what.startswith(f"the running agent keeps its journal in {theirs};")


# --- the pages -------------------------------------------------------------------------------


def served_at(port, agent=None, host="127.0.0.1"):
    return subject_of(f"http.listen={host}:{port}", agent=agent or SeenAgent())


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
async def test_an_address_that_is_free_is_good_and_stays_free(host):
    port = free_port()

    one = await one_found_by(check_pages, served_at(port, host=host))

    assert (one.level, one.what) == (Level.OK, f"{host}:{port} is free")
    with socket.socket() as another:
        another.bind(("127.0.0.1", port))


async def test_no_address_is_worth_a_note():
    one = await one_found_by(check_pages, subject_of("http.listen="))

    assert one.level is Level.NOTE


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("192.0.2.1:9855", "Cannot assign requested address"),
        ("nowhere.invalid:9855", "no such address here"),
    ],
)
async def test_an_address_that_is_not_this_machines_is_a_problem(listen, said):
    one = await one_found_by(check_pages, subject_of(f"http.listen={listen}"))

    assert one.level is Level.PROBLEM
    assert said in one.what


def port_of(server):
    return int(server.url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http_answer(b"hello", "200 OK", "Server: nginx"), "GET /readyz is answered by nginx"),
        (http_answer(b"hello"), "a program that does not say its name"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
    ],
)
async def test_another_programs_port_is_a_problem(answer, said):
    async with raw_server(lambda _: answer) as server:
        one = await one_found_by(check_pages, served_at(port_of(server), RUNNING))

    assert one.level is Level.PROBLEM
    assert "is taken by another program" in one.what
    assert said in one.what


@pytest.mark.parametrize(
    ("status", "body", "level", "said"),
    [
        ("200 OK", b"{}", Level.OK, "and is ready"),
        (
            "503 Service Unavailable",
            b'{"ready": false, "reasons": {"aws": "has not answered: timeout"}}',
            Level.WARNING,
            "not ready: aws: has not answered: timeout",
        ),
        ("503 Service Unavailable", b"[]", Level.WARNING, "it does not say why"),
        ("503 Service Unavailable", b"<html>", Level.WARNING, "the answer is no JSON"),
    ],
)
async def test_the_running_agents_port_is_as_good_as_the_agent_is_ready(status, body, level, said):
    answer = http_answer(body, status, "Server: lastcall")
    async with raw_server(lambda _: answer) as server:
        one = await one_found_by(check_pages, served_at(port_of(server), RUNNING))

    assert one.level is level
    assert said in one.what


async def test_the_pages_of_a_running_agent_are_where_the_agent_says():
    answer = http_answer(b"{}", "200 OK", "Server: lastcall")
    async with raw_server(lambda _: answer) as server:
        listen = f"127.0.0.1:{port_of(server)}"
        agent = SeenAgent(Presence.SHOWN, {"agent": {"http_listen": listen}})
        one = await one_found_by(check_pages, served_at(free_port(), agent, host="0.0.0.0"))

    assert one.what == f"the running agent serves {listen} and is ready"


async def test_the_port_of_an_agent_with_another_socket_is_a_problem():
    answer = http_answer(b"{}", "200 OK", "Server: lastcall")
    async with raw_server(lambda _: answer) as server:
        one = await one_found_by(check_pages, served_at(port_of(server)))

    assert one.level is Level.PROBLEM
    assert "a lastcall agent that does not listen at" in one.what


async def test_a_port_that_the_running_agent_does_not_serve_is_a_warning():
    one = await one_found_by(check_pages, served_at(free_port(), RUNNING))

    assert one.level is Level.WARNING
    assert "though an agent runs" in one.what
