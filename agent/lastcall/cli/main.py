"""The ``lastcall`` command: finds the subcommand and hands over to it."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from lastcall._version import __version__
from lastcall.cli import check, config, demo, drill, gpu, run, simulate, status

COMMANDS = (run, demo, simulate, drill, gpu, status, check, config)

EPILOG = """\
start with: lastcall demo, lastcall check
exit codes: 0 done, 1 the job itself failed, 2 wrong usage or configuration"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="lastcall",
        description="Node-local preemption agent: a termination notice becomes a flushed\n"
        "checkpoint, in time, and is measured.",
        epilog=EPILOG,
        # The two lines of the epilog stay lines.
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"lastcall {__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    for name in ("stdout", "stderr"):
        # Python has no stream where whoever started us closed it.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - kept open
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A text from elsewhere must not end a command on a terminal that lacks its letters.
        sys.stdout.reconfigure(errors="backslashreplace")
    parsed = parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # What is still in the buffer must not complain once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code
