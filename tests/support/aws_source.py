"""Runs the source for EC2 in a test, as fast as a test wants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lastcall.sources.aws import AwsSource
from lastcall.sources.aws_documents import INSTANCE_ACTION, REBALANCE, SCHEDULED, TARGET_STATE
from lastcall.sources.base import SystemClock
from support.watched_source import Recorder, watching

POLL_SECONDS = 0.02
PERIODS = {
    INSTANCE_ACTION: "poll_seconds",
    TARGET_STATE: "lifecycle_poll_seconds",
    REBALANCE: "rebalance_poll_seconds",
    SCHEDULED: "maintenance_poll_seconds",
}
SCOPES = tuple(PERIODS)
DOCUMENT = "/latest/dynamic/instance-identity/document"
META = "/latest/meta-data/"


def source_of(url: str, seen: Recorder, **periods: float) -> AwsSource:
    """Return a source that looks at all paths fast, or with the periods that are named."""
    return AwsSource(
        endpoint=url,
        **(dict.fromkeys(PERIODS.values(), POLL_SECONDS) | periods),
        token_ttl_seconds=21_600,
        imds_v1=False,
        post=seen,
        clock=SystemClock(),
    )


@asynccontextmanager
async def watched_alone(url: str, seen: Recorder, scope: str) -> AsyncIterator[AwsSource]:
    """Watch one scope fast and the others hardly at all."""
    others = {name: 3600.0 for other, name in PERIODS.items() if other != scope}
    source = source_of(url, seen, **others)
    async with watching(source):
        yield source


async def sighted(seen: Recorder, scope: str) -> None:
    """Wait until something stands in a scope."""
    await seen.until(lambda: seen.standing(scope))


async def cleared(seen: Recorder, scope: str) -> None:
    """Wait until a scope is reported to hold nothing."""
    await seen.until(lambda: seen.reports(scope) and not seen.standing(scope))
