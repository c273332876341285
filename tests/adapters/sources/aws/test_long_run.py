"""The source for EC2 over hours, and over many looks."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from itertools import pairwise

import pytest

from lastcall.core.events import Event
from lastcall.sources import aws
from lastcall.sources.aws import AwsSource
from lastcall.sources.aws_documents import INSTANCE_ACTION
from lastcall.sources.http import Answer
from lastcall.sources.imds import TOKEN_PATH
from support.aws_source import DOCUMENT, META, PERIODS, source_of
from support.raw_http import http_answer, raw_server
from support.watched_source import WALL_AT_START, Asked, LoopClock, Recorder, StandIn, watching

DEFAULT_PERIODS = (1.0, 2.0, 10.0, 60.0)
FAST = dict.fromkeys(PERIODS.values(), 0.001)

# --- long spans, in loop time ----------------------------------------------------------------


class Scripted:
    """The service by the clock: turned off until a moment, with a notice from another one on."""

    def __init__(self, refused_until: float = 0.0, notice_from: float = math.inf) -> None:
        self.refused_until = refused_until
        self.notice_from = notice_from

    async def __call__(self, asked: Asked) -> Answer:
        headers = {"Date": formatdate(WALL_AT_START + asked.at, usegmt=True)}
        status, body = 404, b""
        if asked.at < self.refused_until:
            status = 403
        elif asked.method == "PUT":
            status, body = 200, b"token"
        elif asked.path.endswith(INSTANCE_ACTION) and asked.at >= self.notice_from:
            ends = datetime.fromtimestamp(WALL_AT_START + self.notice_from + 120, UTC)
            status, body = 200, json.dumps({"action": "stop", "time": ends.isoformat()}).encode()
        return Answer(status, headers, body, asked.at, f"{asked.method} {asked.path}")


@asynccontextmanager
async def watched_in_loop_time(
    monkeypatch: pytest.MonkeyPatch, seen: Recorder, service: Scripted
) -> AsyncIterator[StandIn]:
    stand_in = StandIn(service)
    monkeypatch.setattr(aws, "MetadataClient", lambda *_: stand_in)
    source = AwsSource(
        endpoint="http://unused",
        **dict(zip(PERIODS.values(), DEFAULT_PERIODS, strict=True)),
        token_ttl_seconds=21_600,
        imds_v1=False,
        post=seen,
        clock=LoopClock(),
    )
    async with watching(source):
        yield stand_in


@pytest.mark.looptime
async def test_an_hour_of_nothing_is_an_hour_of_health_at_the_configured_pace(monkeypatch, seen):
    async with watched_in_loop_time(monkeypatch, seen, Scripted()) as service:
        await asyncio.sleep(3600.0)

    for scope, period_seconds in zip(PERIODS, DEFAULT_PERIODS, strict=True):
        asked = [one.at for one in service.of(META + scope)]
        assert set(seen.results(scope)) == {"ok"}
        assert len(asked) == pytest.approx(3600 / period_seconds / 0.95, rel=0.05)
        assert max(later - one for one, later in pairwise(asked)) <= period_seconds + 0.01
    assert len(service.of(DOCUMENT)) < 100


@pytest.mark.looptime
async def test_after_five_minutes_turned_off_the_notice_is_told_within_seconds(monkeypatch, seen):
    off = Scripted(refused_until=300.0, notice_from=240.0)
    async with watched_in_loop_time(monkeypatch, seen, off) as service:
        await asyncio.sleep(300.0)
        refused = service.of(TOKEN_PATH)
        assert set(seen.results(INSTANCE_ACTION)) == {"unauthorized"}

        await asyncio.sleep(5.01)

    assert seen.results(INSTANCE_ACTION)[-1] == "notice"
    assert 100 < len(refused) < 400


# --- cost ------------------------------------------------------------------------------------


class Forgetful(Recorder):
    """Counts the events, and keeps none."""

    count = 0

    def __call__(self, event: Event) -> None:
        self.count += 1
        super().__call__(event)
        self.events.clear()


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Give the bytes in use now."""

    def in_use() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    yield in_use
    tracemalloc.stop()


async def test_idle_looks_keep_neither_memory_nor_descriptors(traced):
    # No simulator here: it keeps a log of its own.
    def respond(head: str) -> bytes:
        return http_answer(b"token") if head.startswith("PUT") else http_answer(b"", "404 No")

    seen = Forgetful()
    async with raw_server(respond) as server, watching(source_of(server.url, seen, **FAST)):
        await seen.until(lambda: seen.count > 300)
        server.heads.clear()
        bytes_before, descriptors_before = traced(), len(os.listdir("/proc/self/fd"))

        await seen.until(lambda: seen.count > 1300)

        server.heads.clear()
        assert traced() - bytes_before < 50_000
        assert len(os.listdir("/proc/self/fd")) <= descriptors_before + 8
