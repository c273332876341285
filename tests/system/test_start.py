"""How ``lastcall run`` begins: refused in one clear line where it cannot, else up and serving."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.needs import without_privileges
from support.running_agent import LineClient, RunningAgent, join, plain_environment

RANK = {"job": "train", "rank": 0, "world_size": 1}


def start(folder: Path, *arguments: str, prefix: tuple[str, ...] = (), **environment: str):
    """Run the agent that is not to come up; return its exit code and its lines."""
    ended = subprocess.run(
        [*prefix, sys.executable, "-m", "lastcall", "run", *arguments],
        check=False,
        cwd=folder,
        env={**plain_environment(), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.splitlines()


# --- the configuration -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "[flush]\nreserve_second = 1\n",
            ["a.toml:2: flush.reserve_second = 1: no such key", "did you mean"],
        ),
        (
            '[notices.aws]\npoll_seconds = "fast"\n',
            ['a.toml:2: notices.aws.poll_seconds = "fast"', "allowed: a number from 0.01 to 60"],
        ),
        (
            "\n[notices.azure]\npoll_seconds = -1\n",
            ["a.toml:3: notices.azure.poll_seconds = -1", "allowed: a number from 0.01 to 60"],
        ),
        ("mode = \n", ["a.toml:1: not TOML"]),
    ],
    ids=["unknown key", "wrong type", "impossible value", "no TOML"],
)
def test_a_file_with_a_fault_is_refused_with_place_key_value_and_what_is_allowed(
    tmp_path, content, said
):
    (tmp_path / "a.toml").write_text(content)

    code, lines = start(tmp_path, "--config", "a.toml")

    assert (code, len(lines)) == (2, 1)
    assert all(words in lines[0] for words in said), lines


def test_every_fault_has_its_line_wherever_it_is(tmp_path):
    (tmp_path / "a.toml").write_text("x = 1\n[http]\nlisten = 5\n")

    code, lines = start(
        tmp_path,
        *("--config", "a.toml", "--set", "socket.mode=999"),
        LASTCALL_LOG__LEVEL="loud",
        LASTCALL_NO__SUCH="1",
    )

    assert code == 2
    assert sorted(line.split(":")[0] for line in lines) == [
        "a.toml",
        "a.toml",
        "environment LASTCALL_LOG__LEVEL",
        "environment LASTCALL_NO__SUCH",
        "flag --set socket.mode",
    ]


def test_a_file_that_is_missing_is_named(tmp_path):
    code, lines = start(tmp_path, "--config", "nowhere.toml")

    assert (code, lines) == (2, ["nowhere.toml: cannot be read: No such file or directory"])


# --- the socket ------------------------------------------------------------------------------


def refused(folder: Path, path: Path, prefix: tuple[str, ...] = ()) -> str:
    """Return the one line with which an agent says why it cannot have a socket."""
    settings = (f"socket.path={path}", f"state_dir={folder}/state", "http.listen=")
    flags = [word for setting in settings for word in ("--set", setting)]
    code, lines = start(folder, "--config", os.devnull, *flags, prefix=prefix)
    assert (code, len(lines)) == (2, 1), lines
    return lines[0]


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path):
    line = refused(tmp_path, tmp_path / ("x" * 100) / "agent.sock")

    assert line.startswith("flag --set socket.path: socket.path = ")
    assert "at most 107 bytes" in line


def test_a_directory_without_a_parent_is_refused(tmp_path):
    line = refused(tmp_path, tmp_path / "no" / "such" / "agent.sock")

    assert line.endswith(f"directory {tmp_path}/no/such does not exist")


@pytest.mark.parametrize("below", ["", "made"])
def test_a_directory_that_may_not_be_written_is_refused(tmp_path, below):
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o555)

    line = refused(tmp_path, directory / below / "agent.sock", without_privileges())

    assert line.startswith("error: cannot ")
    assert line.endswith(": Permission denied")


async def test_a_socket_left_behind_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "agent.sock"))

    async with (
        RunningAgent(tmp_path, "notices.provider=none") as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")


async def test_an_agent_without_any_privilege_serves_the_same(tmp_path):
    async with (
        RunningAgent(tmp_path, "notices.provider=none", prefix=without_privileges()) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        await rank.receive("welcome")
        assert (await agent.get("/readyz"))[0] == 200
        assert await agent.metric("lastcall_journal_up") == 1
        assert await agent.end(signal.SIGTERM) == 0


# --- the rest of the machine -----------------------------------------------------------------


async def test_an_agent_without_standard_error_serves_the_same(tmp_path):
    closed = ("sh", "-c", 'exec "$@" <&- 2>&-', "sh")
    agent = RunningAgent(tmp_path, "notices.provider=none", prefix=closed)
    await agent.begin()
    try:
        await join(agent, job="train")
    finally:
        assert await agent.end(signal.SIGTERM) == 0
