"""EC2's metadata service: who is let through, with what token, and the headers of the answers."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from lastcall.simulate.aws import TOKEN_HEADER, TTL_HEADER
from support.metadata_clients import AWS_META, AWS_TOKEN, AwsReader, aws_token

NOW = 1_935_520_000.0

# --- tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", ["1", "21600"])
async def test_a_token_is_granted_for_the_time_asked(http, aws_url, aws, ttl):
    async with http.put(aws_url + AWS_TOKEN, headers={TTL_HEADER: ttl}) as answer:
        granted = await answer.text()

    assert answer.status == 200
    assert answer.headers[TTL_HEADER] == ttl
    assert answer.headers["Content-Type"] == "text/plain"
    assert len(granted) > 40
    assert aws.tokens_granted == 1


@pytest.mark.parametrize("ttl", [None, "0", "21601", "-1", "1.5", "soon", "", "999999999"])
async def test_a_token_is_refused_with_400_for_a_time_out_of_range(http, aws_url, aws, ttl):
    headers = {} if ttl is None else {TTL_HEADER: ttl}
    async with http.put(aws_url + AWS_TOKEN, headers=headers) as answer:
        page = await answer.text()

    assert answer.status == 400
    assert "<title>400 - Bad Request</title>" in page
    assert aws.tokens_granted == 0


async def test_a_token_is_refused_to_a_proxy(http, aws_url):
    headers = {TTL_HEADER: "60", "X-Forwarded-For": "192.0.2.1"}
    async with http.put(aws_url + AWS_TOKEN, headers=headers) as answer:
        assert answer.status == 403


async def test_a_dated_token_path_is_refused(aws_url, raw):
    answer = await raw(
        aws_url,
        b"PUT /2021-03-23/api/token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
        b"X-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n",
    )

    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE", "HEAD"])
async def test_another_verb_on_the_token_path_is_told_the_right_ones(http, aws_url, verb):
    async with http.request(verb, aws_url + AWS_TOKEN) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "OPTIONS, PUT"
        assert await answer.read() == b""


async def test_the_token_path_answers_options(http, aws_url):
    async with http.options(aws_url + AWS_TOKEN) as answer:
        assert answer.status == 200
        assert answer.headers["Allow"] == "OPTIONS, PUT"


async def test_a_get_without_a_token_is_refused(http, aws_url):
    async with http.get(f"{aws_url}{AWS_META}/instance-id") as answer:
        assert answer.status == 401
        assert "<title>401 - Unauthorized</title>" in await answer.text()


@pytest.mark.parametrize("by_fault", [True, False])
async def test_a_get_without_a_token_is_answered_where_version_1_is_allowed(
    http, aws_url, aws, by_fault
):
    if by_fault:
        aws.faults.add("v1-allowed")
    else:
        aws.tokens_required = False

    async with http.get(f"{aws_url}{AWS_META}/instance-id") as answer:
        assert answer.status == 200
        assert TTL_HEADER not in answer.headers


@pytest.mark.parametrize("required", [True, False])
async def test_a_bad_token_is_refused_even_where_none_is_needed(http, aws_url, aws, required):
    aws.tokens_required = required

    async with http.get(
        f"{aws_url}{AWS_META}/instance-id", headers={TOKEN_HEADER: "made-up"}
    ) as answer:
        assert answer.status == 401


async def test_head_is_answered_like_get_without_the_body(http, aws_url, aws_reader):
    async with http.head(f"{aws_url}{AWS_META}/instance-id", headers=aws_reader.headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Length"] == "20"
        assert await answer.read() == b""


async def test_a_token_ages_and_ends(http, aws_url, monotonic):
    aws_reader = AwsReader(http, aws_url, await aws_token(http, aws_url, 60))

    monotonic.seconds = 40.0
    async with http.get(f"{aws_url}{AWS_META}/", headers=aws_reader.headers) as answer:
        assert answer.headers[TTL_HEADER] == "20"
    monotonic.seconds = 59.9
    assert await aws_reader.status(f"{AWS_META}/") == 200
    monotonic.seconds = 60.0
    assert await aws_reader.status(f"{AWS_META}/") == 401


async def test_tokens_are_granted_for_no_longer_than_the_cap(http, aws_url, aws, monotonic):
    aws.token_ttl_cap_seconds = 60

    async with http.put(aws_url + AWS_TOKEN, headers={TTL_HEADER: "21600"}) as answer:
        assert answer.headers[TTL_HEADER] == "60"
        aws_reader = AwsReader(http, aws_url, await answer.text())
    monotonic.seconds = 61.0

    assert await aws_reader.status(f"{AWS_META}/") == 401


async def test_a_short_token_ends_before_the_time_it_was_granted_for(http, aws_url, aws, monotonic):
    aws.faults.add("short-token", 5)

    async with http.put(aws_url + AWS_TOKEN, headers={TTL_HEADER: "21600"}) as answer:
        assert answer.headers[TTL_HEADER] == "21600"
        aws_reader = AwsReader(http, aws_url, await answer.text())
    assert await aws_reader.status(f"{AWS_META}/") == 200
    monotonic.seconds = 5.0

    assert await aws_reader.status(f"{AWS_META}/") == 401


async def test_tokens_that_end_in_between_are_refused_until_a_new_one_is_got(http, aws_url, aws):
    old = AwsReader(http, aws_url, await aws_token(http, aws_url))
    aws.faults.add("expired-token", requests=1)

    assert await old.status(f"{AWS_META}/") == 401
    new = AwsReader(http, aws_url, await aws_token(http, aws_url))

    assert await old.status(f"{AWS_META}/") == 401
    assert await new.status(f"{AWS_META}/") == 200


async def test_of_two_token_headers_the_first_counts_and_both_are_seen(http, aws_url, aws, raw):
    good = await aws_token(http, aws_url)
    request = (
        f"GET {AWS_META}/instance-id HTTP/1.1\r\nHost: x\r\n"
        f"{TOKEN_HEADER}: stale\r\n{TOKEN_HEADER}: {good}\r\n\r\n"
    )

    answer = await raw(aws_url, request.encode())

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert aws.log.recent[-1].header(TOKEN_HEADER) == ["stale", good]


async def test_behind_a_second_hop_the_token_never_comes_and_version_1_works(http, aws_url, aws):
    aws.faults.add("hop-limit")
    aws.faults.add("v1-allowed")

    with pytest.raises(TimeoutError):
        await http.put(
            aws_url + AWS_TOKEN,
            headers={TTL_HEADER: "60"},
            timeout=aiohttp.ClientTimeout(total=0.1),
        )
    async with http.get(f"{aws_url}{AWS_META}/instance-id") as answer:
        assert answer.status == 200


async def test_a_disabled_service_refuses_all(http, aws_url, aws, aws_reader):
    aws.faults.add("disabled")

    assert await aws_reader.status(f"{AWS_META}/instance-id") == 403
    async with http.put(aws_url + AWS_TOKEN, headers={TTL_HEADER: "60"}) as answer:
        assert answer.status == 403

    aws.faults.clear("disabled")
    assert await aws_reader.status(f"{AWS_META}/instance-id") == 200


# --- headers ---------------------------------------------------------------------------------


async def test_each_answer_has_the_headers_of_the_real_one(http, aws_url, aws_reader):
    for path, status in [(f"{AWS_META}/instance-id", 200), (f"{AWS_META}/nothing", 404)]:
        async with http.get(aws_url + path, headers=aws_reader.headers) as answer:
            assert answer.status == status
            assert answer.headers["Server"] == "EC2ws"
            assert answer.headers["Accept-Ranges"] == "none"
            assert answer.headers["Date"] == "Fri, 02 May 2031 20:26:40 GMT"
            assert answer.headers["Last-Modified"] == "Fri, 02 May 2031 20:26:40 GMT"
            assert answer.headers["Connection"] == "close"
            assert answer.headers[TTL_HEADER] == "21600"


async def test_each_answer_closes_its_connection(aws_url, raw):
    answer = await raw(aws_url, b"GET /latest/ HTTP/1.1\r\nHost: x\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nConnection: close\r\n" in answer


async def test_errors_are_xhtml_pages(http, aws_url, aws_reader):
    async with http.get(
        f"{aws_url}{AWS_META}/spot/instance-action", headers=aws_reader.headers
    ) as answer:
        page = await answer.text()

    assert answer.headers["Content-Type"] == "text/html"
    assert page.startswith('<?xml version="1.0"')
    assert "<h1>404 - Not Found</h1>" in page


async def test_another_clock_shows_in_the_date_and_in_the_times(http, aws_url, aws, aws_reader):
    aws.clock_skew_seconds = -300.0

    raised = aws.raise_notice("terminate", 120.0)

    async with http.get(
        f"{aws_url}{AWS_META}/spot/instance-action", headers=aws_reader.headers
    ) as answer:
        date = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        action = json.loads(await answer.text())
    assert date == NOW - 300
    assert action["time"] == "2031-05-02T20:23:40Z"
    assert raised.deadline_unix == NOW + 120
