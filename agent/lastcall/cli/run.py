"""``lastcall run``: the agent, in the foreground."""

from __future__ import annotations

import argparse
import sys

from lastcall.cli.options import add_config_options, load_or_exit


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "run",
        help="run the agent in the foreground",
        description="Watch the provider's notices, tell the training processes to flush, and "
        "measure whether they did in time. Ends on SIGTERM or Ctrl-C.",
    )
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the agent until it is told to stop."""
    loaded = load_or_exit(arguments)

    import asyncio

    from lastcall.config.explain import pending_settings
    from lastcall.daemon import log
    from lastcall.daemon.build import serve
    from lastcall.daemon.scheduler import SchedulerError
    from lastcall.serve.socket import SocketError

    log.configure(loaded.config.log.level, loaded.config.log.format)
    for setting in pending_settings(loaded):
        print(
            f"warning: {setting.key.path} ({setting.origin}) is not in effect in this version",
            file=sys.stderr,
        )
    try:
        asyncio.run(serve(loaded))
    except (SocketError, SchedulerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
