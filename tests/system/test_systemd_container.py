"""The installed service on a real systemd: ready, watched, restarted, stopped last, shut in."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from support.nspawn import Machine, agent_events, installed_tree, make, messages

ROOT = Path(__file__).resolve().parents[2]
SERVICE = "lastcall.service"
TRAIN = "train@run.service"
NO_PROVIDER = '[notices]\nprovider = "none"\n'

pytestmark = pytest.mark.timeout(120)

# What the agent's sandbox lets a process do, tried from inside.
PROBE = """
import ctypes, json, os, pathlib, socket, subprocess

def tried(action):
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "etc": tried(lambda: pathlib.Path("/etc/probe").write_text("x")),
    "usr": tried(lambda: pathlib.Path("/usr/probe").write_text("x")),
    "var": tried(lambda: pathlib.Path("/var/log/probe").write_text("x")),
    "state": tried(lambda: pathlib.Path("/var/lib/lastcall/probe").write_text("x")),
    "run": tried(lambda: pathlib.Path("/run/lastcall/probe").write_text("x")),
    "home": tried(lambda: pathlib.Path("/root/secret").read_text()),
    "others' files": tried(lambda: pathlib.Path("/srv/train/private").read_text()),
    "kernel": tried(lambda: pathlib.Path("/proc/sys/kernel/panic").write_text("1")),
    "others' processes": tried(lambda: pathlib.Path("/proc/1/comm").read_text().strip()),
    "signal another": tried(lambda: os.kill(int(os.environ["OTHER"]), 0)),
    "watch another": tried(lambda: os.pidfd_open(int(os.environ["OTHER"])) > 0),
    "raw socket": tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "units": subprocess.run(["systemctl", "stop", "bystander"]).returncode,
    "capabilities": [
        line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")
    ],
}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    if os.environ.get("LASTCALL_TESTS_NSPAWN") != "1":
        pytest.skip("boots systemd only with LASTCALL_TESTS_NSPAWN=1, as CI does; takes 2 minutes")
    with installed_tree(tmp_path_factory.mktemp("machine")) as tree:
        add_training(tree)
        yield tree


@pytest.fixture
def fresh(tree):
    """The tree as if no machine had run on it, the agent enabled and without a provider."""
    for folder in ("var/log/journal", "var/lib/lastcall", "etc/systemd/system"):
        shutil.rmtree(tree / folder, ignore_errors=True)
    (tree / "var/log/journal").mkdir()
    (tree / "srv/train/run/training.json").unlink(missing_ok=True)
    configure(tree, NO_PROVIDER)
    enable(tree, SERVICE, f"../../../usr/local/lib/systemd/system/{SERVICE}")
    return tree


def add_training(tree: Path) -> None:
    """Put the examples' training on a tree: its unit, its loop, its user."""
    run = tree / "srv/train/run"
    run.mkdir(parents=True)
    shutil.copy(ROOT / "examples/systemd/train@.service", tree / "usr/local/lib/systemd/system")
    shutil.copy(ROOT / "examples/kubernetes/training.py", run / "train.py")
    (run / "venv").symlink_to("/opt/lastcall")
    with (tree / "etc/passwd").open("a") as users:
        users.write("train:x:1000:1000::/srv/train:/usr/sbin/nologin\n")
    with (tree / "etc/group").open("a") as groups:
        groups.write("train:x:1000:\n")
    os.chown(run, 1000, 1000)
    override = tree / "usr/local/lib/systemd/system/train@.service.d"
    override.mkdir()
    # In a container without storage of its own, the root is what outlives a boot.
    (override / "test.conf").write_text(
        "[Service]\nEnvironment=CHECKPOINT=/srv/train/%i/training.json\n"
    )


def configure(tree: Path, content: str) -> None:
    (tree / "etc/lastcall/lastcall.toml").write_text(content)


def enable(tree: Path, name: str, target: str) -> None:
    wants = tree / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / name).symlink_to(target)


def place_of(tree: Path, unit: str, words: str) -> int:
    """Return where in the journal a unit's last message with these words stands."""
    places = [
        place
        for place, (of, text) in enumerate(messages(tree))
        if of == unit and re.search(words, text)
    ]
    assert places, "\n".join(map(str, messages(tree)))
    return places[-1]


