"""A fake agent and a connected guard for every test."""

import pytest

import lastcall
from lastcall.client import link
from support.fake_agent import FakeAgent


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    """Nothing in the tests' own environment may name a job or an agent."""
    for name in ("LASTCALL_JOB", "LASTCALL_SOCKET", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def quick_retries(monkeypatch):
    """Let a lost connection be tried again almost at once."""
    monkeypatch.setattr(link, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(link, "LAST_RETRY_SECONDS", 0.02)


@pytest.fixture
def agent(tmp_path):
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield agent
    assert agent.faults == []


@pytest.fixture
def guard(agent, quick_retries):
    with lastcall.connect(job="llama-ft", rank=3, socket=agent.path) as guard:
        yield guard
