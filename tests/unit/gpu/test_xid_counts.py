"""One count of what NVML and the kernel's log both report."""

from __future__ import annotations

from lastcall.core.gpu.model import XidSeen
from lastcall.gpu.xid_counts import Witness, XidCounts


def seen(xid: int = 95, *, uuid: str = "GPU-a", count: int = 1, past: bool = False) -> XidSeen:
    return XidSeen(uuid=uuid, xid=xid, at=0.0, count=count, past=past)


def test_what_both_report_is_counted_once() -> None:
    counts = XidCounts()

    new = [
        counts.take(seen(), Witness.NVML),
        counts.take(seen(), Witness.KERNEL),
        counts.take(seen(), Witness.KERNEL),
        counts.take(seen(), Witness.NVML),
    ]

    assert new == [1, 0, 1, 0]


def test_what_one_of_them_missed_is_counted() -> None:
    counts = XidCounts()

    new = [
        counts.take(seen(count=3), Witness.KERNEL),
        counts.take(seen(), Witness.NVML),
        counts.take(seen(count=5), Witness.NVML),
    ]

    assert new == [3, 0, 3]


def test_the_same_of_one_witness_again_counts_again() -> None:
    counts = XidCounts()

    assert [counts.take(seen(), Witness.NVML) for _ in range(3)] == [1, 1, 1]


def test_each_gpu_and_each_number_counts_for_itself() -> None:
    counts = XidCounts()

    new = [
        counts.take(each, Witness.NVML)
        for each in (seen(45), seen(62), seen(45, uuid="GPU-b"), seen(45))
    ]

    assert new == [1, 1, 1, 1]


def test_the_past_is_not_counted() -> None:
    assert XidCounts().take(seen(past=True), Witness.KERNEL) == 0
