"""``lastcall simulate``: a metadata service in the foreground, to rehearse a notice with."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
from typing import TYPE_CHECKING

from lastcall import simulate

if TYPE_CHECKING:
    from types import FrameType

    from lastcall.simulate.base import Metadata

_AFTER_SECONDS = 5.0

_EPILOG = """\
kinds: preemption, termination, maintenance and rebalance, where the provider has them, and its own
words, such as stop or system-reboot (aws), migrate or upcoming (gcp), reboot or freeze (azure).
faults: slow:S hang reset down:S 503 throttle:S redirect:URL redirect-loop garbled empty huge:N
truncated cut, and the provider's own. One that does not exist is answered with the list of those
that do. Every change is told on stderr; SIGINT and SIGTERM end the service.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "simulate",
        help="serve a provider's metadata, to rehearse with",
        description="Serves a metadata service that is true to the real one's paths, headers, "
        "formats and status codes, and shows a notice in it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("provider", choices=simulate.providers())
    parser.add_argument(
        "--listen",
        type=_address,
        metavar="HOST:PORT",
        help="default 127.0.0.1 and port 1338 (aws), 1339 (gcp), 1340 (azure); an IPv6 address in "
        "brackets; port 0 for any that is free",
    )
    parser.add_argument(
        "--kind", default="preemption", help="what the notice is of (default %(default)s)"
    )
    parser.add_argument(
        "--after",
        type=_seconds,
        default=_AFTER_SECONDS,
        metavar="S",
        help="seconds until the notice appears (default %(default)g)",
    )
    parser.add_argument(
        "--lead",
        type=_seconds,
        metavar="S",
        help="seconds from the notice to the end (default 120 on aws, 30 on gcp and azure)",
    )
    parser.add_argument(
        "--withdraw-after",
        type=_seconds,
        metavar="S",
        help="seconds from the notice until it is taken back (default: never)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[:ARG]",
        help="something that is wrong with the service from its start; may be given several times",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Returns:
        0 after SIGINT or SIGTERM; 2 where the kind, a fault or the address cannot be had.
    """
    # A signal may come while the imports below are still under way.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        metadata = simulate.load(arguments.provider)()
        metadata.check_kind(arguments.kind)
        for fault in arguments.fault:
            metadata.faults.add_text(fault)
    except ValueError as error:
        return _refuse(str(error))
    return asyncio.run(_rehearse(metadata, arguments))


async def _rehearse(metadata: Metadata, arguments: argparse.Namespace) -> int:
    # Other commands must not pay for a web server.
    from lastcall.simulate.server import Service

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    host, port = arguments.listen or ("127.0.0.1", metadata.default_port)
    service = Service(metadata, host, port)
    try:
        await service.start()
    except OSError as error:
        return _refuse(f"cannot listen on {host} port {port}: {error.strerror or error}")
    _tell(
        metadata,
        f"listening on {service.url}; point the agent at it with "
        f"--set notices.provider={metadata.provider} "
        f"--set notices.{metadata.provider}.endpoint={service.url}",
    )
    try:
        await _tell_story(metadata, arguments, stop)
    finally:
        await service.stop()
    return 0


async def _tell_story(
    metadata: Metadata, arguments: argparse.Namespace, stop: asyncio.Event
) -> None:
    """Show the notice, say when its lead is over, take it back: each at its time, until stopped."""
    if await _stopped(stop, arguments.after):
        return
    raised = metadata.raise_notice(arguments.kind, arguments.lead)
    lead = metadata.default_lead_seconds if arguments.lead is None else arguments.lead
    _tell(metadata, f"notice of {raised.kind}, {lead:g} s ahead: {raised.shown}")
    withdrawal = math.inf if arguments.withdraw_after is None else arguments.withdraw_after
    if await _stopped(stop, min(lead, withdrawal)):
        return
    if lead < withdrawal:
        _tell(metadata, "the lead is over: a real machine may be gone now")
        if await _stopped(stop, withdrawal - lead):
            return
    metadata.withdraw()
    _tell(metadata, "notice withdrawn")
    await stop.wait()


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the end; return whether the end came."""
    try:
        await asyncio.wait_for(stop.wait(), None if math.isinf(seconds) else seconds)
    except TimeoutError:
        return False
    return True


def _tell(metadata: Metadata, text: str) -> None:
    print(f"lastcall simulate {metadata.provider}: {text}", file=sys.stderr, flush=True)


def _refuse(reason: str) -> int:
    print(f"lastcall simulate: {reason}", file=sys.stderr)
    return 2


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"needs a number of seconds, not {text!r}")
    return seconds


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not host or (":" in host) != bracketed or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"needs HOST:PORT, an IPv6 address in brackets, not {text!r}"
        )
    return host, int(port)
