"""An agent for an operator's commands, and those commands run in this process."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastcall.cli import drill, gpu, status
from support.operator_agent import OperatorAgent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[OperatorAgent]:
    """An agent that listens; nothing has happened but one good answer of its source."""
    with OperatorAgent(tmp_path / "agent.sock") as agent:
        yield agent


Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command against the agent, in this process, and return the exit code."""
    monkeypatch.setattr(drill, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(gpu, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(gpu, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(status, "WATCH_SECONDS", 0.001)

    def command(*words: str) -> int:
        parser = argparse.ArgumentParser(prog="lastcall")
        subparsers = parser.add_subparsers(required=True)
        for module in (status, drill, gpu):
            module.add_parser(subparsers)
        arguments = parser.parse_args([*words, "--socket", str(tmp_path / "agent.sock")])
        code: int = arguments.run(arguments)
        return code

    return command
