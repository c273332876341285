"""The installation refuses what would not work, and removes nothing that is not its own.

That it works is shown where systemd boots, in tests/system/test_systemd_container.py.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.running_agent import plain_environment

ROOT = Path(__file__).resolve().parents[2]


def tool(action: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "tools/install"), *action.split()],
        check=False,
        capture_output=True,
        text=True,
        env={**plain_environment(), **variables},
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"PREFIX": "opt/lastcall"},
        {"DESTDIR": "package"},
        {"BINDIR": "/usr/bin; reboot"},
        {"SYSCONFDIR": "/etc/../root"},
    ],
    ids=str,
)
def test_only_plain_absolute_paths_are_taken(variables, tmp_path):
    done = tool("install", **{"DESTDIR": str(tmp_path), **variables})

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_what_can_watch_gpus_is_installed_on_machines_and_in_the_image():
    script = (ROOT / "tools/install").read_text()
    image = (ROOT / "Containerfile").read_text()
    builder = (ROOT / "tools/build-image").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    (on_machines,) = re.findall(r"EXTRAS-([\w,]+)}", script)
    in_image = set(re.findall(r"(?:\.|lastcall|context)\[([a-z,]+)\]", image + builder))
    assert set(on_machines.split(",")) == {"kubernetes", "systemd", "gpu"} <= set(extras)
    # The wheels that are fetched must be those that are installed.
    assert in_image == {"kubernetes,gpu"}


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_a_folder_that_holds_something_else_is_left_alone(action, tmp_path):
    other = tmp_path / "usr/local/bin/other"
    other.parent.mkdir(parents=True)
    other.touch()

    done = tool(action, DESTDIR=str(tmp_path), PREFIX="/usr/local", PYTHON="/usr/bin/python3")

    assert done.returncode == 2
    assert "holds something else; remedy: say PREFIX=" in done.stderr
    assert other.exists()


def test_an_interpreter_that_the_service_could_not_see_is_refused(tmp_path):
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n[ "$#" -gt 1 ] && echo /root/.pyenv/bin/python3\nexit 0\n')
    python.chmod(0o755)

    done = tool("install", DESTDIR=str(tmp_path / "tree"), PYTHON=str(python))

    assert done.returncode == 2
    assert "the service's sandbox cannot see it; remedy: say PYTHON=" in done.stderr


@pytest.mark.parametrize("script", ["exit 1", "no such"], ids=["too old", "missing"])
def test_an_interpreter_that_does_not_do_is_named(script, tmp_path):
    python = tmp_path / "python3"
    if script != "no such":
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)

    done = tool("install", DESTDIR=str(tmp_path / "tree"), PYTHON=str(python))

    assert done.returncode == 2
    assert f"error: {python}" in done.stderr


def test_what_was_never_installed_can_be_uninstalled(tmp_path):
    done = tool("uninstall", DESTDIR=str(tmp_path))

    assert done.returncode == 0
    assert "left as it is" not in done.stdout


def test_without_a_word_it_says_what_it_can_do():
    done = tool("help")

    assert done.returncode == 2
    assert "tools/install install | uninstall" in done.stdout
    assert "DESTDIR" in done.stdout
