"""Which ways to write a time are read, and which times are believed."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.sources.stated_time import AHEAD_SECONDS, PAST_SECONDS, doubt, unix_time

TEN = datetime(2030, 1, 31, 10, tzinfo=UTC).timestamp()
CHINA = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-31T10:00:00Z",
        "2030-01-31t10:00:00z",
        "2030-01-31T10:00:00.000Z",
        "2030-01-31T12:00:00+02:00",
        "2030-01-31T05:00:00-0500",
        " 2030-01-31 10:00:00\n",
        "2030-01-31 10:00",
        "2030-01-31 10:00:00 UTC",
        "2030-01-31 12:00:00 +02:00",
        "1896084000",
        "1896084000.0",
        1896084000,
        1896084000.0,
    ],
)
def test_a_time_is_read_however_it_is_written(text):
    assert unix_time(text) == TEN


def test_a_time_without_a_zone_is_that_of_the_zone_that_is_named():
    assert unix_time("2030-01-31 18:00:00", CHINA) == TEN
    assert unix_time("2030-01-31T10:00:00Z", CHINA) == TEN
    assert unix_time("1896084000", CHINA) == TEN


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2030-01-31",
        "20300131T100000Z",
        "2030-13-31T10:00:00Z",
        "2030-01-31T25:00:00Z",
        "31 Jan 2030 10:00:00",
        "10:00:00",
        "-1896084000",
        "1e9",
        "١٨٩٦٠٨٤٠٠٠",
        True,
        None,
        math.nan,
        math.inf,
        10**400,
        [1896084000],
    ],
)
def test_what_is_no_time_is_none(value):
    assert unix_time(value) is None


@given(st.one_of(st.text(), st.integers(), st.floats(), st.from_regex(r"\d{4}-\d\d-\d\d.\d\d.*")))
def test_no_value_whatever_raises(value):
    unix = unix_time(value)

    assert unix is None or math.isfinite(unix)


@given(st.floats(86400.0, 4e9))
def test_what_is_written_by_the_standard_library_is_read_as_it_was_meant(unix):
    meant = datetime.fromtimestamp(unix, CHINA)
    unzoned = meant.replace(tzinfo=None)

    assert unix_time(unzoned.isoformat(" "), CHINA) == pytest.approx(meant.timestamp(), abs=1e-5)
    assert unix_time(meant.isoformat()) == pytest.approx(meant.timestamp(), abs=1e-5)


@pytest.mark.parametrize("ends_in", [-PAST_SECONDS, -1.0, 0.0, 120.0, AHEAD_SECONDS])
def test_a_time_that_may_be_meant_is_believed(ends_in):
    assert doubt(ends_in) == ""


def test_a_time_that_nobody_can_mean_is_not_believed():
    assert doubt(-7201.0) == "the time is 2 h past and not believed"
    assert doubt(400 * 86400.0) == "the time is 9600 h ahead and not believed"
