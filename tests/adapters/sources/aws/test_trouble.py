"""The source for EC2 against a service that is ill, turned off, hostile or gone."""

from __future__ import annotations

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.server import Service
from lastcall.sources.aws_documents import INSTANCE_ACTION, REBALANCE, SCHEDULED
from lastcall.sources.base import SystemClock
from support.aws_source import META, SCOPES, sighted, source_of, watched_alone
from support.raw_http import http_answer, raw_server
from support.watched_source import watching


async def test_a_service_that_is_busy_is_asked_on_and_heard_once_it_answers(url, seen, metadata):
    async with watched_alone(url, seen, INSTANCE_ACTION):
        await seen.polled(INSTANCE_ACTION, 1)
        metadata.faults.add("status", 503, requests=5, path=META + "spot")
        metadata.raise_notice("terminate")
        await sighted(seen, INSTANCE_ACTION)

    results = seen.results(INSTANCE_ACTION)
    first = results.index("error")
    assert results[first : first + 6] == ["error"] * 5 + ["notice"]
    assert seen.polls(INSTANCE_ACTION)[first].detail == f"GET {META}{INSTANCE_ACTION}: status 503"


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ("429", "throttled"),
        ("500", "error"),
        ("403", "unauthorized"),
        ("disabled", "unauthorized"),
        ("expired-token", "unauthorized"),
        ("hop-limit", "timeout"),
        ("hang", "timeout"),
        ("reset", "error"),
        ("redirect", "malformed"),
        ("redirect-loop", "malformed"),
        ("garbled", "malformed"),
        ("empty", "malformed"),
        ("huge", "malformed"),
        ("truncated", "malformed"),
    ],
)
@pytest.mark.usefixtures("short_patience")
async def test_trouble_is_a_result_and_reports_nothing(url, seen, metadata, fault, result):
    metadata.faults.add_text(fault)
    async with watching(source_of(url, seen)):
        for scope in SCOPES:
            await seen.polled(scope, 1)

        assert {seen.results(scope)[-1] for scope in SCOPES} == {result}
        assert all(scope in seen.polls(scope)[-1].detail for scope in SCOPES)
        assert all(seen.reports(scope) == [] for scope in SCOPES)
        assert seen.identity == {}

        metadata.faults.clear()
        metadata.raise_notice("terminate")
        await sighted(seen, INSTANCE_ACTION)


@pytest.mark.parametrize("fault", ["empty", "garbled", "cut"])
@pytest.mark.parametrize("scope", [INSTANCE_ACTION, REBALANCE, SCHEDULED])
async def test_a_path_that_answers_nonsense_clears_nothing(url, seen, metadata, fault, scope):
    for kind in ("preemption", "rebalance", "maintenance"):
        metadata.raise_notice(kind)
    async with watched_alone(url, seen, scope):
        await sighted(seen, scope)

        metadata.faults.add(fault, path=META)

        await seen.until(lambda: seen.results(scope)[-1] == "malformed")
        assert seen.standing(scope)


@pytest.mark.usefixtures("watched")
async def test_one_path_in_trouble_leaves_the_others_well(seen, metadata):
    metadata.faults.add("hang", path=META + SCHEDULED)
    metadata.faults.add("status", 500, path=META + REBALANCE)
    metadata.raise_notice("terminate")

    await seen.polled(INSTANCE_ACTION, 10)

    assert set(seen.results(INSTANCE_ACTION)) == {"notice"}


async def test_a_service_that_is_not_there_from_the_start_is_found_later(seen):
    service = Service(AwsMetadata())
    await service.start()
    await service.stop()
    async with watching(source_of(service.url, seen)):
        await seen.polled(INSTANCE_ACTION, 3)
        assert set(seen.results(INSTANCE_ACTION)) == {"error"}
        assert "cannot connect: Connection refused" in seen.polls(INSTANCE_ACTION)[0].detail

        back = Service(AwsMetadata(), port=service.port)
        await back.start()
        await seen.until(lambda: seen.results(INSTANCE_ACTION)[-1] == "ok")
        await back.stop()


@pytest.mark.usefixtures("watched")
async def test_a_service_turned_off_and_on_tells_its_notice_at_the_first_look_after(seen, metadata):
    await seen.polled(INSTANCE_ACTION, 2)
    metadata.faults.add("disabled")
    await seen.until(lambda: seen.results(INSTANCE_ACTION)[-3:] == ["unauthorized"] * 3)
    assert "metadata service disabled" in seen.polls(INSTANCE_ACTION)[-1].detail
    metadata.raise_notice("terminate")
    asked = len(seen.polls(INSTANCE_ACTION))

    metadata.faults.clear()

    await sighted(seen, INSTANCE_ACTION)
    assert set(seen.results(INSTANCE_ACTION)[asked:]) <= {"unauthorized", "notice"}


@pytest.mark.usefixtures("watched")
async def test_tokens_that_the_service_forgot_cost_no_look(seen, metadata):
    await seen.polled(INSTANCE_ACTION, 2)
    metadata.schedule("instance-retirement", SystemClock().wall() + 86400)

    metadata.forget_tokens()

    await sighted(seen, SCHEDULED)
    assert metadata.log.count(method="PUT") == 2
    for scope in SCOPES:
        assert set(seen.results(scope)) <= {"ok", "notice"}


@pytest.mark.usefixtures("short_patience")
async def test_tokens_that_never_come_name_the_hop_limit_until_they_do(url, seen, metadata):
    metadata.faults.add("hop-limit")
    async with watching(source_of(url, seen)):
        await seen.polled(INSTANCE_ACTION, 3)
        assert set(seen.results(INSTANCE_ACTION)) == {"timeout"}
        assert "hop limit" in seen.polls(INSTANCE_ACTION)[-1].detail

        metadata.faults.clear()
        await seen.until(lambda: seen.results(INSTANCE_ACTION)[-1] == "ok")


async def test_a_proxy_in_the_environment_is_not_used(url, seen, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async with watching(source_of(url, seen)):
        await seen.polled(INSTANCE_ACTION, 2)

    assert set(seen.results(INSTANCE_ACTION)) == {"ok"}


async def test_neither_tokens_nor_bodies_are_ever_told(seen):
    secret = http_answer(b"AQAEAsecret-token-or-user-data==")
    async with raw_server(lambda _: secret) as server, watching(source_of(server.url, seen)):
        for scope in SCOPES:
            await seen.polled(scope, 1)

    details = [one.detail for scope in SCOPES for one in seen.polls(scope)]
    assert all(details)
    assert "AQAEA" not in "".join(details)
    assert seen.identity == {}
