"""The table of XIDs: what it says of each, and that it says so of nothing it should not."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.rules import make_rules
from lastcall.core.gpu.xids import COUNTED, NOISE, UNLISTED, XIDS, Respond

FAULTS = (Respond.RESET, Respond.REBOOT)


@pytest.mark.parametrize(
    ("respond", "numbers"),
    [
        (Respond.APP, (8, 13, 31, 43, 45, 68, 94, 99, 130, 137)),
        (Respond.WATCH, (37, 63, 92, 121, 142, 168)),
        (Respond.RESET, (46, 48, 62, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 158)),
        (Respond.REBOOT, (54, 64, 79, 151, 167)),
        (Respond.ASK, (144, 147, 150, 154)),
        (Respond.IGNORE, (106, 107)),
    ],
)
def test_what_each_class_holds(respond: Respond, numbers: tuple[int, ...]) -> None:
    assert {number: XIDS[number].respond for number in numbers} == dict.fromkeys(numbers, respond)


def test_a_number_that_the_table_does_not_list_is_watched() -> None:
    rules = make_rules()

    assert rules.xid(999) == rules.xid(54321) == UNLISTED
    assert UNLISTED.respond is Respond.WATCH


def test_only_errors_after_which_the_driver_hangs_or_cannot_be_asked_decide_alone() -> None:
    assert {number for number, rule in XIDS.items() if rule.alone} == {79, 119, 120}


def test_only_a_fault_can_cost_the_work_on_a_gpu() -> None:
    lost = {number for number, rule in XIDS.items() if rule.lost}

    assert lost == {79, 95, 140, 158, 167}
    assert all(XIDS[number].respond in FAULTS for number in lost)


def test_whatever_can_be_a_fault_is_counted_under_its_number() -> None:
    faults = {number for number, rule in XIDS.items() if rule.respond in (*FAULTS, Respond.ASK)}

    assert faults <= COUNTED
    assert COUNTED - faults == {13, 31, 43, 45, 63, 92, 94}
    assert len(COUNTED) < 64


def test_what_ended_processes_leave_behind_is_never_a_fault_by_itself() -> None:
    assert all(XIDS[number].respond is Respond.APP for number in NOISE)


def test_repeats_say_more_only_from_their_number_on() -> None:
    rule = XIDS[43]

    assert [rule.after(count) for count in (1, 2, 3, 4)] == [
        Respond.APP,
        Respond.APP,
        Respond.WATCH,
        Respond.WATCH,
    ]


def test_each_line_says_in_words_what_it_is() -> None:
    assert [number for number, rule in XIDS.items() if len(rule.meaning) < 10] == []
