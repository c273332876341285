"""Builds the agent from its configuration, runs it, and takes it down."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import structlog

from lastcall._version import __version__
from lastcall.bus.system_bus import SystemBus
from lastcall.config.load import Loaded
from lastcall.core.estimates import JobAdvice
from lastcall.core.events import Event, Rebooted, Started
from lastcall.core.machine import Machine
from lastcall.core.model import Node
from lastcall.daemon import scheduler
from lastcall.daemon.executors import Executors
from lastcall.daemon.farewell import Farewell, under_way
from lastcall.daemon.notify import ServiceManager
from lastcall.daemon.runtime import Runtime
from lastcall.daemon.settings import gpu_watch_settings, hook_commands, machine_settings
from lastcall.daemon.supervision import Supervision
from lastcall.daemon.watch import Watch
from lastcall.gpu.watch import GpuWatcher
from lastcall.hooks.dispatch import Hooks
from lastcall.record.journal import Journal
from lastcall.record.metrics import Metrics
from lastcall.record.status import status
from lastcall.serve.socket import AgentSocket, SocketSettings
from lastcall.serve.web import WebServer
from lastcall.sources.base import SystemClock

STUCK_SECONDS = 5.0
"""An event that waits longer than this says that the decision loop is stuck."""

GPU_RESTART_SECONDS = 10.0
"""How soon a watch over the GPUs that ended by a fault of ours is started again."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Daemon:
    """The agent, from start to stop; it is made where a loop runs, whose clock its parts go by."""

    def __init__(self, loaded: Loaded) -> None:
        """Build everything; nothing outside is touched yet.

        Raises:
            SchedulerError: the configured scheduler cannot be used.
        """
        self._config = config = loaded.config
        self._log = structlog.get_logger()
        self._clock = SystemClock()
        self._started_at = time.monotonic()
        self._machine = Machine(machine_settings(config))
        boot_id = _boot_id()
        self._journal = Journal(
            Path(config.state_dir), boot_id, wall=self._clock.wall, warn=self._warn
        )
        self._runtime = Runtime(self._machine, Node(), self._journal)
        bus = SystemBus()
        self._drain = scheduler.choose(
            config,
            scheduler.Surroundings(self._runtime.post, self._clock, bus, boot_id, os.environ),
        )
        self._gpus = GpuWatcher(
            gpu_watch_settings(config), self._runtime.post, self._clock.monotonic
        )
        self._metrics = Metrics(
            lambda: self._runtime.node,
            monotonic=self._clock.monotonic,
            wall=self._clock.wall,
            advice=self._advice,
            version=__version__,
            drain_backend=self._drain.name,
            journal=self._journal,
            gpus=self._gpus,
        )
        self._hooks = Hooks(
            commands=hook_commands(config),
            every_notice=config.hooks.every_notice,
            timeout_seconds=config.hooks.timeout_seconds,
            environment=os.environ,
            monotonic=self._clock.monotonic,
            wall=self._clock.wall,
            node_name=config.node_name,
            post=self._runtime.post,
        )
        self._watch = Watch(config.notices, bus, self._runtime.post, self._clock)
        self._socket = AgentSocket(
            SocketSettings(
                path=config.socket.path,
                mode=config.socket.mode,
                group=config.socket.group,
                max_connections=config.socket.max_connections,
                max_connections_per_user=config.socket.max_connections_per_user,
                messages_per_second=config.socket.messages_per_second,
                bytes_per_second=config.socket.bytes_per_second,
            ),
            node_name=config.node_name,
            agent_version=__version__,
            post=self._runtime.post,
            status=self.status,
            monotonic=self._clock.monotonic,
            wall=self._clock.wall,
        )
        self._web = WebServer(
            config.http.listen,
            metrics=self._metrics.handler(),
            healthy=self.healthy,
            ready=self.ready,
            status=self.status,
            warn=lambda detail: self._warn("http_not_served", detail),
        )

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, and then for as long as what is under way asks for.

        Raises:
            SocketError: the socket cannot be had; the text is one clear line.
        """
        executors = Executors(
            socket=self._socket,
            drain=self._drain,
            hooks=self._hooks,
            watch=self._watch,
            gpus=self._gpus,
            journal=self._journal,
            metrics=self._metrics,
            post=self._runtime.post,
        )
        self._runtime.connect(executors.table())
        farewell = Farewell(lambda: under_way(self._runtime.node, answering=executors.working))
        farewell.listen()
        supervision = self._supervision(ServiceManager.named_in(os.environ), farewell)
        # The socket first: a second agent ends here, and never comes near the journal.
        await self._socket.start()
        self._runtime.node, first_event = self._replay()
        self._journal.start()
        self._runtime.post(first_event)
        consumer = asyncio.create_task(self._runtime.run(), name="runtime")
        watch = asyncio.create_task(self._watch.run(), name="watch")
        gpus = asyncio.create_task(self._watch_gpus(), name="gpus")
        drain = asyncio.create_task(scheduler.keep(self._drain), name="drain")
        web = asyncio.create_task(self._web.start(), name="web")
        supervised = asyncio.create_task(supervision.run(), name="supervision")
        self._log.info("agent_started", node=self._config.node_name, version=__version__)
        try:
            await farewell.wait()
        finally:
            self._log.info("agent_stopping")
            supervision.leave()
            await _cancel(watch, web, drain, supervised)
            await self._socket.close("the agent stops")
            await self._hooks.close()
            await executors.close()
            await self._drain.close()
            await self._gpus.close()
            await _cancel(consumer, gpus)
            await self._web.close()
            self._journal.close()
            self._log.info("agent_stopped")

    def status(self) -> dict[str, Any]:
        """Return the agent's view as plain data."""
        now = self._clock.monotonic()
        return status(
            self._runtime.node,
            now=now,
            wall=self._clock.wall(),
            agent={
                "version": __version__,
                "node_name": self._config.node_name,
                "mode": self._config.mode,
                "uptime_seconds": now - self._started_at,
                "drain_backend": self._drain.name,
                "journal": self._journal.trouble or "ok",
                "socket_path": self._config.socket.path,
                "state_dir": self._config.state_dir,
                "http_listen": self._config.http.listen,
                "flush_late_seconds": self._config.flush.late_seconds,
            },
            advice=self._advice,
            reserve_seconds=self._config.flush.reserve_seconds,
            drain=self._drain.status(),
            gpus=self._gpus,
        )

    def healthy(self) -> tuple[bool, str]:
        """Whether events are being handled."""
        stuck_seconds = self._runtime.stuck_seconds
        if stuck_seconds > STUCK_SECONDS:
            return False, f"no event handled for {stuck_seconds:.0f} s while some wait"
        return True, ""

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Whether the socket listens, the provider is settled and each source has answered."""
        node = self._runtime.node
        waits: dict[str, str] = {}
        if not self._socket.listening:
            waits["socket"] = "not listening"
        if not node.provider_detail:
            waits["provider"] = "still looking"
        for name in node.providers:
            health = node.sources.get(name)
            if health is None or health.last_success is None:
                trouble = "not asked yet" if health is None else health.result
                waits[name] = f"has not answered: {trouble}"
        return not waits, waits

    async def _watch_gpus(self) -> None:
        """Watch the GPUs, whatever comes of it: a fault of ours there must never end the agent."""
        while True:
            try:
                await self._gpus.run(self._runtime.node)
            except Exception:  # noqa: BLE001 - see above
                self._log.exception("gpu_watch_restarted")
                await asyncio.sleep(GPU_RESTART_SECONDS)
            else:
                return

    def _supervision(self, manager: ServiceManager, farewell: Farewell) -> Supervision:
        return Supervision(
            manager,
            post=self._runtime.post,
            handled_at=lambda: self._runtime.handled_at,
            node=lambda: self._runtime.node,
            waits=lambda: self.ready()[1],
            stays_until=lambda: farewell.leaving_at,
        )

    def _advice(self, node: Node, job: str) -> JobAdvice:
        return self._machine.advice(node, job, self._clock.monotonic())

    def _replay(self) -> tuple[Node, Event]:
        """Return the node as the journal has it, and the event that the agent starts with."""
        replay = self._journal.replay()
        node = Node()
        for at, event in replay.events:
            node, _ = self._machine.handle(node, event, at)
        if replay.events and not replay.same_boot:
            return node, Rebooted()
        return node, Started()

    def _warn(self, name: str, detail: str) -> None:
        self._log.warning(name, detail=detail)


async def serve(loaded: Loaded) -> None:
    """Be the agent until SIGTERM or SIGINT.

    Raises:
        SchedulerError: the configured scheduler cannot be used; the text is one clear line.
        SocketError: the socket cannot be had; the text is one clear line.
    """
    await Daemon(loaded).run()


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
