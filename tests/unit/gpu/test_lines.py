"""The lines of the probe: each is what it says, or nothing at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.core.gpu.model import Gpu, Look, NodeLook, XidSeen
from lastcall.gpu.lines import (
    LONGEST_BYTES,
    Failed,
    Hello,
    Line,
    RoundOver,
    StreamSaid,
    decode,
)

LOOK = {
    "type": "gpu",
    "at": 12.5,
    "gpu": {"uuid": "GPU-1", "index": 1, "name": "H100", "pci": "00000000:1B:00.0"},
    "code": 15,
    "call": "nvmlDeviceGetTemperature",
    "values": {"temperature_celsius": 71, "utilization_ratio": 0.5},
    "codes": {"margin_celsius": 3},
    "pids": [41, 42],
}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"type":"hello","pid":7,"driver":"550.54.15","nvml":"12.550.54.15"}',
            Hello(7, "550.54.15", "12.550.54.15"),
        ),
        (
            '{"type":"failed","call":"nvmlInitWithFlags","code":12,"text":"not found"}',
            Failed("nvmlInitWithFlags", 12, "not found"),
        ),
        (
            '{"type":"node","at":1.5,"driver_count":8,"pci_count":null,"control_openable":true}',
            NodeLook(at=1.5, driver_count=8, control_openable=True),
        ),
        ('{"type":"round","at":2,"seconds":0.012}', RoundOver(2.0, 0.012)),
        (
            '{"type":"xid","at":3.0,"uuid":"GPU-1","xid":79,"count":100000}',
            XidSeen(uuid="GPU-1", xid=79, at=3.0, count=100_000),
        ),
        (
            '{"type":"stream","ok":false,"code":15,"text":"lost"}',
            StreamSaid(ok=False, code=15, text="lost"),
        ),
    ],
)
def test_a_line_is_what_it_says(line: str, said: Line) -> None:
    assert decode(line.encode()) == said


def test_a_look_has_all_that_was_read() -> None:
    assert decode(json.dumps(LOOK).encode()) == Look(
        gpu=Gpu("GPU-1", 1, "H100", "00000000:1B:00.0"),
        at=12.5,
        code=15,
        call="nvmlDeviceGetTemperature",
        values={"temperature_celsius": 71.0, "utilization_ratio": 0.5},
        codes={"margin_celsius": 3},
        pids=(41, 42),
    )


def test_a_look_that_read_no_processes_does_not_say_that_there_are_none() -> None:
    look = decode(b'{"type":"gpu","at":1,"gpu":{"uuid":""},"pids":null}')

    assert look == Look(gpu=Gpu(""), at=1.0, pids=None)


def test_what_a_later_probe_adds_is_passed_over() -> None:
    assert decode(b'{"type":"round","at":1,"later":[1]}') == RoundOver(1.0)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"Segmentation fault",
        b'{"type":"round"}',
        b'{"type":"else","at":1}',
        b'{"at":1}',
        b'{"type":"round","at":"1"}',
        b'{"type":"round","at":1e999}',
        b'{"type":"round","at":true}',
        b'{"type":"xid","at":1,"uuid":"GPU-1","xid":79,"count":0}',
        b'{"type":"xid","at":1,"uuid":"GPU-1","xid":-1}',
        b'{"type":"xid","at":1,"uuid":"GPU-1","xid":"79"}',
        b'{"type":"xid","at":1,"uuid":"GPU-\xff","xid":79}',
        b'{"type":"gpu","at":1,"gpu":{}}',
        b'{"type":"gpu","at":1,"gpu":{"uuid":"a"},"values":{"a":"hot"}}',
        b'{"type":"gpu","at":1,"gpu":{"uuid":"a"},"pids":[0]}',
        b'{"type":"node","at":1,"driver_count":null}',
        b'{"type":"round","at":1,"x":' + b"[" * 60_000,
        json.dumps(LOOK | {"call": "x" * LONGEST_BYTES}).encode(),
    ],
)
def test_what_is_no_line_of_the_probe_is_nothing(line: bytes) -> None:
    assert decode(line) is None


def test_a_line_that_is_too_long_is_nothing() -> None:
    line = b'{"type":"round","at":1}'

    assert decode(line.ljust(LONGEST_BYTES)) == RoundOver(1.0)
    assert decode(line.ljust(LONGEST_BYTES + 1)) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(line: bytes) -> None:
    assert decode(line) is None


@given(
    st.sampled_from(sorted(LOOK)),
    st.recursive(st.none() | st.booleans() | st.text() | st.floats(), st.lists),
)
def test_no_value_in_the_place_of_another_raises(name: str, value: object) -> None:
    said = decode(json.dumps(LOOK | {name: value}).encode())

    assert said is None or isinstance(said, Look)
