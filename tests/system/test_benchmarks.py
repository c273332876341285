"""The benchmarks run and print their table; how fast anything is, is not tested here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_named_benchmarks_come_out_as_rows_of_one_table():
    ended = run("--quick", "poll", "core")

    assert ended.returncode == 0, ended.stderr
    head, rule, *rows = ended.stdout.splitlines()
    columns = head.count("|")
    assert set(rule) <= set("|- ")
    assert {line.count("|") for line in rows} == {columns}
    results = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    assert {name for name, *_ in results} == {"poll", "core"}
    assert all(what and result for _, what, result, *_ in results)


def test_a_benchmark_that_does_not_exist_is_answered_with_those_that_do():
    ended = run("speed")

    assert ended.returncode == 2
    assert "no benchmark speed" in ended.stderr
    assert "fanout" in ended.stderr
