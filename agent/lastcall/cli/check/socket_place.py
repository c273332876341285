"""Checks the place of the socket: whether an agent can listen there, and clients reach it."""

from __future__ import annotations

import asyncio
import grp
import os
import stat

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.users import AS_AGENT, this_user
from lastcall.config.schema import Socket

CHECK = "socket"


async def check_socket(subject: Subject, found: Findings) -> None:
    """Add what is wrong with the socket's path, its directory, its group or its mode."""
    settings, taken = subject.loaded.config.socket, subject.agent.listens
    await asyncio.to_thread(_look, settings, found, taken=taken)


def _look(settings: Socket, found: Findings, *, taken: bool) -> None:
    before = len(found)
    if taken:
        _look_for_clients(settings, found)
    else:
        _look_at_group(settings.group, found)
        _look_at_path(settings, found)
    if len(found) == before:
        state = "is listened on" if taken else "can be listened on"
        found.ok(CHECK, f"{settings.path} {state}, mode {settings.mode}")


def _look_at_group(group: str, found: Findings) -> None:
    if not group:
        return
    try:
        number = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        found.problem(
            CHECK,
            f"socket.group is {group!r}, and there is no such group",
            "make it, or name another",
        )
        return
    if os.geteuid() != 0 and number not in {os.getegid(), *os.getgroups()}:
        found.problem(
            CHECK,
            f"{this_user()} is not in group {group} and cannot hand the socket to it",
            f"add the agent's user to the group, or {AS_AGENT}",
        )


def _look_at_path(settings: Socket, found: Findings) -> None:
    path, directory = settings.path, os.path.dirname(settings.path)
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        found.problem(CHECK, f"cannot look at {path}: {error.strerror}", AS_AGENT)
        return
    else:
        if stat.S_ISDIR(mode):
            found.problem(
                CHECK,
                f"{path} is a directory",
                "remove it; mount the directory that holds the socket, never the socket itself",
            )
        elif not stat.S_ISSOCK(mode):
            found.problem(
                CHECK, f"{path} is there already and is no socket", "remove it, or set socket.path"
            )
    _look_at_directory(directory, found)
    _look_for_clients(settings, found)


def _look_at_directory(directory: str, found: Findings) -> None:
    if os.path.isdir(directory):
        if not os.access(directory, os.W_OK | os.X_OK):
            found.problem(CHECK, f"{this_user()} may not write to {directory}", AS_AGENT)
    elif os.path.lexists(directory):
        found.problem(CHECK, f"{directory} is no directory", "remove it, or set socket.path")
    elif not os.path.isdir(parent := os.path.dirname(directory)):
        # The agent makes one directory, and not those above it.
        found.problem(
            CHECK,
            f"the directory {parent} does not exist",
            f"make it: mkdir -p {directory}; or set socket.path",
        )
    elif not os.access(parent, os.W_OK | os.X_OK):
        found.problem(
            CHECK,
            f"{directory} does not exist, and {this_user()} may not make it",
            f"make it for the agent's user, or {AS_AGENT}",
        )


def _look_for_clients(settings: Socket, found: Findings) -> None:
    """Whether users whom the mode lets in can get as far as the socket."""
    directory = os.path.dirname(settings.path)
    if not int(settings.mode, 8) & stat.S_IWOTH or not os.path.isdir(directory):
        return
    if not os.stat(directory).st_mode & stat.S_IXOTH:
        found.warning(
            CHECK,
            f"socket.mode {settings.mode} lets all users in, but {directory} does not",
            f"chmod o+x {directory}, or set socket.mode to what is meant",
        )
