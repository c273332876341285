"""``lastcall check`` as a command: its lines, its JSON, its exit codes."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lastcall.cli.check.findings import Finding, Level
from lastcall.cli.check.provider import CLOCK
from lastcall.cli.check.report import line, summary
from lastcall.cli.check.settings import NODE_NAME
from lastcall.cli.main import main
from lastcall.cli.terminal import Style
from support.running_agent import plain_environment

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/check.md"


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Run the command for an installation in a directory; return its exit code and its output."""
    for name in list(os.environ):
        if name.startswith(("LASTCALL_", "KUBERNETES_")):
            monkeypatch.delenv(name)
    tmp_path.chmod(0o755)
    file = tmp_path / "lastcall.toml"
    file.write_text(
        f'state_dir = "{tmp_path}/state"\n[socket]\npath = "{tmp_path}/agent.sock"\n'
        '[http]\nlisten = ""\n[notices]\nprovider = "none"\n[notices.shutdown]\nenabled = false\n'
        "[flush]\nvolatile_paths = []\n[gpu]\nenabled = false\n"
    )

    def run(*words):
        code = main(["check", "--config", str(file), *words])
        return code, capsys.readouterr()

    return run


def test_a_good_installation_has_a_line_for_each_check_and_exit_code_0(check, tmp_path):
    code, (out, err) = check()

    *lines, empty, last = out.splitlines()
    assert (code, err, empty) == (0, "", "")
    assert [one.split()[:2] for one in lines] == [
        ["ok", "configuration"],
        ["ok", "node_name"],
        ["note", "agent"],
        ["ok", "socket"],
        ["ok", "state"],
        ["note", "http"],
        ["ok", "provider"],
        ["ok", "shutdown"],
        ["ok", "gpu"],
        ["ok", "kubernetes"],
    ]
    assert len({one.index(one.split(maxsplit=2)[2]) for one in lines}) == 1, "they line up"
    assert last == "all that is needed is there"
    assert [path.name for path in tmp_path.iterdir()] == ["lastcall.toml"]


def test_warnings_are_allowed(check):
    code, (out, _) = check("--set", "report.pushgateway=http://gateway:9091")

    assert code == 0
    assert out.splitlines()[-1] == "all that is needed is there, 1 warning"


def test_a_problem_is_exit_code_1_with_its_remedy_on_the_same_line(check):
    code, (out, _) = check(
        "--set", "socket.group=no-such-group", "--set", "drain.backend=kubernetes"
    )

    problems = [one for one in out.splitlines() if one.startswith("problem ")]
    assert code == 1
    assert [one.split()[1] for one in problems] == ["socket", "kubernetes"]
    assert problems[0].endswith(
        "socket.group is 'no-such-group', and there is no such group -> make it, or name another"
    )
    assert out.splitlines()[-1] == "2 problems"


def test_a_configuration_with_faults_is_exit_code_2_and_nothing_is_checked(check, capsys):
    with pytest.raises(SystemExit) as stop:
        check("--set", "socket.mode=999")

    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert err.startswith("flag --set socket.mode: ")


@pytest.mark.parametrize(("settings", "code"), [((), 0), (("--set", "socket.group=no-such"), 1)])
def test_json_holds_the_same_findings(check, settings, code):
    said, (out, err) = check("--json", *settings)

    content = json.loads(out)
    assert (said, err, set(content)) == (code, "", {"findings", "ok"})
    assert content["ok"] is (code == 0)
    for finding in content["findings"]:
        assert set(finding) == {"check", "level", "what", "remedy"}
        assert finding["level"] in {"ok", "note", "warning", "problem"}
    levels = [finding["level"] for finding in content["findings"]]
    assert ("problem" in levels) is (code == 1)


def test_a_running_agent_is_said_and_its_socket_is_no_trouble(agent, check):
    code, (out, _) = check("--set", "node_name=node-1")

    (said, *_) = [one for one in out.splitlines() if " agent " in one]
    assert code == 0
    assert "runs, up 1 h 2 min" in said
    assert f"{agent.path} is listened on" in out


def test_a_reader_who_leaves_early_ends_it_quietly(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    settings = ("notices.provider=none", "http.listen=", "drain.backend=none")
    flags = [word for setting in settings for word in ("--set", setting)]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "lastcall", "check", "--config", os.devnull, *flags],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=plain_environment(),
            check=False,
            timeout=30,
        )
    finally:
        os.close(writer)

    assert (ended.returncode, ended.stderr) == (1, b"")


def test_the_reference_has_a_section_for_each_check():
    pages = (PAGE.parents[2] / "agent/lastcall/cli/check").glob("*.py")
    modules = [importlib.import_module(f"lastcall.cli.check.{page.stem}") for page in pages]
    names = {module.CHECK for module in modules if hasattr(module, "CHECK")} | {NODE_NAME, CLOCK}

    sections = re.findall(r"^### `(\w+)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(sections) == sorted(names)


class Terminal:
    def isatty(self):
        return True


def test_levels_are_coloured_on_a_terminal_unless_that_is_not_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    problem = Finding("state", Level.PROBLEM, "full", "make space")

    coloured = line(problem, Style(Terminal()))
    monkeypatch.setenv("NO_COLOR", "1")
    plain = line(problem, Style(Terminal()))

    assert coloured == plain.replace("problem", "\x1b[31mproblem\x1b[0m")
    assert plain == "problem  state          full -> make space"
    assert summary([problem], Style(Terminal())) == "1 problem"


def test_a_servers_words_stay_on_their_line_and_steer_nothing(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    finding = Finding("rights", Level.WARNING, "said:\n\x1b[2J", "look")

    assert line(finding, Style(Terminal())) == r"warning  rights         said:\n\x1b[2J -> look"
