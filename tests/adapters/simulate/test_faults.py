"""Faults as state: what switches them on, what they spoil, what uses them up."""

from __future__ import annotations

import math

import pytest

from lastcall.simulate.faults import GENERAL, FaultKind, Faults


@pytest.fixture
def faults() -> Faults:
    return Faults(dict(GENERAL) | {"own": FaultKind("the provider's own")})


def test_nothing_is_wrong_at_first(faults):
    assert all(faults.find(kind) is None for kind in faults.kinds)


def test_several_faults_are_on_at_once_and_go_off_one_by_one_or_all(faults):
    faults.add("slow")
    faults.add("empty")
    own = faults.add("own")

    faults.clear("slow")
    assert faults.find("slow") is None
    assert faults.find("empty") is not None
    faults.remove(own)
    assert faults.find("own") is None
    faults.clear()
    assert faults.find("empty") is None


def test_removing_a_fault_twice_is_harmless(faults):
    fault = faults.add("own")
    faults.remove(fault)
    faults.remove(fault)

    assert faults.find("own") is None


def test_a_fault_for_so_many_requests_is_used_up(faults):
    faults.add("reset", requests=2)

    assert [faults.take("reset", "/") is not None for _ in range(3)] == [True, True, False]


def test_looking_at_a_fault_does_not_use_it_up(faults):
    faults.add("reset", requests=1)

    assert faults.find("reset") is faults.find("reset")
    assert faults.take("reset", "/") is not None


def test_a_fault_for_a_path_spoils_only_what_lies_there(faults):
    faults.add("empty", path="/latest/meta-data", requests=1)

    assert faults.take("empty", "/latest/api/token") is None
    assert faults.take("empty", "/latest/meta-data/spot") is not None


def test_the_next_fault_of_a_kind_follows_when_the_first_is_used_up(faults):
    faults.add("status", 500, requests=1)
    faults.add("status", 503, requests=1)

    taken = [faults.take("status", "/") for _ in range(2)]

    assert [fault.number for fault in taken if fault] == [500, 503]


@pytest.mark.parametrize(
    ("text", "kind", "argument"),
    [
        ("slow", "slow", 2.0),
        ("slow:0.5", "slow", 0.5),
        ("status:410", "status", 410.0),
        ("503", "status", 503.0),
        ("throttle:7", "throttle", 7.0),
        ("redirect:http://192.0.2.1:80/x", "redirect", "http://192.0.2.1:80/x"),
        ("redirect", "redirect", "http://metadata.invalid/"),
        ("own", "own", None),
        ("down:inf", "down", math.inf),
    ],
)
def test_a_fault_can_be_written_as_text(faults, text, kind, argument):
    fault = faults.add_text(text)

    assert (fault.kind, fault.argument) == (kind, argument)
    assert faults.find(kind) is fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("melted", "no fault 'melted'; there are slow, hang"),
        ("", "no fault ''"),
        ("slow:soon", "slow:S needs a number, not 'soon'"),
        ("slow:-1", "needs a number"),
        ("slow:nan", "needs a number"),
        ("huge:inf", "needs a number"),
        ("hang:3", "hang takes no argument"),
        ("status:200", "needs a code from 400 to 599"),
        ("99", "needs a code from 400 to 599"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_the_reason(faults, text, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        faults.add_text(text)

    assert all(faults.find(kind) is None for kind in faults.kinds)


def test_a_listener_hears_of_each_change_until_it_has_enough(faults):
    heard = []
    listener = lambda: heard.append(1)  # noqa: E731 - the same object goes in and out
    faults.listen(listener)

    fault = faults.add("own")
    faults.remove(fault)
    faults.unlisten(listener)
    faults.clear()

    assert len(heard) == 2


def test_every_kind_says_what_it_does_and_names_its_argument():
    for kind in GENERAL.values():
        assert kind.summary
        assert bool(kind.argument) == (kind.default is not None)
