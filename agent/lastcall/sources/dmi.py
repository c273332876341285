"""What the machine's firmware says of who made it, where the kernel shows that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DMI_ROOT = Path("/sys/class/dmi/id")

_FIELDS = (
    "sys_vendor",
    "product_name",
    "product_uuid",
    "board_asset_tag",
    "chassis_asset_tag",
    "bios_version",
)

_AWS_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")

# The same on every Azure machine; Hyper-V elsewhere has another (the cloud-init project relies on
# it too).
_AZURE_CHASSIS_TAG = "7783-7084-3265-9085-8269-3286-77"


def read_dmi(root: Path = DMI_ROOT) -> dict[str, str]:
    """Return the fields that can be read; some are for root alone, and none exist on some machines.

    Args:
        root: the directory that holds one file a field.
    """
    found: dict[str, str] = {}
    for field in _FIELDS:
        try:
            text = (root / field).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if text:
            found[field] = text
    return found


def provider_of(dmi: Mapping[str, str]) -> tuple[str, str]:
    """Return the provider that the fields name, and the field that says so; empty for none.

    Sources: AWS EC2 user guide, "Detect whether a host is an EC2 instance"; Compute Engine
    documentation, "Detect if a VM is running in Compute Engine". A machine under Hyper-V is not
    thereby in Azure.
    """
    vendor, product = dmi.get("sys_vendor", ""), dmi.get("product_name", "")
    uuid = dmi.get("product_uuid", "").lower()
    signs = (
        ("aws", "sys_vendor", vendor == "Amazon EC2"),
        # A UUID begins like this by chance too; Xen instances have no other sign of EC2.
        ("aws", "product_uuid", vendor == "Xen" and uuid.startswith("ec2")),
        ("aws", "bios_version", dmi.get("bios_version", "").lower().endswith(".amazon")),
        (
            "aws",
            "board_asset_tag",
            _AWS_INSTANCE_ID.fullmatch(dmi.get("board_asset_tag", "")) is not None,
        ),
        ("gcp", "product_name", product == "Google Compute Engine"),
        ("gcp", "sys_vendor", vendor == "Google" and product == "Google"),
        ("azure", "chassis_asset_tag", dmi.get("chassis_asset_tag") == _AZURE_CHASSIS_TAG),
    )
    for provider, field, holds in signs:
        if holds:
            return provider, field
    return "", ""


def describe(dmi: Mapping[str, str]) -> str:
    """Return the maker and the model on one line."""
    words = [dmi[field] for field in ("sys_vendor", "product_name") if field in dmi]
    return " ".join(words) or "nothing"
