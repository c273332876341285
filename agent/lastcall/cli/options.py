"""The options that all commands share which read the configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastcall.config.load import Loaded


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` and ``--set``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="configuration file (default: /etc/lastcall/lastcall.toml, if present)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="set one key, such as notices.aws.poll_seconds=2; may be given several times",
    )


def load_or_exit(arguments: argparse.Namespace) -> Loaded:
    """Return the configuration in effect.

    Raises:
        SystemExit: with status 2 where it has faults, which are on standard error by then.
    """
    from lastcall.config.faults import ConfigError
    from lastcall.config.load import load

    try:
        return load(arguments.config, overrides=arguments.overrides)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
