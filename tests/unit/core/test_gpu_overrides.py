"""How a site changes the rules, and what it is told where that cannot be."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.model import Health, Recovery
from lastcall.core.gpu.rules import SignalOverride, XidOverride, make_rules
from support.judged_gpus import Watched


def test_a_site_can_have_a_signal_ignored_or_taken_harder() -> None:
    rules = make_rules(
        signals=[
            SignalOverride("row_remap_failed", "ignore"),
            SignalOverride("row_remap_pending", "faulty"),
            SignalOverride("temperature", limit=70, hits=1, looks=1),
        ]
    )
    node = Watched(3, rules=rules)
    node.look(0, remap_failed=1)
    node.look(1, remap_pending=1)
    node.look(2, temperature_celsius=70)

    assert node.health(0) is Health.HEALTHY
    assert (node.health(1), node.verdict(1).recovery) == (Health.FAULTY, Recovery.RESET)
    assert node.reasons(2) == ("temperature",)


def test_what_a_site_calls_a_fault_is_one_whatever_the_driver_says() -> None:
    rules = make_rules(signals=[SignalOverride("ecc_uncorrected", "faulty", limit=5)])
    node = Watched(rules=rules)
    node.look(0, ecc_uncorrected=4)
    node.look(1, ecc_uncorrected=5)

    assert (node.health(0), node.health(1)) == (Health.HEALTHY, Health.FAULTY)


def test_a_site_can_say_how_an_xid_is_taken() -> None:
    rules = make_rules(xids=[XidOverride(79, "ignore"), XidOverride(13, "reset")])
    node = Watched(rules=rules)
    node.xid(79, 0)
    node.xid(13, 1)

    assert node.health(0) is Health.HEALTHY
    assert (node.health(1), node.verdict(1).recovery) == (Health.FAULTY, Recovery.RESET)
    node.rounds(100)
    assert node.health(1) is Health.FAULTY
    node.repair()
    node.rounds(1)
    assert node.health(1) is Health.HEALTHY


def test_a_site_can_have_an_xid_count_only_when_it_repeats() -> None:
    rules = make_rules(xids=[XidOverride(94, "reboot", repeats=1000, within_seconds=60)])
    node = Watched(rules=rules)
    node.xid(94, count=999)
    assert node.health() is Health.HEALTHY

    node.wait(2)
    node.xid(94)
    assert (node.health(), node.verdict().recovery) == (Health.FAULTY, Recovery.REBOOT)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (SignalOverride("temprature"), ["'temprature'", "temperature", "row_remap_failed"]),
        (SignalOverride("temperature", "broken"), ["temperature", "'broken'", "degraded"]),
        (SignalOverride("temperature", hits=4), ["temperature", "hits is 4", "looks", "3"]),
        (SignalOverride("temperature", limit=float("nan")), ["temperature", "limit"]),
        (XidOverride(79, "panic"), ["79", "'panic'", "watch"]),
        (XidOverride(79, "watch", repeats=0), ["79", "repeats is 0"]),
        (XidOverride(79, "watch", within_seconds=0), ["79", "within_seconds"]),
    ],
    ids=str,
)
def test_an_override_that_cannot_be_is_refused_in_one_line(
    override: SignalOverride | XidOverride, words: list[str]
) -> None:
    xids = [override] if isinstance(override, XidOverride) else []
    signals = [override] if isinstance(override, SignalOverride) else []
    with pytest.raises(ValueError, match=r"79|temp") as refused:
        make_rules(xids, signals)

    text = str(refused.value)
    assert "\n" not in text
    assert [word for word in words if word not in text] == []
