"""What a test needs of its machine; left out loudly elsewhere, and never in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need_root() -> None:
    """Leave the test out unless it runs as root."""
    if os.geteuid() != 0:
        _leave_out("needs root")


def need_program(name: str, package: str) -> str:
    """Return the path of a program, or leave the test out where it is not installed."""
    path = shutil.which(name)
    if path is None:
        _leave_out(f"needs {name}: apt-get install {package}")
    return path


def _leave_out(why: str) -> NoReturn:
    if os.environ.get("LASTCALL_TESTS_REQUIRE_ALL"):
        pytest.fail(f"{why}, and nothing may be left out here")
    pytest.skip(why)
