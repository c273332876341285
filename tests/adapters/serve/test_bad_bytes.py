"""Whatever bytes a client sends: it is answered, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastcall.core.events import Beat, ClientLeft, FlushReported
from lastcall.serve import connection
from lastcall.serve.session import BAD_LINES_LIMIT
from lastcall.wire.messages import CLIENT_LINE_LIMIT, CLIENT_MESSAGES
from support.agent_socket import Door, short_directory

BAD_LINES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"hello"',
    b"{}",
    b'{"type":null}',
    b'{"type":"ack"}',
    b'{"type":"ack","id":7}',
    b'{"type":"ack","id":"a\\u0000"}',
    b'{"type":"ack","id":"\\ud800"}',
    b'{"type":"ack","id":"n","step":-1}',
    b'{"type":"ack","id":"n","step":1e400}',
    b'{"type":"ack","id":"n","step":' + b"9" * 5000 + b"}",
    b'{"type":"heartbeat","step":NaN}',
    b'{"type":"heartbeat","section":"' + b"x" * 5000 + b'"}',
    b"\x00",
    b"\xff\xfe{}",
    b'{"type":"heartbeat","section":"\xc3"}',
    b"[" * 16000,
    b'{"a":' * 3000,
]


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line[:30]))
async def test_a_line_that_is_no_message_is_answered_and_the_connection_goes_on(door, line):
    client = await door.join()
    client.say_raw(line + b"\n")

    await client.hear_error("bad_message")
    client.say("heartbeat", step=7)
    assert (await door.wait(Beat)).step == 7


async def test_an_unknown_type_is_answered_and_the_connection_goes_on(door):
    client = await door.join()
    for _ in range(2 * BAD_LINES_LIMIT):
        client.say("dance")
        await client.hear_error("unknown_type")

    client.say("heartbeat")
    await door.wait(Beat)


async def test_before_hello_too_a_bad_line_is_only_answered(door):
    client = await door.connect()
    client.say_raw(b"nonsense\n")
    await client.hear_error("bad_message")
    client.say("dance")
    await client.hear_error("unknown_type")

    await client.greet()


async def test_a_client_that_says_nothing_but_nonsense_is_given_up(door):
    client = await door.join()
    client.say_raw(b"nonsense\n" * (BAD_LINES_LIMIT + 5))

    errors = await client.hear_all()

    assert [error["code"] for error in errors] == ["bad_message"] * BAD_LINES_LIMIT
    assert "in a row" in errors[-1]["message"]
    assert "in a row" in (await door.wait(ClientLeft)).reason


async def test_a_good_line_between_bad_ones_counts(door):
    client = await door.join()
    for _ in range(2 * BAD_LINES_LIMIT):
        client.say_raw(b"nonsense\n")
        await client.hear_error("bad_message")
        client.say("heartbeat")

    await door.wait(Beat, 2 * BAD_LINES_LIMIT)


def padded(length: int) -> bytes:
    """Return a heartbeat of so many bytes, the newline included."""
    bare = b'{"type":"heartbeat"}'
    return bare[:-1] + b" " * (length - len(bare) - 1) + b"}\n"


async def test_the_longest_line_is_heard(door):
    client = await door.join()
    client.say_raw(padded(CLIENT_LINE_LIMIT) * 3)

    await door.wait(Beat, 3)


async def test_a_line_one_byte_longer_ends_the_connection(door):
    client = await door.join()
    client.say_raw(padded(CLIENT_LINE_LIMIT + 1) + b'{"type":"heartbeat"}\n')

    await client.hear_error("too_long")
    assert await client.sees_end()
    assert not door.all(Beat)
    assert str(CLIENT_LINE_LIMIT) in (await door.wait(ClientLeft)).reason


async def test_a_line_without_end_is_cut_off_early(door):
    client = await door.connect()
    client.say_raw(b"x" * 10_000_000)

    await client.hear_error("too_long")
    assert await client.sees_end()


async def test_what_was_said_before_a_line_too_long_is_heard(door):
    client = await door.join()
    client.say("flushed", id="n-1", path="/p", step=5)
    client.say_raw(b"x" * CLIENT_LINE_LIMIT)

    await client.hear_error("too_long")
    assert door.all(FlushReported)


async def test_half_a_line_at_the_end_is_nothing(door):
    client = await door.join()
    client.say_raw(b'{"type":"heartbeat"}')
    await client.close()

    await door.wait(ClientLeft)
    assert not door.all(Beat)


async def test_half_a_line_holds_up_nobody(door):
    slow, quick = await door.join(), await door.join()
    slow.say_raw(b'{"type":"heart')
    await asyncio.sleep(0.02)
    quick.say("heartbeat", step=1)
    await door.wait(Beat)

    slow.say_raw(b'beat","step":2}\n')

    assert (await door.wait(Beat, 2)).step == 2


# --- anything at all -------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = ["id", "step", "path", "reason", "protocol", "job", "handled", "will", "lead_seconds"]
ALMOST = st.builds(
    lambda kind, rest: json.dumps({**rest, "type": kind}).encode() + b"\n",
    st.sampled_from([*CLIENT_MESSAGES, "dance"]),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
)
GREETING = st.just(b'{"type":"hello","protocol":[1,1],"job":"j"}\n')
CHUNKS = st.lists(st.binary(max_size=200) | ALMOST | GREETING, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHUNKS)
def test_no_bytes_hurt_the_agent_or_another_client(chunks):
    async def scenario() -> None:
        with short_directory() as path:
            async with Door(Path(path)) as door:
                other = await door.join(job="other")
                client = await door.connect()
                for chunk in chunks:
                    client.say_raw(chunk)
                    await asyncio.sleep(0)
                client.stop_writing()

                for answer in await client.hear_all():
                    assert answer["type"] in {"welcome", "error", "ok", "status"}
                other.say("heartbeat", step=77)
                while (await door.wait(Beat, len(door.all(Beat)) + 1)).step != 77:
                    pass
                await other.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "LINGER_SECONDS", 0.01)
        asyncio.run(scenario())
