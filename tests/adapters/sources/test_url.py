"""An address that is empty until a time stands there, over real sockets."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import pytest

from lastcall.core.model import Action, Kind
from lastcall.sources.base import SystemClock
from lastcall.sources.url import ABSENCES_TO_WITHDRAW, SCOPE, UrlSource
from lastcall.sources.url_presets import ALIBABA, TENCENT, Address, address_of
from support.raw_http import RawServer, http_answer, raw_server
from support.watched_source import Recorder, watching

POLL_SECONDS = 0.02
NOT_FOUND = http_answer(b"404 - Not Found", "404 Not Found")


class Service:
    """Answers with what it holds; a cloud's token mode can be turned on."""

    def __init__(self) -> None:
        self.answer: bytes | None = NOT_FOUND
        self.token = ""
        self.grants = "200 OK"
        self.refusal = "401 Unauthorized"

    def respond(self, head: str) -> bytes | None:
        if head.startswith("PUT /latest/api/token "):
            return http_answer(self.token.encode(), self.grants)
        shown = f"X-aliyun-ecs-metadata-token: {self.token}\r\n"
        if self.token and shown not in head:
            return http_answer(b"", self.refusal)
        return self.answer


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def server(service):
    async with raw_server(service.respond) as running:
        yield running


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


def source_for(address: Address, seen: Recorder, kind: Kind = Kind.PREEMPTION) -> UrlSource:
    return UrlSource(
        address=address, kind=kind, poll_seconds=POLL_SECONDS, post=seen, clock=SystemClock()
    )


def own(server: RawServer, path: str = "/end") -> Address:
    return address_of(f"{server.url}{path}")


def at(preset: Address, server: RawServer) -> Address:
    return replace(preset, endpoint=server.url)


async def sighted(seen: Recorder):
    await seen.until(lambda: seen.standing(SCOPE))
    await seen.polled(SCOPE, 1)
    (sighting,) = seen.standing(SCOPE)
    return sighting


def left_seconds(sighting) -> float:
    return sighting.deadline - asyncio.get_running_loop().time()


def in_seconds(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(time.time() + seconds), UTC)


@pytest.mark.parametrize("status", ["404 Not Found", "204 No Content"])
async def test_where_nothing_stands_nothing_is_announced(service, server, seen, status):
    service.answer = http_answer(b"", status)
    async with watching(source_for(own(server), seen)):
        await seen.polled(SCOPE, 3)

    assert set(seen.results(SCOPE)) == {"ok"}
    assert all(report.sightings == () for report in seen.reports(SCOPE))


async def test_a_time_is_a_notice_until_it_is_gone(service, server, seen):
    async with watching(source_for(own(server), seen, Kind.TERMINATION)):
        await seen.polled(SCOPE, 1)
        service.answer = http_answer(in_seconds(120).isoformat().encode())
        sighting = await sighted(seen)
        assert (sighting.kind, sighting.action) == (Kind.TERMINATION, Action.UNKNOWN)
        assert sighting.key == f"{server.url}/end"
        assert left_seconds(sighting) == pytest.approx(120, abs=2)
        assert seen.results(SCOPE)[-1] == "notice"

        service.answer = NOT_FOUND
        await seen.until(lambda: not seen.standing(SCOPE))
        assert seen.reports(SCOPE)[-1].absences_to_withdraw == ABSENCES_TO_WITHDRAW == 3


async def test_an_object_with_a_lead_time_counts_from_the_answer(service, server, seen):
    service.answer = http_answer(b'{"lead_seconds": 90, "kind": "maintenance", "id": "w-1"}')
    async with watching(source_for(own(server), seen)):
        sighting = await sighted(seen)

    assert (sighting.kind, sighting.identity) == (Kind.MAINTENANCE, "w-1")
    assert left_seconds(sighting) == pytest.approx(90, abs=2)
    assert sighting.deadline_unix is None


async def test_alibabas_time_is_utc_and_is_asked_for_with_a_token(service, server, seen):
    service.token = "t-1"
    service.answer = http_answer(in_seconds(300).strftime("%Y-%m-%dT%H:%M:%SZ").encode())
    async with watching(source_for(at(ALIBABA, server), seen)):
        sighting = await sighted(seen)

    assert (sighting.code, sighting.action) == ("alibaba", Action.TERMINATE)
    assert left_seconds(sighting) == pytest.approx(300, abs=2)
    put, get = server.heads[:2]
    assert put.startswith("PUT /latest/api/token ")
    assert "X-aliyun-ecs-metadata-token-ttl-seconds: 21600\r\n" in put
    assert get.startswith("GET /latest/meta-data/instance/spot/termination-time ")
    # Each question is one request: the token is kept.
    assert sum(head.startswith("PUT") for head in server.heads) == 1


async def test_tencents_time_is_that_of_china(service, server, seen):
    china = in_seconds(120) + timedelta(hours=8)
    service.answer = http_answer(china.strftime("%Y-%m-%d %H:%M:%S").encode())
    async with watching(source_for(at(TENCENT, server), seen)):
        sighting = await sighted(seen)

    assert (sighting.code, sighting.action) == ("tencent", Action.TERMINATE)
    assert left_seconds(sighting) == pytest.approx(120, abs=2)
    assert server.heads[0].startswith("GET /latest/meta-data/spot/termination-time ")


