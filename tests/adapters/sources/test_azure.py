"""Azure's source against the simulated metadata service, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from lastcall.core.model import Action, Kind
from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.server import serve
from lastcall.sources.azure import AzureSource
from lastcall.sources.base import SystemClock
from support.watched_source import Recorder, watching

EVENTS_PATH = "/metadata/scheduledevents"
COMPUTE_PATH = "/metadata/instance/compute"


@pytest.fixture
def metadata() -> AzureMetadata:
    service = AzureMetadata()
    service.vm_name = "p_3"
    return service


@pytest.fixture
async def url(metadata: AzureMetadata) -> AsyncIterator[str]:
    async with serve(metadata) as base:
        yield base


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


def source_for(url: str, seen: Recorder, api_version: str = "2020-07-01") -> AzureSource:
    return AzureSource(
        endpoint=url,
        poll_seconds=0.02,
        api_version=api_version,
        resource_name="",
        post=seen,
        clock=SystemClock(),
    )


@pytest.fixture
def source(url: str, seen: Recorder) -> AzureSource:
    return source_for(url, seen)


def types(seen: Recorder) -> list[str]:
    return [sighting.code for sighting in seen.standing("events")]


@pytest.mark.parametrize(
    ("event", "meaning"),
    [
        ("Preempt", (Kind.PREEMPTION, Action.TERMINATE)),
        ("Terminate", (Kind.TERMINATION, Action.TERMINATE)),
        ("Reboot", (Kind.MAINTENANCE, Action.REBOOT)),
        ("Redeploy", (Kind.MAINTENANCE, Action.REDEPLOY)),
        ("Freeze", (Kind.MAINTENANCE, Action.FREEZE)),
        ("SomethingNew", (Kind.MAINTENANCE, Action.NONE)),
    ],
)
async def test_an_event_is_a_notice_until_it_is_gone(
    metadata: AzureMetadata,
    source: AzureSource,
    seen: Recorder,
    event: str,
    meaning: tuple[Kind, Action],
) -> None:
    async with watching(source):
        await seen.polled("events", 1)
        added = metadata.add_event(event, 600.0)
        await seen.until(lambda: types(seen))
        (sighting,) = seen.standing("events")
        metadata.remove_event(added)
        await seen.until(lambda: not types(seen))

    assert sighting.key == added.event_id
    assert (sighting.kind, sighting.action) == meaning
    assert sighting.deadline_unix == added.not_before
    assert sighting.deadline is not None
    remaining_seconds = sighting.deadline - asyncio.get_running_loop().time()
    assert remaining_seconds == pytest.approx(600.0, abs=5.0)
    assert seen.reports("events")[-1].absences_to_withdraw == 1


@pytest.mark.parametrize(
    ("resources", "ours"),
    [
        (["p_3"], True),
        (["P_3"], True),
        (["p_4"], False),
        (["p000003"], False),
        (["p_1", "p_2", "p_3", "q_1", "q_2"], True),
    ],
)
async def test_an_event_is_ours_by_the_name_the_service_gives_this_machine(
    metadata: AzureMetadata,
    source: AzureSource,
    seen: Recorder,
    resources: list[str],
    ours: bool,
) -> None:
    metadata.add_event("Preempt", 30.0, resources=resources)
    async with watching(source):
        await seen.until(lambda: seen.reports("events"))
        await seen.polled("events", 2)

    assert bool(types(seen)) is ours
    assert sum(poll.foreign for poll in seen.polls("events")) == (0 if ours else 1)


async def test_all_events_of_a_document_come_at_once_the_preemption_first(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.add_event("Freeze", 900.0)
    metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: types(seen))

    assert types(seen) == ["Preempt", "Freeze"]


async def test_failed_hardware_is_a_notice_without_a_lead(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    metadata.raise_notice("hardware-failure")
    async with watching(source):
        await seen.until(lambda: types(seen))

    (sighting,) = seen.standing("events")
    assert (sighting.code, sighting.action) == ("Reboot", Action.REBOOT)
    assert sighting.deadline is not None
    assert began_at <= sighting.deadline <= loop.time()
    assert seen.results("events")[-1] == "notice"


async def test_the_mock_servers_way_to_write_times_is_read(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.iso_times = True
    added = metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: types(seen))

    assert seen.standing("events")[0].deadline_unix == added.not_before


async def test_a_document_of_an_old_version_is_enough(
    metadata: AzureMetadata, url: str, seen: Recorder
) -> None:
    metadata.add_event("Preempt", 30.0)
    async with watching(source_for(url, seen, "2017-11-01")):
        await seen.until(lambda: types(seen) == ["Preempt"])


async def test_a_version_that_the_service_lacks_is_trouble(url: str, seen: Recorder) -> None:
    async with watching(source_for(url, seen, "1999-01-01")):
        await seen.polled("events", 1)

    assert seen.results("events") == ["error"]
    assert "400" in seen.polls("events")[0].detail


async def test_a_slow_first_answer_is_waited_for(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.faults.add("slow-first", 0.3)
    metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: seen.identity)
        assert seen.polls("events") == []
        await seen.until(lambda: types(seen))

    assert set(seen.results("events")) == {"notice"}


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ("status:410", "error"),
        ("status:404", "error"),
        ("status:500", "error"),
        ("throttle:0", "throttled"),
        ("redirect-loop", "malformed"),
        ("garbled", "malformed"),
        ("empty", "ok"),
        ("huge", "malformed"),
        ("cut", "malformed"),
        ("truncated", "malformed"),
        ("reset", "error"),
    ],
)
async def test_no_fault_takes_an_event_back(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder, fault: str, result: str
) -> None:
    metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: types(seen))
        metadata.faults.add_text(fault)
        await seen.until(lambda: result in seen.results("events"))
        assert types(seen) == ["Preempt"]

        metadata.faults.clear()
        metadata.withdraw()
        await seen.until(lambda: not types(seen))


async def test_one_reset_leaves_nothing_stuck(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    async with watching(source):
        await seen.polled("events", 1)
        metadata.faults.add("reset", requests=2, path=EVENTS_PATH)
        metadata.add_event("Preempt", 30.0)
        await seen.until(lambda: types(seen), 1)


async def test_an_error_with_a_body_like_a_document_is_not_believed(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.override(EVENTS_PATH, json.dumps({"DocumentIncarnation": 1, "Events": []}), 429)
    async with watching(source):
        await seen.polled("events", 2)

    assert seen.reports("events") == []
    assert set(seen.results("events")) == {"throttled"}


async def test_a_machine_without_a_name_acts_on_nobodys_event(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.faults.add("status", 500.0, path=COMPUTE_PATH)
    metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: "error" in seen.results("events"))
        assert seen.reports("events") == []
        metadata.faults.clear()
        await seen.until(lambda: types(seen))


async def test_the_machine_is_told_in_the_words_of_every_provider(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    async with watching(source):
        await seen.until(lambda: seen.identity)

    assert seen.identity == {
        "instance_name": "p_3",
        "instance_id": "00000000-0000-4000-8000-000000000003",
        "instance_type": "Standard_ND96isr_H100_v5",
        "scale_set": "p",
        "region": "rehearsal",
        "lifecycle": "spot",
    }


async def test_an_event_of_ours_alone_is_approved_once(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    metadata.start_on_acknowledge = False
    event = metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: types(seen))
        first = await source.acknowledge(event.event_id)
        second = await source.acknowledge(event.event_id)

    assert first == (True, "")
    assert second[0]
    assert metadata.acknowledged == [event.event_id]


async def test_an_event_that_befalls_others_is_never_approved(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    event = metadata.add_event("Preempt", 30.0, resources=["p_3", "p_4"])
    async with watching(source):
        await seen.until(lambda: types(seen))
        assert not seen.standing("events")[0].acknowledgeable
        accepted, why = await source.acknowledge(event.event_id)

    assert not accepted
    assert "2 machines" in why
    assert metadata.log.count(method="POST") == 0


async def test_a_refused_approval_says_why_and_is_not_repeated(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    event = metadata.add_event("Preempt", 30.0)
    async with watching(source):
        await seen.until(lambda: types(seen))
        metadata.remove_event(event)
        accepted, why = await source.acknowledge(event.event_id)
        await seen.polled("events", 2)

    assert not accepted
    assert "400" in why
    assert "StartRequests" in why
    assert metadata.log.count(method="POST", status=400) == 1


async def test_every_request_has_the_header_and_none_a_proxys(
    metadata: AzureMetadata, source: AzureSource, seen: Recorder
) -> None:
    async with watching(source):
        await seen.polled("events", 2)
        await seen.until(lambda: seen.identity)

    for request in metadata.log.recent:
        assert request.header("Metadata") == ["true"]
        assert request.header("X-Forwarded-For") == []
