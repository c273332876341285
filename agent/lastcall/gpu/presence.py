"""What the machine itself shows of NVIDIA's GPUs, without asking their driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

CONTROL_DEVICE = "nvidiactl"
"""The driver's control device, among the device files: whoever uses a GPU opens it first."""

_VENDOR = "0x10de"
_CLASSES = ("0x0300", "0x0302")
_GIVEN_AWAY = frozenset({"vfio-pci", "pci-stub"})

_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_PLACES = tuple(
    Path(place)
    for place in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/lib/wsl/lib",
    )
)
"""Where the packages of distributions, container runtimes and GKE put it, and WSL."""

_ADDRESS = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE
)
_VERSION = re.compile(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)(?:\s|$)", re.MULTILINE)


def normal_pci(text: str) -> str:
    """Give a PCI address the form in which the driver's library has it: ``00000000:1B:00.0``.

    The kernel writes a domain of four digits and small letters, and leaves out the function, or
    says ``PCI:`` before it.

    Args:
        text: the address.

    Returns:
        The address; empty where the text is none.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return ""
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):08X}:{int(bus, 16):02X}:{int(device, 16):02X}.{function or 0}"


def pci_gpus(sysfs: Path = Path("/sys")) -> tuple[str, ...] | None:
    """Find NVIDIA's GPUs on the PCI bus.

    Neither the virtual functions of a GPU that is shared out (they have a ``physfn``) nor a GPU
    that was given to a virtual machine count: the driver here has no part in them.

    Args:
        sysfs: where sysfs is mounted.

    Returns:
        Their addresses as :func:`normal_pci` writes them, in order; ``None`` where the bus cannot
        be seen.
    """
    try:
        devices = sorted((sysfs / "bus/pci/devices").iterdir())
    except OSError:
        return None
    return tuple(normal_pci(device.name) for device in devices if _is_gpu(device))


def _is_gpu(device: Path) -> bool:
    # Both numbers stand in the kernel's memory: reading them does not touch a broken device.
    if _read(device / "vendor").strip().lower() != _VENDOR:
        return False
    if not _read(device / "class").strip().lower().startswith(_CLASSES):
        return False
    if (device / "physfn").is_symlink():
        return False
    try:
        return (device / "driver").readlink().name not in _GIVEN_AWAY
    except OSError:
        return True


def present(
    sysfs: Path = Path("/sys"), dev: Path = Path("/dev"), proc: Path = Path("/proc")
) -> bool:
    """Tell whether the machine shows any sign of an NVIDIA GPU.

    Args:
        sysfs: where sysfs is mounted.
        dev: where the device files are.
        proc: where procfs is mounted.

    Returns:
        Whether a GPU is on the bus, or the driver's control device or its kernel module is there.
    """
    return (
        bool(pci_gpus(sysfs))
        or (dev / CONTROL_DEVICE).exists()
        or (proc / "driver/nvidia").exists()
    )


def library_present(environment: Mapping[str, str]) -> bool:
    """Tell whether the driver's library lies where it is made to be found.

    Where a GPU stands on no bus that can be seen, as under Windows' subsystem for Linux, it is the
    only sign.

    Args:
        environment: of the program that is to load it.

    Returns:
        Whether a directory of ``LD_LIBRARY_PATH``, or one that drivers are installed to, has it.
    """
    named = environment.get("LD_LIBRARY_PATH", "").split(":")
    places = [*(Path(place) for place in named if place), *_LIBRARY_PLACES]
    return any((place / _LIBRARY).exists() for place in places)


def kernel_driver(proc: Path = Path("/proc")) -> str:
    """Read the version of the driver's kernel module.

    Its first line is worded otherwise by the closed module (``NVIDIA UNIX x86_64 Kernel Module
    550.54.15``) than by the open one (``NVIDIA UNIX Open Kernel Module for x86_64  560.35.03``).

    Args:
        proc: where procfs is mounted.

    Returns:
        The version; empty where there is no module or its version cannot be read.
    """
    match = _VERSION.search(_read(proc / "driver/nvidia/version"))
    return match[1] if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
