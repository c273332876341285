"""What is no message is refused with one clear word, and never with anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastcall.wire.codec import WireError, decode, decode_object, encode, encode_object
from lastcall.wire.messages import (
    AGENT_LINE_LIMIT,
    AGENT_MESSAGES,
    CLIENT_LINE_LIMIT,
    CLIENT_MESSAGES,
    TEXT_LIMIT,
    Error,
    Message,
)

EVERYTHING: dict[str, type[Message]] = {**CLIENT_MESSAGES, **AGENT_MESSAGES}

PLAIN: dict[str, Any] = {
    "str": "text",
    "int": 3,
    "float": 2.5,
    "bool": False,
    "tuple[str, ...]": ["a"],
    "tuple[int, int]": [1, 2],
    "tuple[Notice, ...]": [],
}
WRONG: dict[str, list[Any]] = {
    "str": [1, True, 1.5, ["a"], {"a": 1}],
    "int": ["3", True, 1.5, -1, -1.0, 2**63, 1e300, [3], {}],
    "float": ["2.5", False, -0.1, -(10**400), 10**400, 2**63, 1e300, [2.5], {}],
    "bool": [0, 1, "true", [], {}],
    "tuple[str, ...]": ["a", {"a": "b"}, [1], ["a", None], [["a"]], 7],
    "tuple[int, int]": ["1,2", [1], [1, 2, 3], [], [1, "2"], [1, None], [-1, 2], {}],
    "tuple[Notice, ...]": [{}, "n", [1], [[]], [{}], [{"id": "n"}]],
}


def content_of(message: type[Message]) -> dict[str, Any]:
    filled = {f.name: PLAIN[str(f.type).removesuffix(" | None")] for f in fields(message)}
    return {"type": message.type, **filled}


def wrong_fields() -> Iterator[Any]:
    for message in EVERYTHING.values():
        for field in fields(message):
            for value in WRONG[str(field.type).removesuffix(" | None")]:
                name = f"{message.type}.{field.name}={value!r}"[:60]
                yield pytest.param(message, field.name, value, id=name)


def refused(line: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        decode(line, EVERYTHING)
    return caught.value


def acks_with(step: bytes) -> bytes:
    return b'{"type":"ack","id":"n","step":%s}\n' % step


@pytest.mark.parametrize("message", EVERYTHING.values(), ids=lambda message: message.type)
def test_the_content_that_the_tests_below_spoil_is_good(message: type[Message]) -> None:
    assert isinstance(decode(encode_object(content_of(message)), EVERYTHING), message)


@pytest.mark.parametrize(("message", "name", "value"), list(wrong_fields()))
def test_a_field_of_a_wrong_form_is_refused_by_its_name(
    message: type[Message], name: str, value: object
) -> None:
    error = refused(encode_object({**content_of(message), name: value}))

    assert error.code == "bad_message"
    assert name in str(error) or name == "notices"


@pytest.mark.parametrize("message", EVERYTHING.values(), ids=lambda message: message.type)
@pytest.mark.parametrize("how", ["left out", "null"])
def test_a_field_that_must_be_there_and_is_not(message: type[Message], how: str) -> None:
    content = content_of(message)
    must = [
        field.name
        for field in fields(message)
        if field.default is MISSING and not str(field.type).endswith(" | None")
    ]

    for name in must:
        without = {key: value for key, value in content.items() if key != name}
        error = refused(encode_object(without if how == "left out" else {**content, name: None}))

        assert error.code == "bad_message"
        assert str(error) == f"{message.type}: field {name} is missing"


@pytest.mark.parametrize(
    "number",
    [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"-1", b"1.5", b"9" * 400],
)
def test_a_step_that_is_no_step(number: bytes) -> None:
    assert refused(acks_with(number)).code == "bad_message"


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e400", b"-1e-9", b"9" * 400])
def test_seconds_that_are_no_seconds(number: bytes) -> None:
    line = b'{"type":"checkpoint","step":1,"stall_seconds":%s}\n' % number

    assert refused(line).code == "bad_message"


def test_a_number_with_more_digits_than_are_read_is_refused() -> None:
    assert refused(acks_with(b"1" * 10_000)).code == "bad_message"


@pytest.mark.parametrize("opens", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("limit", [CLIENT_LINE_LIMIT, AGENT_LINE_LIMIT])
def test_brackets_in_brackets_to_the_end_of_the_line(opens: bytes, limit: int) -> None:
    line = (opens * limit)[: limit - 1] + b"\n"

    assert refused(line).code == "bad_message"


def test_a_whole_line_of_nested_lists_in_an_unknown_field_is_no_way_to_break_in() -> None:
    depth = CLIENT_LINE_LIMIT // 2 - 20
    line = b'{"type":"bye","x":' + b"[" * depth + b"]" * depth + b"}\n"

    assert refused(line).code == "bad_message"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n", id="an empty line"),
        pytest.param(b"bye\n", id="a bare word"),
        pytest.param(b'{"type":"bye"', id="half a line"),
        pytest.param(b'{"type":"bye"}{"type":"bye"}\n', id="two objects"),
        pytest.param(b"{'type':'bye'}\n", id="other quotes"),
        pytest.param(b'{"type":"bye",}\n', id="a comma too many"),
        pytest.param(b'\xef\xbb\xbf{"type":"bye"}\n', id="a byte order mark"),
        pytest.param(b'{"type":"bye","reason":"\xff"}\n', id="not UTF-8"),
        pytest.param(b'{"type":"bye","reason":"\xed\xa0\x80"}\n', id="a surrogate as bytes"),
        pytest.param('{"type":"bye"}\n'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"type":"bye","reason":"a\nb"}\n', id="a bare newline within a text"),
        pytest.param(b"\0" * 100, id="zeros"),
        pytest.param(b'["bye"]\n', id="a list"),
        pytest.param(b'"bye"\n', id="a text"),
        pytest.param(b"7\n", id="a number"),
        pytest.param(b"null\n", id="null"),
        pytest.param(b"{}\n", id="no type"),
        pytest.param(b'{"type":7}\n', id="a type that is a number"),
        pytest.param(b'{"type":null}\n', id="a type that is null"),
        pytest.param(b'{"type":["bye"]}\n', id="a type that is a list"),
    ],
)
def test_a_line_that_is_no_message(line: bytes) -> None:
    assert refused(line).code == "bad_message"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(r"\ud800", id="half a character"),
        pytest.param(r"a\udc00b", id="the other half"),
        pytest.param(r"\udc00\ud800", id="halves the wrong way round"),
        pytest.param(r"a\u0000b", id="NUL"),
    ],
)
@pytest.mark.parametrize("line", ['{"type":"bye","reason":"%s"}', '{"type":"ack","id":"%s"}'])
def test_a_text_that_can_be_written_nowhere(line: str, text: str) -> None:
    assert refused((line % text).encode()).code == "bad_message"


def test_such_a_text_in_a_list_is_found_too() -> None:
    line = rb'{"type":"hello","protocol":[1,1],"handled":["ok","\ud800"]}'

    assert refused(line).code == "bad_message"


def test_a_text_that_is_too_long() -> None:
    line = encode_object({"type": "bye", "reason": "x" * (TEXT_LIMIT + 1)})

    error = refused(line)

    assert error.code == "bad_message"
    assert str(TEXT_LIMIT) in str(error)


@pytest.mark.parametrize("name", ["", "Bye", "bye ", "no-such", "x" * 9000, "\ud800", "\0"])
def test_a_type_that_nobody_knows_has_a_word_of_its_own(name: str) -> None:
    error = refused(json.dumps({"type": name}).encode())

    assert error.code == "unknown_type"
    assert len(str(error)) < 500


def test_each_side_knows_only_what_the_other_says() -> None:
    with pytest.raises(WireError, match="unknown type 'welcome'"):
        decode(b'{"type":"welcome"}\n', CLIENT_MESSAGES)
    with pytest.raises(WireError, match="unknown type 'hello'"):
        decode(b'{"type":"hello","protocol":[1,1]}\n', AGENT_MESSAGES)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=200))
@example(b"[" * CLIENT_LINE_LIMIT)
@example(b"-" * CLIENT_LINE_LIMIT)
def test_no_bytes_raise_anything_else_and_every_refusal_can_be_sent(line: bytes) -> None:
    error = refused(line)

    assert len(encode(Error(error.code, str(error)))) < CLIENT_LINE_LIMIT


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(EVERYTHING)), st.data())
def test_no_content_raises_anything_else(name: str, data: st.DataObject) -> None:
    spoiled = {
        field.name: data.draw(json_values)
        for field in fields(EVERYTHING[name])
        if data.draw(st.booleans())
    }
    content = {**content_of(EVERYTHING[name]), **spoiled}
    line = json.dumps(content).encode()

    try:
        message = decode(line, EVERYTHING)
    except WireError as error:
        assert error.code == "bad_message"  # noqa: PT017 — both ends are right here
    else:
        assert decode(encode(message), EVERYTHING) == message


def test_an_object_may_be_read_on_its_own() -> None:
    assert decode_object(b'{"a":[1]}\n') == {"a": [1]}
    with pytest.raises(WireError, match="not a JSON object"):
        decode_object(b"[]\n")
