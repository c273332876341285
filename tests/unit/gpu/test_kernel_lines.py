"""XIDs in the kernel's lines, in all shapes in which they have been seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.gpu.kernel_lines import KernelLines, KernelXid, Record, record

PCI = "00000000:1B:00.0"


def only(text: str) -> KernelXid:
    (found,) = KernelLines().take(text, 5.0)
    return found


def test_a_record_has_its_stamp_in_seconds_since_boot() -> None:
    assert record("4,1234,24279580632,-;NVRM: x") == Record("NVRM: x", 24279.580632)


def test_a_record_names_its_caller_where_the_kernel_is_built_so() -> None:
    assert record("4,1,1000000,-,caller=T77;NVRM: x;y") == Record("NVRM: x;y", 1.0)


def test_what_the_kernel_escapes_is_what_it_was() -> None:
    assert record(r"4,1,0,-;one\x0atwo \x5c \xc3").text == "one\ntwo \\ \\xc3"


@pytest.mark.parametrize("line", ["NVRM: x", "", "4,1,x,-;y", "4,1,1", "9" * 5000 + ",1,1,-;x"])
def test_a_line_without_a_header_is_taken_as_it_is(line: str) -> None:
    assert record(line) == Record(line, None)


@pytest.mark.parametrize(
    ("line", "pci", "xid"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python3, GPU has fallen.", PCI, 79),
        ("NVRM: Xid (PCI:0000:1b:00): 13, pid='<unknown>', name=<unknown>, Graphics", PCI, 13),
        ("NVRM: Xid (0000:1b:00): 48, Double Bit ECC", PCI, 48),
        ("NVRM: Xid (PCI:0000:1b:00.0): 79, pid=1", PCI, 79),
        ("NVRM: Xid (PCI:0000:1b:00 GPU-I:05 GPU-CI:00): 31, pid=7, name=x, MMU", PCI, 31),
        ("NVRM: Xid (PCI:0000:1b:00): 46", PCI, 46),
        ("[  171.62] NVRM: Xid (PCI:0018:01:00): 120, GSP", "00000018:01:00.0", 120),
        ("   NVRM:  Xid ( PCI:0000:1b:00 ) : 43, Ch 01", PCI, 43),
        ("NVRM: Xid (PCI:10000:1b:00): 99999, unheard of", "00010000:1B:00.0", 99999),
        ("NVRM: Xid (somewhere): 62, halt", "", 62),
    ],
)
def test_an_xid_is_found_in_each_shape_of_the_line(line: str, pci: str, xid: int) -> None:
    found = only(line)

    assert (found.pci, found.xid, found.at) == (pci, xid, 5.0)


def test_the_text_is_the_kernels_own_line_cut_short() -> None:
    found = only("[1.0] NVRM: Xid (PCI:0000:1b:00): 13, \x1b[31m" + "x" * 1000)

    assert found.text.startswith("NVRM: Xid (PCI:0000:1b:00): 13, [31mxxx")
    assert len(found.text) < 401


def test_a_line_may_name_the_gpu_by_its_uuid() -> None:
    uuid = "GPU-8F2E0D1C-0000-1111-2222-333344445555"

    found = only(f"NVRM: Xid ({uuid}): 48, x")

    assert (found.uuid, found.pci) == ("GPU-8f2e0d1c-0000-1111-2222-333344445555", "")
    assert only(f"NVRM: Xid (PCI:0000:1b:00, {uuid}): 48, x").pci == PCI


@pytest.mark.parametrize(
    "text",
    [
        (
            "NVRM: The NVIDIA GPU 0000:1b:00.0\n"
            "NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands."
        ),
        (
            "NVRM: The NVIDIA GPU 0000:1b:00.0 (PCI ID: 10de:2d04) installed in this system has\n"
            "               NVRM: fallen off the bus and is not responding to commands."
        ),
        "NVRM: The NVIDIA GPU 0000:1b:00.0 fallen off the bus and is not responding to commands.",
        "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at 0000:1b:00.0 has fallen off the bus.",
    ],
)
def test_a_gpu_off_the_bus_is_79_also_without_the_number(text: str) -> None:
    found = only(text)

    assert (found.pci, found.xid) == (PCI, 79)


def test_the_three_lines_may_come_one_by_one() -> None:
    lines = KernelLines()

    found = [
        lines.take("NVRM: The NVIDIA GPU 0000:1b:00.0", 1.0),
        lines.take("NVRM: (PCI ID: 10de:26b5) installed in this system has", 1.0),
        lines.take("NVRM: fallen off the bus and is not responding to commands.", 1.0),
    ]

    assert [[xid.pci for xid in each] for each in found] == [[], [], [PCI]]


def test_an_old_beginning_lends_its_address_to_no_later_message() -> None:
    lines = KernelLines()
    lines.take("NVRM: The NVIDIA GPU 0000:1b:00.0", 1.0)

    (found,) = lines.take("NVRM: fallen off the bus and is not responding to commands.", 60.0)

    assert found.pci == ""


def test_a_fall_with_its_number_is_not_counted_again_without() -> None:
    lines = KernelLines()

    numbered = lines.take("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", 1.0)
    same = lines.take("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", 1.0)
    of_another = lines.take("NVRM: GPU 0000:9d:00.0: GPU has fallen off the bus.", 1.0)
    much_later = lines.take("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", 4000.0)

    assert [len(each) for each in (numbered, same, of_another, much_later)] == [1, 0, 1, 1]


def test_a_gpu_that_falls_twice_with_its_number_counts_twice() -> None:
    lines = KernelLines()
    line = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."

    assert len(lines.take(f"{line}\n{line}", 1.0)) == 2


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: GPU at PCI:0000:66:00: GPU-12345678-1234-5678-9abc-def012345678",
        "NVRM: Xid : 32, pid=2280636",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid (PCI:0000:66:00): 0, nothing",
        "NVRM: Xid (PCI:0000:66:00): 123456, no such number",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
        "audit: exe=NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
        "pcieport 0000:00:01.0: device has fallen off the bus",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert KernelLines().take(line, 1.0) == ()


PIECES = st.sampled_from(
    (
        *("NVRM:", "NVRM: Xid (PCI:0000:1b:00): 154", "NVRM: The NVIDIA GPU ", "0000:1b:00.0"),
        *("fallen off the bus", "NETIR Fatal XC0", " (", ") ", " to 0x", "²", "٣"),
        *("\n", r"\x0a", "4,1,2,-;"),
    )
)


@given(st.lists(PIECES | st.text(max_size=6), max_size=8), st.floats(0, 1e9))
def test_no_line_whatever_makes_it_fail(pieces: list[str], at: float) -> None:
    lines = KernelLines()

    for found in lines.take(record("".join(pieces)).text, at):
        assert 0 < found.xid < 100000
        assert found.text.isprintable()
