"""The systemd files are sound, shut in as far as they may be, and explained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lastcall.daemon.farewell import STAY_SECONDS
from lastcall.daemon.supervision import EXTENSION_SECONDS, READY_SECONDS
from support.needs import need_program

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd/lastcall.service"
TRAIN = ROOT / "examples/systemd/train@.service"
KERNEL_LOG = ROOT / "examples/systemd/lastcall-kernel-log.conf"
LOGIND = ROOT / "systemd/logind.conf.d/50-lastcall.conf"
PAGE = (ROOT / "docs/reference/unit.md").read_text()
GOODBYE_SECONDS = 2.0
MOST_EXPOSURE = 2.0


def settings(path: Path) -> dict[str, list[str]]:
    """Return every setting of a unit file, with its values in their order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def seconds(name: str) -> float:
    return float(settings(UNIT)[name][0])


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [need_program("systemd-analyze", "systemd"), *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def root(tmp_path):
    """A machine's root as far as systemd's check looks: its targets, the units, the programs."""
    need_program("systemd-analyze", "systemd")
    for name in ("opt/lastcall/bin/lastcall", "srv/train/run/venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch(0o755)
    units = tmp_path / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for target in Path("/lib/systemd/system").glob("*.target"):
        shutil.copy(target, units)
    for unit in (UNIT, TRAIN):
        shutil.copy(unit, units)
    return tmp_path


@pytest.mark.parametrize("drop_in", [None, KERNEL_LOG])
def test_systemd_finds_no_fault_in_the_units(root, drop_in):
    if drop_in is not None:
        folder = root / "etc/systemd/system/lastcall.service.d"
        folder.mkdir(parents=True)
        shutil.copy(drop_in, folder)

    checked = analyze("verify", f"--root={root}", "lastcall.service", "train@run.service")

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_of_all_devices_only_those_of_gpus_are_open_and_none_can_be_made():
    unit = settings(UNIT)
    allowed = {device.split()[0] for device in unit["DeviceAllow"]}

    # The names of /proc/devices, and the number that is NVIDIA's own wherever no name is there yet.
    names = {"nvidia", "nvidia-frontend", "nvidiactl", "nvidia-caps", "195"}
    assert allowed == {f"char-{name}" for name in names}
    assert not any("m" in device.split()[1] for device in unit["DeviceAllow"])
    assert (unit["PrivateDevices"], unit["DevicePolicy"]) == (["no"], ["closed"])
    assert unit["ReadOnlyPaths"] == ["/dev"]


def test_the_kernel_s_log_is_closed_and_the_example_opens_no_more_than_that():
    assert settings(UNIT)["ProtectKernelLogs"] == ["yes"]
    assert settings(KERNEL_LOG) == {
        "ProtectKernelLogs": ["no"],
        "DeviceAllow": ["/dev/kmsg r"],
        "CapabilityBoundingSet": ["CAP_SYSLOG"],
    }


def test_the_page_says_how_exposed_the_unit_is_with_the_kernel_s_log(tmp_path):
    both = tmp_path / "lastcall.service"
    opened = KERNEL_LOG.read_text().partition("[Service]")[2]
    both.write_text(UNIT.read_text().replace("[Install]", f"{opened}\n[Install]"))

    said = analyze("security", "--offline=true", "--no-pager", str(both)).stdout

    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", said)
    assert f"The exposure is then\n**{exposure}**" in PAGE


def test_what_it_is_exposed_to_is_little_and_each_relaxation_is_explained():
    said = analyze("security", "--offline=true", "--no-pager", str(UNIT)).stdout
    listed = analyze("security", "--offline=true", "--json=short", str(UNIT)).stdout

    exposure = float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0])
    assert exposure <= MOST_EXPOSURE
    assert f"**{exposure}**" in PAGE
    relaxed = [check for check in json.loads(listed) if not check["set"]]
    explained = PAGE[PAGE.index("All that is left open") :] + PAGE[PAGE.index("## The sandbox") :]
    for check in relaxed:
        setting, _, value = check["name"].partition("=")
        assert f"`{setting.split('/')[0]}=" in explained or check["exposure"] is None, check
        for family in re.findall(r"AF_\w+", value):
            assert family in explained, check
        assert check["exposure"] is None or check["exposure"] in explained, check


@pytest.mark.parametrize("name", sorted(settings(UNIT).keys() - {"Description", "ExecStart"}))
def test_each_line_of_the_unit_is_explained(name):
    assert f"`{name}=" in PAGE


def test_its_times_fit_into_each_other():
    # A stay is longer: each second extends it, and a loop that is busy may miss a few of these.
    assert seconds("TimeoutStopSec") >= 2 * EXTENSION_SECONDS
    # A child that outlives SIGKILL holds the agent's return up twice.
    assert 2 * seconds("TimeoutStopSec") + seconds("RestartSec") < 30
    assert seconds("TimeoutStartSec") > READY_SECONDS
    assert seconds("WatchdogSec") + seconds("TimeoutAbortSec") + seconds("RestartSec") < 30
    # While it stays, each extension reaches beyond the next one and the goodbyes.
    assert EXTENSION_SECONDS > 1 + GOODBYE_SECONDS
    assert f"**{STAY_SECONDS:g}\nseconds**" in PAGE
    assert f"at the latest after {READY_SECONDS:g} seconds" in PAGE


def test_a_process_that_has_flushed_is_no_failure_and_not_started_again():
    train = settings(TRAIN)

    assert train["SuccessExitStatus"] == train["RestartPreventExitStatus"] == ["143"]
    assert "lastcall.service" in train["After"][0]
    assert "Requires" not in train


def test_logind_waits_for_a_flush_and_the_kubelets_own_file_still_wins():
    (delay,) = settings(LOGIND)["InhibitDelayMaxSec"]

    assert int(delay) == 30
    assert LOGIND.name < "99-kubelet.conf"
