"""The socket's place: claimed, replaced without a gap, given back, and refused in clear words."""

from __future__ import annotations

import asyncio
import fcntl
import grp
import os
import socket
import stat
from pathlib import Path

import pytest

from lastcall.serve.socket import AgentSocket, SocketError, SocketSettings
from support.agent_socket import Door, program, wait_for_line
from support.needs import need_root


def agent(path: Path | str, **settings) -> AgentSocket:
    return AgentSocket(
        SocketSettings(path=str(path), **settings),
        node_name="node",
        agent_version="0",
        post=lambda event: None,
        status=dict,
        monotonic=lambda: 0.0,
        wall=lambda: 0.0,
    )


async def refusal(path: Path | str, **settings) -> str:
    """Return why an agent cannot have a path; nothing of the attempt may stay open."""
    before = os.listdir("/proc/self/fd")
    refused = agent(path, **settings)
    with pytest.raises(SocketError) as error:
        await refused.start()
    assert not refused.listening
    assert os.listdir("/proc/self/fd") == before
    assert "\n" not in str(error.value)
    return str(error.value)


# --- the socket ------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
async def test_permissions_do_not_depend_on_the_umask(directory, umask):
    before = os.umask(umask)
    try:
        async with Door(directory / "made", mode="0660") as door:
            paths = (door.path, door.path.parent, f"{door.path}.lock")
            modes = [stat.S_IMODE(os.stat(path).st_mode) for path in paths]
            assert modes == [0o660, 0o755, 0o600]
    finally:
        os.umask(before)


async def test_the_socket_is_open_to_all_by_default(door):
    assert stat.S_IMODE(door.path.stat().st_mode) == 0o666


@pytest.mark.root
@pytest.mark.parametrize("by_name", [True, False])
async def test_the_socket_can_be_handed_to_a_group(directory, by_name):
    need_root()
    group = next(entry for entry in grp.getgrall() if entry.gr_gid not in (0, os.getgid()))

    async with Door(directory, group=group.gr_name if by_name else str(group.gr_gid)) as door:
        assert door.path.stat().st_gid == group.gr_gid


@pytest.mark.parametrize("stale", [True, False])
async def test_the_longest_path_works(directory, stale):
    path = directory / ("d" * (107 - len(str(directory)) - 3)) / "s"
    path.parent.mkdir()
    assert len(str(path)) == 107
    if stale:
        with socket.socket(socket.AF_UNIX) as before:
            before.bind(str(path))
    running = agent(path)

    await running.start()

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    await running.close("over")


def listed_sockets() -> str:
    return Path("/proc/net/unix").read_text()


async def test_a_fresh_socket_is_listed_by_the_system_under_its_path(door):
    assert f"{door.path}\n" in listed_sockets()


async def test_nothing_but_the_lock_is_left_behind(directory):
    async with Door(directory):
        assert {path.name for path in directory.iterdir()} == {"agent.sock", "agent.sock.lock"}

    assert {path.name for path in directory.iterdir()} == {"agent.sock.lock"}


# --- from one agent to the next --------------------------------------------------------------


async def test_what_a_killed_agent_left_is_replaced(directory):
    for name in ("agent.sock", ".agent.sock.new"):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(directory / name))
    (directory / "agent.sock.lock").write_text("4194304\n")

    async with Door(directory) as door:
        await door.join()


async def test_a_client_never_finds_the_path_without_a_socket(directory):
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(directory / "agent.sock"))
    missing: list[str] = []
    stop = asyncio.Event()

    def watch() -> None:
        while not stop.is_set():
            if not (directory / "agent.sock").exists():
                missing.append("missing")

    watching = asyncio.create_task(asyncio.to_thread(watch))
    async with Door(directory):
        stop.set()
        await watching

    assert not missing


async def test_a_second_agent_is_kept_out_and_the_first_goes_on(door):
    assert f"process {os.getpid()}" in await refusal(door.path)

    await door.join()


async def test_after_the_first_agent_the_next_may_have_the_place(directory):
    async with Door(directory):
        pass
    async with Door(directory) as door:
        await door.join()


async def test_the_lock_of_a_killed_agent_is_free(directory):
    code = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""
    with program(code, str(directory / "agent.sock.lock")) as holder:
        assert await asyncio.to_thread(wait_for_line, holder) == "locked"
        assert "another agent" in await refusal(directory / "agent.sock")

    async with Door(directory) as door:
        await door.join()


async def test_a_socket_that_another_program_put_there_is_left_alone(directory):
    async with Door(directory) as door:
        door.path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(door.path))
            await door.socket.close("over")

        assert door.path.is_socket()


# --- what cannot be had ----------------------------------------------------------------------


async def test_a_path_too_long_is_refused(directory):
    path = directory / ("x" * 107)

    assert "107 bytes" in await refusal(path)


async def test_a_directory_whose_parent_is_missing_is_refused(directory):
    assert f"{directory}/a/b does not exist" in await refusal(directory / "a/b/agent.sock")


async def test_a_directory_that_is_a_file_is_refused(directory):
    (directory / "file").touch()

    assert "directory" in await refusal(directory / "file/agent.sock")


async def test_a_place_where_nothing_can_be_made_is_refused():
    assert "/proc/self/agent.sock" in await refusal("/proc/self/agent.sock")
    assert "/proc/self/made" in await refusal("/proc/self/made/agent.sock")


async def test_a_directory_in_the_sockets_place_is_refused_with_the_remedy(directory):
    (directory / "agent.sock").mkdir()

    assert "mount the directory" in await refusal(directory / "agent.sock")


@pytest.mark.parametrize("what", ["file", "link"])
async def test_anything_but_a_socket_is_never_replaced(directory, what):
    path = directory / "agent.sock"
    if what == "file":
        path.write_text("precious")
    else:
        (directory / "precious").touch()
        path.symlink_to(directory / "precious")

    assert "no socket" in await refusal(path)
    assert path.exists()


async def test_a_lock_that_is_a_link_is_not_followed(directory):
    (directory / "precious").write_text("precious")
    (directory / "agent.sock.lock").symlink_to(directory / "precious")

    await refusal(directory / "agent.sock")

    assert (directory / "precious").read_text() == "precious"


@pytest.mark.parametrize("stale", [True, False])
async def test_a_socket_that_cannot_be_handed_over_is_taken_away_again(
    directory, monkeypatch, stale
):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    if stale:
        with socket.socket(socket.AF_UNIX) as before:
            before.bind(str(directory / "agent.sock"))

    why = await refusal(directory / "agent.sock", group="0")

    assert "Operation not permitted" in why
    assert (directory / "agent.sock").exists() == stale


async def test_a_lock_that_the_file_system_does_not_know_is_refused(directory, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    assert "No locks available" in await refusal(directory / "agent.sock")


async def test_an_unknown_group_is_refused(directory):
    assert "no-such-group" in await refusal(directory / "agent.sock", group="no-such-group")
