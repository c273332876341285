"""Proof of who the server is, and of who the agent is, by certificates that rotate."""

from __future__ import annotations

import base64
import json
import shutil
import time

import pytest

from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import from_kubeconfig
from lastcall.drain.kubernetes.credentials import FixedCredential
from lastcall.drain.kubernetes.exec import ExecCommand, ExecPlugin
from lastcall.drain.kubernetes.files import Pem
from lastcall.drain.kubernetes.reply import Outcome
from support.kube_api.clients import client_of, kubeconfig
from support.kube_api.objects import node
from support.kube_api.server import fake_kube_api
from support.kube_api.tls import CA_1, CA_2, KUBELET_A, KUBELET_B, server_tls

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
async def server():
    async with fake_kube_api(tls=server_tls()) as server:
        server.add("nodes", node("node-a"))
        yield server


async def user_of(api: KubeApi) -> str:
    reply = await api.who_am_i()
    assert reply.ok, reply.message
    return str(reply.body["status"]["userInfo"]["username"])


# --- the server's certificate ----------------------------------------------------------------


async def test_a_server_that_proves_who_it_is_is_spoken_to(server):
    async with client_of(server) as api:
        assert (await api.get_node("node-a")).ok
        assert (await api.get_node("node-a")).ok

    assert {one.connection for one in server.log} == {1}


async def test_a_server_of_another_authority_is_refused(server):
    async with client_of(server, ca=Pem(CA_2)) as api:
        reply = await api.get_node("node-a")

    assert reply.outcome is Outcome.UNKNOWN
    assert "certificate is refused" in reply.message
    assert server.log == []


async def test_a_server_is_not_trusted_by_the_systems_own_list(server):
    async with client_of(server, ca=None) as api:
        reply = await api.get_node("node-a")

    assert "certificate is refused" in reply.message


async def test_a_server_of_another_name_is_refused_unless_that_name_is_expected():
    async with fake_kube_api(tls=server_tls("elsewhere")) as server:
        async with client_of(server) as api:
            refused = await api.version()
        async with client_of(server, server_name="kube.test") as api:
            expected = await api.version()

    assert "certificate is refused" in refused.message
    assert expected.ok


async def test_an_authority_that_is_replaced_on_disk_is_trusted_from_then_on(tmp_path):
    ca = tmp_path / "ca.crt"
    shutil.copy(CA_1, ca)
    async with (
        fake_kube_api(tls=server_tls("server-2")) as server,
        client_of(server, ca=Pem(ca)) as api,
    ):
        before = await api.version()
        shutil.copy(CA_2, tmp_path / "new")
        (tmp_path / "new").rename(ca)
        after = await api.version()

    assert before.outcome is Outcome.UNKNOWN
    assert after.ok


async def test_the_last_authority_is_trusted_while_its_file_is_gone_or_garbled(server, tmp_path):
    ca = tmp_path / "ca.crt"
    shutil.copy(CA_1, ca)
    async with client_of(server, ca=Pem(ca)) as api:
        await api.version()
        ca.write_text("half a certif")
        garbled = await api.version()
        ca.unlink()
        gone = await api.version()

    assert garbled.ok
    assert gone.ok


@pytest.mark.parametrize(("content", "said"), [(None, "cannot read the CA"), ("?", "no CA cert")])
async def test_without_an_authority_nothing_is_asked(server, tmp_path, content, said):
    ca = tmp_path / "ca.crt"
    if content is not None:
        ca.write_text(content)
    async with client_of(server, ca=Pem(ca)) as api:
        reply = await api.version()

    assert reply.outcome is Outcome.UNAUTHORIZED
    assert said in reply.message
    assert server.log == []


# --- the agent's certificate -----------------------------------------------------------------


async def test_a_kubelets_combined_file_is_used_and_its_rotation_followed(server, tmp_path):
    current = tmp_path / "kubelet-client-current.pem"
    current.symlink_to(KUBELET_A)
    user = {"client-certificate": current.name, "client-key": current.name}
    path = kubeconfig(tmp_path, server.url, user, **{"certificate-authority": str(CA_1)})

    async with KubeApi(from_kubeconfig(path, time.monotonic, time.time)) as api:
        before = await user_of(api)
        swap = tmp_path / "swap"
        swap.symlink_to(KUBELET_B)
        swap.rename(current)
        after = await user_of(api)

    assert (before, after) == ("system:node:node-a", "system:node:node-b")


async def test_certificates_in_the_kubeconfig_itself_are_used(server, tmp_path):
    def data(path):
        return base64.b64encode(path.read_bytes()).decode()

    user = {"client-certificate-data": data(KUBELET_A), "client-key-data": data(KUBELET_A)}
    path = kubeconfig(tmp_path, server.url, user, **{"certificate-authority-data": data(CA_1)})

    async with KubeApi(from_kubeconfig(path, time.monotonic, time.time)) as api:
        assert await user_of(api) == "system:node:node-a"


async def test_a_certificate_from_a_plugin_is_used(server, tmp_path):
    certificate, _, key = KUBELET_A.read_text().partition("-----BEGIN PRIVATE")
    status = {"clientCertificateData": certificate, "clientKeyData": "-----BEGIN PRIVATE" + key}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))
    plugin = ExecPlugin(ExecCommand(("cat", str(answer)), V1), time.time)

    async with client_of(server, plugin) as api:
        assert await user_of(api) == "system:node:node-a"


async def test_a_certificate_without_its_key_is_refused(server, tmp_path):
    half = tmp_path / "half.pem"
    half.write_text(KUBELET_A.read_text().partition("-----BEGIN PRIVATE")[0])
    more = {"certificate": Pem(half), "key": Pem(half)}

    async with client_of(server, FixedCredential(), **more) as api:
        reply = await api.version()

    assert reply.message == f"no client certificate with its key in {half}"


async def test_a_key_that_needs_a_password_asks_nobody(server, tmp_path):
    locked = tmp_path / "locked.pem"
    body = base64.b64encode(b"\0" * 64).decode()
    header = "-----BEGIN ENCRYPTED PRIVATE KEY-----"
    locked.write_text(
        KUBELET_A.read_text().partition("-----BEGIN PRIVATE")[0]
        + f"{header}\n{body}\n{header.replace('BEGIN', 'END')}\n"
    )
    more = {"certificate": Pem(locked), "key": Pem(locked)}

    async with client_of(server, FixedCredential(), **more) as api:
        reply = await api.version()

    assert reply.outcome is Outcome.UNAUTHORIZED
