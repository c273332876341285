"""A session token over its life: renewed before it ends, done without where there is none."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.sources.http import Answer, MetadataError
from lastcall.sources.url_presets import ALIBABA
from lastcall.sources.url_token import LIFETIME_SECONDS, WITHOUT_TOKEN_SECONDS, TokenAsker
from support.watched_source import LoopClock

pytestmark = pytest.mark.looptime

MODE = ALIBABA.token_mode


class Service:
    """Stands in for the client: grants ``token``, or fails as it is told to."""

    def __init__(self) -> None:
        self.token = "t-1"
        self.failure: MetadataError | None = None
        self.puts = 0
        self.shown: list[str] = []
        self.status = 404

    async def request(self, method, path, *, headers=None, timeout_seconds):
        if method == "GET":
            self.shown.append((headers or {}).get(MODE.header, ""))
            return Answer(self.status, {}, b"", 0.0, f"GET {path}")
        assert headers == {MODE.lifetime_header: str(LIFETIME_SECONDS)}
        self.puts += 1
        if self.failure is not None:
            raise self.failure
        return Answer(200, {}, self.token.encode(), 0.0, f"PUT {path}")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def asker(service) -> TokenAsker:
    return TokenAsker(service, LoopClock(), MODE)


async def test_a_token_is_renewed_before_it_ends(service, asker):
    await asker.get("/a")
    service.token = "t-2"
    await asyncio.sleep(LIFETIME_SECONDS * 0.89)
    await asker.get("/a")
    await asyncio.sleep(LIFETIME_SECONDS * 0.02)
    await asker.get("/a")

    assert service.shown == ["t-1", "t-1", "t-2"]
    assert service.puts == 2


async def test_a_token_that_cannot_be_renewed_is_used_on(service, asker):
    await asker.get("/a")
    await asyncio.sleep(LIFETIME_SECONDS * 0.91)
    service.failure = MetadataError("error", "PUT: status 500")
    await asker.get("/a")

    assert service.shown == ["t-1", "t-1"]


async def test_a_service_that_grants_none_is_asked_for_one_again_after_a_while(service, asker):
    service.failure = MetadataError("error", "PUT: status 404")
    await asker.get("/a")
    await asyncio.sleep(WITHOUT_TOKEN_SECONDS - 1)
    await asker.get("/a")
    assert service.puts == 1

    service.failure = None
    await asyncio.sleep(2)
    await asker.get("/a")

    assert service.shown == ["", "", "t-1"]


@pytest.mark.parametrize(
    "failure",
    [
        MetadataError("timeout", "PUT: no answer in time"),
        MetadataError("error", "PUT: cannot connect", connected=False),
    ],
)
async def test_a_service_that_does_not_answer_is_asked_for_one_each_time(service, asker, failure):
    service.failure = failure
    await asker.get("/a")
    service.failure = None
    await asker.get("/a")

    assert service.shown == ["", "t-1"]


async def test_an_answer_that_is_no_token_is_none(service, asker):
    service.token = "<html> log in"
    service.status = 403

    with pytest.raises(MetadataError, match="the answer is no token"):
        await asker.get("/a")

    assert service.shown == ["", ""]


async def test_a_token_that_is_refused_anew_is_said(service, asker):
    service.status = 401

    with pytest.raises(MetadataError, match="a new token is refused"):
        await asker.get("/a")

    assert service.puts == 2


async def test_without_token_mode_no_token_is_asked_for(service):
    service.status = 401

    answer = await TokenAsker(service, LoopClock(), None).get("/a")

    assert (answer.status, service.puts) == (401, 0)
