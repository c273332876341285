"""Every message survives the way to the line and back, as one line."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.wire.codec import decode, encode, encode_object
from lastcall.wire.messages import (
    AGENT_MESSAGES,
    CLIENT_MESSAGES,
    TEXT_LIMIT,
    Ack,
    Bye,
    FromAgent,
    FromClient,
    Hello,
    Message,
    Notice,
    Welcome,
)

WHOLE_LIMIT = 2**63 - 1

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
numbers = st.floats(0, 2**63, exclude_max=True)
wholes = st.integers(0, WHOLE_LIMIT)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": wholes,
    "float": numbers,
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(texts, max_size=4).map(tuple),
    "tuple[int, int]": st.tuples(wholes, wholes),
    "tuple[Notice, ...]": st.deferred(lambda: st.lists(messages_of(Notice), max_size=2).map(tuple)),
}
VOCABULARIES: dict[str, dict[str, type[Message]]] = {
    "client": dict(CLIENT_MESSAGES),
    "agent": dict(AGENT_MESSAGES),
}
ALL = [
    pytest.param(vocabulary, message, id=f"{side}-{name}")
    for side, vocabulary in VOCABULARIES.items()
    for name, message in vocabulary.items()
]


def messages_of(message: type[Message]) -> st.SearchStrategy[Any]:
    """Return a strategy for messages of a type, from what its class says of its fields."""
    values = {}
    for field in fields(message):
        annotation = str(field.type)
        value = VALUES[annotation.removesuffix(" | None")]
        values[field.name] = st.none() | value if annotation.endswith(" | None") else value
    return st.builds(message, **values)


@pytest.mark.parametrize(("vocabulary", "message"), ALL)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_a_message_comes_back_as_it_went(
    data: st.DataObject, vocabulary: dict[str, type[Message]], message: type[Message]
) -> None:
    sent = data.draw(messages_of(message))

    line = encode(sent)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert decode(line, vocabulary) == sent


@pytest.mark.parametrize(("vocabulary", "message"), ALL)
def test_what_is_none_is_left_out_if_it_is_optional_and_null_if_it_always_stands(
    vocabulary: dict[str, type[Message]], message: type[Message]
) -> None:
    optional = [field for field in fields(message) if str(field.type).endswith(" | None")]
    filled = next(iter(_examples(message)))
    empty = replace(filled, **{field.name: None for field in optional})

    content = json.loads(encode(empty))

    standing = {field.name for field in optional if field.default is MISSING}
    assert {field.name for field in optional} & content.keys() == standing
    assert all(content[name] is None for name in standing)
    assert content["type"] == message.type
    assert decode(encode(empty), vocabulary) == empty


@pytest.mark.parametrize(("vocabulary", "message"), ALL)
def test_fields_that_are_not_known_are_ignored(
    vocabulary: dict[str, type[Message]], message: type[Message]
) -> None:
    sent = next(iter(_examples(message)))
    content = json.loads(encode(sent))

    line = encode_object({**content, "from_the_future": {"deep": [1, None]}, "x": "y" * 9000})

    assert decode(line, vocabulary) == sent


@pytest.mark.parametrize(("vocabulary", "message"), ALL)
def test_null_stands_for_left_out(
    vocabulary: dict[str, type[Message]], message: type[Message]
) -> None:
    may_lack = [
        field.name
        for field in fields(message)
        if str(field.type).endswith(" | None") or field.default is not MISSING
    ]
    content = json.loads(encode(next(iter(_examples(message)))))
    nulls = {**content, **dict.fromkeys(may_lack)}
    left_out = {name: value for name, value in content.items() if name not in may_lack}

    assert decode(encode_object(nulls), vocabulary) == decode(encode_object(left_out), vocabulary)


def test_a_notice_without_a_deadline_says_so_within_a_welcome_as_well() -> None:
    notice = Notice(
        id="n",
        kind="rebalance",
        source="aws",
        action="none",
        urgency="soon",
        deadline_unix=None,
        remaining_seconds=None,
        budget_seconds=None,
        deadline_quality="none",
        cancellable=False,
        drill=False,
        reason="",
    )
    welcome = Welcome(protocol=1, agent="lastcall", node="n1", session="s1", notices=(notice,))

    (content,) = json.loads(encode(welcome))["notices"]

    assert content["deadline_unix"] is content["remaining_seconds"] is None
    assert "type" not in content
    assert decode(encode(welcome), AGENT_MESSAGES) == welcome


@pytest.mark.parametrize(
    ("given_number", "taken"), [(b"7", 7), (b"7.0", 7), (b"7e0", 7), (b"0", 0), (b"-0.0", 0)]
)
def test_a_whole_number_may_be_written_in_any_way(given_number: bytes, taken: int) -> None:
    message = decode(b'{"type":"ack","id":"n","step":%s}\n' % given_number, CLIENT_MESSAGES)

    assert isinstance(message, Ack)
    assert message.step == taken
    assert type(message.step) is int


def test_the_newline_may_be_missing_and_spaces_may_stand_around() -> None:
    for line in (b'{"type":"bye"}', b'{"type":"bye"}\r\n', b' { "type" : "bye" } \n'):
        assert decode(line, CLIENT_MESSAGES) == Bye()


def test_the_longest_text_is_taken() -> None:
    longest = "ü" * TEXT_LIMIT

    assert decode(encode(Bye(longest)), CLIENT_MESSAGES) == Bye(longest)


def test_a_text_with_every_kind_of_line_end_stays_on_one_line() -> None:
    odd = "a\nb\rc\u2028d\u2029e\x85f\x0bg\x1ch"

    line = encode(Bye(odd))

    assert len(line.splitlines()) == 1
    assert decode(line, CLIENT_MESSAGES) == Bye(odd)


def test_the_vocabularies_are_what_each_side_says() -> None:
    assert set(CLIENT_MESSAGES.values()) == set(FromClient.__args__)
    assert set(AGENT_MESSAGES.values()) == set(FromAgent.__args__)
    for vocabulary in VOCABULARIES.values():
        assert all(name == message.type for name, message in vocabulary.items())


def test_a_name_that_both_sides_use_is_one_message() -> None:
    both = CLIENT_MESSAGES.keys() & AGENT_MESSAGES.keys()

    assert both == {"bye"}
    assert CLIENT_MESSAGES["bye"] is AGENT_MESSAGES["bye"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match=r"[Oo]ut of range"):
        encode_object({"x": value})


def test_a_hello_needs_only_the_versions_it_speaks() -> None:
    assert decode(b'{"type":"hello","protocol":[1,2]}\n', CLIENT_MESSAGES) == Hello((1, 2))


def _examples(message: type[Message]) -> list[Message]:
    """Return one message with every field filled."""
    plain: dict[str, Any] = {
        "str": "text",
        "int": 3,
        "float": 2.5,
        "bool": False,
        "tuple[str, ...]": ("a", "b"),
        "tuple[int, int]": (1, 2),
    }
    values = {}
    for field in fields(message):
        annotation = str(field.type).removesuffix(" | None")
        if annotation == "tuple[Notice, ...]":
            values[field.name] = tuple(_examples(Notice))
        else:
            values[field.name] = plain[annotation]
    return [message(**values)]
