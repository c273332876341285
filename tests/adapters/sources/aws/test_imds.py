"""Session tokens of EC2's metadata service: got, renewed in time, replaced, done without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lastcall.simulate.aws import TOKEN_HEADER, AwsMetadata
from lastcall.simulate.server import serve
from lastcall.sources import imds
from lastcall.sources.http import MetadataClient, MetadataError
from lastcall.sources.imds import TOKEN_PATH, Imds
from support.hand_clocks import HandClocks
from support.raw_http import http_answer, raw_server

PATH = "/latest/meta-data/instance-id"


@pytest.fixture
def clock() -> HandClocks:
    return HandClocks()


@pytest.fixture
def metadata(clock: HandClocks) -> AwsMetadata:
    return AwsMetadata(clock=clock.wall, monotonic=clock.monotonic)


@pytest.fixture
async def client(metadata: AwsMetadata, clock: HandClocks) -> AsyncIterator[MetadataClient]:
    async with serve(metadata) as url, MetadataClient(url, clock) as client:
        yield client


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imds, "ANSWER_SECONDS", 0.2)


def session(
    client: MetadataClient, clock: HandClocks, ttl_seconds: int = 21_600, *, version_1: bool = False
) -> Imds:
    return Imds(client, clock, ttl_seconds=ttl_seconds, version_1=version_1)


async def failure_of(session: Imds) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        await session.get(PATH)
    return caught.value


def puts(metadata: AwsMetadata) -> int:
    return metadata.log.count(method="PUT")


async def test_one_token_serves_all_questions(metadata, client, clock):
    asking = session(client, clock)

    answers = await asyncio.gather(*(asking.get(PATH) for _ in range(20)))

    assert {answer.text() for answer in answers} == {"i-0rehearsal00000000"}
    assert puts(metadata) == 1


async def test_a_token_is_renewed_before_it_ends_so_that_none_is_ever_refused(
    metadata, client, clock
):
    asking = session(client, clock, ttl_seconds=60)

    for _ in range(1200):  # ten lives, in steps of half a second
        assert (await asking.get(PATH)).status == 200
        clock.go_on(0.5)

    assert metadata.log.count(status=401) == 0
    assert 10 <= puts(metadata) <= 12


async def test_a_series_of_reads_over_short_tokens_never_fails(metadata, client, clock):
    asking = session(client, clock, ttl_seconds=60)

    for _ in range(200):
        assert (await asking.get(PATH)).status == 200
        clock.go_on(0.65)

    assert puts(metadata) <= 4


async def test_a_token_granted_for_less_than_was_asked_is_renewed_as_it_was_granted(
    metadata, client, clock
):
    metadata.token_ttl_cap_seconds = 10
    asking = session(client, clock)

    for _ in range(40):
        assert (await asking.get(PATH)).status == 200
        clock.go_on(1.0)

    assert metadata.log.count(status=401) == 0
    assert 4 <= puts(metadata) <= 6


async def test_a_token_that_is_refused_is_replaced_and_the_question_repeated_once(
    metadata, client, clock
):
    asking = session(client, clock)
    await asking.get(PATH)
    metadata.forget_tokens()

    answer = await asking.get(PATH)

    assert answer.status == 200
    assert puts(metadata) == 2
    assert [seen.status for seen in metadata.log.recent if seen.method == "GET"] == [200, 401, 200]
    gets = [seen for seen in metadata.log.recent if seen.method == "GET"]
    assert all(len(seen.header(TOKEN_HEADER)) == 1 for seen in gets)


async def test_a_token_that_all_see_refused_is_replaced_once(metadata, client, clock):
    asking = session(client, clock)
    await asking.get(PATH)
    metadata.forget_tokens()

    answers = await asyncio.gather(*(asking.get(PATH) for _ in range(10)))

    assert {answer.status for answer in answers} == {200}
    assert puts(metadata) == 2


async def test_a_service_that_refuses_each_new_token_is_not_stormed(metadata, client, clock):
    metadata.faults.add("expired-token")
    asking = session(client, clock)

    failure = await failure_of(asking)

    assert failure.result == "unauthorized"
    assert failure.detail == f"GET {PATH}: a new token is refused"
    assert puts(metadata) == 2


async def test_a_renewal_that_fails_leaves_the_old_token_in_use(metadata, client, clock):
    asking = session(client, clock, ttl_seconds=100)
    await asking.get(PATH)
    metadata.faults.add("status", 503, path=TOKEN_PATH)

    for _ in range(19):
        clock.go_on(5.0)
        assert (await asking.get(PATH)).status == 200

    assert puts(metadata) == 3  # the first, and one each at 90 and 95 seconds
    clock.go_on(5.0)
    assert (await failure_of(asking)).detail == f"PUT {TOKEN_PATH}: status 503"
    metadata.faults.clear()
    assert (await asking.get(PATH)).status == 200


@pytest.mark.usefixtures("short_patience")
async def test_a_token_that_is_lost_on_its_way_names_the_hop_limit(metadata, client, clock):
    metadata.faults.add("hop-limit")
    asking = session(client, clock)

    failure = await failure_of(asking)

    assert failure.result == "timeout"
    assert failure.detail.startswith(f"PUT {TOKEN_PATH}: no answer in time; ")
    assert "hop limit" in failure.detail
    metadata.faults.clear()
    assert (await asking.get(PATH)).status == 200


@pytest.mark.usefixtures("short_patience")
async def test_all_who_wait_for_a_token_share_its_failure(metadata, client):
    # A clock that moves: whoever came before the failure does not try again.
    class LoopTime(HandClocks):
        def monotonic(self) -> float:
            return asyncio.get_running_loop().time()

    metadata.faults.add("hop-limit")
    asking = session(client, LoopTime())

    failures = await asyncio.gather(*(failure_of(asking) for _ in range(5)))

    assert {failure.result for failure in failures} == {"timeout"}
    assert sum(seen.method == "PUT" for seen in metadata.log.recent) == 1


@pytest.mark.usefixtures("short_patience")
async def test_where_version_1_is_allowed_a_lost_token_is_done_without_for_minutes(
    metadata, client, clock
):
    metadata.faults.add("hop-limit")
    metadata.tokens_required = False
    asking = session(client, clock, version_1=True)

    for _ in range(10):
        assert (await asking.get(PATH)).status == 200
        clock.go_on(29.0)

    assert puts(metadata) == 1
    assert all(not seen.header(TOKEN_HEADER) for seen in metadata.log.recent)
    metadata.faults.clear()
    clock.go_on(29.0)
    await asking.get(PATH)
    assert metadata.log.recent[-1].header(TOKEN_HEADER)


@pytest.mark.usefixtures("short_patience")
async def test_where_version_1_is_refused_the_failure_names_the_hop_limit(metadata, client, clock):
    metadata.faults.add("hop-limit")
    asking = session(client, clock, version_1=True)

    failure = await failure_of(asking)

    assert failure.result == "unauthorized"
    assert "it needs a token" in failure.detail
    assert "hop limit" in failure.detail
    metadata.faults.clear()
    assert (await asking.get(PATH)).status == 200


async def test_a_service_that_is_turned_off_is_told_apart_and_comes_back(metadata, client, clock):
    asking = session(client, clock)
    metadata.faults.add("disabled")

    failure = await failure_of(asking)

    assert failure.result == "unauthorized"
    assert failure.detail == f"PUT {TOKEN_PATH}: metadata service disabled (403)"
    metadata.faults.clear()
    assert (await asking.get(PATH)).status == 200
    metadata.faults.add("disabled")
    assert (await failure_of(asking)).detail == f"GET {PATH}: metadata service disabled (403)"


@pytest.mark.parametrize("status", [400, 404, 405, 429, 500])
async def test_a_token_that_is_refused_has_its_kind_of_trouble(metadata, client, clock, status):
    metadata.faults.add("status", status, path=TOKEN_PATH)

    failure = await failure_of(session(client, clock))

    assert failure.result == ("throttled" if status == 429 else "error")
    assert failure.detail == f"PUT {TOKEN_PATH}: status {status}"


@pytest.mark.parametrize("status", [400, 403, 404, 405, 429, 500])
async def test_where_version_1_is_allowed_a_refused_token_is_done_without(
    metadata, client, clock, status
):
    metadata.faults.add("status", status, path=TOKEN_PATH)
    metadata.tokens_required = False
    asking = session(client, clock, version_1=True)

    assert [(await asking.get(PATH)).status for _ in range(5)] == [200] * 5

    assert puts(metadata) == 1


async def test_a_token_that_is_needed_and_refused_is_named_and_not_the_hop_limit(
    metadata, client, clock
):
    metadata.faults.add("status", 404, path=TOKEN_PATH)

    failure = await failure_of(session(client, clock, version_1=True))

    assert failure.result == "unauthorized"
    assert failure.detail.endswith(f"it needs a token; PUT {TOKEN_PATH}: status 404")


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"two words", b"a\r\nX: y", b"x" * 2000])
async def test_what_is_no_token_is_malformed_and_not_shown(clock, body):
    sent = http_answer(body)
    async with raw_server(lambda _: sent) as server, MetadataClient(server.url, clock) as client:
        failure = await failure_of(session(client, clock))

    assert failure.result == "malformed"
    assert failure.detail in {
        f"PUT {TOKEN_PATH}: the answer is no token",
        f"PUT {TOKEN_PATH}: the answer is no UTF-8",
    }
