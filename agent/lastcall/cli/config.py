"""``lastcall config``: the configuration in effect, each value with where it came from."""

from __future__ import annotations

import argparse
import json

from lastcall.cli.options import add_config_options, load_or_exit


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "config",
        help="show the configuration in effect, each value with where it came from",
        description="Print the configuration in effect as TOML, each value with its origin.",
    )
    add_config_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--schema", action="store_true", help="print the JSON Schema of the file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for; exit with status 2 where the configuration has faults."""
    from lastcall.config import explain

    if arguments.schema:
        print(json.dumps(explain.json_schema(), indent=2, ensure_ascii=False))
        return 0
    loaded = load_or_exit(arguments)
    if arguments.json:
        print(explain.as_json(loaded))
    else:
        print(explain.as_toml(loaded), end="")
    return 0
