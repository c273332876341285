"""How Azure's metadata service is asked over time: with patience, and never too often."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from lastcall.core.model import Kind
from lastcall.sources.azure import AzureSource
from lastcall.sources.http import Answer, MetadataError
from support.watched_source import WALL_AT_START, Asked, LoopClock, Recorder, StandIn, watching

EVENTS_PATH = "/metadata/scheduledevents"
COMPUTE_PATH = "/metadata/instance/compute"

pytestmark = pytest.mark.looptime


def entry(event_type: str = "Preempt", **changes: Any) -> dict[str, Any]:
    """Return one event of the machine ``p_3``."""
    return {
        "EventId": event_type.lower(),
        "EventStatus": "Scheduled",
        "EventType": event_type,
        "ResourceType": "VirtualMachine",
        "Resources": ["p_3"],
        "NotBefore": "Sun, 17 Mar 2030 17:48:20 GMT",
    } | changes


NOT_BEFORE_SECONDS = 1_900_000_100.0 - WALL_AT_START


def answer(status: int, content: object = None) -> Answer:
    body = b"" if content is None else json.dumps(content).encode()
    return Answer(status, {}, body, 0.0, "GET")


class Stage:
    """A source over a service on loop time, and what it reports.

    ``events`` is the document's content; ``refused`` answers for a path in place of the service;
    ``late`` are the seconds that each answer of a path takes.
    """

    def __init__(self, resource_name: str = "", poll_seconds: float = 1.0) -> None:
        self.events: list[object] = []
        self.compute: dict[str, object] = {"name": "p_3", "vmSize": "Standard_ND96isr_H100_v5"}
        self.refused: dict[str, Answer | MetadataError] = {}
        self.late: dict[str, float] = {}
        self.seen = Recorder()
        self.source = AzureSource(
            endpoint="http://metadata.invalid",
            poll_seconds=poll_seconds,
            api_version="2020-07-01",
            resource_name=resource_name,
            post=self.seen,
            clock=LoopClock(),
        )
        self.client = StandIn(self.respond)
        self.source._client = self.client

    async def respond(self, asked: Asked) -> Answer:
        late_seconds = self.late.get(asked.path, 0.0)
        await asyncio.sleep(min(late_seconds, asked.timeout_seconds))
        if late_seconds > asked.timeout_seconds:
            raise MetadataError("timeout", f"{asked.path}: no answer")
        refusal = self.refused.get(asked.path)
        if isinstance(refusal, MetadataError):
            raise refusal
        if refusal is not None:
            return refusal
        if asked.path == COMPUTE_PATH:
            return answer(200, self.compute)
        return answer(200, {"DocumentIncarnation": 1, "Events": self.events})

    def standing(self) -> list[str]:
        return [sighting.key for sighting in self.seen.standing("events")]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def busiest_second(asked: list[Asked]) -> int:
    """Return the most requests within any one second."""
    times = [one.at for one in asked]
    return max(sum(start <= at < start + 1.0 - 1e-6 for at in times) for start in times)


async def test_an_event_is_seen_within_one_period(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(30)
        stage.events = [entry()]
        await stage.seen.until(stage.standing, 1.1)

    (sighting,) = stage.seen.standing("events")
    assert (sighting.kind, sighting.code) == (Kind.PREEMPTION, "Preempt")
    assert sighting.deadline == pytest.approx(NOT_BEFORE_SECONDS)
    assert sighting.deadline_unix == WALL_AT_START + NOT_BEFORE_SECONDS


async def test_an_event_that_stands_at_the_start_is_seen_at_once(stage: Stage) -> None:
    stage.events = [entry()]

    async with watching(stage.source):
        await stage.seen.until(stage.standing, 0.1)


async def test_the_first_answer_may_take_minutes_while_the_machine_is_learned(
    stage: Stage,
) -> None:
    stage.late[EVENTS_PATH] = 110.0
    async with watching(stage.source):
        await stage.seen.until(lambda: stage.seen.identity, 1)
        await asyncio.sleep(109.5)
        stage.late.clear()
        await stage.seen.until(lambda: stage.seen.polls("events"), 2)
        await asyncio.sleep(3)

    assert set(stage.seen.results("events")) == {"ok"}
    first, *later = stage.client.of(EVENTS_PATH)
    assert first.timeout_seconds >= 130
    assert all(3 <= asked.timeout_seconds <= 5 for asked in later)


async def test_the_long_patience_is_had_once(stage: Stage) -> None:
    stage.late[EVENTS_PATH] = 1000.0
    async with watching(stage.source):
        await asyncio.sleep(300)

    first, *later = stage.client.of(EVENTS_PATH)
    assert first.timeout_seconds >= 130
    assert later
    assert all(asked.timeout_seconds <= 5 for asked in later)
    assert set(stage.seen.results("events")) == {"timeout"}


async def test_a_refused_connection_does_not_use_up_the_long_patience(stage: Stage) -> None:
    stage.refused[EVENTS_PATH] = MetadataError("timeout", "no connection", connected=False)
    async with watching(stage.source):
        await asyncio.sleep(10)
        stage.refused.clear()
        stage.late[EVENTS_PATH] = 110.0
        await stage.seen.until(lambda: "ok" in stage.seen.results("events"), 130)


@pytest.mark.parametrize(
    ("status", "result"), [(404, "error"), (410, "error"), (429, "throttled"), (500, "error")]
)
async def test_a_service_that_comes_back_is_heard_within_five_seconds(
    stage: Stage, status: int, result: str
) -> None:
    async with watching(stage.source):
        await asyncio.sleep(5)
        stage.refused[EVENTS_PATH] = answer(status, {"DocumentIncarnation": 1, "Events": []})
        await asyncio.sleep(40)
        assert stage.seen.results("events")[-1] == result
        del stage.refused[EVENTS_PATH]
        stage.events = [entry()]
        await stage.seen.until(stage.standing, 5)


async def test_an_error_takes_nothing_back(stage: Stage) -> None:
    stage.events = [entry()]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)
        for refusal in (
            answer(500, {"DocumentIncarnation": 2, "Events": []}),
            answer(404),
            answer(200),
            answer(200, {"error": "updating"}),
            answer(200, []),
            MetadataError("error", "reset"),
        ):
            stage.refused[EVENTS_PATH] = refusal
            await stage.seen.polled("events", 1)
            assert stage.standing() == ["preempt"]

        stage.refused.clear()
        stage.events = []
        await stage.seen.until(lambda: not stage.standing(), 10)


async def test_an_empty_body_is_no_trouble_and_says_so(stage: Stage) -> None:
    stage.refused[EVENTS_PATH] = answer(200)
    async with watching(stage.source):
        await stage.seen.polled("events", 2)

    assert set(stage.seen.results("events")) == {"ok"}
    assert "empty body" in stage.seen.polls("events")[-1].detail


@pytest.mark.parametrize("asked_to_wait", [1.0, 4.0, 600.0])
async def test_a_request_to_wait_is_heeded_up_to_five_seconds(
    stage: Stage, asked_to_wait: float
) -> None:
    stage.refused[EVENTS_PATH] = MetadataError("throttled", "status 429", asked_to_wait)
    async with watching(stage.source):
        await asyncio.sleep(30)

    times = [asked.at for asked in stage.client.of(EVENTS_PATH)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(min(asked_to_wait, 5.0) <= gap <= 5.0 for gap in gaps)


@pytest.mark.parametrize(
    "refused",
    [
        {},
        {EVENTS_PATH: answer(429)},
        {COMPUTE_PATH: answer(500)},
        {EVENTS_PATH: answer(410), COMPUTE_PATH: answer(410)},
    ],
)
async def test_no_second_sees_more_than_two_requests(
    stage: Stage, refused: dict[str, Answer]
) -> None:
    stage.refused.update(refused)
    stage.events = [entry(Resources=["p_4"])]
    async with watching(stage.source):
        await asyncio.sleep(60)

    assert busiest_second(stage.client.asked) <= 2


async def test_the_machine_is_asked_about_once(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(60)

    assert len(stage.client.of(COMPUTE_PATH)) == 1
    assert stage.seen.identity["instance_type"] == "Standard_ND96isr_H100_v5"


async def test_an_event_of_an_unknown_owner_is_made_known_and_not_acted_upon(
    stage: Stage,
) -> None:
    stage.refused[COMPUTE_PATH] = answer(500)
    stage.events = [entry()]
    async with watching(stage.source):
        await asyncio.sleep(60)
        assert stage.seen.reports("events") == []
        assert set(stage.seen.results("events")) == {"error"}
        assert "preempt" in stage.seen.polls("events")[-1].detail
        assert stage.seen.results("identity")[-1] == "error"

        stage.refused.clear()
        await stage.seen.until(stage.standing, 10)

    assert stage.seen.results("identity")[-1] == "ok"


async def test_no_events_are_no_events_whoever_the_machine_is(stage: Stage) -> None:
    stage.refused[COMPUTE_PATH] = answer(500)
    async with watching(stage.source):
        await stage.seen.polled("events", 2)

    assert set(stage.seen.results("events")) == {"ok"}


async def test_a_name_that_is_learned_late_is_used_without_another_look(stage: Stage) -> None:
    stage.late[COMPUTE_PATH] = 0.5
    stage.events = [entry()]
    async with watching(stage.source):
        await stage.seen.until(stage.standing, 0.6)


async def test_a_configured_name_needs_no_asking(stage: Stage) -> None:
    stage = Stage(resource_name="Q_7")
    stage.refused[COMPUTE_PATH] = answer(500)
    stage.events = [entry(Resources=["q_7"]), entry("Reboot")]
    async with watching(stage.source):
        await stage.seen.until(stage.standing, 0.1)

    assert stage.standing() == ["preempt"]


async def test_a_neighbours_event_is_counted_once(stage: Stage) -> None:
    stage.events = [entry(Resources=["p_4"])]
    async with watching(stage.source):
        await asyncio.sleep(5)
        stage.events.append(entry("Reboot", Resources=["p_5", "p_6"]))
        await asyncio.sleep(5)

    assert stage.standing() == []
    assert sum(poll.foreign for poll in stage.seen.polls("events")) == 2


async def test_hardware_that_has_failed_is_a_notice_for_this_very_moment(stage: Stage) -> None:
    loop = asyncio.get_running_loop()
    async with watching(stage.source):
        await asyncio.sleep(10)
        stage.events = [entry("Reboot", EventStatus="Started", NotBefore="")]
        await stage.seen.until(stage.standing)

    (sighting,) = stage.seen.standing("events")
    assert sighting.deadline == pytest.approx(loop.time(), abs=0.1)
    assert sighting.deadline_unix is None
    assert not sighting.cancellable
    assert stage.seen.results("events")[-1] == "notice"


async def test_an_event_that_starts_keeps_the_deadline_it_had(stage: Stage) -> None:
    stage.events = [entry()]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)
        assert stage.seen.standing("events")[0].deadline == pytest.approx(NOT_BEFORE_SECONDS)
        stage.events = [entry(EventStatus="Started", NotBefore="")]
        await asyncio.sleep(5)

    # The core keeps the earlier deadline where a later look names none.
    assert {report.sightings[0].deadline for report in stage.seen.reports("events")[-3:]} == {None}


async def test_an_event_that_comes_back_started_is_for_this_very_moment(stage: Stage) -> None:
    loop = asyncio.get_running_loop()
    stage.events = [entry()]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)
        stage.events = []
        await stage.seen.until(lambda: not stage.standing())
        stage.events = [entry(EventStatus="Started", NotBefore="")]
        await stage.seen.until(stage.standing)

    assert stage.seen.standing("events")[0].deadline == pytest.approx(loop.time(), abs=0.1)


async def test_a_freeze_that_has_started_has_no_deadline(stage: Stage) -> None:
    stage.events = [entry("Freeze", EventStatus="Started", NotBefore="")]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)

    assert stage.seen.standing("events")[0].deadline is None


async def test_an_event_at_an_unreadable_time_is_reported_and_counted(stage: Stage) -> None:
    stage.events = [entry(NotBefore="soon")]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)

    assert stage.seen.standing("events")[0].deadline is None
    assert stage.seen.results("events") == ["malformed"]
    assert "soon" in stage.seen.polls("events")[0].detail


async def test_a_broken_entry_takes_no_standing_event_back(stage: Stage) -> None:
    stage.events = [entry(), entry("Freeze")]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)
        stage.events = [entry() | {"Resources": None}, entry("Freeze")]
        await stage.seen.until(lambda: stage.standing() == ["freeze"])
        assert stage.seen.reports("events")[-1].absences_to_withdraw > 1000
        assert stage.seen.results("events")[-1] == "malformed"

        stage.events = []
        await stage.seen.until(lambda: not stage.standing())

    assert stage.seen.reports("events")[-1].absences_to_withdraw == 1


@pytest.mark.parametrize(
    ("event", "acknowledgeable"),
    [
        (entry(), True),
        (entry("Terminate"), True),
        (entry("Redeploy"), True),
        (entry("Freeze"), False),
        (entry("SomethingNew"), False),
        (entry(Resources=["p_3", "p_4"]), False),
    ],
)
async def test_only_an_end_of_this_machine_alone_can_be_acknowledged(
    stage: Stage, event: dict[str, Any], acknowledgeable: bool
) -> None:
    stage.events = [event]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)

    assert stage.seen.standing("events")[0].acknowledgeable is acknowledgeable


async def test_an_approval_that_gets_no_answer_is_not_taken(stage: Stage) -> None:
    stage.events = [entry()]
    async with watching(stage.source):
        await stage.seen.until(stage.standing)
        stage.refused[EVENTS_PATH] = MetadataError("timeout", "no answer")

        assert await stage.source.acknowledge("preempt") == (False, "timeout: no answer")


async def test_an_event_that_does_not_stand_is_not_approved(stage: Stage) -> None:
    async with watching(stage.source):
        await stage.seen.polled("events", 1)
        accepted, why = await stage.source.acknowledge("preempt")

    assert not accepted
    assert "no such event" in why
    assert all(asked.method == "GET" for asked in stage.client.asked)
