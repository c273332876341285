"""How Google's metadata server is asked over time: at first, by open questions, after trouble."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from lastcall.core.model import Action, Kind
from lastcall.sources.gcp import SPARE_SECONDS, GcpSource
from lastcall.sources.http import Answer, MetadataError
from support.watched_source import Asked, LoopClock, Recorder, StandIn, watching

ROOT = "/computeMetadata/v1/"
PREEMPTED = "instance/preempted"
MAINTENANCE_EVENT = "instance/maintenance-event"
UPCOMING = "instance/upcoming-maintenance"
WINDOW = '{"maintenance_status": "PENDING", "window_start_time": "2030-03-18T00:00:00Z"}'


class Server:
    """A metadata server on loop time, which can be made to misbehave.

    ``refusal`` answers in place of everything under ``refused``; ``silent`` never answers.
    """

    def __init__(self) -> None:
        self.values = {
            PREEMPTED: "FALSE",
            MAINTENANCE_EVENT: "NONE",
            "instance/name": "n-1",
            "instance/hostname": "n-1.c.p.internal",
            "instance/id": "12",
            "instance/machine-type": "projects/1/machineTypes/a3-highgpu-8g",
            "instance/zone": "projects/1/zones/xx-east1-a",
            "instance/scheduling/preemptible": "TRUE",
        }
        self.tags = True
        self.waits = True
        self.silent = False
        self.refusal: Answer | MetadataError | None = None
        self.refused = ""
        self.changed = asyncio.Event()

    def set(self, key: str, value: str | None) -> None:
        if value is None:
            del self.values[key]
        else:
            self.values[key] = value
        self.changed.set()
        self.changed = asyncio.Event()

    async def respond(self, asked: Asked) -> Answer:
        key = asked.path.removeprefix(ROOT)
        if self.silent:
            await asyncio.sleep(asked.timeout_seconds)
            raise MetadataError("timeout", f"{key}: no answer")
        if self.refusal is not None and key.startswith(self.refused):
            if isinstance(self.refusal, MetadataError):
                raise self.refusal
            return self.refusal
        if "wait_for_change" in asked.params and self.waits:
            await self._wait(key, asked)
        value = self.values.get(key)
        return answer(404, "") if value is None else answer(200, value, tag=self.tags)

    async def _wait(self, key: str, asked: Asked) -> None:
        ends_at = asked.at + float(asked.params["timeout_sec"])
        while self.values.get(key) == asked.params["last_etag"]:
            try:
                async with asyncio.timeout_at(ends_at):
                    await self.changed.wait()
            except TimeoutError:
                return


def answer(status: int, body: str, *, tag: bool = False) -> Answer:
    headers = {"Metadata-Flavor": "Google"} | ({"ETag": body} if tag else {})
    return Answer(status, headers, body.encode(), 0.0, "GET")


class Stage:
    """A source over a server, and what it reports."""

    def __init__(self) -> None:
        self.server = Server()
        self.seen = Recorder()
        self.source = GcpSource(
            endpoint="http://metadata.invalid",
            wait_seconds=55.0,
            maintenance_poll_seconds=60.0,
            post=self.seen,
            clock=LoopClock(),
        )
        self.client = StandIn(self.server.respond)
        self.source._client = self.client

    def asked(self, key: str) -> list[Asked]:
        return self.client.of(ROOT + key)


@pytest.fixture
def stage() -> Stage:
    return Stage()


pytestmark = pytest.mark.looptime


async def test_a_preemption_is_seen_the_moment_the_value_changes(stage: Stage) -> None:
    loop = asyncio.get_running_loop()
    async with watching(stage.source):
        await asyncio.sleep(600)
        flipped_at = loop.time()
        stage.server.set(PREEMPTED, "TRUE")
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED))

    (sighting,) = stage.seen.standing(PREEMPTED)
    assert (sighting.kind, sighting.action) == (Kind.PREEMPTION, Action.STOP)
    assert loop.time() - flipped_at < 0.1
    assert stage.seen.results(PREEMPTED)[-1] == "notice"


async def test_a_preemption_that_stands_at_the_start_is_seen_at_once(stage: Stage) -> None:
    stage.server.set(PREEMPTED, "TRUE")

    async with watching(stage.source):
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED), 0.1)


async def test_every_open_question_names_the_last_etag(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(300)

    first, *later = stage.asked(PREEMPTED)
    assert "wait_for_change" not in first.params
    assert len(later) == pytest.approx(300 / 55, abs=1)
    for asked in later:
        assert asked.params == {
            "wait_for_change": "true",
            "timeout_sec": "55",
            "last_etag": "FALSE",
        }


async def test_the_client_outlasts_the_server_and_never_leaves_a_question(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(600)

    assert stage.client.peak_open == 1
    waiting = [asked for asked in stage.client.asked if "wait_for_change" in asked.params]
    assert all(asked.timeout_seconds >= 55 + SPARE_SECONDS for asked in waiting)
    assert set(stage.seen.results(PREEMPTED)) == {"ok"}


async def test_a_server_that_never_answers_is_trouble_within_five_seconds(stage: Stage) -> None:
    stage.server.silent = True

    async with watching(stage.source):
        await stage.seen.until(lambda: stage.seen.polls(PREEMPTED), 5)
        stage.server.silent = False
        await stage.seen.until(lambda: stage.seen.results(PREEMPTED)[-1] == "ok", 10)

    assert stage.seen.results(PREEMPTED)[0] == "timeout"


@pytest.mark.parametrize("lacking", ["tags", "waits"])
async def test_a_server_without_etags_or_waiting_is_polled_once_a_second(
    stage: Stage, lacking: str
) -> None:
    setattr(stage.server, lacking, False)

    async with watching(stage.source):
        await asyncio.sleep(60)
        asked = len(stage.asked(PREEMPTED))
        stage.server.set(PREEMPTED, "TRUE")
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED), 1.1)

    assert 55 <= asked <= 70


async def test_a_server_that_finds_its_etags_again_is_waited_for_again(stage: Stage) -> None:
    stage.server.tags = False
    async with watching(stage.source):
        await asyncio.sleep(10)
        stage.server.tags = True
        await asyncio.sleep(5)

    assert "wait_for_change" in stage.asked(PREEMPTED)[-1].params


async def test_errors_are_met_with_patience_and_recovery_with_speed(stage: Stage) -> None:
    stage.server.refusal, stage.server.refused = answer(503, "try again"), PREEMPTED
    async with watching(stage.source):
        await asyncio.sleep(60)
        stage.server.refusal = None
        stage.server.set(PREEMPTED, "TRUE")
        asked = stage.asked(PREEMPTED)
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED), 5)

    gaps = [later.at - earlier.at for earlier, later in pairwise(asked)]
    assert min(gaps) >= 0.1
    assert all(2.5 <= gap <= 5.0 for gap in gaps[5:])
    assert set(stage.seen.results(PREEMPTED)[:-1]) == {"error"}
    assert all("wait_for_change" not in one.params for one in asked)


async def test_a_server_that_comes_up_late_is_waited_for(stage: Stage) -> None:
    stage.server.refusal = MetadataError("error", "refused", connected=False)
    async with watching(stage.source):
        await asyncio.sleep(8)
        stage.server.refusal = None
        await stage.seen.until(lambda: "ok" in stage.seen.results(PREEMPTED), 5)
        await stage.seen.until(lambda: "lifecycle" in stage.seen.identity, 5)

    assert stage.seen.identity["instance_name"] == "n-1"
    assert stage.seen.results("identity")[-1] == "ok"


async def test_trouble_is_followed_by_a_look_that_does_not_wait(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(10)
        stage.server.refusal = answer(503, "")
        stage.server.set(PREEMPTED, "FALSE ")
        await stage.seen.until(lambda: "error" in stage.seen.results(PREEMPTED))
        before = len(stage.asked(PREEMPTED))
        stage.server.refusal = None
        await asyncio.sleep(10)

    assert "wait_for_change" not in stage.asked(PREEMPTED)[before].params
    assert "wait_for_change" in stage.asked(PREEMPTED)[before + 1].params


async def test_a_hidden_key_is_no_answer_and_names_the_remedy(stage: Stage) -> None:
    stage.server.set(PREEMPTED, None)

    async with watching(stage.source):
        await asyncio.sleep(100)

    assert stage.seen.reports(PREEMPTED) == []
    assert stage.seen.results(PREEMPTED) == ["unauthorized"] * 4
    assert "hostNetwork" in stage.seen.polls(PREEMPTED)[0].detail


async def test_one_key_in_trouble_holds_up_no_other(stage: Stage) -> None:
    stage.server.refusal, stage.server.refused = answer(503, ""), MAINTENANCE_EVENT
    async with watching(stage.source):
        await asyncio.sleep(30)
        stage.server.set(PREEMPTED, "TRUE")
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED), 0.1)


async def test_maintenance_windows_are_looked_for_now_and_then(stage: Stage) -> None:
    stage.server.set(UPCOMING, WINDOW)
    async with watching(stage.source):
        await asyncio.sleep(600)

    (sighting,) = stage.seen.standing(UPCOMING)
    assert sighting.deadline == pytest.approx(1_900_022_400 - 1_900_000_000)
    assert 10 <= len(stage.asked(UPCOMING)) <= 13


async def test_a_machine_without_windows_is_asked_seldom(stage: Stage) -> None:
    async with watching(stage.source):
        await asyncio.sleep(1500)

    assert len(stage.asked(UPCOMING)) == 3
    assert set(stage.seen.results(UPCOMING)) == {"ok"}
    assert stage.seen.reports(UPCOMING) == []


@pytest.mark.parametrize(
    ("refusal", "result"),
    [
        (answer(503, '{"error":"no notifications have been received yet"}'), "error"),
        (answer(503, "overloaded"), "error"),
        (answer(404, ""), "error"),
        (answer(429, ""), "throttled"),
        (answer(403, ""), "unauthorized"),
        (answer(200, ""), "malformed"),
        (answer(200, '{"error":"no notifications have been received yet"}'), "malformed"),
        (Answer(200, {}, b"NONE", 0.0), "malformed"),
    ],
)
async def test_only_a_readable_answer_takes_a_window_back(
    stage: Stage, refusal: Answer, result: str
) -> None:
    stage.server.set(UPCOMING, WINDOW)
    async with watching(stage.source):
        await stage.seen.until(lambda: stage.seen.standing(UPCOMING))
        stage.server.refusal, stage.server.refused = refusal, UPCOMING
        await asyncio.sleep(90)
        assert stage.seen.results(UPCOMING)[-1] == result
        assert stage.seen.standing(UPCOMING)

        stage.server.refusal = None
        stage.server.set(UPCOMING, "NONE")
        await stage.seen.until(lambda: not stage.seen.standing(UPCOMING), 10)


async def test_a_window_at_an_unreadable_time_is_shown_and_counted(stage: Stage) -> None:
    stage.server.set(UPCOMING, WINDOW.replace("2030-03-18T00:00:00Z", "soon"))
    async with watching(stage.source):
        await stage.seen.until(lambda: stage.seen.polls(UPCOMING))

    assert stage.seen.results(UPCOMING) == ["malformed"]
    assert len(stage.seen.standing(UPCOMING)) == 1


async def test_trouble_with_the_identity_holds_up_no_notice(stage: Stage) -> None:
    stage.server.refusal, stage.server.refused = answer(500, ""), "instance/id"
    async with watching(stage.source):
        await asyncio.sleep(30)
        stage.server.set(PREEMPTED, "TRUE")
        await stage.seen.until(lambda: stage.seen.standing(PREEMPTED), 0.1)
        assert stage.seen.identity == {"instance_name": "n-1"}
        assert stage.seen.results("identity")[-1] == "error"

        stage.server.refusal = None
        await stage.seen.until(lambda: stage.seen.results("identity")[-1] == "ok")

    assert stage.seen.identity == {
        "instance_name": "n-1",
        "instance_id": "12",
        "instance_type": "a3-highgpu-8g",
        "zone": "xx-east1-a",
        "region": "xx-east1",
        "lifecycle": "spot",
    }
    assert len(stage.asked("instance/name")) == 1
