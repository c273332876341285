"""Finds the provider and keeps its sources running, whatever happens to one of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import structlog

from lastcall.bus.presence import missing
from lastcall.bus.system_bus import SystemBus
from lastcall.config.notices import Notices
from lastcall.core.events import AcknowledgeEnded, ProvidersFound
from lastcall.sources.base import Acknowledging, Clock, Post, Source
from lastcall.sources.build import cloud_source, standing_sources
from lastcall.sources.detect import detect_for_ever
from lastcall.sources.shutdown import ShutdownSource

RESTART_SECONDS = 1.0
"""How soon a source that ended by a fault of ours is started again."""

BUS_SECONDS = 60.0
"""How often it is looked whether there is a system bus by now."""


class Watch:
    """The sources of this node.

    Args:
        notices: how they are configured.
        bus: the system bus, by which the machine's own shutdown is heard.
        post: takes their events.
        clock: the node's clocks.
    """

    def __init__(self, notices: Notices, bus: SystemBus, post: Post, clock: Clock) -> None:
        self._notices = notices
        self._bus = bus
        self._post = post
        self._clock = clock
        self._running: dict[str, Source] = {}
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Watch the providers that are configured or found, and all else that is configured."""
        async with asyncio.TaskGroup() as tasks:
            for source in standing_sources(self._notices, self._post, self._clock):
                self._start(tasks, source)
            if self._notices.shutdown.enabled:
                tasks.create_task(self._watch_shutdown(tasks), name="shutdown")
            for name in await self._providers():
                self._start(tasks, cloud_source(name, self._notices, self._post, self._clock))

    async def acknowledge(self, notice_id: str, name: str, key: str) -> None:
        """Tell a provider that we are done with an event of its."""
        source = self._running.get(name)
        accepted, detail = False, f"{name} takes no acknowledgement"
        if source is not None and isinstance(source, Acknowledging):
            accepted, detail = await source.acknowledge(key)
        self._post(AcknowledgeEnded(notice_id, accepted, detail))

    def _start(self, tasks: asyncio.TaskGroup, source: Source) -> None:
        self._running[source.name] = source
        tasks.create_task(self._keep(source), name=f"source-{source.name}")

    async def _watch_shutdown(self, tasks: asyncio.TaskGroup) -> None:
        """Listen for the machine's own shutdown, once there is a bus to hear of it by.

        That there is none is how a container is made, and no trouble of a source.
        """
        said = ""
        while why := missing(os.environ):
            if why != said:
                self._log.info("shutdown_not_watched", detail=why)
            said = why
            await asyncio.sleep(BUS_SECONDS)
        self._start(tasks, ShutdownSource(self._bus, self._post, self._clock))

    async def _providers(self) -> tuple[str, ...]:
        providers: tuple[str, ...] = self._notices.provider
        if "auto" in providers:
            return await self._find()
        self._post(ProvidersFound(providers, "configured" if providers else "configured: none"))
        return providers

    async def _find(self) -> tuple[str, ...]:
        endpoints: Mapping[str, str] = {
            "aws": self._notices.aws.endpoint,
            "gcp": self._notices.gcp.endpoint,
            "azure": self._notices.azure.endpoint,
        }
        return await detect_for_ever(endpoints, post=self._post, clock=self._clock)

    async def _keep(self, source: Source) -> None:
        while True:
            try:
                await source.run()
            except Exception:  # noqa: BLE001 — a source's fault must never end the others
                self._log.exception("source_restarted", source=source.name)
            await asyncio.sleep(RESTART_SECONDS)
