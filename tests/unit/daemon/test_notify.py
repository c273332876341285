"""What is said to a service manager, and that nothing said there can hold or harm the agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lastcall.daemon.notify import ServiceManager


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taking:
        taking.bind(str(tmp_path / "notify"))
        taking.setblocking(False)
        yield taking


def manager_at(address: str, **variables: str) -> ServiceManager:
    return ServiceManager.named_in({"NOTIFY_SOCKET": address, **variables})


def test_fields_go_out_as_the_lines_of_one_datagram(listener):
    manager = manager_at(listener.getsockname())

    assert manager.tell(READY="1", STATUS="no notice; clients: 2")

    assert listener.recv(4096) == b"READY=1\nSTATUS=no notice; clients: 2"


def test_an_abstract_address_is_reached():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taking:
        taking.bind(f"\0lastcall-test-{os.getpid()}")

        assert manager_at(f"@lastcall-test-{os.getpid()}").tell(READY="1")

        assert taking.recv(4096) == b"READY=1"


def test_text_from_outside_adds_no_field(listener):
    manager_at(listener.getsockname()).tell(STATUS="a\nSTOPPING=1\r\nb")

    assert listener.recv(4096) == b"STATUS=a STOPPING=1 b"


def test_an_extension_is_asked_for_in_microseconds(listener):
    manager_at(listener.getsockname()).extend_stop(2.5)

    assert listener.recv(4096) == b"EXTEND_TIMEOUT_USEC=2500000"


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_where_nobody_is_named_nothing_is_said(address):
    manager = manager_at(address, WATCHDOG_USEC="1000000")

    assert (manager.listens, manager.watchdog_seconds, manager.tell(READY="1")) == (
        False,
        None,
        False,
    )


@pytest.mark.parametrize(
    "address", ["/no/such/socket", "/" + "x" * 200, "@" + "x" * 200, "/a\0b"], ids=len
)
def test_a_manager_that_is_not_there_is_no_fault(address):
    assert not manager_at(address).tell(READY="1")


def test_a_manager_that_does_not_read_is_not_waited_for(listener):
    manager = manager_at(listener.getsockname())

    went_out = [manager.tell(STATUS="x" * 1000) for _ in range(3000)]

    assert went_out[0]
    assert not went_out[-1]


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "500000"}, 0.5),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_ours_only_where_it_is_meant_for_this_process(listener, variables, seconds):
    assert manager_at(listener.getsockname(), **variables).watchdog_seconds == seconds


def test_what_the_agent_starts_does_not_speak_for_it(tmp_path: Path):
    environment = {
        "NOTIFY_SOCKET": str(tmp_path),
        "WATCHDOG_USEC": "1",
        "WATCHDOG_PID": "1",
        "PATH": "/bin",
    }

    ServiceManager.named_in(environment)

    assert environment == {"PATH": "/bin"}
