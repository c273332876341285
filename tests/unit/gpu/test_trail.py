"""The trail between the probe and the agent: what was written last is what is read."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.gpu import trail
from lastcall.gpu.trail import RECORD_BYTES, Step

TEMPERATURE = Step("nvmlDeviceGetTemperature", "GPU-1", 1, "00000000:1B:00.0", 12.5)


@pytest.fixture
def fd() -> Iterator[int]:
    fd = os.memfd_create("trail")
    yield fd
    os.close(fd)


def test_the_last_step_is_read(fd: int) -> None:
    trail.write(
        fd, Step("nvmlDeviceGetGpuFabricInfoV", "GPU-" + "a" * 36, 7, "00000000:FF:00.0", 1.0)
    )
    trail.write(fd, TEMPERATURE)

    assert trail.read(fd) == TEMPERATURE


def test_a_step_between_calls_names_none(fd: int) -> None:
    trail.write(fd, TEMPERATURE)
    trail.write(fd, Step("", at=13.0))

    assert trail.read(fd) == Step("", "", -1, "", 13.0)


def test_nothing_is_read_before_the_first_step(fd: int) -> None:
    assert trail.read(fd) is None


def test_nothing_is_read_of_a_file_that_is_closed() -> None:
    assert trail.read(99_999) is None


def test_a_step_too_long_for_a_record_keeps_its_call(fd: int) -> None:
    trail.write(fd, replace(TEMPERATURE, gpu="ü" * 200))

    assert trail.read(fd) == Step("nvmlDeviceGetTemperature", "", 1, "", 12.5)
    assert os.fstat(fd).st_size == RECORD_BYTES


@given(st.binary(max_size=RECORD_BYTES))
def test_what_is_no_record_is_no_step(record: bytes) -> None:
    fd = os.memfd_create("trail")
    try:
        os.pwrite(fd, record, 0)
        assert trail.read(fd) is None
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "record",
    [
        b"[]",
        b"null",
        b'{"call":"x"}',
        b'{"call":"x","gpu":"","index":"a","pci":"","at":1}',
        b'{"call":"x","gpu":"","index":1e999,"pci":"","at":1}',
        b'{"call":"x","gpu":"","index":1,"pci":"","at":[]}',
        b"[" * RECORD_BYTES,
    ],
)
def test_a_record_of_another_shape_is_no_step(fd: int, record: bytes) -> None:
    os.pwrite(fd, record, 0)

    assert trail.read(fd) is None
