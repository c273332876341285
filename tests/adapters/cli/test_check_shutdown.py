"""What is found about the machine's own shutdown, with a logind of the test's own."""

from __future__ import annotations

import pytest

from lastcall.cli.check import shutdown
from lastcall.cli.check.findings import Level
from lastcall.cli.check.shutdown import check_shutdown
from support.examination import one_found_by, subject_of
from support.fake_bus import Fails, a_bus
from support.fake_logind import FakeLogind


@pytest.fixture
async def bus(monkeypatch):
    async with a_bus() as bus:
        monkeypatch.setattr(shutdown, "BUS_ADDRESS", bus.address)
        yield bus


@pytest.fixture
async def logind(bus):
    logind = FakeLogind()
    await logind.offer(bus.address)
    yield logind
    await logind.withdraw()
    logind.close()


async def test_what_is_not_listened_for_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(shutdown, "BUS_ADDRESS", "unix:path=/no/such/bus")

    one = await one_found_by(check_shutdown, subject_of("notices.shutdown.enabled=false"))

    assert one.level is Level.OK


async def test_a_shutdown_that_waits_for_long_enough_is_good(logind):
    logind.delay_max_seconds = 30.0

    one = await one_found_by(check_shutdown, subject_of())

    assert (one.level, one.what) == (
        Level.OK,
        "a shutdown of this machine is heard, and waits for 30 s at most",
    )
    assert logind.locks == []


async def test_a_shutdown_that_waits_for_too_short_a_time_is_a_warning(logind):
    logind.delay_max_seconds = 5.0

    one = await one_found_by(check_shutdown, subject_of())

    assert one.level is Level.WARNING
    assert "waits for 5 s at most" in one.what
    assert "InhibitDelayMaxSec" in one.remedy


async def test_a_logind_that_does_not_say_is_a_warning(logind):
    logind.methods["org.freedesktop.DBus.Properties.GetAll"] = lambda _: Fails(
        "org.freedesktop.DBus.Error.Failed"
    )

    one = await one_found_by(check_shutdown, subject_of())

    assert one.level is Level.WARNING
    assert "does not say" in one.what


async def test_a_bus_without_logind_is_worth_a_note(bus):
    one = await one_found_by(check_shutdown, subject_of())

    assert one.level is Level.NOTE
    assert "logind is not on the system bus" in one.what


@pytest.mark.parametrize("address", ["", "unix:path=/no/such/bus"])
async def test_a_machine_without_a_bus_is_worth_a_note(monkeypatch, address):
    monkeypatch.setattr(shutdown, "BUS_ADDRESS", address)
    monkeypatch.setattr(shutdown, "missing", lambda _: "this machine has no system bus")

    one = await one_found_by(check_shutdown, subject_of())

    assert one.level is Level.NOTE
    assert "notices.shutdown.enabled = false" in one.remedy
