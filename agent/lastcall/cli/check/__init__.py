"""``lastcall check``: a doctor for an installation: one line a finding, each with its remedy."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lastcall.cli.options import add_config_options, load_or_exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastcall.cli.check.findings import Finding
    from lastcall.config.load import Loaded


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "check",
        help="find out what is wrong with this installation, and what to do about it",
        description="Look at everything that the agent will need: its configuration, the provider, "
        "the socket, the disk, the GPUs, the scheduler. It changes nothing, may run beside the "
        "agent, and ends within 15 s. Exit code 1 where something needs action.",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; exit with status 1 where something needs action."""
    loaded = load_or_exit(arguments)

    import asyncio

    from lastcall.cli.check.report import as_json, is_good, line, summary
    from lastcall.cli.terminal import Style

    findings: list[Finding] = []
    style = Style(sys.stdout)

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if not arguments.json:
            print(line(finding, style), flush=True)

    asyncio.run(_examine(loaded, tell))
    print(as_json(findings) if arguments.json else f"\n{summary(findings, style)}")
    return 0 if is_good(findings) else 1


async def _examine(loaded: Loaded, tell: Callable[[Finding], None]) -> None:
    import asyncio

    from lastcall.cli.check.agent import check_agent
    from lastcall.cli.check.examine import Check, Subject, examine
    from lastcall.cli.check.gpu import check_gpu
    from lastcall.cli.check.hooks import check_hooks
    from lastcall.cli.check.kubernetes import check_kubernetes
    from lastcall.cli.check.pages import check_pages
    from lastcall.cli.check.seen_agent import look_at_agent
    from lastcall.cli.check.settings import check_node_name, check_settings
    from lastcall.cli.check.shutdown import check_shutdown
    from lastcall.cli.check.slurm import check_slurm
    from lastcall.cli.check.socket_place import check_socket
    from lastcall.cli.check.sources import check_sources
    from lastcall.cli.check.state_dir import check_state_dir
    from lastcall.cli.check.threads import LooseThreads
    from lastcall.cli.check.watched import check_watched

    asyncio.get_running_loop().set_default_executor(LooseThreads())
    checks = (
        Check("configuration", check_settings),
        Check("node_name", check_node_name),
        Check("agent", check_agent),
        Check("socket", check_socket),
        Check("state", check_state_dir),
        Check("http", check_pages),
        Check("provider", check_watched),
        Check("sources", check_sources),
        Check("shutdown", check_shutdown),
        Check("gpu", check_gpu),
        Check("kubernetes", check_kubernetes),
        Check("slurm", check_slurm),
        Check("hooks", check_hooks),
    )
    agent = await look_at_agent(loaded.config.socket.path)
    await examine(Subject(loaded, agent), checks, tell)
