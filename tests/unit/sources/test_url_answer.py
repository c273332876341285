"""Which answers announce an end, and which are only some page."""

from __future__ import annotations

import contextlib
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.model import Kind
from lastcall.sources.announcement import Announcement
from lastcall.sources.url_answer import read_answer
from lastcall.sources.url_presets import ALIBABA, TENCENT, address_of

ENDS_UNIX = 1896084000.0
CHINA = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    "text",
    ["2030-01-31T10:00:00Z", "2030-01-31 10:00:00\n", '"2030-01-31T10:00:00Z"', "1896084000"],
)
def test_a_time_is_the_end(text):
    assert read_answer(text, UTC) == Announcement(ends_unix=ENDS_UNIX)


def test_a_time_without_a_zone_is_that_of_the_cloud():
    assert read_answer("2030-01-31 18:00:00", CHINA).ends_unix == ENDS_UNIX


def test_an_object_has_the_keys_of_a_notice_file():
    text = '{"end_time": "2030-01-31T10:00:00Z", "kind": "termination"}'

    assert read_answer(text, UTC) == Announcement(kind=Kind.TERMINATION, ends_unix=ENDS_UNIX)


@pytest.mark.parametrize("text", ["2030-13-31T10:00:00Z", "2030/01/31 10:00:00", "31.01.2030"])
def test_what_can_only_be_a_time_is_a_notice_though_it_cannot_be_read(text):
    assert read_answer(text, UTC) == Announcement(trouble=f"{text!r} is no time")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("<html><body>Log in</body></html>", "neither a time nor a notice"),
        ("404 - Not Found", "neither a time nor a notice"),
        ("none", "neither a time nor a notice"),
        ("404", "neither a time nor a notice"),
        ("[]", "neither a time nor a notice"),
        ('{"error": "gone"}', "none of deadline, end_time"),
        ('{"end_time": ', "begins as JSON and is none"),
        ("{}", "none of deadline, end_time"),
    ],
)
def test_what_announces_nothing_is_none(text, why):
    with pytest.raises(ValueError, match=why):
        read_answer(text, UTC)


@given(st.text())
def test_no_text_whatever_raises_anything_else(text):
    said: object = None
    with contextlib.suppress(ValueError):
        said = read_answer(text, UTC)

    assert said is None or isinstance(said, Announcement)


def test_a_preset_is_known_by_its_name():
    assert address_of("alibaba") is ALIBABA
    assert address_of("tencent") is TENCENT


@pytest.mark.parametrize(
    ("url", "endpoint", "path", "scope"),
    [
        ("http://a.test", "http://a.test", "/", "http://a.test/"),
        ("https://a.test:8443/b/c", "https://a.test:8443", "/b/c", "https://a.test:8443/b/c"),
        ("http://[::1]:80/b?key=secret", "http://[::1]:80", "/b?key=secret", "http://[::1]:80/b"),
    ],
)
def test_a_sites_own_address_is_named_without_its_query(url, endpoint, path, scope):
    address = address_of(url)

    assert (address.endpoint, address.path, address.scope) == (endpoint, path, scope)
    assert address.token_mode is None
