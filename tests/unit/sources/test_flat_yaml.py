"""The little of YAML that is read, held against a parser for all of it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lastcall.sources.flat_yaml import read_flat_yaml

WORDS = st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True)
PLAIN = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 .:+-]{0,20}[A-Za-z0-9]", fullmatch=True)


def test_keys_and_values_of_the_first_level_are_read_as_texts():
    text = """\
%YAML 1.2
---
# by the controller
instance_status: STATUS_PREEMPTING   # said twice
bid_status : "Preempting"
'end_time': '2030-01-31T10:00:00Z'
note: a # is a comment, b#c is none
url: http://example.test/a:b
empty:
none: ~
nested:
  end_time: 2020-01-01T00:00:00Z
list:
- kind: maintenance
kind: preemption
kind: termination
...
"""

    assert read_flat_yaml(text) == (
        {
            "instance_status": "STATUS_PREEMPTING",
            "bid_status": "Preempting",
            "end_time": "2030-01-31T10:00:00Z",
            "note": "a",
            "url": "http://example.test/a:b",
            "kind": "termination",
        },
        "",
    )


@pytest.mark.parametrize(
    "line", ["<html>", "key:value", "just words", "{a: b}", "? complex", "é: 1"]
)
def test_a_line_that_is_not_read_is_said_and_hides_no_other(line):
    assert read_flat_yaml(f"kind: preemption\n{line}\nreason: x") == (
        {"kind": "preemption", "reason": "x"},
        "line 2 is no key with a value",
    )


@given(st.text())
def test_no_text_whatever_raises(text):
    fields, unread = read_flat_yaml(text)

    assert all(isinstance(value, str) and value for value in fields.values())
    assert isinstance(unread, str)


@given(st.dictionaries(WORDS, PLAIN, min_size=1))
def test_what_a_yaml_library_writes_is_read_as_it_was_meant(fields):
    said = {f"key_{name}": value for name, value in fields.items()}

    assert read_flat_yaml(yaml.safe_dump(said, width=1000)) == (said, "")