@pytest.mark.parametrize("refusal", ["401 Unauthorized", "403 Forbidden"])
async def test_a_token_that_is_refused_is_renewed_at_once(service, server, seen, refusal):
    service.token, service.refusal = "t-1", refusal
    async with watching(source_for(at(ALIBABA, server), seen)):
        await seen.polled(SCOPE, 2)
        service.token = "t-2"
        service.answer = http_answer(b"1900000000")
        await sighted(seen)

    assert set(seen.results(SCOPE)) <= {"ok", "notice", "malformed"}
    assert sum(head.startswith("PUT") for head in server.heads) == 2


@pytest.mark.parametrize("grants", ["404 Not Found", "405 Method Not Allowed", "500 Oops"])
async def test_a_service_without_token_mode_is_asked_without(service, server, seen, grants):
    service.grants = grants
    async with watching(source_for(at(ALIBABA, server), seen)):
        await seen.polled(SCOPE, 5)

    assert set(seen.results(SCOPE)) == {"ok"}
    assert sum(head.startswith("PUT") for head in server.heads) == 1
    assert all("metadata-token:" not in head for head in server.heads)


async def test_a_service_that_wants_a_token_and_grants_none_says_so(service, server, seen):
    service.token, service.grants = "never shown", "403 Forbidden"
    async with watching(source_for(at(ALIBABA, server), seen)):
        await seen.polled(SCOPE, 2)

    assert set(seen.results(SCOPE)) == {"unauthorized"}
    assert "no token: PUT /latest/api/token: status 403" in seen.polls(SCOPE)[0].detail
    assert seen.reports(SCOPE) == []


TROUBLES = {
    "500 Internal Server Error": ("error", "status 500"),
    "429 Too Many Requests": ("throttled", "status 429"),
    "403 Forbidden": ("unauthorized", "status 403"),
    "302 Found": ("malformed", "a redirect"),
    "410 Gone": ("error", "status 410"),
}


@pytest.mark.parametrize("status", TROUBLES)
async def test_trouble_withdraws_nothing(service, server, seen, status):
    result, detail = TROUBLES[status]
    async with watching(source_for(own(server), seen)):
        service.answer = http_answer(in_seconds(120).isoformat().encode())
        await sighted(seen)
        service.answer = http_answer(b"", status, "Location: /login")
        await seen.until(lambda: seen.results(SCOPE)[-1] == result)
        reports = len(seen.reports(SCOPE))
        await seen.polled(SCOPE, 1)

        assert detail in seen.polls(SCOPE)[-1].detail
        assert len(seen.reports(SCOPE)) == reports
        assert seen.standing(SCOPE) != ()

        service.answer = NOT_FOUND
        await seen.until(lambda: not seen.standing(SCOPE))


@pytest.mark.parametrize(
    "body",
    [b"", b"<html><body>Please log in</body></html>", b'{"error": "x"}', b"\xff", b"x" * 70_000],
)
async def test_a_page_that_is_no_notice_neither_announces_nor_clears(service, server, seen, body):
    service.answer = http_answer(body)
    async with watching(source_for(own(server), seen)):
        await seen.polled(SCOPE, 2)

    assert set(seen.results(SCOPE)) == {"malformed"}
    assert seen.reports(SCOPE) == []


async def test_a_time_that_nobody_can_mean_leaves_a_notice_without_one(service, server, seen):
    service.answer = http_answer(b"2018-08-18 12:05:33")
    async with watching(source_for(at(TENCENT, server), seen)):
        sighting = await sighted(seen)

    assert (sighting.deadline, sighting.deadline_unix) == (None, None)
    assert seen.results(SCOPE)[-1] == "malformed"
    assert "past and not believed" in seen.polls(SCOPE)[-1].detail


async def test_a_service_that_does_not_answer_is_a_time_out(service, server, seen, monkeypatch):
    monkeypatch.setattr("lastcall.sources.url_token.ANSWER_SECONDS", 0.05)
    service.answer = None
    async with watching(source_for(own(server), seen)):
        await seen.polled(SCOPE, 2)

    assert set(seen.results(SCOPE)) == {"timeout"}
    assert seen.reports(SCOPE) == []


async def test_nobody_at_the_address_is_an_error(seen):
    async with watching(source_for(address_of("http://127.0.0.1:9/end"), seen)):
        await seen.polled(SCOPE, 1)

    assert seen.results(SCOPE)[0] == "error"


async def test_a_deadline_is_told_by_the_services_clock(service, server, seen):
    ahead_seconds = 3000.0
    date = formatdate(time.time() + ahead_seconds, usegmt=True)
    body = in_seconds(ahead_seconds + 120).isoformat().encode()
    service.answer = http_answer(body, "200 OK", f"Date: {date}")
    async with watching(source_for(own(server), seen)):
        sighting = await sighted(seen)

    assert left_seconds(sighting) == pytest.approx(120, abs=3)
    assert seen.polls(SCOPE)[-1].skew_seconds == pytest.approx(-ahead_seconds, abs=2)


async def test_a_query_is_asked_and_never_shown(service, server, seen):
    async with watching(source_for(own(server, "/end?key=s3cret&b=1"), seen)):
        service.answer = http_answer(b"", "500 Oops")
        await seen.polled(SCOPE, 1)
        service.answer = http_answer(in_seconds(120).isoformat().encode())
        sighting = await sighted(seen)

    assert server.heads[0].startswith("GET /end?key=s3cret&b=1 ")
    shown = [poll.detail for poll in seen.polls(SCOPE)] + [sighting.key, sighting.reason]
    assert not any("s3cret" in text for text in shown)
