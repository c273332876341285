"""The script that fetches helm and kubectl fetches them once."""

from __future__ import annotations

import subprocess
import sys

from support.helm import CHART

SCRIPT = CHART.parents[1] / "tools/kube-tools"


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


def test_what_is_there_already_is_left_alone(tmp_path):
    for tool in ("helm", "kubectl"):
        (tmp_path / tool).write_text("there", encoding="utf-8")

    done = run(tmp_path)

    assert done.stdout == f"{tmp_path}/helm\n{tmp_path}/kubectl\n"
    assert done.returncode == 0
    assert {path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"there"}


def test_it_is_told_where_to_put_them_or_says_how_it_is_used():
    for arguments in ([], ["--help"], ["a", "b"]):
        done = run(*arguments)
        assert done.returncode == 2
        assert "tools/kube-tools DIRECTORY" in done.stderr
