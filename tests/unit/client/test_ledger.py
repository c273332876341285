"""Which notice comes next, which are dealt with, and what the agent hears of it."""

import pytest

from lastcall.client.bell import Bell
from lastcall.client.ledger import HANDLED_LIMIT, OPEN_LIMIT, Ledger
from lastcall.client.notice import Notice
from lastcall.client.outbox import Outbox
from lastcall.wire import messages
from lastcall.wire.messages import Ack, Failed, Flushed, Intent

SIGNAL = Notice(id="signal-SIGTERM", kind="termination", source="signal")


def told(key="n-1", **changes):
    fields = {
        "id": key,
        "kind": "preemption",
        "source": "aws",
        "action": "terminate",
        "urgency": "now",
        "deadline_unix": None,
        "remaining_seconds": 120.0,
        "budget_seconds": 110.0,
        "deadline_quality": "provider",
        "cancellable": False,
        "drill": False,
        "reason": "",
    }
    return messages.Notice(**fields | changes)


@pytest.fixture
def outbox():
    bell = Bell()
    outbox = Outbox(bell)
    outbox.connected()
    yield outbox
    bell.close()


@pytest.fixture
def ledger(outbox):
    return Ledger(outbox)


def chosen(ledger):
    notice = ledger.choose()
    return notice and notice.id


def settle(ledger, undertaking):
    return ledger.settle(undertaking, Flushed(undertaking.ids[0], "/ckpt", 7))


def test_with_nothing_open_nothing_is_pending(ledger):
    assert ledger.pending is False
    assert ledger.choose() is None


def test_a_notice_is_acknowledged_at_once_with_the_step(ledger, outbox):
    ledger.step = 41

    ledger.receive(told(), now=0)

    assert ledger.pending
    assert outbox.take() == [Ack("n-1", 41)]


def test_only_the_first_sight_of_a_notice_is_news(ledger):
    assert ledger.receive(told(), now=0).id == "n-1"
    assert ledger.receive(told(remaining_seconds=60.0), now=0) is None


def test_the_most_urgent_notice_is_chosen_until_it_is_dealt_with(ledger):
    ledger.receive(told("soon", urgency="soon", remaining_seconds=5.0), now=0)
    ledger.receive(told("drill", drill=True, remaining_seconds=5.0), now=0)
    ledger.receive(told("later"), now=0)
    ledger.receive(told("first", remaining_seconds=30.0), now=0)

    order = []
    while notice := ledger.choose():
        order.append(notice.id)
        ledger.ignore(notice, step=1)

    assert order == ["first", "later", "drill", "soon"]
    assert ledger.pending is False


def test_an_update_replaces_the_deadline(ledger):
    ledger.receive(told(remaining_seconds=120.0), now=0)

    ledger.receive(told(remaining_seconds=30.0), now=10)

    assert ledger.choose().deadline_monotonic == 40


def test_an_update_never_brings_back_what_is_dealt_with(ledger, outbox):
    ledger.receive(told(), now=0)
    ledger.ignore(ledger.choose(), step=5)
    outbox.take()

    ledger.receive(told(remaining_seconds=1.0), now=0)
    ledger.withdraw("n-1")
    ledger.receive(told(), now=0)

    assert ledger.choose() is None
    assert outbox.take() == []
    assert ledger.handled == ("n-1",)


def test_a_withdrawn_notice_is_not_chosen(ledger):
    ledger.receive(told(), now=0)

    ledger.withdraw("n-1")
    ledger.withdraw("never-heard-of")

    assert ledger.choose() is None


def test_what_a_new_welcome_does_not_list_is_gone(ledger):
    ledger.receive(told("old"), now=0)

    news = ledger.list_anew([told("new")], now=0)

    assert [notice.id for notice in news] == ["new"]
    assert chosen(ledger) == "new"
    assert ledger.open_ids == {"new"}


def test_a_new_agent_hears_again_what_is_under_way(ledger, outbox):
    ledger.receive(told(), now=0)
    ledger.begin(ledger.choose(), "save", 7)
    outbox.take()

    ledger.list_anew([told()], now=0)

    assert outbox.take() == [Intent("n-1", "save", 7), Ack("n-1")]
    assert ledger.choose() is None


def test_deciding_to_save_is_told_and_keeps_others_from_doing_the_same(ledger, outbox):
    ledger.receive(told(), now=0)
    outbox.take()

    ledger.begin(ledger.choose(), "save", 7)

    assert outbox.take() == [Intent("n-1", "save", 7)]
    assert ledger.choose() is None
    assert ledger.handled == ()


def test_a_flush_is_settled_once(ledger, outbox):
    ledger.receive(told(), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)

    assert settle(ledger, undertaking) == ["n-1"]
    assert settle(ledger, undertaking) is None
    ledger.end(undertaking)

    assert ledger.choose() is None
    assert ledger.handled == ("n-1",)
    assert outbox.take()[-1] == Flushed("n-1", "/ckpt", 7)


