"""``lastcall status``: the running agent's view of its node."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from lastcall.cli.link import AgentLink, NoAnswerError, RefusedError, add_socket_option
from lastcall.cli.status_view import render
from lastcall.cli.terminal import Style
from lastcall.wire.messages import StatusRequest

WATCH_SECONDS = 1.0
"""Between two looks of ``--watch``."""

_CLEAR = "\x1b[H\x1b[J"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "status",
        help="show what the running agent sees",
        description="Show the running agent's view: its sources, notices, GPUs, clients and jobs.",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show it again each second until Ctrl-C; with --json one line each",
    )
    add_socket_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the view; exit with status 1 where no agent shows it."""
    try:
        _show(look(arguments.socket), arguments)
        while arguments.watch:
            time.sleep(WATCH_SECONDS)
            _show_again(arguments)
    except KeyboardInterrupt:
        return 0 if arguments.watch else 130
    except (NoAnswerError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def look(path: str) -> dict[str, Any]:
    """Return the agent's view.

    Raises:
        NoAnswerError: there is no agent, or it does not answer.
        RefusedError: it shows its view to root and its own user alone.
    """
    with AgentLink(path) as link:
        return link.ask(StatusRequest())


def _show(view: dict[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(view, indent=None if arguments.watch else 2), flush=True)
        return

    style = Style(sys.stdout)
    try:
        text = render(view, style, time.time())
    except (KeyError, TypeError) as error:
        raise NoAnswerError(
            f"the agent is of another version than this command ({error!r}): restart the agent, "
            "or use --json"
        ) from error
    if arguments.watch:
        text = _CLEAR + text if style.on_terminal else text + "\n"
    print(text, flush=True)


def _show_again(arguments: argparse.Namespace) -> None:
    """Show the view, or in its place why there is none at this moment."""
    try:
        _show(look(arguments.socket), arguments)
    except (NoAnswerError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
