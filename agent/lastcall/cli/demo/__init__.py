"""``lastcall demo``: the whole story on one machine, without and with lastcall, side by side."""

from __future__ import annotations

import argparse
import sys

from lastcall import simulate

RANKS_LIMIT = 16
"""As many processes as the largest machines have GPUs."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="show the whole story on this machine, in about 20 s",
        description="Run a training job of 100 steps that is preempted at step 54, once without "
        "and once with lastcall. The provider and the work of a step are simulated; the agent, the "
        "training processes, the socket, the checkpoints and the figures are real. Exit code 0 "
        "only if every flush was durable in time and nothing was lost.",
    )
    parser.add_argument(
        "--provider",
        choices=simulate.providers(),
        default="aws",
        help="whose metadata service is simulated (default: aws)",
    )
    parser.add_argument(
        "--ranks",
        metavar="N",
        type=_ranks,
        default=4,
        help="training processes (default: 4)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return 0 only if it went as it should."""
    from lastcall.cli.demo.scenario import Scenario
    from lastcall.cli.demo.story import play

    return play(Scenario(arguments.provider, arguments.ranks), sys.stdout)


def _ranks(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= RANKS_LIMIT:
        raise argparse.ArgumentTypeError(
            f"needs a number of processes from 1 to {RANKS_LIMIT}, not {text!r}"
        )
    return int(text)
