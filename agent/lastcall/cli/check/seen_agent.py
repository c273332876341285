"""What stands behind the agent's socket, and what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from lastcall.wire.codec import WireError, decode_object, encode
from lastcall.wire.messages import AGENT_LINE_LIMIT, StatusRequest

ANSWER_SECONDS = 2.0
"""The agent is on this machine and answers within milliseconds."""


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
    def about(self) -> Mapping[str, Any]:
        """What the agent has shown of itself; empty where it has shown nothing."""
        about = self.view.get("agent")
        return about if isinstance(about, dict) else {}

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
