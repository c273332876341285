"""Events survive the way to the disk and back, and what is broken there costs only itself."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.events import (
    CheckpointReported,
    ClientJoined,
    Event,
    FlushReported,
    SourceReported,
    Tick,
)
from lastcall.core.model import Action, Kind, Sighting
from lastcall.record.journal_lines import (
    EVENT_TYPES,
    VERSION,
    Entry,
    decode_line,
    decode_lines,
    encode_line,
)

SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return what a field with this annotation may hold."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if origin is None:
        return events_of(hint) if is_dataclass(hint) else st.sampled_from(hint)
    if origin is types.UnionType:
        return st.one_of([values_of(item) for item in inner])
    if origin is Mapping:
        return st.dictionaries(values_of(inner[0]), values_of(inner[1]), max_size=2)
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*[values_of(item) for item in inner])
    return st.lists(values_of(inner[0]), max_size=2).map(origin)


def events_of(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})


ANY_EVENT = st.one_of([events_of(kind) for kind in EVENT_TYPES.values()])
SEEN = SourceReported(
    "aws",
    "spot/instance-action",
    (
        Sighting(
            source="aws",
            scope="spot/instance-action",
            key="terminate",
            kind=Kind.PREEMPTION,
            action=Action.TERMINATE,
            deadline=220.5,
            deadline_unix=1700000120.0,
            reason="Größe",
        ),
    ),
)
SAVED = FlushReported(session="s1", id="aws-preemption-1", path="/ckpt/7", step=7)


def entry(event: Event, at: float = 100.25, boot: str = "boot-1") -> Entry:
    return Entry(boot, at, 1700000000.5, event)


def story() -> list[Entry]:
    events = [
        ClientJoined(session="s1", identity="42@1", job="llama", rank=0, handled=("a", "b")),
        CheckpointReported(session="s1", step=3, stall_seconds=0.5),
        SEEN,
        SAVED,
    ]
    return [entry(event, at=100.0 + number) for number, event in enumerate(events)]


@settings(max_examples=300)
@given(event=ANY_EVENT, at=SIMPLE[float])
def test_every_event_comes_back_as_it_went(event: Event, at: float) -> None:
    line = encode_line(entry(event, at))

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_line(line) == entry(event, at)


def test_the_nested_types_come_back_themselves() -> None:
    back = decode_line(encode_line(entry(SEEN)))

    assert back is not None
    assert isinstance(back.event, SourceReported)
    assert isinstance(back.event.sightings, tuple)
    assert back.event.sightings[0].kind is Kind.PREEMPTION


def test_a_line_says_what_happened_when_and_in_which_boot() -> None:
    line = msgspec.json.decode(encode_line(entry(Tick())))

    assert line == {
        "v": VERSION,
        "boot": "boot-1",
        "at": 100.25,
        "at_unix": 1700000000.5,
        "event": "Tick",
        "fields": {},
    }


def test_every_truncation_of_a_journal_holds_a_prefix_of_its_events() -> None:
    whole = story()
    content = b"".join(encode_line(item) for item in whole)

    for length in range(len(content) + 1):
        entries, skipped = decode_lines(content[:length])
        assert entries == whole[: len(entries)]
        assert skipped <= 1
        assert len(entries) + skipped >= content[:length].count(b"\n")


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b"null",
        b"\xff\xfe",
        b"[" * 5000,
        b'{"v": 1}',
        b"{}",
        b'{"v":1,"boot":"b","at":1e999,"at_unix":1.0,"event":"Tick","fields":{}}',
        b'{"v":1,"boot":"b","at":1.0,"at_unix":1.0,"event":"Event","fields":{}}',
        b'{"v":1,"boot":"b","at":1.0,"at_unix":1.0,"event":"Annexed","fields":{}}',
        b'{"v":1,"boot":"b","at":1.0,"at_unix":1.0,"event":"ProcessDied","fields":{}}',
        b'{"v":1,"boot":"b","at":1.0,"at_unix":1.0,"event":"ProcessDied","fields":{"identity":7}}',
        b'{"v":2,"boot":"b","at":1.0,"at_unix":1.0,"event":"Tick","fields":{}}',
        b'{"v":0,"boot":"b","at":1.0,"at_unix":1.0,"event":"Tick","fields":{}}',
    ],
)
def test_a_line_that_means_nothing_here_is_skipped_and_counted(broken: bytes) -> None:
    before, after = entry(SEEN, at=1.0), entry(SAVED, at=2.0)

    entries, skipped = decode_lines(encode_line(before) + broken + b"\n" + encode_line(after))

    assert entries == [before, after]
    assert skipped == 1


def test_a_field_of_a_later_version_is_ignored() -> None:
    line = (
        b'{"v":1,"boot":"b","at":1.0,"at_unix":1.0,"event":"ProcessDied",'
        b'"fields":{"identity":"42@1","exit_code":9},"host":"n1"}'
    )

    back = decode_line(line)

    assert back is not None
    assert back.event == EVENT_TYPES["ProcessDied"]("42@1")  # type: ignore[call-arg]  # looked up by name


@given(noise=st.binary(max_size=200))
def test_no_noise_stops_the_reading(noise: bytes) -> None:
    kept = entry(SAVED)

    entries, _ = decode_lines(noise + b"\n" + encode_line(kept))

    assert entries[-1] == kept


def test_a_line_written_again_is_one_event() -> None:
    line = encode_line(entry(SAVED))

    assert decode_lines(line + line) == ([entry(SAVED)], 0)


def test_half_a_character_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode_line(entry(CheckpointReported(session="s1", step=1, path="\ud800")))
