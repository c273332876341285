"""Google's source against the simulated metadata server, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lastcall.core.model import Action, Kind
from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.base import Reply
from lastcall.simulate.gcp import UPCOMING_IDLE, GcpMetadata
from lastcall.simulate.server import serve
from lastcall.sources.base import SystemClock
from lastcall.sources.gcp import GcpSource
from support.watched_source import Recorder, until, watching

ROOT = "/computeMetadata/v1/"
PREEMPTED = "instance/preempted"
MAINTENANCE_EVENT = "instance/maintenance-event"
UPCOMING = "instance/upcoming-maintenance"


@pytest.fixture
def metadata() -> GcpMetadata:
    return GcpMetadata()


@pytest.fixture
async def url(metadata: GcpMetadata) -> AsyncIterator[str]:
    async with serve(metadata) as base:
        yield base


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


def source_for(url: str, seen: Recorder) -> GcpSource:
    return GcpSource(
        endpoint=url,
        wait_seconds=60.0,
        maintenance_poll_seconds=0.02,
        post=seen,
        clock=SystemClock(),
    )


@pytest.fixture
def source(url: str, seen: Recorder) -> GcpSource:
    return source_for(url, seen)


async def test_a_preemption_wakes_the_open_question(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    async with watching(source):
        await until(lambda: metadata.waiting == 2)
        metadata.raise_notice("preemption")
        await seen.until(lambda: seen.standing(PREEMPTED), 1)

    (sighting,) = seen.standing(PREEMPTED)
    assert (sighting.kind, sighting.action) == (Kind.PREEMPTION, Action.STOP)
    assert seen.results(PREEMPTED)[-1] == "notice"
    assert seen.polls(PREEMPTED)[-1].skew_seconds == pytest.approx(0.0, abs=1.0)


async def test_another_key_takes_no_preemption_back(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    async with watching(source):
        metadata.raise_notice("preemption")
        await seen.until(lambda: seen.standing(PREEMPTED))
        metadata.raise_notice("maintenance")
        await seen.until(lambda: seen.standing(MAINTENANCE_EVENT))
        metadata.set(MAINTENANCE_EVENT, "NONE")
        await seen.until(lambda: not seen.standing(MAINTENANCE_EVENT))

    assert seen.standing(PREEMPTED)


async def test_maintenance_comes_changes_and_goes(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    def actions() -> list[Action]:
        return [sighting.action for sighting in seen.standing(MAINTENANCE_EVENT)]

    async with watching(source):
        metadata.raise_notice("migrate")
        await seen.until(lambda: actions() == [Action.MIGRATE])
        metadata.raise_notice("maintenance")
        await seen.until(lambda: actions() == [Action.TERMINATE], 10)
        metadata.withdraw()
        await seen.until(lambda: actions() == [], 10)


@pytest.mark.parametrize("idle", UPCOMING_IDLE)
async def test_no_upcoming_maintenance_in_any_form_is_no_trouble(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder, idle: str
) -> None:
    metadata.upcoming_idle = idle
    async with watching(source):
        await seen.polled(UPCOMING, 2)

    assert set(seen.results(UPCOMING)) == {"ok"}
    assert seen.standing(UPCOMING) == ()


@pytest.mark.parametrize("form", ["snake", "camel", "wrapped"])
async def test_upcoming_maintenance_in_any_form_is_a_notice_until_it_is_gone(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder, form: str
) -> None:
    metadata.upcoming_form, metadata.upcoming_idle = form, "none"
    async with watching(source):
        raised = metadata.raise_notice("upcoming", 3600.0)
        await seen.until(lambda: seen.standing(UPCOMING))
        (sighting,) = seen.standing(UPCOMING)
        metadata.withdraw()
        await seen.until(lambda: not seen.standing(UPCOMING))

    assert raised.deadline_unix is not None
    assert sighting.deadline_unix == pytest.approx(raised.deadline_unix, abs=1.0)
    assert sighting.deadline is not None
    until_start = sighting.deadline - asyncio.get_running_loop().time()
    assert until_start == pytest.approx(3600.0, abs=5.0)


@pytest.mark.parametrize(
    "fault", ["status:503", "status:404", "garbled", "empty", "reset", "truncated"]
)
async def test_a_window_outlives_every_answer_but_a_readable_one(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder, fault: str
) -> None:
    metadata.raise_notice("upcoming", 3600.0)
    async with watching(source):
        await seen.until(lambda: seen.standing(UPCOMING))
        metadata.faults.add_text(fault)
        await seen.until(lambda: seen.results(UPCOMING)[-1] != "notice")

    assert seen.standing(UPCOMING)


async def test_a_hidden_preemption_is_trouble_and_never_an_answer(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    metadata.faults.add("gke-proxy")
    async with watching(source):
        await seen.until(lambda: seen.polls(PREEMPTED) and seen.polls(MAINTENANCE_EVENT))
        await seen.until(lambda: seen.results("identity") == ["ok"])

    assert seen.results(PREEMPTED) == ["unauthorized"]
    assert seen.results(MAINTENANCE_EVENT) == ["unauthorized"]
    assert "hostNetwork" in seen.polls(PREEMPTED)[0].detail
    assert seen.reports(PREEMPTED) == []
    assert seen.identity["instance_name"] == "rehearsal-1"
    assert "lifecycle" not in seen.identity


@pytest.mark.parametrize("fault", ["no-etag", "no-wait"])
async def test_a_server_that_cannot_wait_is_polled(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder, fault: str
) -> None:
    metadata.faults.add(fault)
    async with watching(source):
        await seen.until(lambda: seen.polls(PREEMPTED))
        await asyncio.sleep(0.2)
        assert len(seen.polls(PREEMPTED)) <= 2
        metadata.raise_notice("preemption")
        await seen.until(lambda: seen.standing(PREEMPTED), 2)


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ("status:503", "error"),
        ("status:403", "unauthorized"),
        ("throttle:0", "throttled"),
        ("redirect", "malformed"),
        ("garbled", "malformed"),
        ("empty", "malformed"),
        ("huge", "malformed"),
        ("cut", "malformed"),
        ("truncated", "malformed"),
        ("reset", "error"),
    ],
)
async def test_every_fault_is_trouble_of_its_kind_and_passes(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder, fault: str, result: str
) -> None:
    metadata.faults.add_text(fault)
    async with watching(source):
        await seen.until(lambda: seen.polls(PREEMPTED))
        metadata.faults.clear()
        metadata.raise_notice("preemption")
        await seen.until(lambda: seen.standing(PREEMPTED))

    assert seen.results(PREEMPTED)[0] == result
    assert seen.results(PREEMPTED)[-1] == "notice"


async def test_an_open_question_that_is_cut_off_is_asked_again(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    async with watching(source):
        await until(lambda: metadata.waiting == 2)
        metadata.faults.add("down", 0.3)
        await seen.until(lambda: "error" in seen.results(PREEMPTED))
        metadata.raise_notice("preemption")
        await seen.until(lambda: seen.standing(PREEMPTED))


async def test_another_clouds_answer_is_not_believed(seen: Recorder) -> None:
    other = AwsMetadata()
    async with serve(other) as url, watching(source_for(url, seen)):
        for key in (PREEMPTED, MAINTENANCE_EVENT):
            other.override(ROOT + key, "TRUE")
        await seen.until(lambda: seen.polls(PREEMPTED))

    assert "ok" not in seen.results(PREEMPTED)
    assert seen.reports(PREEMPTED) == []


async def test_an_answer_without_googles_mark_is_not_believed(seen: Recorder) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nTRUE")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with watching(source_for(f"http://127.0.0.1:{port}", seen)):
            await seen.until(lambda: seen.polls(PREEMPTED))

    assert seen.results(PREEMPTED)[0] == "malformed"
    assert "Metadata-Flavor" in seen.polls(PREEMPTED)[0].detail
    assert seen.reports(PREEMPTED) == []


async def test_the_machine_is_told_by_its_host_name_where_it_has_no_other(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    metadata.overrides[f"{ROOT}instance/name"] = Reply(404)
    metadata.set("instance/hostname", "n-1.c.p.internal")
    async with watching(source):
        await seen.until(lambda: seen.results("identity") == ["ok"])

    assert seen.identity == {
        "instance_name": "n-1",
        "instance_id": "1000000000000000001",
        "instance_type": "a3-highgpu-8g",
        "zone": "xx-rehearsal1-a",
        "region": "xx-rehearsal1",
        "lifecycle": "spot",
    }


async def test_no_key_has_more_than_one_open_question(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    async with watching(source):
        await until(lambda: metadata.waiting == 2)
        await seen.until(lambda: seen.results("identity") == ["ok"])
        await seen.polled(UPCOMING, 1)
        assert metadata.waiting == 2

    waited = [one for one in metadata.log.recent if "wait_for_change" in one.query]
    assert all("last_etag=" in one.query for one in waited)
    assert all(one.header("Metadata-Flavor") == ["Google"] for one in metadata.log.recent)


async def test_a_source_that_was_stopped_can_be_started_again(
    metadata: GcpMetadata, source: GcpSource, seen: Recorder
) -> None:
    async with watching(source):
        await seen.until(lambda: seen.polls(PREEMPTED))
    metadata.raise_notice("preemption")
    async with watching(source):
        await seen.until(lambda: seen.standing(PREEMPTED))
