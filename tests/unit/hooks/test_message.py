"""What a program is told: the same in its environment and on its standard input."""

from __future__ import annotations

import json
from typing import Any

from lastcall.core.model import DeadlineQuality
from lastcall.core.views import NoticeView
from lastcall.hooks.message import TEXT_CHARACTERS, Fields, as_json, as_variables, fields_of, plain
from support.agent_socket import view
from support.happenings import UNIX_AT_ZERO

STATED: dict[str, Any] = {
    "deadline": 120.0,
    "deadline_unix": UNIX_AT_ZERO + 120.5,
    "deadline_quality": DeadlineQuality.PROVIDER,
    "drains": True,
}


def told(notice: NoticeView, now: float = 20.0) -> Fields:
    return fields_of("on_notice", notice, node_name="gpu-7", now=now, wall=UNIX_AT_ZERO + now)


def test_a_program_is_told_all_that_a_script_may_go_by() -> None:
    assert as_variables(told(view(**STATED))) == {
        "LASTCALL_EVENT": "on_notice",
        "LASTCALL_NOTICE_ID": "n-1",
        "LASTCALL_KIND": "preemption",
        "LASTCALL_SOURCE": "aws",
        "LASTCALL_ACTION": "terminate",
        "LASTCALL_URGENCY": "now",
        "LASTCALL_DRILL": "0",
        "LASTCALL_DRAIN": "1",
        "LASTCALL_DEADLINE_UNIX": str(UNIX_AT_ZERO + 120.5),
        "LASTCALL_DEADLINE_QUALITY": "provider",
        "LASTCALL_REMAINING_SECONDS": "100.0",
        "LASTCALL_NODE": "gpu-7",
        "LASTCALL_REASON": "spot instance interruption",
    }


def test_the_json_says_the_same_in_one_line_with_types_of_its_own() -> None:
    line = as_json({**told(view(**STATED)), "flushes": {"in_time": 8}})

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    content = json.loads(line)
    assert (content["drill"], content["drain"]) == (False, True)
    assert content["remaining_seconds"] == 100.0
    assert content["flushes"] == {"in_time": 8}


def test_counts_are_variables_of_their_own() -> None:
    counted = as_variables({"flushes": {"in_time": 8, "unfinished": 1}})

    assert counted == {"LASTCALL_FLUSHES_IN_TIME": "8", "LASTCALL_FLUSHES_UNFINISHED": "1"}


def test_an_assumed_deadline_is_told_as_wall_time_too() -> None:
    fields = told(view(deadline=50.0, deadline_quality=DeadlineQuality.ASSUMED))

    assert (fields["deadline_unix"], fields["remaining_seconds"]) == (UNIX_AT_ZERO + 50, 30.0)
    assert fields["deadline_quality"] == "assumed"


def test_a_notice_without_a_deadline_has_none_to_tell() -> None:
    fields = told(view())

    assert (fields["deadline_unix"], fields["remaining_seconds"]) == (None, None)
    variables = as_variables(fields)
    assert variables["LASTCALL_DEADLINE_UNIX"] == variables["LASTCALL_REMAINING_SECONDS"] == ""


def test_after_the_deadline_nothing_remains() -> None:
    assert told(view(**STATED), now=130.0)["remaining_seconds"] == 0.0


def test_a_text_from_outside_fits_any_environment() -> None:
    assert plain("a\0b\nc\udc80 d") == "a b c  d"
    assert plain("é" * 2000) == "é" * (TEXT_CHARACTERS - 1) + "…"
    assert told(view(reason="stop\0now"))["reason"] == "stop now"
