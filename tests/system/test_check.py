"""``lastcall check`` as a process: beside an agent, without rights, and where everything hangs."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.gcp import GcpMetadata
from lastcall.simulate.server import serve
from support.kube_api.clients import kubeconfig
from support.kube_api.faults import Fault
from support.kube_api.identities import agent as agent_identity
from support.kube_api.objects import node
from support.kube_api.server import fake_kube_api
from support.needs import need_namespaces, without_privileges
from support.running_agent import RunningAgent, plain_environment, view_of

LONGEST_SECONDS = 15.0


async def check(*settings: str, prefix: tuple[str, ...] = (), folder: Path):
    """Run the command; return its exit code and its findings by what they are about."""
    config = folder / "empty.toml"
    config.touch()
    flags = [word for setting in settings for word in ("--set", setting)]
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "lastcall", "check", "--json"),
        *("--config", str(config), *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            name: value
            for name, value in plain_environment().items()
            if not name.startswith("KUBERNETES_")
        },
    )
    out, err = await asyncio.wait_for(process.communicate(), LONGEST_SECONDS + 5)
    assert err == b"", err.decode()
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(out)["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return process.returncode, found


def place(folder: Path, *more: str) -> tuple[str, ...]:
    """Return the settings of an installation in a directory."""
    return (
        f"socket.path={folder / 'agent.sock'}",
        f"state_dir={folder / 'state'}",
        "http.listen=",
        "node_name=node-a",
        *more,
    )


def levels(found):
    return {check: {one["level"] for one in findings} for check, findings in found.items()}


async def test_an_agent_beside_it_is_found_good_and_goes_on_undisturbed(tmp_path):
    tmp_path.chmod(0o755)
    async with serve(AwsMetadata()) as url:
        settings = (
            "notices.provider=aws",
            f"notices.aws.endpoint={url}",
            "notices.shutdown.enabled=false",
        )
        async with RunningAgent(tmp_path, *settings) as agent:
            await agent.wait_view(lambda view: view["summary"]["sources_up"] == 1)
            before = len(agent.log)

            code, found = await check(
                *place(tmp_path, *settings, "node_name=test-node"),
                f"http.listen=127.0.0.1:{agent.port}",
                folder=tmp_path,
            )

            after = await view_of(agent)
            assert agent.log[before:] == []

    assert code == 0
    assert levels(found) == {
        "configuration": {"ok"},
        "node_name": {"ok"},
        "agent": {"ok"},
        "socket": {"ok"},
        "state": {"ok"},
        "http": {"ok"},
        "provider": {"ok"},
        "clock": {"ok"},
        "kubernetes": {"ok"},
        "shutdown": {"ok"},
        "gpu": {"ok"},
    }
    assert "is ready" in found["http"][0]["what"]
    assert (after["clients"], after["notices"]) == ([], [])


async def test_directories_that_may_not_be_written_are_problems(tmp_path):
    tmp_path.chmod(0o555)
    folder = tmp_path / "below"
    config_folder = tmp_path.parent

    code, found = await check(
        f"socket.path={tmp_path}/agent.sock",
        f"state_dir={folder}",
        "http.listen=",
        "notices.provider=none",
        prefix=without_privileges(),
        folder=config_folder,
    )

    assert code == 1
    for name in ("socket", "state"):
        (one,) = found[name]
        assert one["level"] == "problem"
        assert "user " in one["what"]
        assert "sudo" in one["remedy"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ('head -c 65536 /dev/zero >"$1/filler"', "No space left on device"),
        ('mount -o remount,ro "$1"', "Read-only file system"),
    ],
)
async def test_a_disk_that_takes_nothing_is_a_problem(tmp_path, spoil, said):
    need_namespaces()
    script = (
        'set -e; mkdir -p "$1"; mount -t tmpfs -o size=64k tmpfs "$1"; eval "$2"; shift 2; "$@"'
    )
    prefix = ("unshare", "--mount", "--", "sh", "-c", script, "sh", f"{tmp_path}/state", spoil)

    code, found = await check(
        *place(tmp_path, "notices.provider=none"), prefix=prefix, folder=tmp_path
    )

    assert code == 1
    assert [said in one["what"] for one in found["state"]] == [True]


async def test_missing_rights_are_listed_with_their_remedies(tmp_path):
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"))
        server.tokens["agent"] = agent_identity("node-a")
        server.denied |= {"watch nodes", "create pods/eviction"}
        file = kubeconfig(tmp_path, server.url, {"token": "agent"})

        code, found = await check(
            *place(tmp_path, "notices.provider=none", f"drain.kubernetes.kubeconfig={file}"),
            folder=tmp_path,
        )

    assert code == 1
    assert levels(found)["kubernetes"] == levels(found)["node_name"] == {"ok"}
    assert [one["what"].split(": ")[1] for one in found["rights"]] == [
        "watch nodes",
        "create pods/eviction",
    ]
    assert all("grant it to the agent's ClusterRole" in one["remedy"] for one in found["rights"])


async def test_it_ends_soon_where_everything_hangs(tmp_path):
    """The agent, each provider, the API server: all take the connection and say nothing."""
    async with AsyncExitStack() as stack:
        settings = []
        for metadata in (AwsMetadata(), GcpMetadata(), AzureMetadata()):
            metadata.faults.add("hang")
            url = await stack.enter_async_context(serve(metadata))
            settings.append(f"notices.{metadata.provider}.endpoint={url}")
        server = await stack.enter_async_context(fake_kube_api())
        server.break_(Fault.HANGS)
        file = kubeconfig(tmp_path, server.url, {"token": "agent"})
        silent = stack.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(str(tmp_path / "agent.sock"))
        silent.listen()
        began_at = time.monotonic()

        code, found = await check(
            *place(tmp_path, *settings, f"drain.kubernetes.kubeconfig={file}"),
            "notices.provider=['aws', 'gcp', 'azure']",
            folder=tmp_path,
        )

        took_seconds = time.monotonic() - began_at

    assert code == 1
    assert took_seconds < LONGEST_SECONDS
    assert levels(found)["agent"] == levels(found)["kubernetes"] == {"problem"}
    assert levels(found)["provider"] == {"problem"}
    assert {one["what"].split()[0] for one in found["provider"]} == {"aws", "gcp", "azure"}
