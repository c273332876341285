"""What the content of a notice file says, in each form that it may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.model import Kind
from lastcall.sources.announcement import Announcement
from lastcall.sources.file_notice import read_content

ENDS_UNIX = 1896084000.0


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"# nothing\n", b"---\n", b"{}"])
def test_nothing_at_all_is_a_notice_without_trouble(content):
    assert read_content(content) == Announcement()


@pytest.mark.parametrize(
    "content",
    [
        b'{"deadline": "2030-01-31T10:00:00Z", "kind": "termination"}',
        b'\xef\xbb\xbf{"end_time": 1896084000, "kind": "termination"}\n',
        b"deadline: 2030-01-31T10:00:00Z\nkind: termination\n",
        b'---\r\nend_time: "1896084000"\r\nkind: termination  # gone\r\n',
    ],
)
def test_json_and_yaml_say_the_same(content):
    assert read_content(content) == Announcement(kind=Kind.TERMINATION, ends_unix=ENDS_UNIX)


@pytest.mark.parametrize("content", [b"2030-01-31T10:00:00Z\n", b'"1896084000"', b"1896084000"])
def test_a_time_alone_is_the_end(content):
    assert read_content(content) == Announcement(ends_unix=ENDS_UNIX)


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"\xff\xfe\x00", "the content is no UTF-8 text"),
        (b'{"deadline": ', "the content begins as JSON and is none"),
        (b'{"a":' * 30_000, "the content begins as JSON and is none"),
        (b"<html>gone</html>", "line 1 is no key with a value"),
        (b"[1, 2]", "line 1 is no key with a value"),
        (b"deadline: soon\nand more", "deadline 'soon' is no time; line 2 is no key with a value"),
    ],
)
def test_what_cannot_be_read_is_a_notice_with_trouble(content, trouble):
    assert read_content(content) == Announcement(trouble=trouble)


@given(st.binary())
def test_no_content_whatever_raises(content):
    assert isinstance(read_content(content), Announcement)


@given(st.integers(0, 80), st.binary(max_size=3))
def test_a_content_that_is_cut_or_garbled_is_read_as_far_as_it_goes(cut, noise):
    whole = b"instance_status: STATUS_PREEMPTING\nend_time: 2030-01-31T10:00:00Z\nbid_status: x\n"
    read = read_content(whole[:cut] + noise)

    assert read.ends_unix is None or read.ends_unix < 1.9e9