def test_it_is_up_before_training_and_says_how_it_is(fresh):
    enable(fresh, TRAIN, "../../../usr/local/lib/systemd/system/train@.service")

    with Machine.booted(fresh) as machine:
        machine.wait_for_status("clients: 1")

        assert machine.show(SERVICE, "ActiveState") == "active"
        assert machine.show(SERVICE, "StatusText") == "no notice; sources: shutdown; clients: 1"
        assert "all that is needed is there" in machine.run("lastcall", "check")
    assert place_of(fresh, SERVICE, "^Started") < place_of(fresh, TRAIN, "^Started")


def test_no_file_names_the_folder_that_it_was_laid_out_below(tree):
    names = str(tree).encode()

    naming = [
        path
        for folder in ("opt/lastcall", "usr/local", "etc/lastcall")
        for path in (tree / folder).rglob("*")
        if path.is_file() and not path.is_symlink() and names in path.read_bytes()
    ]

    assert naming == []


def test_a_metadata_service_that_is_down_holds_no_boot_up(fresh):
    configure(fresh, '[notices]\nprovider = "aws"\n')

    with Machine.booted(fresh) as machine:
        assert machine.show(SERVICE, "ActiveState") == "active"
        assert "aws has not answered" in machine.show(SERVICE, "StatusText")


def test_a_configuration_with_a_fault_is_said_once_and_not_tried_again(fresh):
    configure(fresh, "no_such_key = 1\n")

    with Machine.booted(fresh) as machine:
        machine.wait(lambda: machine.show(SERVICE, "ActiveState") == "failed")

        assert machine.show(SERVICE, "NRestarts") == "0"
    assert place_of(fresh, SERVICE, "no_such_key")


def test_stuck_it_is_killed_by_the_watchdog_and_comes_back(fresh):
    with Machine.booted(fresh) as machine:
        machine.systemctl("start", TRAIN)
        machine.wait_for_status("clients: 1")

        machine.systemctl("kill", "--signal=STOP", SERVICE)

        machine.wait(lambda: machine.show(SERVICE, "NRestarts") == "1", 30)
        machine.wait_for_status("clients: 1")
        assert machine.show(SERVICE, "ActiveState") == "active"
    place_of(fresh, SERVICE, "Failed with result 'watchdog'")
    # Where it was stuck is in the journal.
    place_of(fresh, SERVICE, "most recent call first")


def test_restarted_and_killed_it_keeps_its_clients(fresh):
    with Machine.booted(fresh) as machine:
        machine.systemctl("start", TRAIN)
        machine.wait_for_status("clients: 1")
        training, agent = machine.show(TRAIN, "MainPID"), machine.show(SERVICE, "MainPID")
        directory = machine.path_to("/run/lastcall").stat().st_ino

        machine.systemctl("restart", SERVICE)
        machine.wait_for_status("clients: 1")
        machine.systemctl("kill", "--signal=KILL", SERVICE)
        machine.wait(lambda: machine.show(SERVICE, "NRestarts") == "1")
        machine.wait_for_status("clients: 1")

        assert machine.show(SERVICE, "MainPID") != agent
        assert machine.show(TRAIN, "MainPID") == training
        assert machine.path_to("/run/lastcall").stat().st_ino == directory
        # A container that has the directory mounted finds the socket there after a stop, too.
        machine.systemctl("stop", SERVICE)
        assert machine.path_to("/run/lastcall").stat().st_ino == directory
    last = agent_events(fresh)[-1]
    assert last["event"] == "agent_stopped"


def test_a_shutdown_waits_for_the_flush(fresh):
    with Machine.booted(fresh) as machine:
        machine.systemctl("start", TRAIN)
        machine.wait_for_status("clients: 1")
        assert "lastcall" in machine.run("systemd-inhibit", "--list")

        machine.power_off()

    (settled,) = [event for event in agent_events(fresh) if event["event"] == "flush_settled"]
    assert (settled["kind"], settled["outcome"]) == ("shutdown", "in_time")
    saved = json.loads((fresh / "srv/train/run/training.json").read_text())["step"]
    assert settled["step"] == saved
    assert_ended_well_and_last(fresh, f"step {saved} saved for shutdown-")


