"""Tokens that rotate in their file, and tokens that a program gives."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from pathlib import Path

import pytest

from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import from_kubeconfig
from lastcall.drain.kubernetes.credentials import Credential, CredentialError, TokenFile
from lastcall.drain.kubernetes.exec import ExecCommand, ExecPlugin
from lastcall.drain.kubernetes.reply import Outcome
from support.hand_clocks import HandClocks
from support.kube_api.clients import client_of, kubeconfig, with_token, with_token_file
from support.kube_api.identities import ADMIN, NOBODY
from support.kube_api.objects import node
from support.kube_api.server import fake_kube_api

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.tokens.clear()
        server.tokens["t-1"] = ADMIN
        server.add("nodes", node("node-a"))
        yield server


def mounted(directory: Path, token: str) -> Path:
    """Write a token as the kubelet does: a new directory, and a link that is swapped to it."""
    data = directory / f"..{token}"
    data.mkdir()
    (data / "token").write_text(token)
    swap = directory / "..swap"
    swap.symlink_to(data.name)
    swap.rename(directory / "..data")
    path = directory / "token"
    if not path.is_symlink():
        path.symlink_to("..data/token")
    return path


def tokens_seen(server) -> list[str]:
    return [one.token for one in server.log]


# --- a token in a file -----------------------------------------------------------------------


async def test_a_token_that_rotates_is_used_from_the_next_call_on(server, tmp_path):
    path = mounted(tmp_path, "t-1")
    async with client_of(server, with_token_file(path)) as api:
        first = await api.get_node("node-a")
        mounted(tmp_path, "t-2")
        server.tokens = {"t-2": ADMIN}
        second = await api.get_node("node-a")

    assert first.ok
    assert second.ok
    assert tokens_seen(server) == ["t-1", "t-2"]


async def test_a_token_that_changed_without_a_sign_is_read_again_when_it_is_refused(
    server, tmp_path
):
    path = tmp_path / "token"
    path.write_text("t-1")
    before = path.stat()
    async with client_of(server, with_token_file(path)) as api:
        await api.get_node("node-a")
        path.write_text("t-2")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        server.tokens = {"t-2": ADMIN}
        reply = await api.get_node("node-a")

    assert reply.ok
    assert tokens_seen(server) == ["t-1", "t-1", "t-2"]


async def test_a_token_is_read_again_after_a_minute_whatever_it_looks_like(tmp_path):
    path = tmp_path / "token"
    path.write_text("t-1")
    before = path.stat()
    clocks = HandClocks()
    credentials = TokenFile(path, clocks.monotonic)
    await credentials.current()
    path.write_text("t-2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert await credentials.current() == Credential("t-1")
    clocks.go_on(60.0)
    assert await credentials.current() == Credential("t-2")


async def test_a_token_that_stays_refused_is_tried_once(server, tmp_path):
    path = mounted(tmp_path, "t-old")
    async with client_of(server, with_token_file(path)) as api:
        reply = await api.get_node("node-a")

    assert (reply.outcome, reply.status) == (Outcome.UNAUTHORIZED, 401)
    assert len(server.log) == 1


async def test_a_right_that_is_missing_is_not_asked_for_twice(server, tmp_path):
    server.tokens["t-1"] = NOBODY
    async with client_of(server, with_token_file(mounted(tmp_path, "t-1"))) as api:
        reply = await api.get_node("node-a")

    assert reply.outcome is Outcome.FORBIDDEN
    assert len(server.log) == 1


@pytest.mark.parametrize("content", [None, "", "\n", "two\nlines", "\x00", b"\xff\xfe", "é"])
async def test_without_a_token_nothing_is_asked_as_nobody(server, tmp_path, content):
    path = tmp_path / "token"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_text(content)
    async with client_of(server, with_token_file(path)) as api:
        reply = await api.get_node("node-a")

    assert reply.outcome is Outcome.UNAUTHORIZED
    assert str(path) in reply.message
    assert server.log == []


async def test_the_last_token_is_used_while_the_file_is_gone(server, tmp_path):
    path = mounted(tmp_path, "t-1")
    async with client_of(server, with_token_file(path)) as api:
        await api.get_node("node-a")
        path.unlink()
        assert (await api.get_node("node-a")).ok


async def test_a_token_is_never_in_what_is_said(server):
    async with client_of(server, with_token("very-secret")) as api:
        reply = await api.get_node("node-a")

    assert reply.outcome is Outcome.UNAUTHORIZED
    assert "very-secret" not in repr(reply)


# --- a program -------------------------------------------------------------------------------


def program(directory: Path, text: str) -> str:
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\necho run >>{directory}/runs\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def credential(**status: str) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def runs(directory: Path) -> int:
    path = directory / "runs"
    return path.read_text().count("run") if path.exists() else 0


def plugin(argv0: str, wall=time.time, timeout_seconds: float = 10.0) -> ExecPlugin:
    return ExecPlugin(ExecCommand((argv0,), V1), wall, timeout_seconds)


async def test_a_plugin_runs_once_for_many_calls(server, tmp_path):
    command = program(tmp_path, f"echo '{credential(token='t-1')}'")
    async with client_of(server, plugin(command)) as api:
        replies = await asyncio.gather(*(api.get_node("node-a") for _ in range(5)))

    assert all(reply.ok for reply in replies)
    assert runs(tmp_path) == 1


async def test_a_plugin_is_told_what_it_asks_for(tmp_path):
    program(tmp_path, f'echo "$KUBERNETES_EXEC_INFO|$REGION|$1" >{tmp_path}/told\nexit 3')
    user = {
        "exec": {
            "apiVersion": V1,
            "command": "./plugin",
            "args": ["get-token"],
            "env": [{"name": "REGION", "value": "eu-1"}],
            "provideClusterInfo": True,
        }
    }
    path = kubeconfig(tmp_path, "https://kube.test", user)
    cluster = from_kubeconfig(path, time.monotonic, time.time)
    async with KubeApi(cluster) as api:
        reply = await api.version()

    info, region, argument = (tmp_path / "told").read_text().strip().split("|")
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://kube.test"}},
    }
    assert (region, argument) == ("eu-1", "get-token")
    assert "ended with 3" in reply.message


async def test_a_credential_is_renewed_ahead_of_its_expiry_without_a_wait(tmp_path):
    clocks = HandClocks()
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clocks.wall() + 600))
    command = program(tmp_path, f"echo '{credential(token='t-1', expirationTimestamp=expires)}'")
    credentials = plugin(command, clocks.wall)
    await credentials.current()
    clocks.go_on(400.0)
    await credentials.current()
    assert runs(tmp_path) == 1

    clocks.go_on(100.0)
    assert await credentials.current() == Credential("t-1")
    while runs(tmp_path) < 2:  # noqa: ASYNC110 - the program shows that it ran by a file alone
        await asyncio.sleep(0.01)
    await credentials.close()


async def test_a_credential_that_has_expired_is_not_used(tmp_path):
    clocks = HandClocks()
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clocks.wall() + 600))
    command = program(
        tmp_path,
        f"test $(wc -l <{tmp_path}/runs) = 1 || exit 9\n"
        f"echo '{credential(token='t-1', expirationTimestamp=expires)}'",
    )
    credentials = plugin(command, clocks.wall)
    await credentials.current()
    clocks.go_on(700.0)

    with pytest.raises(CredentialError, match="ended with 9"):
        await credentials.current()
    await credentials.close()


async def test_a_credential_that_is_refused_is_asked_for_once_more(server, tmp_path):
    first, then = credential(token="t-old"), credential(token="t-1")
    command = program(
        tmp_path, f"test $(wc -l <{tmp_path}/runs) = 1 && echo '{first}' || echo '{then}'"
    )
    async with client_of(server, plugin(command)) as api:
        replies = await asyncio.gather(*(api.get_node("node-a") for _ in range(5)))

    assert all(reply.ok for reply in replies)
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'no luck' >&2; exit 1", "ended with 1: no luck"),
        ("echo nothing", "printed no ExecCredential"),
        ('echo \'{"kind": "Pod"}\'', "answered Pod of no version"),
        (f"echo '{credential(token='')}'", "gave no credential"),
        (f"echo '{credential(clientCertificateData='x')}'", "a certificate or a key alone"),
        (
            f"echo '{credential(token='t', expirationTimestamp='soon')}'",
            "printed no ExecCredential",
        ),
        ("sleep 60", "took longer than 0.3 s"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_its_reason(server, tmp_path, text, said):
    began = time.monotonic()
    async with client_of(server, plugin(program(tmp_path, text), timeout_seconds=0.3)) as api:
        reply = await api.get_node("node-a")

    assert reply.outcome is Outcome.UNAUTHORIZED
    assert said in reply.message
    assert "\n" not in reply.message
    assert server.log == []
    assert time.monotonic() - began < 5.0


async def test_a_refusal_of_an_older_credential_runs_nothing(tmp_path):
    credentials = plugin(program(tmp_path, f"echo '{credential(token='t-1')}'"))
    await credentials.current()

    assert await credentials.renew(Credential("t-0")) == Credential("t-1")
    assert runs(tmp_path) == 1


@pytest.mark.parametrize("timeout_seconds", [0.3, 60.0])
async def test_a_plugin_is_ended_with_all_it_has_started(server, tmp_path, timeout_seconds):
    command = program(tmp_path, f"sleep 60 & echo $! $$ >{tmp_path}/ids; wait")
    async with client_of(server, plugin(command, timeout_seconds=timeout_seconds)) as api:
        await api.get_node("node-a", timeout_seconds=0.5)

    for process_id in (tmp_path / "ids").read_text().split():
        while _lives(process_id):  # noqa: ASYNC110 - what has been killed takes a moment to be gone
            await asyncio.sleep(0.01)


def _lives(process_id: str) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def test_a_plugin_that_is_not_there_is_named(server):
    async with client_of(server, plugin("/nowhere/plugin")) as api:
        reply = await api.get_node("node-a")

    assert reply.message == "cannot run the exec plugin /nowhere/plugin: No such file or directory"


async def test_a_plugin_that_is_slow_does_not_outlast_the_call(server, tmp_path):
    async with client_of(server, plugin(program(tmp_path, "sleep 60"))) as api:
        reply = await api.get_node("node-a", timeout_seconds=0.2)

    assert reply.outcome is Outcome.UNKNOWN
    assert server.log == []
