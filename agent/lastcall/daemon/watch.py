"""Finds the provider and keeps its sources running, whatever happens to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from lastcall.config.notices import Notices
from lastcall.core.events import AcknowledgeEnded, ProvidersFound
from lastcall.sources.aws import AwsSource
from lastcall.sources.azure import AzureSource
from lastcall.sources.base import Acknowledging, Clock, Post, Source
from lastcall.sources.detect import detect_for_ever
from lastcall.sources.gcp import GcpSource

RESTART_SECONDS = 1.0
"""How soon a source that ended by a fault of ours is started again."""


class Watch:
    """The sources of this node."""

    def __init__(self, notices: Notices, post: Post, clock: Clock) -> None:
        self._notices = notices
        self._post = post
        self._clock = clock
        self._running: dict[str, AwsSource | GcpSource | AzureSource] = {}
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Watch the providers that are configured or found, until cancelled."""
        providers: tuple[str, ...] = self._notices.provider
        if "auto" in providers:
            providers = await self._find()
        elif providers:
            self._post(ProvidersFound(providers, "configured"))
        else:
            self._post(ProvidersFound((), "configured: none"))
        async with asyncio.TaskGroup() as tasks:
            for name in providers:
                source = self._running[name] = self._build(name)
                tasks.create_task(self._keep(source), name=f"source-{name}")

    async def acknowledge(self, notice_id: str, name: str, key: str) -> None:
        """Tell a provider that we are done with an event of its."""
        source = self._running.get(name)
        accepted, detail = False, f"{name} takes no acknowledgement"
        if isinstance(source, Acknowledging):
            accepted, detail = await source.acknowledge(key)
        self._post(AcknowledgeEnded(notice_id, accepted, detail))

    async def _find(self) -> tuple[str, ...]:
        endpoints: Mapping[str, str] = {
            "aws": self._notices.aws.endpoint,
            "gcp": self._notices.gcp.endpoint,
            "azure": self._notices.azure.endpoint,
        }
        return await detect_for_ever(endpoints, post=self._post, clock=self._clock)

    def _build(self, name: str) -> AwsSource | GcpSource | AzureSource:
        aws, gcp, azure = self._notices.aws, self._notices.gcp, self._notices.azure
        if name == "aws":
            return AwsSource(
                endpoint=aws.endpoint,
                poll_seconds=aws.poll_seconds,
                lifecycle_poll_seconds=aws.lifecycle_poll_seconds,
                rebalance_poll_seconds=aws.rebalance_poll_seconds,
                maintenance_poll_seconds=aws.maintenance_poll_seconds,
                token_ttl_seconds=aws.token_ttl_seconds,
                imds_v1=aws.imds_v1,
                post=self._post,
                clock=self._clock,
            )
        if name == "gcp":
            return GcpSource(
                endpoint=gcp.endpoint,
                wait_seconds=gcp.wait_seconds,
                maintenance_poll_seconds=gcp.maintenance_poll_seconds,
                post=self._post,
                clock=self._clock,
            )
        return AzureSource(
            endpoint=azure.endpoint,
            poll_seconds=azure.poll_seconds,
            api_version=azure.api_version,
            resource_name=azure.resource_name,
            post=self._post,
            clock=self._clock,
        )

    async def _keep(self, source: Source) -> None:
        while True:
            try:
                await source.run()
            except Exception:  # noqa: BLE001 — a source's fault must never end the others
                self._log.exception("source_restarted", source=source.name)
            await asyncio.sleep(RESTART_SECONDS)
