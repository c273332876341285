"""One machine of the demo: a simulated metadata service, and the real agent that watches it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lastcall import simulate
from lastcall.cli.demo.scenario import DemoError, child_environment
from lastcall.cli.link import AgentLink, NoAnswerError, RefusedError
from lastcall.simulate.base import Raised
from lastcall.simulate.server import serve
from lastcall.wire.messages import StatusRequest

READY_SECONDS = 20.0
STOP_SECONDS = 5.0
"""How long the agent may take to come up, and to end."""

POLL_SECONDS = 0.05
"""Between two looks at whether it is up."""

_LOOPBACK = "127.0.0.1"


class Node:
    """A machine on which a notice can be shown.

    Attributes:
        socket: the agent's.
        log: the agent's.
    """

    def __init__(self, provider: str, place: Path) -> None:
        self.socket = place / "agent.sock"
        self.log = place / "agent.log"
        self._metadata = simulate.load(provider)()
        self._place = place
        self._port = _free_port()
        self._agent: asyncio.subprocess.Process | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the metadata and run the agent while the block runs."""
        async with serve(self._metadata, _LOOPBACK) as url:
            try:
                await self._start(url)
                yield
            finally:
                await self._stop()

    def show_notice(self) -> Raised:
        """Show a preemption notice from now on, with the provider's usual warning."""
        return self._metadata.raise_notice("preemption")

    async def ready(self) -> None:
        """Wait until the agent has had a good answer from the provider.

        Raises:
            DemoError: it did not come up in time.
        """
        until = time.monotonic() + READY_SECONDS
        while True:
            if self._agent is not None and self._agent.returncode is not None:
                raise DemoError(f"the agent ended with exit code {self._agent.returncode}")
            try:
                view = await self.status()
                if any(source["last_success_unix"] for source in view["sources"]):
                    return
                why = "no good answer from the provider"
            except DemoError as error:
                why = str(error)
            if time.monotonic() > until:
                raise DemoError(f"the agent did not come up in time: {why}")
            await asyncio.sleep(POLL_SECONDS)

    async def status(self) -> dict[str, Any]:
        """Return the agent's view, over its socket.

        Raises:
            DemoError: it does not answer.
        """
        try:
            return await asyncio.to_thread(self._ask)
        except (NoAnswerError, RefusedError) as error:
            raise DemoError(str(error)) from error

    async def metrics(self) -> list[str]:
        """Return the samples of the agent's ``/metrics``, one a line.

        Raises:
            DemoError: it does not answer.
        """
        try:
            text = await asyncio.to_thread(self._scrape)
        except (OSError, http.client.HTTPException) as error:
            raise DemoError(f"the agent's /metrics does not answer: {error}") from error
        return [line for line in text.splitlines() if not line.startswith("#")]

    def _ask(self) -> dict[str, Any]:
        with AgentLink(str(self.socket)) as link:
            return link.ask(StatusRequest())

    def _scrape(self) -> str:
        connection = http.client.HTTPConnection(_LOOPBACK, self._port, timeout=5)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    async def _start(self, endpoint: str) -> None:
        config = self._place / "lastcall.toml"
        config.write_text(self._config(endpoint), encoding="utf-8")
        with self.log.open("wb") as log:
            self._agent = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lastcall", "run", "--config", str(config)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._place,
                env=child_environment(),
                # Ctrl-C is the demo's to handle; the agent is ended after the processes.
                start_new_session=True,
            )

    async def _stop(self) -> None:
        agent = self._agent
        if agent is None:
            return
        if agent.returncode is None:
            agent.send_signal(signal.SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agent.wait(), STOP_SECONDS)
        finally:
            if agent.returncode is None:
                agent.kill()
                await agent.wait()

    def _config(self, endpoint: str) -> str:
        provider = self._metadata.provider
        quoted = {name: json.dumps(str(self._place / name)) for name in ("state", self.socket.name)}
        return "\n".join(
            [
                'node_name = "demo-node"',
                f"state_dir = {quoted['state']}",
                "[socket]",
                f"path = {quoted[self.socket.name]}",
                'mode = "0600"',
                "[http]",
                f'listen = "{_LOOPBACK}:{self._port}"',
                "[notices]",
                f'provider = "{provider}"',
                f"[notices.{provider}]",
                f'endpoint = "{endpoint}"',
                "[flush]",
                "# The demo's directory stands for storage off the node, wherever it is.",
                "volatile_paths = []",
                "[drain]",
                'backend = "none"',
                "",
            ]
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
