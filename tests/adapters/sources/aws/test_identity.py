"""What the source for EC2 learns of its instance, and that nothing waits for it."""

from __future__ import annotations

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.sources.aws_documents import INSTANCE_ACTION
from support.aws_source import DOCUMENT, META, sighted, source_of
from support.watched_source import watching

IDENTITY = {
    "instance_id": "i-0rehearsal00000000",
    "instance_type": "p5.48xlarge",
    "region": "xx-rehearsal-1",
    "zone": "xx-rehearsal-1a",
    "lifecycle": "spot",
}


@pytest.mark.usefixtures("watched")
async def test_the_instance_is_known_and_not_asked_again(seen, metadata):
    await seen.until(lambda: seen.identity == IDENTITY)
    await seen.polled(INSTANCE_ACTION, 5)

    assert metadata.log.count(path=DOCUMENT) == 1
    assert metadata.log.count(path=META + "instance-life-cycle") == 1


async def test_without_a_document_each_value_is_asked_for(url, seen, metadata):
    metadata.override(DOCUMENT, b"", 404)
    async with watching(source_of(url, seen)):
        await seen.until(lambda: seen.identity == IDENTITY)


@pytest.mark.parametrize("body", ["", "<html/>", "{", '{"instanceId": ""}', "[]"])
async def test_an_identity_that_is_empty_stays_unknown_and_is_asked_for_again(
    url, seen, metadata, body
):
    for path in (DOCUMENT, *[META + name for name in AwsMetadata().values]):
        metadata.override(path, body)
    async with watching(source_of(url, seen)):
        await seen.polled(INSTANCE_ACTION, 3)
        assert seen.identity == {}
        assert set(seen.results(INSTANCE_ACTION)) == {"ok"}

        metadata.overrides.clear()
        await seen.until(lambda: seen.identity == IDENTITY)


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_an_identity_that_is_not_to_be_had_does_not_keep_from_watching(
    url, seen, metadata, status
):
    for path in (DOCUMENT, META + "instance-", META + "placement/"):
        metadata.faults.add("status", status, path=path)
    metadata.raise_notice("terminate")
    async with watching(source_of(url, seen)):
        await sighted(seen, INSTANCE_ACTION)

    assert seen.identity == {}
    assert set(seen.results(INSTANCE_ACTION)) == {"notice"}
