"""One shape for all providers, so that a new one is one file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lastcall import simulate

LASTCALL_KINDS = {"preemption", "termination", "maintenance", "rebalance"}


def test_each_provider_is_known_by_its_file():
    assert simulate.providers() == ("aws", "azure", "gcp")


@pytest.mark.parametrize("provider", simulate.providers())
def test_a_provider_says_who_it_is(provider):
    metadata = simulate.load(provider)

    assert metadata.provider == provider
    assert metadata.default_lead_seconds == {"aws": 120.0}.get(provider, 30.0)
    assert "preemption" in metadata.kinds
    assert all(metadata.kinds.values())


def test_ports_differ():
    ports = {simulate.load(provider).default_port for provider in simulate.providers()}

    assert ports == {1338, 1339, 1340}


@pytest.mark.parametrize("provider", simulate.providers())
def test_every_kind_can_be_raised_and_withdrawn(provider):
    metadata = simulate.load(provider)()

    for kind in metadata.kinds:
        raised = metadata.raise_notice(kind, 60)
        assert raised.kind == kind
        assert raised.shown
    metadata.withdraw()


@pytest.mark.parametrize(
    ("provider", "lacking"),
    [("gcp", {"termination", "rebalance"}), ("azure", {"rebalance"}), ("aws", set())],
)
def test_a_kind_that_the_provider_lacks_is_refused_with_those_it_has(provider, lacking):
    metadata = simulate.load(provider)()

    assert LASTCALL_KINDS - set(metadata.kinds) == lacking
    for kind in lacking | {"nonsense"}:
        with pytest.raises(ValueError, match=f"{provider} has no kind '{kind}'; it has preemption"):
            metadata.raise_notice(kind)


@pytest.mark.parametrize("provider", simulate.providers())
def test_every_own_fault_can_be_switched_on(provider):
    metadata = simulate.load(provider)()

    for kind, fault in metadata.own_faults.items():
        assert fault.summary
        assert metadata.faults.add_text(kind).argument == fault.default


def test_an_unknown_provider_is_refused():
    with pytest.raises(ValueError, match="no provider 'server'; there are aws, azure, gcp"):
        simulate.load("server")


def test_the_command_can_be_described_without_a_web_server():
    code = (
        "import argparse, sys; from lastcall.cli import simulate; "
        "simulate.add_parser(argparse.ArgumentParser().add_subparsers()); "
        "sys.exit('aiohttp' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
