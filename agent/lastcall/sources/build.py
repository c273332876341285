"""Makes the sources from their settings: those of the clouds, and those that a site sets itself."""

from __future__ import annotations

from datetime import datetime

from lastcall.config.notices import Notices
from lastcall.core.model import Kind
from lastcall.sources.aws import AwsSource
from lastcall.sources.azure import AzureSource
from lastcall.sources.base import Clock, Post, Source
from lastcall.sources.file import FileSource
from lastcall.sources.gcp import GcpSource
from lastcall.sources.schedule import ScheduleSource
from lastcall.sources.url import UrlSource
from lastcall.sources.url_presets import address_of


def cloud_source(name: str, notices: Notices, post: Post, clock: Clock) -> Source:
    """Return the source of a cloud.

    Args:
        name: ``aws``, ``gcp`` or ``azure``.
        notices: how the sources are configured.
        post: takes the source's events.
        clock: the node's clocks.
    """
    aws, gcp, azure = notices.aws, notices.gcp, notices.azure
    if name == "aws":
        return AwsSource(
            endpoint=aws.endpoint,
            poll_seconds=aws.poll_seconds,
            lifecycle_poll_seconds=aws.lifecycle_poll_seconds,
            rebalance_poll_seconds=aws.rebalance_poll_seconds,
            maintenance_poll_seconds=aws.maintenance_poll_seconds,
            token_ttl_seconds=aws.token_ttl_seconds,
            imds_v1=aws.imds_v1,
            post=post,
            clock=clock,
        )
    if name == "gcp":
        return GcpSource(
            endpoint=gcp.endpoint,
            wait_seconds=gcp.wait_seconds,
            maintenance_poll_seconds=gcp.maintenance_poll_seconds,
            post=post,
            clock=clock,
        )
    return AzureSource(
        endpoint=azure.endpoint,
        poll_seconds=azure.poll_seconds,
        api_version=azure.api_version,
        resource_name=azure.resource_name,
        post=post,
        clock=clock,
    )


def standing_sources(notices: Notices, post: Post, clock: Clock) -> tuple[Source, ...]:
    """Return the sources that run beside the clouds', whatever cloud there is.

    Args:
        notices: how the sources are configured; one without its path, address or time is left out.
        post: takes the sources' events.
        clock: the node's clocks.
    """
    file, url, schedule = notices.file, notices.url, notices.schedule
    sources: list[Source] = []
    if file.path:
        sources.append(
            FileSource(
                path=file.path,
                kind=Kind(file.kind),
                poll_seconds=file.poll_seconds,
                post=post,
                clock=clock,
            )
        )
    if url.url:
        sources.append(
            UrlSource(
                address=address_of(url.url),
                kind=Kind(url.kind),
                poll_seconds=url.poll_seconds,
                post=post,
                clock=clock,
            )
        )
    if schedule.ends_at:
        sources.append(
            ScheduleSource(
                ends_at=datetime.fromisoformat(schedule.ends_at),
                lead_seconds=schedule.lead_seconds,
                post=post,
                clock=clock,
            )
        )
    return tuple(sources)
