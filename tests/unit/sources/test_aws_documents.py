"""What EC2's metadata says, in every form that was seen, and in forms that nobody should send."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.model import Action, Kind, Sighting, Stance
from lastcall.core.policy import Policy
from lastcall.sources.aws_documents import (
    Reading,
    parse_time,
    read_instance_action,
    read_rebalance,
    read_scheduled,
    read_target_state,
)

NOW_UNIX = datetime(2031, 5, 4, 10, 20, tzinfo=UTC).timestamp()
NOW = 1000.0
IN_TWO_MINUTES = "2031-05-04T10:22:00Z"

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["action", "time", "noticeTime", "EventId", "NotBefore", "Code", "State"]
            )
            | st.text(max_size=5),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


def deadline(unix: float) -> float:
    return unix - NOW_UNIX + NOW


def interruption(content: object) -> Reading:
    return read_instance_action(content, deadline, NOW)


def events(*entries: object) -> Reading:
    return read_scheduled(list(entries), deadline)


def event(**changes: object) -> dict[str, object]:
    return {
        "NotBefore": "21 May 2031 09:00:43 GMT",
        "NotAfter": "21 May 2031 09:17:23 GMT",
        "Code": "system-reboot",
        "Description": "scheduled reboot",
        "EventId": "instance-event-0aaaabbbbccccdddd",
        "State": "active",
    } | changes


def only(reading: Reading) -> Sighting:
    (sighting,) = reading.sightings
    return sighting


# --- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "2031-05-04T10:22:00Z",
        "2031-05-04t10:22:00z",
        " 2031-05-04T10:22:00Z\n",
        "2031-05-04T10:22:00.000Z",
        "2031-05-04T12:22:00+02:00",
        "2031-05-04T10:22:00",
        "04 May 2031 10:22:00 GMT",
        "4 May 2031 10:22:00 GMT",
        " 4 may 2031  10:22:00  GMT ",
        "04 MAY 2031 10:22:00 UTC",
        "04 May 2031 10:22:00",
        "Sun, 04 May 2031 10:22:00 GMT",
    ],
)
def test_a_time_is_read_in_every_form(text):
    assert parse_time(text) == NOW_UNIX + 120


@pytest.mark.parametrize(
    "value",
    [None, "", " ", "none", "soon", "2031-05-04", "99 May 2031 10:22:00 GMT", 1_935_520_000, []],
)
def test_what_is_no_time_is_none(value):
    assert parse_time(value) is None


@given(st.text(max_size=40))
def test_no_text_is_a_fault(text):
    assert parse_time(text) is None or isinstance(parse_time(text), float)


# --- spot interruptions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "action"), [("terminate", Action.TERMINATE), ("stop", Action.STOP)]
)
def test_an_interruption_has_the_deadline_that_is_stated(word, action):
    reading = interruption({"action": word, "time": IN_TWO_MINUTES})

    assert only(reading) == Sighting(
        source="aws",
        scope="spot/instance-action",
        key="instance-action",
        kind=Kind.PREEMPTION,
        action=action,
        code=word,
        deadline=NOW + 120,
        deadline_unix=NOW_UNIX + 120,
        reason=f"EC2 takes this Spot Instance back: {word}",
    )
    assert reading.trouble == ""


def test_a_hibernation_has_begun_when_it_is_seen():
    sighting = only(interruption({"action": "hibernate", "time": IN_TWO_MINUTES}))

    assert (sighting.action, sighting.deadline) == (Action.HIBERNATE, NOW)
    assert sighting.deadline_unix == NOW_UNIX + 120


def test_an_action_that_is_not_known_is_an_interruption_all_the_same():
    sighting = only(interruption({"action": "vaporise", "time": IN_TWO_MINUTES}))

    assert (sighting.action, sighting.code) == (Action.UNKNOWN, "vaporise")
    assert sighting.deadline == NOW + 120


def test_a_time_in_the_past_is_taken_as_it_is():
    reading = interruption({"action": "terminate", "time": "2031-05-04T10:19:00Z"})

    assert only(reading).deadline == NOW - 60
    assert reading.trouble == ""


@pytest.mark.parametrize(
    ("stated", "complaint"),
    [
        ("soon", "no usable time: 'soon'"),
        (None, "no usable time: None"),
        ("", "no usable time: ''"),
        (1_935_520_000, "no usable time: 1935520000"),
        ("2031-05-06T10:22:00Z", "no usable time: '2031-05-06T10:22:00Z'"),
    ],
)
def test_a_time_that_is_none_leaves_an_interruption_without_deadline(stated, complaint):
    reading = interruption({"action": "terminate", "time": stated})

    assert only(reading).deadline is None
    assert only(reading).deadline_unix is None
    assert reading.trouble == complaint


def test_an_interruption_that_names_no_action_still_has_its_time():
    sighting = only(interruption({"time": IN_TWO_MINUTES}))

    assert (sighting.action, sighting.code) == (Action.UNKNOWN, "")
    assert sighting.deadline == NOW + 120


@pytest.mark.parametrize("content", [None, [], "terminate", 7, {}, {"error": "busy"}])
def test_a_document_that_tells_nothing_is_refused(content):
    with pytest.raises(ValueError, match=r"no JSON object|neither"):
        interruption(content)


# --- target lifecycle state ------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Terminated", "Terminated\n", "  Terminated  "])
def test_a_group_that_terminates_the_instance_is_a_notice_without_a_time(text):
    sighting = only(read_target_state(text))

    assert (sighting.kind, sighting.action) == (Kind.TERMINATION, Action.TERMINATE)
    assert sighting.code == "Terminated"
    assert sighting.deadline is None


@pytest.mark.parametrize(
    "state",
    [
        "InService",
        "Detached",
        "Standby",
        "Warmed:Hibernated",
        "Warmed:Terminated",
        "Warmed:Stopped",
    ],
)
def test_any_other_state_is_no_notice(state):
    assert read_target_state(state) == Reading()


@pytest.mark.parametrize(
    "text", ["", " \n", "<html></html>", "Service Unavailable", '"Terminated"']
)
def test_a_text_that_is_no_state_is_refused(text):
    with pytest.raises(ValueError, match="no lifecycle state"):
        read_target_state(text)


# --- rebalance recommendations ---------------------------------------------------------------


def test_a_recommendation_is_known_by_when_it_was_made():
    sighting = only(read_rebalance({"noticeTime": "2031-05-04T10:05:00Z"}))

    assert (sighting.kind, sighting.action) == (Kind.REBALANCE, Action.NONE)
    assert sighting.identity == "2031-05-04T10:05:00Z"
    assert sighting.deadline is None


def test_a_recommendation_whose_time_is_none_is_shown_and_complained_about():
    reading = read_rebalance({"noticeTime": "lately"})

    assert only(reading).identity == "lately"
    assert reading.trouble == "no time: noticeTime 'lately'"


@pytest.mark.parametrize("content", [None, [], {}, {"noticeTime": None}, {"noticeTime": 7}])
def test_a_recommendation_that_names_no_time_is_refused(content):
    with pytest.raises(ValueError, match=r"no JSON object|no noticeTime"):
        read_rebalance(content)


# --- scheduled events ------------------------------------------------------------------------


def test_no_events_are_no_sightings():
    assert events() == Reading()


def test_an_event_is_known_by_its_id_and_has_its_time():
    reading = events(event())

    starts_unix = datetime(2031, 5, 21, 9, 0, 43, tzinfo=UTC).timestamp()
    assert only(reading) == Sighting(
        source="aws",
        scope="events/maintenance/scheduled",
        key="instance-event-0aaaabbbbccccdddd",
        kind=Kind.MAINTENANCE,
        action=Action.REBOOT,
        identity="instance-event-0aaaabbbbccccdddd",
        code="system-reboot",
        deadline=deadline(starts_unix),
        deadline_unix=starts_unix,
        reason="scheduled reboot",
        cancellable=True,
    )
    assert reading.trouble == ""


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("instance-stop", Action.STOP),
        ("instance-retirement", Action.TERMINATE),
        ("instance-reboot", Action.REBOOT),
        ("system-reboot", Action.REBOOT),
        ("system-maintenance", Action.REBOOT),
        ("instance-teleport", Action.UNKNOWN),
    ],
)
def test_each_code_has_its_action_and_none_is_harmless(code, action):
    sighting = only(events(event(Code=code)))

    assert sighting.action is action
    assert Policy().respond(sighting).stance is Stance.FLUSH


@pytest.mark.parametrize(
    "changes",
    [
        {"State": "completed"},
        {"State": "canceled"},
        {"State": " Cancelled "},
        {"Description": "[Completed] scheduled reboot"},
        {"Description": "[Canceled] scheduled reboot"},
        {"Description": " [canceled] scheduled reboot"},
    ],
)
def test_an_event_that_is_over_is_no_sighting(changes):
    assert events(event(**changes)) == Reading()


@pytest.mark.parametrize("state", ["active", "", None, "pending"])
def test_any_other_state_stands(state):
    assert len(events(event(State=state)).sightings) == 1


def test_a_time_that_is_none_is_complained_about_and_hides_nothing():
    reading = events(
        event(EventId="one", NotBefore="when it suits"),
        event(EventId="two"),
        event(EventId="three"),
    )

    one, two, three = reading.sightings
    assert one.deadline is None
    assert two.deadline is not None
    assert three.deadline is not None
    assert reading.trouble == "one: no time: NotBefore 'when it suits'"
    assert reading.whole


@pytest.mark.parametrize("entry", [None, 7, "event", [], {}, {"EventId": 7, "Code": None}])
def test_an_entry_that_names_no_event_hides_nothing_and_proves_no_absence(entry):
    reading = events(entry, event())

    assert only(reading).code == "system-reboot"
    assert reading.trouble == "an entry that names no event"
    assert not reading.whole


def test_an_event_without_an_id_is_known_by_its_code():
    assert only(events(event(EventId=""))).key == "system-reboot"


@pytest.mark.parametrize("turned", [False, True])
def test_the_same_event_listed_twice_counts_once_with_its_earlier_time(turned):
    entries = [
        event(NotBefore="21 May 2031 09:00:43 GMT"),
        event(NotBefore="11 May 2031 09:00:43 GMT"),
        event(NotBefore="never"),
    ]

    sighting = only(events(*(reversed(entries) if turned else entries)))

    assert sighting.deadline_unix == datetime(2031, 5, 11, 9, 0, 43, tzinfo=UTC).timestamp()


def test_a_copy_that_is_over_does_not_end_the_one_that_stands():
    assert len(events(event(State="canceled"), event()).sightings) == 1


def test_a_long_description_is_cut_and_stays_on_one_line():
    sighting = only(events(event(Description="degraded\n\x1bhardware  " + "x" * 1000)))

    assert sighting.reason.startswith("degraded hardware xxx")
    assert len(sighting.reason) == 200


@pytest.mark.parametrize("content", [None, {}, "none", 7])
def test_what_is_no_list_is_refused(content):
    with pytest.raises(ValueError, match="no list of events"):
        read_scheduled(content, deadline)


# --- whatever comes --------------------------------------------------------------------------


@given(JSON)
def test_no_document_is_a_fault(content):
    for read in (
        interruption,
        read_rebalance,
        lambda document: read_scheduled(document, deadline),
        lambda document: read_target_state(json.dumps(document)),
    ):
        try:
            reading = read(content)
        except ValueError:
            continue
        assert isinstance(reading, Reading)
