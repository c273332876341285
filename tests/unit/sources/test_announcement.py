"""What the keys of a notice mean: our own, and Mithril's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.model import Action, Kind
from lastcall.sources.announcement import KEYS, Announcement, read_fields

ENDS = "2030-01-31T10:00:00Z"
ENDS_UNIX = 1896084000.0


def test_all_keys_are_optional():
    assert read_fields({}) == Announcement()


def test_each_key_says_what_it_is_named_after():
    read = read_fields(
        {
            "deadline": ENDS,
            "kind": "maintenance",
            "action": "Reboot",
            "id": "change-17",
            "reason": "new\n\x07firmware",
            "whoever": "wrote this",
        }
    )

    assert read == Announcement(
        kind=Kind.MAINTENANCE,
        action=Action.REBOOT,
        identity="change-17",
        reason="new firmware",
        ends_unix=ENDS_UNIX,
    )


@pytest.mark.parametrize(
    ("fields", "ends_unix"),
    [
        ({"end_time": ENDS}, ENDS_UNIX),
        ({"deadline": ENDS_UNIX, "end_time": "2031-01-31T10:00:00Z"}, ENDS_UNIX),
        ({"deadline": "soon", "end_time": ENDS}, ENDS_UNIX),
        ({"deadline": "soon"}, None),
    ],
)
def test_the_first_time_that_can_be_read_holds(fields, ends_unix):
    assert read_fields(fields).ends_unix == ends_unix


@pytest.mark.parametrize("value", [300, 300.0, "300", " 300.0 "])
def test_a_lead_time_is_a_number_of_seconds(value):
    assert read_fields({"lead_seconds": value}).lead_seconds == 300.0


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({"deadline": "soon"}, "deadline 'soon' is no time"),
        ({"lead_seconds": -1}, "lead_seconds -1 is no number of seconds"),
        ({"lead_seconds": "nan"}, "lead_seconds 'nan' is no number of seconds"),
        ({"lead_seconds": True}, "lead_seconds True is no number of seconds"),
        ({"lead_seconds": 1e9}, "lead_seconds 1000000000.0 is no number of seconds"),
        ({"lead_seconds": []}, "lead_seconds [] is no number of seconds"),
        (
            {"kind": "shutdown"},
            "kind 'shutdown' is none of preemption, termination, maintenance",
        ),
        ({"kind": 1}, "kind 1 is none of preemption, termination, maintenance"),
    ],
)
def test_a_value_that_cannot_be_read_is_said_and_costs_nothing_else(fields, trouble):
    read = read_fields({**fields, "reason": "still read"})

    assert (read.trouble, read.reason) == (trouble, "still read")
    assert (read.kind, read.ends_unix, read.lead_seconds) == (None, None, None)


@pytest.mark.parametrize("value", ["two\nlines", "x" * 129, "é", 1.5, None, True])
def test_what_cannot_name_an_occurrence_names_none(value):
    assert read_fields({"id": value}).identity == ""


def test_a_preemption_by_mithril_stops_the_instance_at_its_end_time():
    read = read_fields(
        {
            "instance_status": "STATUS_PREEMPTING",
            "bid_status": "Preempting",
            "end_time": ENDS,
        }
    )

    assert (read.kind, read.action, read.code) == (
        Kind.PREEMPTION,
        Action.STOP,
        "STATUS_PREEMPTING",
    )
    assert (read.ends_unix, read.trouble) == (ENDS_UNIX, "")


def test_a_relocation_by_mithril_starts_the_instance_elsewhere():
    read = read_fields({"instance_status": "STATUS_RELOCATING", "end_time": ENDS})

    assert (read.kind, read.action, read.ends_unix) == (
        Kind.MAINTENANCE,
        Action.REDEPLOY,
        ENDS_UNIX,
    )


def test_another_instance_that_mithril_moves_is_a_reason_to_save_and_go_on():
    read = read_fields(
        {"instance_status": "STATUS_RUNNING", "bid_status": "Relocating", "end_time": ENDS}
    )

    assert (read.kind, read.action, read.ends_unix) == (Kind.REBALANCE, Action.NONE, None)


def test_a_status_that_mithril_has_invented_since_is_a_notice_with_its_time():
    read = read_fields({"instance_status": "STATUS_MELTING", "end_time": ENDS})

    assert (read.kind, read.code, read.ends_unix) == (None, "STATUS_MELTING", ENDS_UNIX)
    assert read.trouble == "instance_status 'STATUS_MELTING' is not known"


@given(
    st.dictionaries(
        st.sampled_from([*KEYS, "id", "reason", "bid_status"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())
        ),
    )
)
def test_no_value_whatever_raises(fields):
    read = read_fields(fields)

    assert read.identity.isprintable()
    assert read.lead_seconds is None or read.lead_seconds >= 0
