"""A notice as training sees it: a clock of its own, and its place among others."""

import dataclasses
import time

import pytest

from lastcall.client.notice import Notice, precedence, received
from lastcall.wire import messages


def told(**changes):
    fields = {
        "id": "n-1",
        "kind": "preemption",
        "source": "aws",
        "action": "terminate",
        "urgency": "now",
        "deadline_unix": 1.0,
        "remaining_seconds": 120.0,
        "budget_seconds": 110.0,
        "deadline_quality": "provider",
        "cancellable": False,
        "drill": False,
        "reason": "",
    }
    return messages.Notice(**fields | changes)


def test_time_left_is_counted_from_receipt_whatever_the_wall_clock_says():
    notice = received(told(deadline_unix=0.0), now=time.monotonic() - 20)

    assert notice.remaining_seconds == pytest.approx(100, abs=1)
    assert notice.budget_seconds == pytest.approx(90, abs=1)


def test_time_left_is_nought_once_the_deadline_has_passed():
    notice = received(told(), now=time.monotonic() - 500)

    assert notice.remaining_seconds == 0
    assert notice.budget_seconds == 0


def test_without_a_deadline_no_time_is_made_up():
    notice = received(told(remaining_seconds=None, budget_seconds=None), now=time.monotonic())

    assert notice.remaining_seconds is None
    assert notice.budget_seconds is None


def test_a_notice_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        received(told(), now=0).id = "n-2"


def test_now_comes_before_soon_real_before_drill_and_then_the_earliest():
    expected = [
        Notice(id="a", kind="preemption", source="aws", deadline_monotonic=10),
        Notice(id="b", kind="preemption", source="aws", deadline_monotonic=20),
        Notice(id="c", kind="preemption", source="aws"),
        Notice(id="d", kind="manual", source="drill", drill=True, deadline_monotonic=5),
        Notice(id="e", kind="rebalance", source="aws", urgency="soon", deadline_monotonic=1),
        Notice(id="f", kind="rebalance", source="aws", urgency="soon", drill=True),
    ]

    mixed = [expected[index] for index in (3, 5, 1, 4, 0, 2)]
    assert sorted(mixed, key=precedence) == expected


@pytest.mark.parametrize(
    ("urgency", "drill", "ends"),
    [("now", False, True), ("now", True, False), ("soon", False, False), ("soon", True, False)],
)
def test_training_ends_only_for_a_real_notice_that_is_urgent(urgency, drill, ends):
    assert received(told(urgency=urgency, drill=drill), now=0).ends_training is ends