def test_an_advice_that_becomes_real_under_way_is_served_by_the_same_flush(ledger, outbox):
    ledger.receive(told("advice", urgency="soon"), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)
    outbox.take()

    ledger.withdraw("advice")
    ledger.receive(told("real", supersedes=("advice",)), now=0)
    assert ledger.choose() is None
    assert outbox.take() == [Ack("real"), Intent("real", "save", 7)]
    assert settle(ledger, undertaking) == ["advice", "real"]

    assert outbox.take() == [Flushed("advice", "/ckpt", 7), Flushed("real", "/ckpt", 7)]
    assert [notice.id for notice in ledger.served(undertaking)] == ["real"]
    assert ledger.handled == ("advice", "real")


def test_a_failure_counts_for_both_too(ledger, outbox):
    ledger.receive(told("drill", drill=True), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)
    ledger.receive(told("real", supersedes=("drill",)), now=0)
    outbox.take()

    ledger.settle(undertaking, Failed("drill", "disk full"))

    assert outbox.take() == [Failed("drill", "disk full"), Failed("real", "disk full")]


def test_a_real_notice_between_poll_and_flush_is_served_too(ledger):
    ledger.receive(told("advice", urgency="soon"), now=0)
    polled = ledger.choose()

    ledger.receive(told("real", supersedes=("advice",)), now=0)
    undertaking = ledger.begin(polled, "save", 7)

    assert undertaking.ids == ["advice", "real"]
    assert ledger.choose() is None


def test_a_real_notice_before_training_goes_on_is_reported_at_once(ledger, outbox):
    ledger.receive(told("advice", urgency="soon"), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)
    settle(ledger, undertaking)
    outbox.take()

    ledger.receive(told("real", supersedes=("advice",)), now=0)

    assert outbox.take() == [Ack("real"), Flushed("real", "/ckpt", 7)]
    assert ledger.choose() is None


def test_a_real_notice_after_training_went_on_needs_a_flush_of_its_own(ledger):
    ledger.receive(told("advice", urgency="soon"), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)
    settle(ledger, undertaking)
    ledger.end(undertaking)

    ledger.receive(told("real", supersedes=("advice",)), now=0)

    assert chosen(ledger) == "real"
    assert ledger.served(undertaking) == []


def test_a_notice_that_was_waiting_gives_way_to_the_one_that_supersedes_it(ledger):
    ledger.receive(told("advice", urgency="soon"), now=0)

    ledger.receive(told("real", supersedes=("advice",)), now=0)

    assert ledger.open_ids == {"real"}


def test_a_notice_that_claims_to_supersede_itself_still_stands(ledger):
    ledger.receive(told("n-1", supersedes=("n-1",)), now=0)

    assert chosen(ledger) == "n-1"


def test_the_signals_notice_comes_after_the_agents_and_not_on_top_of_it(ledger):
    ledger.local = SIGNAL
    ledger.pending = True
    ledger.receive(told(), now=0)
    assert chosen(ledger) == "n-1"

    undertaking = ledger.begin(ledger.choose(), "save", 7)
    assert ledger.choose() is None
    settle(ledger, undertaking)
    ledger.end(undertaking)

    assert ledger.choose() is None


def test_the_signals_notice_stands_again_once_the_agents_is_withdrawn(ledger):
    ledger.receive(told(), now=0)
    settle(ledger, ledger.begin(ledger.choose(), "save", 7))
    ledger.local = SIGNAL
    ledger.pending = True
    assert ledger.choose() is None

    ledger.withdraw("n-1")

    assert ledger.pending
    assert ledger.choose() is SIGNAL


def test_a_flush_for_the_signal_serves_the_agents_notice_that_follows(ledger, outbox):
    ledger.local = SIGNAL
    undertaking = ledger.begin(SIGNAL, "save", 7)
    assert outbox.take() == []

    ledger.receive(told(), now=0)

    assert settle(ledger, undertaking) == ["n-1"]
    assert outbox.take() == [Ack("n-1"), Intent("n-1", "save", 7), Flushed("n-1", "/ckpt", 7)]
    assert ledger.handled == ("n-1",)


def test_a_faulty_agent_cannot_fill_the_memory(ledger):
    for number in range(4 * OPEN_LIMIT):
        ledger.receive(told(f"n-{number}"), now=0)

    assert len(ledger.open_ids) == OPEN_LIMIT


def test_what_is_dealt_with_is_forgotten_only_when_it_no_longer_stands(ledger):
    ledger.receive(told("standing"), now=0)
    ledger.ignore(ledger.choose(), step=1)

    for number in range(2 * HANDLED_LIMIT):
        ledger.receive(told(f"n-{number}"), now=0)
        ledger.ignore(ledger.choose(), step=1)
        ledger.withdraw(f"n-{number}")

    assert len(ledger.handled) == HANDLED_LIMIT
    assert ledger.handled[0] == "standing"
    assert ledger.handled[-1] == f"n-{2 * HANDLED_LIMIT - 1}"


def test_once_closed_nothing_is_chosen_but_what_stands_is_known(ledger):
    ledger.receive(told(), now=0)
    undertaking = ledger.begin(ledger.choose(), "save", 7)
    ledger.receive(told("other"), now=0)

    ledger.close()

    assert ledger.choose() is None
    assert [notice.id for notice in ledger.served(undertaking)] == ["n-1"]