def test_where_no_lock_is_held_a_units_own_stop_still_reports_before_the_agent_leaves(fresh):
    configure(fresh, f"{NO_PROVIDER}shutdown.enabled = false\n")
    with Machine.booted(fresh) as machine:
        machine.systemctl("start", TRAIN)
        machine.wait_for_status("clients: 1")

        machine.power_off()

    (seen,) = [event for event in agent_events(fresh) if event["event"] == "checkpoint_seen"]
    saved = json.loads((fresh / "srv/train/run/training.json").read_text())["step"]
    assert seen["step"] == saved
    assert_ended_well_and_last(fresh, f"step {saved} saved for signal-SIGTERM")


def assert_ended_well_and_last(tree: Path, last_words: str) -> None:
    """Whoever trained left in peace, and only then was the agent asked to."""
    saved = place_of(tree, TRAIN, last_words)
    ended = place_of(tree, TRAIN, "Deactivated successfully")
    assert saved < ended < place_of(tree, SERVICE, "^Stopping")
    events = agent_events(tree)
    assert events[-1]["event"] == "agent_stopped"
    assert [event for event in events if event["level"] != "info"] == []
    assert not any("Failed with result" in text for _, text in messages(tree))


def test_the_sandbox_holds(fresh):
    unit = (fresh / f"usr/local/lib/systemd/system/{SERVICE}").read_text()
    probe = re.sub(r"(?m)^(Type|ExecStart|WatchdogSec|Restart)=.*$", "", unit).replace(
        "[Service]", "[Service]\nType=oneshot\nExecStart=/usr/bin/python3 /usr/local/probe.py"
    )
    system = fresh / "etc/systemd/system"
    (system / "bystander.service").write_text(
        "[Service]\nUser=train\nExecStart=/usr/bin/sleep 1000\nKillMode=process\n"
    )
    (fresh / "usr/local/probe.py").write_text(PROBE)
    (fresh / "root/secret").write_text("x")
    (fresh / "srv/train/private").write_text("x")
    os.chown(fresh / "srv/train/private", 1000, 1000)
    (fresh / "srv/train/private").chmod(0o600)

    with Machine.booted(fresh) as machine:
        machine.systemctl("start", "bystander")
        other = machine.show("bystander", "MainPID")
        (system / "probe.service").write_text(
            probe.replace("[Service]", f"[Service]\nEnvironment=OTHER={other}")
        )
        machine.systemctl("daemon-reload")
        machine.systemctl("start", "probe")
        gone = machine.show("bystander", "ActiveState")

    found = json.loads(messages(fresh)[place_of(fresh, "probe.service", "^{")][1])
    assert found == {
        "etc": "OSError",
        "usr": "OSError",
        "var": "OSError",
        "state": "1",
        "run": "1",
        "home": "PermissionError",
        "others' files": "PermissionError",
        "kernel": "OSError",
        # What it is there for: it sees who its clients are, and systemd obeys it as root.
        "others' processes": "systemd",
        "signal another": "PermissionError",
        "watch another": "True",
        "raw socket": "OSError",
        "units": 0,
        "capabilities": ["0000000000000000"] * 5,
    }
    assert gone == "inactive"


def test_uninstalled_it_is_gone_but_for_configuration_and_journal(fresh):
    with Machine.booted(fresh) as machine:
        machine.wait_for_status("no notice")
        said = machine.run("/src/tools/install", "uninstall")
        assert "left as it is: /etc/lastcall" in said
        assert machine.show(SERVICE, "LoadState") == "not-found"
        assert machine.run("pgrep", "-f", "lastcall run", check=False) == ""
    assert (fresh / "etc/lastcall/lastcall.toml").read_text() == NO_PROVIDER
    assert (fresh / "var/lib/lastcall/journal.jsonl").exists()
    assert not [path for path in left_of(fresh) if path.name != "lastcall"]

    # And put there again, twice, it takes up what was left.
    make("install", fresh)
    once = {path: path.lstat().st_size for path in left_of(fresh)}
    make("install", fresh)
    assert {path: path.lstat().st_size for path in left_of(fresh)} == once
    assert (fresh / "etc/lastcall/lastcall.toml").read_text() == NO_PROVIDER


def left_of(tree: Path) -> list[Path]:
    """Return all that bears the name, but for what is the site's."""
    kept = (tree / "etc/lastcall", tree / "var/lib/lastcall")
    found = [
        path for top in ("etc", "opt", "usr", "var") for path in (tree / top).rglob("*lastcall*")
    ]
    return [path for path in found if not any(path.is_relative_to(folder) for folder in kept)]
