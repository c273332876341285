"""Asks every agent behind a name for /readyz and /metrics, for `helm test`: NAME PORT [SECONDS]."""

# ruff: noqa: INP001 - the script of a pod, and no module

import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException

ANSWER_SECONDS = 3.0
ROUND_SECONDS = 2.0


def get(address: str, port: int, path: str) -> tuple[int, str]:
    """Return the status and the body of a page."""
    connection = HTTPConnection(address, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace").strip()
    finally:
        connection.close()


def fault(address: str, port: int) -> str:
    """Return what is wrong with an agent; empty for nothing."""
    try:
        status, body = get(address, port, "/readyz")
        if status != 200:
            return f"is not ready: {body}"
        status, body = get(address, port, "/metrics")
        if status != 200 or "lastcall_build_info" not in body:
            return f"shows no metrics: {status}"
    except (OSError, HTTPException) as error:
        return f"does not answer: {error}"
    return ""


def addresses(name: str, port: int) -> list[str]:
    """Return where the name leads to; nothing where it is not known yet."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    return sorted({str(entry[4][0]) for entry in found})


def main() -> int:
    """Ask until all are well or the time is over."""
    name, port = sys.argv[1], int(sys.argv[2])
    over_at = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 120)
    while True:
        agents = addresses(name, port)
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda agent: fault(agent, port), agents))
        faults = {agent: text for agent, text in zip(agents, found, strict=True) if text}
        if agents and not faults:
            sys.stdout.write(f"{len(agents)} agents are ready and show their metrics\n")
            return 0
        if time.monotonic() + ROUND_SECONDS > over_at:
            break
        time.sleep(ROUND_SECONDS)
    for agent, text in faults.items():
        sys.stdout.write(f"the agent at {agent} {text}\n")
    if not agents:
        sys.stdout.write(f"{name} leads to no agent\n")
    return 1


sys.exit(main())
