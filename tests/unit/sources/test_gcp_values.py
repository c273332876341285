"""Every form in which Google's metadata server was seen to say what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.model import Action, Kind, Sighting, Stance
from lastcall.core.policy import Policy
from lastcall.sources import gcp_values
from lastcall.sources.gcp_values import Reading

START = "2030-01-01T10:00:00Z"
START_UNIX = datetime(2030, 1, 1, 10, tzinfo=UTC).timestamp()
BOOTED_UNIX = START_UNIX - 5000.0

SNAKE = {
    "type": "SCHEDULED",
    "can_reschedule": "true",
    "maintenance_status": "PENDING",
    "window_start_time": START,
    "window_end_time": "2030-01-01T14:00:00Z",
    "latest_window_start_time": "2030-01-02T10:00:00Z",
    "maintenance_reasons": ["PLANNED_UPDATE"],
}
CAMEL = {
    "type": "SCHEDULED",
    "canReschedule": True,
    "maintenanceStatus": "PENDING",
    "windowStartTime": START,
    "windowEndTime": "2030-01-01T14:00:00Z",
}


def on_the_monotonic_clock(unix: float) -> float:
    return unix - BOOTED_UNIX


def upcoming(text: str) -> Reading:
    return gcp_values.read_upcoming_maintenance(text, on_the_monotonic_clock)


def reading_or_complaint(read: Callable[[str], Reading], text: str) -> Reading | str:
    try:
        return read(text)
    except ValueError as error:
        return str(error)


def only(reading: Reading) -> Sighting:
    (sighting,) = reading.sightings
    return sighting


# --- preempted -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["TRUE", "TRUE\n", '"TRUE"', ' "TRUE" \n'])
def test_preempted_true_is_a_preemption_without_a_deadline(text: str) -> None:
    sighting = only(gcp_values.read_preempted(text))

    assert sighting.kind is Kind.PREEMPTION
    assert sighting.action is Action.STOP
    assert sighting.scope == "instance/preempted"
    assert sighting.deadline is None
    assert sighting.deadline_unix is None
    assert not sighting.cancellable


@pytest.mark.parametrize("text", ["FALSE", "FALSE\n", '"FALSE"'])
def test_preempted_false_is_nothing(text: str) -> None:
    assert gcp_values.read_preempted(text) == Reading()


@pytest.mark.parametrize("text", ["", " \n", "NONE", "true", '"TRUE', "<html>TRUE</html>", "{}"])
def test_any_other_value_of_preempted_is_neither_yes_nor_no(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        gcp_values.read_preempted(text)


# --- maintenance-event -----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["NONE", '"NONE"', "NONE\n"])
def test_no_maintenance_event_is_nothing(text: str) -> None:
    assert gcp_values.read_maintenance_event(text) == Reading()


def test_termination_for_maintenance_leaves_an_hour_to_flush() -> None:
    sighting = only(gcp_values.read_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE"))

    assert (sighting.kind, sighting.action) == (Kind.MAINTENANCE, Action.TERMINATE)
    assert sighting.code == "TERMINATE_ON_HOST_MAINTENANCE"
    assert sighting.cancellable
    response = Policy().respond(sighting)
    assert (response.stance, response.assumed_lead_seconds) == (Stance.FLUSH, 3600.0)


@pytest.mark.parametrize(
    ("text", "action"),
    [("MIGRATE_ON_HOST_MAINTENANCE", Action.MIGRATE), ('"SOMETHING_NEW"', Action.NONE)],
)
def test_a_migration_and_an_unknown_value_are_only_shown(text: str, action: Action) -> None:
    sighting = only(gcp_values.read_maintenance_event(text))

    assert sighting.action is action
    assert sighting.code == text.strip('"')
    assert Policy().respond(sighting).stance is Stance.INFORM


def test_a_migration_that_becomes_a_termination_is_a_new_event() -> None:
    migration = only(gcp_values.read_maintenance_event("MIGRATE_ON_HOST_MAINTENANCE"))
    termination = only(gcp_values.read_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE"))

    assert migration.key != termination.key


def test_an_empty_maintenance_event_is_unreadable() -> None:
    with pytest.raises(ValueError, match="empty"):
        gcp_values.read_maintenance_event("")


# --- upcoming-maintenance --------------------------------------------------------------------


@pytest.mark.parametrize("text", ["NONE", '"NONE"', "NONE\n", "{ }", "{}", '{"upcoming": {}}'])
def test_no_window_in_any_form_is_nothing(text: str) -> None:
    assert upcoming(text) == Reading()


@pytest.mark.parametrize(
    "document",
    [SNAKE, CAMEL, {"Upcoming maintenance": SNAKE}, {"upcomingMaintenance": CAMEL}],
    ids=["snake", "camel", "wrapped", "wrapped-camel"],
)
def test_a_window_in_any_form_is_maintenance_at_its_start(document: object) -> None:
    reading = upcoming(json.dumps(document))

    sighting = only(reading)
    assert reading.trouble == ""
    assert (sighting.kind, sighting.action) == (Kind.MAINTENANCE, Action.TERMINATE)
    assert (sighting.key, sighting.code) == ("window", "upcoming-maintenance")
    assert sighting.deadline_unix == START_UNIX
    assert sighting.deadline == pytest.approx(5000.0)
    assert sighting.cancellable
    assert "it can be rescheduled" in sighting.reason


def test_the_reasons_are_told_where_they_are_given() -> None:
    document = SNAKE | {"maintenance_reasons": ["FAILURE_GPU_XID", "FAILURE_NVLINK"]}

    assert "FAILURE_GPU_XID, FAILURE_NVLINK" in only(upcoming(json.dumps(document))).reason


def test_a_window_that_cannot_be_moved_does_not_say_so() -> None:
    document = SNAKE | {"can_reschedule": "false"}

    assert "rescheduled" not in only(upcoming(json.dumps(document))).reason


@pytest.mark.parametrize("status", ["PENDING", "ONGOING", "SOMETHING_NEW"])
def test_a_window_stands_until_it_is_complete(status: str) -> None:
    assert upcoming(json.dumps(SNAKE | {"maintenance_status": status})).sightings


def test_a_complete_window_is_nothing() -> None:
    assert upcoming(json.dumps(SNAKE | {"maintenance_status": "COMPLETE"})) == Reading()


@pytest.mark.parametrize(
    "document", [{"can_reschedule": "true"}, SNAKE | {"window_start_time": ""}]
)
def test_a_window_without_a_start_is_shown_without_a_deadline(document: object) -> None:
    reading = upcoming(json.dumps(document))

    assert only(reading).deadline is None
    assert reading.trouble == ""


@pytest.mark.parametrize("start", ["soon", 12, {"seconds": 1}, "2030-13-01T10:00:00Z"])
def test_an_unreadable_start_is_trouble_and_hides_no_window(start: object) -> None:
    reading = upcoming(json.dumps(SNAKE | {"window_start_time": start}))

    assert only(reading).deadline is None
    assert "window_start_time" in reading.trouble


@pytest.mark.parametrize(
    "text", ["", "soon", "[1]", '{"a": 1}', '{"a": {"b": 1}}', '{"type": ', "7", "[" * 100_000]
)
def test_what_is_no_window_is_unreadable(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        upcoming(text)


@settings(deadline=None, max_examples=50)
@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_no_text_does_worse_than_be_unreadable(text: str) -> None:
    for read in (gcp_values.read_preempted, gcp_values.read_maintenance_event, upcoming):
        outcome = reading_or_complaint(read, text)

        assert isinstance(outcome, Reading) or len(outcome) < 500


@pytest.mark.parametrize(
    ("text", "nothing_yet"),
    [
        ('{"error":"no notifications have been received yet, try again later"}', True),
        ('{"error":"internal"}', False),
        ('{"error":{"code":503}}', False),
        ("[]", False),
        ("no notifications", False),
        ("[" * 100_000, False),
    ],
)
def test_only_one_error_says_that_nothing_was_announced_yet(text: str, nothing_yet: bool) -> None:
    assert gcp_values.says_nothing_yet(text) is nothing_yet


@pytest.mark.parametrize(
    ("key", "value", "facts"),
    [
        ("name", "n-1", {"instance_name": "n-1"}),
        ("hostname", "n-1.c.p.internal", {"instance_name": "n-1"}),
        ("id", "12", {"instance_id": "12"}),
        ("machine-type", "projects/1/machineTypes/a3", {"instance_type": "a3"}),
        ("zone", "projects/1/zones/xx-east1-a", {"zone": "xx-east1-a", "region": "xx-east1"}),
        ("scheduling/preemptible", "TRUE", {"lifecycle": "spot"}),
        ("scheduling/preemptible", "FALSE", {"lifecycle": "on-demand"}),
        ("tags", "[]", {}),
    ],
)
def test_facts_are_named_as_for_every_provider(key: str, value: str, facts: dict[str, str]) -> None:
    assert dict(gcp_values.facts(f"instance/{key}", value)) == facts
