"""What waits for the disk stays in order and within its limit."""

from __future__ import annotations

from lastcall.record.journal_backlog import LIMIT_BYTES, Backlog

QUARTER = b"x" * (LIMIT_BYTES // 4)


def test_lines_go_out_in_the_order_they_came() -> None:
    backlog = Backlog()
    for line in (b"a", b"b", b"c"):
        backlog.put(line, routine=False)

    assert backlog.batch(backlog.last) == b"abc"


def test_a_batch_ends_where_it_is_told_to() -> None:
    backlog = Backlog()
    for line in (b"a", b"b", b"c"):
        backlog.put(line, routine=False)

    assert backlog.batch(2) == b"ab"


def test_what_is_on_the_disk_no_longer_waits() -> None:
    backlog = Backlog()
    for line in (b"a", b"b"):
        backlog.put(line, routine=False)

    backlog.confirm(1)

    assert backlog.durable == 1
    assert backlog.batch(backlog.last) == b"b"
    backlog.confirm(2)
    assert not backlog


def test_near_the_limit_a_routine_event_is_let_go() -> None:
    backlog = Backlog()
    for _ in range(3):
        backlog.put(QUARTER, routine=False)

    assert backlog.put(b"y", routine=True) == 0
    assert backlog.put(b"y", routine=True) == 1
    assert backlog.lost == backlog.last == 5


def test_at_the_limit_the_oldest_is_let_go() -> None:
    backlog = Backlog()
    backlog.put(b"old", routine=False)
    for _ in range(3):
        backlog.put(QUARTER, routine=False)

    assert backlog.put(QUARTER, routine=False) == 1
    assert backlog.lost == 1
    assert not backlog.batch(backlog.last).startswith(b"old")


def test_an_event_that_cannot_be_written_has_its_number_all_the_same() -> None:
    backlog = Backlog()
    backlog.put(b"a", routine=False)

    assert backlog.lose() == 1
    assert (backlog.last, backlog.lost) == (2, 2)
    assert backlog.batch(backlog.last) == b"a"
