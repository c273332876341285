"""Whether an agent runs behind the configured socket, and what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from lastcall._version import __version__
from lastcall.cli.terminal import duration
from lastcall.wire.codec import WireError, decode_object, encode
from lastcall.wire.messages import AGENT_LINE_LIMIT, StatusRequest

if TYPE_CHECKING:
    from lastcall.cli.check.examine import Subject
    from lastcall.cli.check.findings import Findings

ANSWER_SECONDS = 2.0
"""The agent is on this machine and answers within milliseconds."""

CHECK = "agent"


class Presence(Enum):
    """What stands behind the socket."""

    ABSENT = auto()
    """No socket, or one that nobody listens on."""

    SHOWN = auto()
    """An agent that has shown its view."""

    PRIVATE = auto()
    """An agent that shows its view to others alone."""

    SILENT = auto()
    """Something that listens and gives no answer of use."""

    CLOSED = auto()
    """A socket that this user may not connect to."""


@dataclass(frozen=True, slots=True)
class SeenAgent:
    """What was seen of the agent.

    Attributes:
        presence: what stands behind the socket.
        view: the agent's view, where it has shown it.
        detail: why not, where it has not.
    """

    presence: Presence = Presence.ABSENT
    view: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""

    @property
    def runs(self) -> bool:
        """Whether an agent listens and answers."""
        return self.presence in {Presence.SHOWN, Presence.PRIVATE}

    @property
    def listens(self) -> bool:
        """Whether something listens, an agent or not."""
        return self.runs or self.presence is Presence.SILENT


async def look_at_agent(path: str, timeout_seconds: float = ANSWER_SECONDS) -> SeenAgent:
    """Ask the agent for its view; this changes nothing for it.

    Args:
        path: of its socket.
        timeout_seconds: for all of it.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            line = await _answer(path)
        return _seen(decode_object(line) if line else {})
    except TimeoutError:
        return SeenAgent(Presence.SILENT, detail=f"no answer within {timeout_seconds:g} s")
    except (OSError, WireError) as error:
        return _unseen(error, path)


def _seen(answer: Mapping[str, Any]) -> SeenAgent:
    if answer.get("type") == "error":
        return SeenAgent(Presence.PRIVATE, detail=str(answer.get("message")))
    if not isinstance(answer.get("agent"), dict):
        return SeenAgent(Presence.SILENT, detail="it hung up, or its answer is no status")
    return SeenAgent(Presence.SHOWN, answer)


def _unseen(error: OSError | WireError, path: str) -> SeenAgent:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return SeenAgent(detail=f"no socket stands at {path}")
        case ConnectionRefusedError():
            return SeenAgent(detail=f"nobody listens at {path}")
        case PermissionError():
            return SeenAgent(Presence.CLOSED, detail="permission denied")
        case ConnectionError():
            return SeenAgent(Presence.SILENT, detail="it hung up")
        case _:
            return SeenAgent(Presence.SILENT, detail=str(error))


async def check_agent(subject: Subject, found: Findings) -> None:
    """Add what was seen of the agent."""
    agent, path = subject.agent, subject.loaded.config.socket.path
    match agent.presence:
        case Presence.ABSENT:
            found.note(
                CHECK,
                f"none runs: {agent.detail}",
                "start it: systemctl start lastcall, or lastcall run",
            )
        case Presence.SILENT:
            found.problem(
                CHECK,
                f"what listens at {path} does not answer: {agent.detail}",
                "look at the agent's log, and restart it",
            )
        case Presence.CLOSED:
            found.warning(
                CHECK,
                f"this user may not connect to {path}: {agent.detail}",
                "set socket.mode or socket.group so that the users who train may, and let them "
                "enter its directory",
            )
        case Presence.PRIVATE:
            found.note(
                CHECK, f"one listens at {path}: {agent.detail}", "run the check as the agent's user"
            )
        case Presence.SHOWN:
            _say(subject, found)


def _say(subject: Subject, found: Findings) -> None:
    view, config = subject.agent.view, subject.loaded.config
    about: Mapping[str, Any] = view["agent"]
    version, node, journal = (about.get(key) for key in ("version", "node_name", "journal"))
    found.ok(CHECK, ", ".join(_facts(view)))
    if version != __version__:
        found.warning(
            CHECK, f"it is version {version}, this command is {__version__}", "restart the agent"
        )
    if node != config.node_name:
        found.warning(
            CHECK,
            f"it calls this node {node!r}, the configuration that was read {config.node_name!r}",
            "check with the agent's own --config and environment, or restart the agent",
        )
    if journal != "ok":
        found.problem(
            CHECK,
            f"its journal is not written: {journal}",
            "mend the disk; see the runbook LastcallJournalNotWritten",
        )


def _facts(view: Mapping[str, Any]) -> list[str]:
    about = view["agent"]
    facts = [f"version {about.get('version')} runs"]
    up_seconds = about.get("uptime_seconds")
    if isinstance(up_seconds, int | float):
        facts.append(f"up {duration(up_seconds)}")
    facts.append(f"mode {about.get('mode')}")
    summary = view.get("summary")
    if isinstance(summary, dict):
        facts.append(f"{summary.get('clients_connected')} clients")
        facts.append(f"{summary.get('notices_open')} notices open")
    return facts


async def _answer(path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path, limit=AGENT_LINE_LIMIT)
    try:
        writer.write(encode(StatusRequest()))
        return await reader.readline()
    except ValueError as error:
        raise WireError("too_long", "the answer has no end") from error
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
