"""A simulated metadata service of EC2, and a source that watches it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.server import serve
from lastcall.sources import imds
from lastcall.sources.aws import AwsSource
from support.aws_source import source_of
from support.watched_source import Recorder, watching


@pytest.fixture
def metadata() -> AwsMetadata:
    return AwsMetadata()


@pytest.fixture
async def url(metadata: AwsMetadata) -> AsyncIterator[str]:
    async with serve(metadata) as url:
        yield url


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
async def watched(url: str, seen: Recorder) -> AsyncIterator[AwsSource]:
    source = source_of(url, seen)
    async with watching(source):
        yield source


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imds, "ANSWER_SECONDS", 0.2)
