"""The page on GPU health says what the tables say by which GPUs are judged."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from lastcall.config.gpu import Gpu
from lastcall.core.gpu.answers import ACTIONS, CODES, Answer
from lastcall.core.gpu.model import Recovery, WatchState
from lastcall.core.gpu.rules import SignalOverride, make_rules
from lastcall.core.gpu.signal_rules import SIGNALS, Check, SignalRule
from lastcall.core.gpu.xids import XIDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference/gpu.md").read_text(encoding="utf-8")
EXAMPLES = [DOCS / "reference/gpu.md", DOCS / "how-to/watch-gpus.md"]


def _rows(heading: str) -> list[list[str]]:
    """Return the cells of all tables below a heading, without their first rows."""
    section = PAGE.split(f"\n{heading}\n")[1].split("\n##")[0]
    tables = re.findall(r"^\|[-|]+\|\n((?:\|.*\|\n)+)", section, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in "".join(tables).splitlines()]


RULES = {
    name: cells[2:]
    for cells in _rows("### Signals and rules")
    if len(cells) == 6
    for name in re.findall(r"`(\w+)`", cells[0])
}


def _limit(rule: SignalRule) -> str:
    if rule.check is Check.BITS:
        return f"0x{int(rule.limit or 0):X}"
    if rule.check is Check.LINK_RATE:
        return "by link"
    return "" if rule.limit is None or rule.check is Check.CODE else f"{rule.limit:g}"


@pytest.mark.parametrize("rule", SIGNALS, ids=lambda rule: rule.name)
def test_a_rule_stands_there_as_it_is_applied(rule: SignalRule) -> None:
    limit, looks, health, recovery = RULES[rule.name]
    assert limit == _limit(rule)
    assert looks.removesuffix(" minutes") == f"{rule.hits} of {rule.looks}"
    if rule.check is not Check.ACTION:
        assert (health, recovery) == (rule.health, f"`{rule.recovery}`")


def test_no_rule_stands_there_that_there_is_not() -> None:
    assert set(RULES) == {rule.name for rule in SIGNALS}


def test_each_xid_stands_there_with_its_class() -> None:
    written = {
        int(xid): cells[2].split("`")[1]
        for cells in _rows("### XID errors")
        for xid in re.findall(r"\d+", cells[0])
    }
    assert written == {xid: rule.respond.value for xid, rule in XIDS.items()}


def test_errors_that_take_the_gpu_with_them_are_named() -> None:
    written = {
        int(xid)
        for cells in _rows("### XID errors")
        if cells[-1].endswith("nothing from this GPU")
        for xid in re.findall(r"\d+", cells[0])
    }
    assert written == {xid for xid, rule in XIDS.items() if rule.lost}


def test_errors_that_decide_at_once_are_named() -> None:
    written = {
        int(xid)
        for cells in _rows("### XID errors")
        if cells[2:3] and cells[2].endswith("at once")
        for xid in re.findall(r"\d+", cells[0])
    }
    assert written == {xid for xid, rule in XIDS.items() if rule.alone}


def _judged(answer: Answer) -> tuple[str, str]:
    return answer.health.value, f"`{answer.recovery.value}`"


def test_what_a_call_answers_stands_there_as_it_is_judged() -> None:
    written = {
        int(code): (cells[2], cells[3], cells[1].split("`")[1], int(cells[4]))
        for cells in _rows("### What a call answers")
        for code in cells[0].split(",")
    }
    assert written == {
        code: (*_judged(answer), answer.reason, answer.in_a_row) for code, answer in CODES.items()
    }


def test_each_recovery_action_stands_there_as_it_is_judged() -> None:
    written = {
        int(cells[0].split()[0]): (cells[1], cells[2])
        for cells in _rows("### The recovery action")
        if cells[0][0].isdigit()
    }
    assert written == {action: _judged(answer) for action, answer in ACTIONS.items()}


def test_every_state_of_the_watch_and_every_recovery_is_explained() -> None:
    states = [cells[0].strip("`") for cells in _rows("### The states of the watch")]
    recoveries = [cells[0].strip("`") for cells in _rows("## What is made of it")]
    assert states == [state.value for state in WatchState]
    assert recoveries == [recovery.value for recovery in Recovery]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_are_valid(page: Path) -> None:
    blocks = re.findall(r"^```toml\n(.+?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    examples = [msgspec.convert(tomllib.loads(block)["gpu"], Gpu) for block in blocks]
    assert examples
    for gpu in examples:
        # A name that is no rule's raises.
        make_rules((), [SignalOverride(rule.name) for rule in gpu.rules])
