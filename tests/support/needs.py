"""What a test needs of its machine; left out loudly elsewhere, and never in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NoReturn

import pytest
from _pytest.mark.structures import ParameterSet


def need_root() -> None:
    """Leave the test out unless it runs as root."""
    if os.geteuid() != 0:
        leave_out("needs root")


def need_program(name: str, package: str) -> str:
    """Return the path of a program, or leave the test out where it is not installed."""
    path = shutil.which(name)
    if path is None:
        leave_out(f"needs {name}: apt-get install {package}")
    return path


def need_namespaces() -> None:
    """Leave the test out unless it may have a network and mounts of its own."""
    need_root()
    mount = ("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    if not _goes_well(need_program("unshare", "util-linux"), "--net", "--mount", "--", *mount):
        leave_out("needs the right to make namespaces and mounts (CAP_SYS_ADMIN)")


def without_privileges() -> tuple[str, ...]:
    """Return what a command is to be prefixed with so that it obeys permissions, as root too."""
    if os.geteuid() != 0:
        return ()
    prefix = (need_program("setpriv", "util-linux"), "--bounding-set", "-all", "--")
    if not _goes_well(*prefix, "true"):
        leave_out("needs the right to give up privileges (CAP_SETPCAP)")
    return prefix


def _goes_well(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


LONG = "LASTCALL_TESTS_LONG"


def long(*values: object) -> ParameterSet:
    """Return one case of a test that is tried only with the long ones."""
    return pytest.param(*values, marks=pytest.mark.long)


def leave_out(why: str) -> NoReturn:
    """Leave the test out, or fail it where nothing may be left out."""
    if os.environ.get("LASTCALL_TESTS_REQUIRE_ALL"):
        pytest.fail(f"{why}, and nothing may be left out here")
    pytest.skip(why)
