"""A machine of a test's own: its network, /run, /var/lib and /etc/lastcall are seen there alone.

Nothing names it, so that nothing of it is left once its last process has ended, however that was.
It takes root.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from support.needs import leave_out, need_namespaces, need_program
from support.running_agent import RunningAgent, plain_environment

NETWORKS = {
    "metadata address": "ip address add 169.254.169.254/32 dev lo",
    "no route": "",
    # Whoever is asked for on this link never answers.
    "silence": """
        ip link add near type veth peer name far
        ip link set far up
        ip link set near up
        ip address add 169.254.1.1/16 dev near
    """,
}
"""What a machine may see at the metadata services' address: itself, nothing, or no answer."""

_SET_UP = """
    set -e
    for folder in /run /var/lib /etc/lastcall /sys/class/dmi/id; do
        if [ -d $folder ]; then mount -t tmpfs tmpfs $folder; fi
    done
    ip link set lo up
    eval "$1"
    echo ready
    exec cat
"""

_FETCH = """
import sys, urllib.error, urllib.request
try:
    answer = urllib.request.urlopen(sys.argv[1], timeout=5)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode(), sep="\\n", end="")
"""


class PrivateMachine:
    """The machine, for as long as its first process runs; made by :meth:`up`."""

    def __init__(self, first: asyncio.subprocess.Process) -> None:
        self.enter = ("nsenter", f"--target={first.pid}", "--net", "--mount", "--")

    @classmethod
    @contextlib.asynccontextmanager
    async def up(cls, network: str = "metadata address") -> AsyncIterator[PrivateMachine]:
        """Set one up, or leave the test out where that cannot be done."""
        need_namespaces()
        need_program("ip", "iproute2")
        # It waits for the end of its input, which comes even where the test is killed.
        first = await asyncio.create_subprocess_exec(
            *("unshare", "--net", "--mount", "--", "sh", "-c", _SET_UP, "sh", NETWORKS[network]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert first.stdout is not None
        try:
            if await first.stdout.readline() != b"ready\n":
                leave_out(f"needs a network of its own: {network}")
            yield cls(first)
        finally:
            await first.communicate(b"")

    @contextlib.asynccontextmanager
    async def simulating(
        self, provider: str, *, after_seconds: float
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Have a provider's metadata service at its address, with a notice after some time."""
        service = await asyncio.create_subprocess_exec(
            *(*self.enter, sys.executable, "-m", "lastcall", "simulate", provider),
            *("--listen", "169.254.169.254:80", "--after", str(after_seconds)),
            stderr=asyncio.subprocess.PIPE,
        )
        assert service.stderr is not None
        try:
            assert b"listening" in await service.stderr.readline()
            yield service
        finally:
            service.send_signal(signal.SIGTERM)
            await service.communicate()

    async def run(self, *command: str) -> tuple[int | None, str]:
        """Run a command there; return its exit code and what it prints."""
        process = await asyncio.create_subprocess_exec(
            *self.enter, *command, stdout=asyncio.subprocess.PIPE, env=plain_environment()
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), 20)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        return process.returncode, out.decode()


class UnconfiguredAgent(RunningAgent):
    """``lastcall run`` on a machine of its own, with nothing set at all."""

    def __init__(
        self, machine: PrivateMachine, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(Path("/run/lastcall"), prefix=machine.enter, environment=environment)
        self._machine = machine

    async def start(self, *, until: str = "provider_settled") -> None:
        """Start it; its socket can be reached from outside the machine too."""
        await super().start(until=until)
        self.socket_path = self.path_to("/run/lastcall/agent.sock")

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and body of one of its pages."""
        url = f"http://127.0.0.1:9855{path}"
        _, fetched = await self._machine.run(sys.executable, "-c", _FETCH, url)
        status, _, body = fetched.partition("\n")
        return int(status), body

    def _arguments(self) -> list[str]:
        return []
