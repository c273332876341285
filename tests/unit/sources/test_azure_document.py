"""What a document of scheduled events says, also where it is not what it should be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.model import Action, Kind
from lastcall.sources.azure_document import Document, ScheduledEvent, read_document, read_machine

NOT_BEFORE_UNIX = datetime(2030, 1, 1, 10, 0, 30, tzinfo=UTC).timestamp()

ENTRY: dict[str, Any] = {
    "EventId": "00000000-0000-4000-8000-000000000001",
    "EventStatus": "Scheduled",
    "EventType": "Preempt",
    "ResourceType": "VirtualMachine",
    "Resources": ["p_3"],
    "NotBefore": "Tue, 01 Jan 2030 10:00:30 GMT",
    "Description": "",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}


def read(*entries: object) -> Document:
    return read_document({"DocumentIncarnation": 7, "Events": list(entries)})


def only(document: Document) -> ScheduledEvent:
    (event,) = document.events
    return event


def test_an_entry_is_read_whole() -> None:
    document = read(ENTRY)

    event = only(document)
    assert event.id == "00000000-0000-4000-8000-000000000001"
    assert (event.kind, event.action) == (Kind.PREEMPTION, Action.TERMINATE)
    assert event.not_before_unix == NOT_BEFORE_UNIX
    assert not event.started
    assert document.whole
    assert document.troubles == ()


def test_an_entry_of_the_oldest_version_is_enough() -> None:
    event = only(read({"EventId": "1", "EventType": "Reboot", "Resources": ["p_3"]}))

    assert (event.type, event.not_before_unix, event.started) == ("Reboot", None, False)


@pytest.mark.parametrize(
    ("event_type", "kind", "action", "ends_work"),
    [
        ("Preempt", Kind.PREEMPTION, Action.TERMINATE, True),
        ("Terminate", Kind.TERMINATION, Action.TERMINATE, True),
        ("Reboot", Kind.MAINTENANCE, Action.REBOOT, True),
        ("Redeploy", Kind.MAINTENANCE, Action.REDEPLOY, True),
        ("Freeze", Kind.MAINTENANCE, Action.FREEZE, False),
        ("SomethingNew", Kind.MAINTENANCE, Action.NONE, False),
    ],
)
def test_each_type_has_its_meaning(
    event_type: str, kind: Kind, action: Action, ends_work: bool
) -> None:
    event = only(read(ENTRY | {"EventType": event_type}))

    assert (event.kind, event.action, event.ends_work) == (kind, action, ends_work)


@pytest.mark.parametrize("text", ["Tue, 01 Jan 2030 10:00:30 GMT", "2030-01-01T10:00:30Z"])
def test_both_ways_to_write_a_time_are_read(text: str) -> None:
    assert only(read(ENTRY | {"NotBefore": text})).not_before_unix == NOT_BEFORE_UNIX


@pytest.mark.parametrize("nothing", ["", None])
def test_no_time_is_no_trouble(nothing: object) -> None:
    document = read(ENTRY | {"NotBefore": nothing})

    assert only(document).not_before_unix is None
    assert document.troubles == ()


@pytest.mark.parametrize("garbage", ["soon", 12, ["2030"], "Tue, 99 Jan 2030 10:00:30 GMT"])
def test_an_unreadable_time_is_trouble_and_hides_no_event(garbage: object) -> None:
    document = read(ENTRY | {"NotBefore": garbage})

    assert only(document).not_before_unix is None
    assert "NotBefore" in document.troubles[0]
    assert document.whole


def test_the_most_urgent_event_comes_first() -> None:
    kinds = ["SomethingNew", "Freeze", "Reboot", "Terminate", "Preempt"]

    document = read(*(ENTRY | {"EventId": kind, "EventType": kind} for kind in kinds))

    assert [event.type for event in document.events] == kinds[::-1]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "Preempt",
        {},
        ENTRY | {"EventId": 1},
        ENTRY | {"EventType": None},
        ENTRY | {"Resources": "p_3"},
        ENTRY | {"Resources": [3]},
        {key: value for key, value in ENTRY.items() if key != "Resources"},
    ],
)
def test_a_broken_entry_is_left_out_and_the_others_stand(broken: object) -> None:
    document = read(broken, ENTRY | {"EventId": "2"})

    assert only(document).id == "2"
    assert not document.whole
    assert len(document.troubles) == 1


def test_an_odd_optional_field_hides_no_event() -> None:
    odd = ENTRY | {"Description": 5, "EventSource": [], "EventStatus": {}, "New": 1}

    assert only(read(odd)).type == "Preempt"


@pytest.mark.parametrize(
    "body", [None, [], {}, "text", {"Events": None}, {"Events": {}}, {"error": "Bad request"}]
)
def test_what_is_no_document_is_unreadable(body: object) -> None:
    with pytest.raises(ValueError, match="no document"):
        read_document(body)


def test_the_description_is_the_reason_where_there_is_one() -> None:
    assert only(read(ENTRY | {"Description": "Host is failing"})).reason == "Host is failing"
    assert "user" in only(read(ENTRY | {"EventSource": "User"})).reason


@pytest.mark.parametrize(("resource", "ours"), [("p_3", True), ("P_3", True), ("p_4", False)])
def test_a_machine_is_known_by_its_name_in_any_case(resource: str, ours: bool) -> None:
    assert only(read(ENTRY | {"Resources": [resource]})).befalls("p_3") is ours


def test_a_machine_is_found_among_many() -> None:
    event = only(read(ENTRY | {"Resources": ["p_1", "p_2", "p_3", "q_1", "q_2"]}))

    assert event.befalls("p_3")
    assert event.shared


def test_a_machine_named_twice_shares_with_nobody() -> None:
    assert not only(read(ENTRY | {"Resources": ["p_3", "P_3"]})).shared


def test_a_machine_is_told_by_its_name_among_resources() -> None:
    compute = {
        "name": "p_10",
        "osProfile": {"computerName": "p00000a"},
        "vmSize": "Standard_ND96isr_H100_v5",
        "location": "westeurope",
        "zone": "",
        "priority": "Spot",
    }

    assert read_machine(compute) == {
        "instance_name": "p_10",
        "instance_type": "Standard_ND96isr_H100_v5",
        "region": "westeurope",
        "lifecycle": "spot",
    }


@pytest.mark.parametrize("priority", ["", "SomethingNew", None, []])
def test_an_unknown_priority_says_nothing(priority: object) -> None:
    assert read_machine({"name": "p_3", "priority": priority}) == {"instance_name": "p_3"}


@pytest.mark.parametrize("compute", [None, [], {}, {"name": ""}, {"name": 3}, {"vmSize": "x"}])
def test_a_document_without_a_name_is_unreadable(compute: object) -> None:
    with pytest.raises(ValueError, match="name"):
        read_machine(compute)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(ENTRY, json_values))))
def test_no_entry_does_worse_than_be_left_out(entries: list[dict[str, object]]) -> None:
    document = read(*entries)

    left_out = len(entries) - len(document.events)
    assert document.whole == (left_out == 0)
    assert len(document.troubles) >= left_out


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_no_text_does_worse_than_be_no_time(text: str) -> None:
    event = only(read(ENTRY | {"NotBefore": text}))

    assert event.not_before_unix is None or isinstance(event.not_before_unix, float)
