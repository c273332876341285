"""What a machine shows of its GPUs, on made-up trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastcall.gpu.presence import kernel_driver, library_present, normal_pci, pci_gpus, present

CLOSED = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs@U16)  Fri
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""


def device(
    sysfs: Path,
    address: str,
    vendor: str = "0x10de",
    kind: str = "0x030200",
    driver: str = "nvidia",
) -> Path:
    folder = sysfs / "bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    if driver:
        (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    return folder


def module(proc: Path, version: str) -> None:
    (proc / "driver/nvidia").mkdir(parents=True)
    (proc / "driver/nvidia/version").write_text(version)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0000:1b:00.0", "00000000:1B:00.0"),
        ("0000:1b:00", "00000000:1B:00.0"),
        ("PCI:0000:1b:00", "00000000:1B:00.0"),
        ("00000000:1B:00.0", "00000000:1B:00.0"),
        ("0008:06:00", "00000008:06:00.0"),
        ("10000:e1:00.0", "00010000:E1:00.0"),
        ("1b:00.0", "00000000:1B:00.0"),
        (" 0000:1b:00.0\n", "00000000:1B:00.0"),
    ],
)
def test_an_address_gets_the_form_of_the_drivers_library(text: str, normal: str) -> None:
    assert normal_pci(text) == normal


@pytest.mark.parametrize(
    "text", ["", "GPU-12345678", "0000:1b", "0000:1g:00.0", "0000:1b:00.8", "x"]
)
def test_what_is_no_address_becomes_nothing(text: str) -> None:
    assert normal_pci(text) == ""


def test_gpus_are_found_and_nothing_else(tmp_path: Path) -> None:
    device(tmp_path, "0000:9d:00.0")
    device(tmp_path, "0000:1b:00.0", kind="0x030000")
    device(tmp_path, "0000:1b:00.1", kind="0x040300")  # the sound of a graphics card
    device(tmp_path, "0000:05:00.0", kind="0x068000")  # an NVSwitch
    device(tmp_path, "0000:02:00.0", vendor="0x102b", kind="0x030000")  # another maker's

    assert pci_gpus(tmp_path) == ("00000000:1B:00.0", "00000000:9D:00.0")


def test_a_gpu_that_its_driver_left_still_counts(tmp_path: Path) -> None:
    device(tmp_path, "0000:1b:00.0", driver="")

    assert pci_gpus(tmp_path) == ("00000000:1B:00.0",)


def test_a_gpu_of_a_virtual_machine_does_not_count(tmp_path: Path) -> None:
    device(tmp_path, "0000:1b:00.0", driver="vfio-pci")
    shared = device(tmp_path, "0000:1c:00.4")
    (shared / "physfn").symlink_to("../0000:1c:00.0")

    assert pci_gpus(tmp_path) == ()


def test_a_device_that_leaves_during_the_look_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    (tmp_path / "bus/pci/devices/0000:1b:00.0").symlink_to("gone")

    assert pci_gpus(tmp_path) == ()


def test_a_bus_that_cannot_be_seen_is_not_an_empty_one(tmp_path: Path) -> None:
    assert pci_gpus(tmp_path) is None


@pytest.mark.parametrize("sign", ["bus", "control device", "module"])
def test_each_sign_of_a_gpu_is_enough(tmp_path: Path, sign: str) -> None:
    sysfs, dev, proc = (tmp_path / name for name in ("sys", "dev", "proc"))
    dev.mkdir()
    if sign == "bus":
        device(sysfs, "0000:1b:00.0")
    elif sign == "control device":
        (dev / "nvidiactl").touch()
    else:
        module(proc, CLOSED)

    assert present(sysfs, dev, proc)


def test_no_sign_is_no_gpu(tmp_path: Path) -> None:
    device(tmp_path, "0000:02:00.0", vendor="0x102b", kind="0x030000")

    assert not present(tmp_path, tmp_path / "dev", tmp_path / "proc")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (CLOSED, "550.54.15"),
        (OPEN, "560.35.03"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  470.82\n", "470.82"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version:  gcc 11.4.0\n", ""),
        ("", ""),
    ],
)
def test_the_kernel_modules_version_is_read(tmp_path: Path, text: str, version: str) -> None:
    module(tmp_path, text)

    assert kernel_driver(tmp_path) == version


def test_without_a_module_there_is_no_version(tmp_path: Path) -> None:
    assert kernel_driver(tmp_path) == ""


def test_a_library_where_the_loader_is_told_to_look_is_a_sign(tmp_path: Path) -> None:
    assert not library_present({"LD_LIBRARY_PATH": f":{tmp_path}"})

    (tmp_path / "libnvidia-ml.so.1").touch()

    assert library_present({"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"})
    assert not library_present({})
