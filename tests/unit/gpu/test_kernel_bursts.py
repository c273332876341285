"""Many of the same error become few reports, and none is lost."""

from __future__ import annotations

from dataclasses import replace

from lastcall.gpu.kernel_bursts import Bursts
from lastcall.gpu.kernel_lines import KernelXid

FOUND = KernelXid(xid=95, pci="00000000:1B:00.0", at=100.0, text="NVRM: Xid …")


def test_the_first_is_handed_on_at_once_and_the_rest_as_a_count() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    for _ in range(1000):
        bursts.take(FOUND)
    assert [report.count for report in reports] == [1]
    bursts.flush()

    assert [report.count for report in reports] == [1, 999]
    assert not bursts.waiting


def test_a_flood_makes_a_report_or_two_for_each_second() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    for number in range(10000):
        bursts.take(replace(FOUND, at=100.0 + number / 1000))
    bursts.flush()

    assert sum(report.count for report in reports) == 10000
    assert len(reports) <= 20


def test_errors_of_the_past_that_lie_apart_are_not_drawn_together() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    for at in (100.0, 400.0, 7000.0):
        bursts.take(replace(FOUND, at=at, past=True))

    assert [(report.at, report.count) for report in reports] == [(100, 1), (400, 1), (7000, 1)]


def test_what_means_something_else_is_kept_apart() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    bursts.take(FOUND)
    bursts.take(replace(FOUND, pci="00000000:9D:00.0"))
    bursts.take(replace(FOUND, xid=145, text="RLW_REMAP Nonfatal XC1"))
    bursts.take(replace(FOUND, xid=145, text="RLW_REMAP Fatal XC1"))
    bursts.take(replace(FOUND, xid=154, text="changed from 0x0 to 0x1"))
    bursts.take(replace(FOUND, xid=154, text="changed from 0x1 to 0x2"))

    assert len(reports) == 6


def test_what_differs_in_its_text_alone_is_one_burst() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    bursts.take(replace(FOUND, xid=31, text="MMU Fault: access to 0x7f01"))
    bursts.take(replace(FOUND, xid=31, text="MMU Fault: access to 0x7f02"))
    bursts.flush()

    assert [report.count for report in reports] == [1, 1]
    assert {report.text for report in reports} == {"MMU Fault: access to 0x7f01"}


def test_memory_stays_small_however_many_kinds_there_are() -> None:
    reports: list[KernelXid] = []
    bursts = Bursts(reports.append)

    for number in range(5000):
        bursts.take(replace(FOUND, xid=1 + number))
        bursts.take(replace(FOUND, xid=1 + number))
    assert len(bursts._bursts) <= 256
    bursts.flush()

    assert sum(report.count for report in reports) == 10000
