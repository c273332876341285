import argparse
import json
import os
import subprocess
import sys
import tomllib

import pytest

from lastcall.cli import config


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    config.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["config", *words])
    return arguments.run(arguments)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LASTCALL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NODE_NAME", "node-7")


def test_the_configuration_in_effect_is_printed_as_toml(write, capsys) -> None:
    assert run("--config", str(write('mode = "observe"')), "--set", "log.level=debug") == 0

    shown = tomllib.loads(capsys.readouterr().out)
    assert (shown["mode"], shown["log"]["level"], shown["node_name"]) == (
        "observe",
        "debug",
        "node-7",
    )


def test_the_configuration_in_effect_is_printed_as_json(capsys) -> None:
    assert run("--json") == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["node_name"]["where"] == "$NODE_NAME"


def test_the_schema_is_printed_whatever_is_wrong_with_the_configuration(write, capsys) -> None:
    assert run("--schema", "--config", str(write("x = 1"))) == 0

    assert json.loads(capsys.readouterr().out)["$schema"].startswith("https://json-schema.org/")


def test_faults_go_to_standard_error_and_exit_with_two(write, capsys) -> None:
    file = write("x = 1\ny = 2\n")

    with pytest.raises(SystemExit) as caught:
        run("--config", str(file))

    assert caught.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split(" = ")[0] for line in told.err.splitlines()] == [
        f"{file}:1: x",
        f"{file}:2: y",
    ]


def test_the_options_of_the_command_line_cost_no_import_of_the_configuration() -> None:
    program = (
        "import sys, lastcall.cli.config;"
        "print([name for name in ('msgspec', 'lastcall.config') if name in sys.modules])"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert told.stdout.strip() == "[]"
