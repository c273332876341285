"""What callers hand over becomes fit for the wire, whatever it is."""

import math
from fractions import Fraction
from pathlib import PurePosixPath

import pytest

from lastcall.client import values
from lastcall.wire.codec import decode
from lastcall.wire.messages import CLIENT_LINE_LIMIT, CLIENT_MESSAGES, Failed, Flushed, Hello


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Tensor:
    """Turns into a number, but only by waiting for a device."""

    def __index__(self) -> int:
        raise AssertionError("waited for the device")

    __int__ = __float__ = __index__


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("plain", "plain"),
        (PurePosixPath("/ckpt/step-1"), "/ckpt/step-1"),
        (b"/ckpt/\xff", "/ckpt/\N{REPLACEMENT CHARACTER}"),
        (
            "nul\0 and half \ud800",
            "nul\N{REPLACEMENT CHARACTER} and half \N{REPLACEMENT CHARACTER}",
        ),
        (17, "17"),
        (Unshowable(), "<Unshowable>"),
    ],
)
def test_anything_becomes_text_that_can_be_written_down(given, text):
    assert values.text(given) == text


def test_text_is_cut_to_the_limit():
    assert values.text("x" * 9000) == "x" * 4096


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (7, 7),
        (7.0, 7),
        (Fraction(15, 2), 7),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (-1, None),
        (math.nan, None),
        (math.inf, None),
        ("7", None),
        (None, None),
        (Tensor(), None),
    ],
)
def test_a_count_is_whole_and_in_range_or_left_out(given, number):
    assert values.whole(given) == number


@pytest.mark.parametrize(
    ("given", "number"),
    [(1.5, 1.5), (2, 2.0), (-0.1, None), (math.nan, None), (10**400, None), ("1", None)],
)
def test_a_duration_is_finite_and_not_negative_or_left_out(given, number):
    assert values.seconds(given) == number


def test_an_exception_is_told_by_type_and_text():
    assert values.describe(OSError(28, "No space left")) == "OSError: [Errno 28] No space left"
    assert values.describe(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_report_in_the_widest_letters_still_fits_the_line():
    report = Flushed("n-1", "/" + "\N{FIRE}" * 4095, 1, format="\N{FIRE}" * 4096)

    line = values.line(report)

    assert len(line) <= CLIENT_LINE_LIMIT
    sent = decode(line, CLIENT_MESSAGES)
    assert isinstance(sent, Flushed)
    assert (sent.id, sent.step) == ("n-1", 1)
    assert report.path.startswith(sent.path)
    assert len(sent.path) > 500


def test_the_longest_plain_path_is_told_whole():
    report = Flushed("n-1", "/" + "x" * 4095, 1)

    assert decode(values.line(report), CLIENT_MESSAGES) == report


def test_a_hello_drops_the_oldest_ids_until_it_fits():
    ids = tuple(f"{number:04}" + "x" * 252 for number in range(100))

    line = values.line(Hello(protocol=(1, 1), handled=ids))

    sent = decode(line, CLIENT_MESSAGES)
    assert len(line) <= CLIENT_LINE_LIMIT
    assert isinstance(sent, Hello)
    assert 50 < len(sent.handled) < 100
    assert sent.handled == ids[-len(sent.handled) :]


def test_a_long_reason_is_cut_and_the_id_is_kept():
    sent = decode(values.line(Failed("n-1", "\N{SNOWMAN}" * 4096)), CLIENT_MESSAGES)

    assert isinstance(sent, Failed)
    assert sent.id == "n-1"
    assert set(sent.reason) == {"\N{SNOWMAN}"}


@pytest.mark.parametrize("said", ["/mnt/ck", "s3://bucket/ck", ""])
def test_a_place_that_means_the_same_everywhere_stays_as_it_is(said):
    assert values.place(said) == said


def test_a_place_in_the_folder_at_work_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert values.place("ck.pt") == f"{tmp_path}/ck.pt"
    assert values.place_or_none(None) is None
