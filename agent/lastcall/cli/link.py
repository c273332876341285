"""The command line's own line to the running agent."""

from __future__ import annotations

import argparse
import os
import socket
from typing import Any, Self

from lastcall.wire.codec import WireError, decode_object, encode
from lastcall.wire.messages import AGENT_LINE_LIMIT, Message

DEFAULT_PATH = "/run/lastcall/agent.sock"

_ELSEWHERE = "If it listens elsewhere, give --socket or set LASTCALL_SOCKET, as the agent was given"


class NoAnswerError(Exception):
    """The agent cannot be asked; the text is one clear line with a remedy."""


class RefusedError(Exception):
    """The agent has refused, in its own words."""


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--socket``."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        default=os.environ.get("LASTCALL_SOCKET") or DEFAULT_PATH,
        help="the agent's socket (default: $LASTCALL_SOCKET, else %(default)s)",
    )


class AgentLink:
    """A connection to the agent, as root or the agent's user."""

    def __init__(self, path: str, timeout_seconds: float = 5.0) -> None:
        """Connect.

        Raises:
            NoAnswerError: nothing answers there.
        """
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._socket.connect(path)
        except FileNotFoundError:
            self._fail(f"no such socket; is the agent running? {_ELSEWHERE}")
        except ConnectionRefusedError:
            self._fail(f"nobody listens there; the agent has ended. {_ELSEWHERE}")
        except PermissionError:
            self._fail("permission denied")
        except OSError as error:
            self._fail(str(error))
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._reader.close()
        self._socket.close()

    def ask(self, message: Message) -> dict[str, Any]:
        """Return the agent's answer to one message.

        Raises:
            NoAnswerError: it did not answer in time, or hung up.
            RefusedError: it refused.
        """
        try:
            self._socket.sendall(encode(message))
            line = self._reader.readline(AGENT_LINE_LIMIT)
            answer = decode_object(line) if line else {}
        except (OSError, WireError) as error:
            raise NoAnswerError(f"the agent at {self._path} does not answer: {error}") from error
        if not answer:
            raise NoAnswerError(f"the agent at {self._path} hung up")
        if answer.get("type") == "error":
            raise RefusedError(f"the agent refused: {answer.get('message')}")
        return answer

    def _fail(self, why: str) -> None:
        self._socket.close()
        raise NoAnswerError(f"cannot reach the agent at {self._path}: {why}")
