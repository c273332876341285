"""Machines with a real systemd, booted in a container from this machine's own Debian packages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.needs import leave_out, need_namespaces, need_program
from support.running_agent import plain_environment

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("systemd-sysv", "dbus", "libpam-systemd"),
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "procps", "util-linux", "python3"),
)
BOOT_SECONDS = 30.0
_MERGED = ("bin", "sbin", "lib", "lib64")


@contextmanager
def installed_tree(folder: Path) -> Iterator[Path]:
    """Make a Debian with lastcall on it, as ``make install`` lays it out; remove it afterwards."""
    need_namespaces()
    need_program("systemd-nspawn", "systemd-container")
    tree = folder / "tree"
    try:
        _unpack(tree, folder / "packages")
        _configure(tree)
        make("install", tree)
        yield tree
    finally:
        shutil.rmtree(folder)  # pytest keeps its folders, and this one is large


def make(target: str, tree: Path) -> str:
    """Run ``make install`` or ``make uninstall`` with a tree as DESTDIR; return what it says."""
    return _run("make", "--directory", str(ROOT), target, f"DESTDIR={tree}")


class Machine:
    """A booted tree; made by :meth:`booted`."""

    def __init__(self, tree: Path, container: subprocess.Popen[bytes]) -> None:
        self.tree = tree
        self._container = container
        self._leader: int | None = None

    @classmethod
    @contextmanager
    def booted(cls, tree: Path) -> Iterator[Machine]:
        """Boot a tree; whatever is left of it at the end of the block is killed."""
        with (tree / "console.log").open("ab") as console:
            container = subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", "--directory", str(tree)),
                    *("--machine=lastcall-test", "--register=no", "--keep-unit"),
                    *("--private-network", "--console=read-only", f"--bind-ro={ROOT}:/src"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        machine = cls(tree, container)
        try:
            machine._wait_until_up()
            yield machine
        finally:
            machine._kill()

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command on it; return what it prints."""
        return _run("nsenter", f"--target={self._leader}", "--all", "--", *command, check=check)

    def systemctl(self, *arguments: str) -> str:
        """Run systemctl on it."""
        return self.run("systemctl", *arguments)

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.systemctl("show", unit, f"--property={name}", "--value").strip()

    def path_to(self, path: str) -> Path:
        """Return how a path on it is reached from here while it runs."""
        return Path(f"/proc/{self._leader}/root{path}")

    def wait(self, holds: Callable[[], object], seconds: float = 15.0) -> None:
        """Wait until something holds; its journal is in the error when it does not."""
        give_up_at = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > give_up_at:
                raise AssertionError("never held:\n" + "\n".join(map(str, messages(self.tree))))
            time.sleep(0.05)

    def wait_for_status(self, words: str, seconds: float = 15.0) -> None:
        """Wait until the agent's status line has these words in it."""
        self.wait(lambda: words in self.show("lastcall", "StatusText"), seconds)

    def power_off(self) -> None:
        """Shut it down as an operator does, and wait for its end."""
        self.systemctl("poweroff")
        assert self._container.wait(60) == 0, (self.tree / "console.log").read_text()

    def _kill(self) -> None:
        """End what is left of it; its first process takes all others with it."""
        if self._container.poll() is None:
            leader = _only_child(self._container.pid)
            os.kill(self._container.pid if leader is None else leader, signal.SIGKILL)
        self._container.wait(30)

    def _wait_until_up(self) -> None:
        give_up_at = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < give_up_at and self._container.poll() is None:
            self._leader = _only_child(self._container.pid)
            if self._leader is not None:
                state = self.run("systemctl", "is-system-running", check=False).strip()
                if state in ("running", "degraded"):
                    return
            time.sleep(0.05)
        leave_out("needs to boot a container: " + (self.tree / "console.log").read_text()[-500:])


def messages(tree: Path) -> list[tuple[str, str]]:
    """Return unit and text of each message in a tree's journal, in their order."""
    printed = _run(
        *("journalctl", f"--directory={tree}/var/log/journal", "--quiet", "--output=json"),
        "--output-fields=UNIT,_SYSTEMD_UNIT,MESSAGE",
    )
    entries: list[dict[str, Any]] = [json.loads(line) for line in printed.splitlines()]
    return [
        (entry.get("UNIT") or entry.get("_SYSTEMD_UNIT") or "", str(entry.get("MESSAGE")))
        for entry in entries
    ]


def agent_events(tree: Path) -> list[dict[str, Any]]:
    """Return what the agents on a tree have logged."""
    texts = [text for unit, text in messages(tree) if unit == "lastcall.service"]
    return [json.loads(text) for text in texts if text.startswith("{")]


def _unpack(tree: Path, packages: Path) -> None:
    """Unpack Debian's packages; nothing in the tree has been configured."""
    listed = _run(
        *(need_program("apt-cache", "apt"), "depends", "--important", "--recurse", *PACKAGES)
    )
    names = sorted({line for line in listed.splitlines() if line[:1].isalpha() and ":" not in line})
    # Perl is named by an alternative that a real installation would not take.
    wanted = [name for name in names if not name.startswith(("perl", "libperl"))]
    packages.mkdir()
    _run(
        *("apt-get", "download", "--quiet", "--option", "APT::Sandbox::User=root", *wanted),
        folder=packages,
    )
    for name in _MERGED:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for package in packages.glob("*.deb"):
        archive = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(package)], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(
            ["tar", "--extract", "--keep-directory-symlink", f"--directory={tree}"],
            check=True,
            input=archive.stdout,
        )
    shutil.rmtree(packages)


def _configure(tree: Path) -> None:
    """Do as much of what the packages' own scripts do as a boot needs."""
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / "etc" / name)
    (tree / "etc/machine-id").touch()
    shutil.rmtree(tree / "var/run", ignore_errors=True)
    (tree / "var/run").symlink_to("/run")
    (tree / "var/log/journal").mkdir(parents=True)


def _only_child(pid: int) -> int | None:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def _run(*command: str, folder: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env=plain_environment()
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
