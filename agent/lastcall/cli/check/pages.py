"""Checks the address of the pages: free for the agent, or already served by it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from ipaddress import ip_address

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.config.forms import split_listen
from lastcall.sources.base import SystemClock
from lastcall.sources.http import Answer, MetadataClient, MetadataError

CHECK = "http"

ANSWER_SECONDS = 2.0

_OTHER_ADDRESS = "set http.listen to an address and port of this machine that is free"


async def check_pages(subject: Subject, found: Findings) -> None:
    """Add whether the agent can serve its pages, or does."""
    listen = subject.listen
    if not listen:
        found.note(CHECK, "http.listen is empty: no metrics and no pages are served")
        return
    host, port = split_listen(listen)
    trouble = await asyncio.to_thread(_bind, host, port)
    if trouble == 0:
        _say_free(subject, found, listen)
    elif trouble == errno.EADDRINUSE:
        await _look_who_serves(subject, found, listen, _url(host, port))
    elif trouble == errno.EACCES:
        found.problem(
            CHECK,
            f"may not listen on {listen}: {os.strerror(trouble)}",
            "set http.listen to a port from 1024 on, or grant CAP_NET_BIND_SERVICE",
        )
    else:
        why = "no such address here" if trouble is None else os.strerror(trouble)
        found.problem(CHECK, f"cannot listen on {listen}: {why}", _OTHER_ADDRESS)


def _say_free(subject: Subject, found: Findings, listen: str) -> None:
    if subject.agent.runs:
        found.warning(
            CHECK,
            f"{listen} is free, though an agent runs: it serves its pages elsewhere or not at all",
            "look at the agent's log, or check with its own --config and environment",
        )
    else:
        found.ok(CHECK, f"{listen} is free")


async def _look_who_serves(subject: Subject, found: Findings, listen: str, url: str) -> None:
    try:
        async with MetadataClient(url, SystemClock()) as client:
            answer = await client.request("GET", "/readyz", timeout_seconds=ANSWER_SECONDS)
    except MetadataError as error:
        _say_taken(found, listen, error.detail)
        return
    server = answer.headers.get("Server", "a program that does not say its name")
    if server != "lastcall":
        _say_taken(found, listen, f"GET /readyz is answered by {server}")
    elif not subject.agent.runs:
        found.problem(
            CHECK,
            f"{listen} is served by a lastcall agent that does not listen at "
            f"{subject.loaded.config.socket.path}",
            "stop that agent, or check with its own --config and environment",
        )
    elif answer.status == 200:
        found.ok(CHECK, f"the running agent serves {listen} and is ready")
    else:
        found.warning(
            CHECK,
            f"the running agent serves {listen} and is not ready: {_reasons(answer)}",
            "see the findings about what it waits for",
        )


def _say_taken(found: Findings, listen: str, detail: str) -> None:
    found.problem(
        CHECK,
        f"{listen} is taken by another program: {detail}",
        f"find it with ss -ltnp, or {_OTHER_ADDRESS}",
    )


def _bind(host: str, port: int) -> int | None:
    """Return 0 where an agent could listen there, else the number of the error.

    Nobody is kept from listening meanwhile, since the address is not listened on.

    Returns:
        ``None`` where the host's name leads nowhere.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:
        return None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
            except OSError as error:
                return error.errno
    return 0


def _url(host: str, port: int) -> str:
    """Return where the pages of an agent that listens so are found from this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if address.is_unspecified:
        address = ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def _reasons(answer: Answer) -> str:
    try:
        content = answer.json()
    except MetadataError as error:
        return error.detail
    reasons = content.get("reasons") if isinstance(content, dict) else None
    if not isinstance(reasons, dict):
        return "it does not say why"
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())
