"""Whose machine the firmware says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastcall.sources.dmi import describe, provider_of, read_dmi

HYPER_V = {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}


def machine(root: Path, fields: dict[str, str]) -> dict[str, str]:
    for field, text in fields.items():
        (root / field).write_text(f"{text}\n")
    return read_dmi(root)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}, ("aws", "sys_vendor")),
        ({"board_asset_tag": "i-0123456789abcdef0"}, ("aws", "board_asset_tag")),
        ({"sys_vendor": "Xen", "bios_version": "4.11.amazon"}, ("aws", "bios_version")),
        (
            {"sys_vendor": "Xen", "product_uuid": "EC2E1916-9099-7CAF-FD21-012345ABCDEF"},
            ("aws", "product_uuid"),
        ),
        (
            {"sys_vendor": "Google", "product_name": "Google Compute Engine"},
            ("gcp", "product_name"),
        ),
        ({"sys_vendor": "Google", "product_name": "Google"}, ("gcp", "sys_vendor")),
        (
            HYPER_V | {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
            ("azure", "chassis_asset_tag"),
        ),
    ],
)
def test_a_providers_machine_is_known(tmp_path, fields, found):
    assert provider_of(machine(tmp_path, fields)) == found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        HYPER_V,
        HYPER_V | {"chassis_asset_tag": "1234"},
        {"sys_vendor": "Google", "product_name": "Reef"},
        {"sys_vendor": "QEMU", "product_uuid": "ec2e1916-9099-7caf-fd21-012345abcdef"},
        {"sys_vendor": "Xen", "product_uuid": "0c2e1916-9099-7caf-fd21-012345abcdef"},
        {"board_asset_tag": "i-am-no-instance"},
    ],
)
def test_any_other_machine_is_nobodys(tmp_path, fields):
    assert provider_of(machine(tmp_path, fields)) == ("", "")


def test_what_cannot_be_read_is_left_out(tmp_path):
    (tmp_path / "sys_vendor").write_bytes(b"Amazon EC2\xff\n")
    (tmp_path / "product_name").mkdir()
    (tmp_path / "bios_version").write_text("\n")

    assert read_dmi(tmp_path) == {"sys_vendor": "Amazon EC2\N{REPLACEMENT CHARACTER}"}
    assert read_dmi(tmp_path / "missing") == {}


def test_the_maker_and_the_model_describe_a_machine():
    assert describe(HYPER_V) == "Microsoft Corporation Virtual Machine"
    assert describe({"product_uuid": "x"}) == "nothing"
