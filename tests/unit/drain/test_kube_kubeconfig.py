"""What is understood of a kubeconfig, and what is refused in one clear line."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from lastcall.drain.kubernetes.config import find_cluster, from_kubeconfig, in_cluster
from lastcall.drain.kubernetes.credentials import Credential, FixedCredential, TokenFile
from lastcall.drain.kubernetes.exec import ExecPlugin
from lastcall.drain.kubernetes.files import KubeConfigError, Pem
from support.kube_api.clients import kubeconfig

SERVER = "https://kube.test:6443"

KUBELET = """
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority: pki/ca.crt
    server: https://[fd00::1]:6443/
    tls-server-name: kube.test
contexts:
- name: default
  context: {cluster: kubernetes, user: kubelet}
current-context: default
users:
- name: kubelet
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
"""


def clock() -> float:
    return 0.0


def refusal(path: Path) -> str:
    with pytest.raises(KubeConfigError) as caught:
        from_kubeconfig(path, clock, clock)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_kubelets_own_file_is_understood(tmp_path):
    path = tmp_path / "kubelet.conf"
    path.write_text(KUBELET)

    cluster = from_kubeconfig(path, clock, clock)

    pem = Pem(Path("/var/lib/kubelet/pki/kubelet-client-current.pem"))
    assert cluster.server == "https://[fd00::1]:6443"
    assert cluster.server_name == "kube.test"
    assert cluster.ca == Pem(tmp_path / "pki/ca.crt")
    assert (cluster.certificate, cluster.key) == (pem, pem)


async def test_a_token_is_taken_as_it_stands(tmp_path):
    cluster = from_kubeconfig(kubeconfig(tmp_path, SERVER, {"token": "t-1"}), clock, clock)

    assert isinstance(cluster.credentials, FixedCredential)
    assert await cluster.credentials.current() == Credential("t-1")
    assert cluster.ca is None


async def test_a_token_file_is_found_beside_the_kubeconfig_and_goes_before_the_token(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    user = {"token": "fixed", "tokenFile": "token"}
    cluster = from_kubeconfig(kubeconfig(tmp_path, SERVER, user), clock, clock)

    assert isinstance(cluster.credentials, TokenFile)
    assert await cluster.credentials.current() == Credential("from-file")


def test_data_goes_before_a_file(tmp_path):
    data = {"certificate-authority-data": base64.b64encode(b"a CA").decode()}
    path = kubeconfig(tmp_path, SERVER, None, **data, **{"certificate-authority": "ca.crt"})

    assert from_kubeconfig(path, clock, clock).ca == Pem(data=b"a CA")


def test_an_exec_plugin_is_understood(tmp_path):
    plugin = {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1beta1"}
    path = kubeconfig(tmp_path, SERVER, {"exec": plugin | {"args": None, "env": None}})

    assert isinstance(from_kubeconfig(path, clock, clock).credentials, ExecPlugin)


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({}, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({}, {"proxy-url": "http://proxy:3128"}, "proxy-url"),
        ({"username": "a", "password": "b"}, {}, "username and password"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider"),
        ({"as": "somebody"}, {}, "acts as itself"),
        ({"client-certificate": "a.pem"}, {}, "without its key"),
        ({"client-key": "a.pem"}, {}, "without its certificate"),
        ({}, {"certificate-authority-data": "%%%"}, "no base64"),
        ({}, {"server": ""}, "not a http or https URL"),
        ({}, {"server": "unix:///run/kube.sock"}, "not a http or https URL"),
        ({"token": 7}, {}, "no kubeconfig"),
        ({"exec": {"command": "x", "apiVersion": "v1alpha1"}}, {}, "understood are"),
        (
            {
                "exec": {
                    "command": "x",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Always",
                }
            },
            {},
            "wants to ask a person",
        ),
    ],
)
def test_what_is_not_supported_is_refused_loudly(tmp_path, user, cluster, said):
    assert said in refusal(kubeconfig(tmp_path, **{"server": SERVER, "user": user} | cluster))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no kubeconfig"),
        ("a: [", "no kubeconfig"),
        ("just words", "no kubeconfig"),
        ("{", "no kubeconfig"),
        ("kind: Config", "no current-context"),
        ("current-context: there", "no context named 'there'"),
        (KUBELET.replace("- name: kubernetes\n", "- name: other\n"), "no cluster named 'kuber"),
        (KUBELET.replace("- name: kubelet\n", "- name: other\n"), "no user named 'kubelet'"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_loudly(tmp_path, text, said):
    path = tmp_path / "config.yaml"
    path.write_text(text)

    assert said in refusal(path)


def test_a_file_that_is_missing_is_refused_loudly(tmp_path):
    assert "No such file" in refusal(tmp_path / "nowhere")


def test_a_secret_is_not_shown(tmp_path):
    text = refusal(kubeconfig(tmp_path, "ftp://x", {"token": "very-secret"}))

    assert "very-secret" not in text
    assert "very-secret" not in repr(Credential("very-secret"))


def test_yaml_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_text(KUBELET)

    def missing(*_: object, **__: object) -> None:
        raise ImportError

    monkeypatch.setattr("msgspec.yaml.decode", missing)

    assert "lastcall[kubernetes]" in refusal(path)


# --- inside of a pod -------------------------------------------------------------------------


def service_account(directory: Path) -> Path:
    (directory / "token").write_text("t-1")
    (directory / "ca.crt").write_text("a CA")
    (directory / "namespace").write_text("lastcall\n")
    return directory


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
async def test_a_pod_finds_its_own_cluster(tmp_path, host, url):
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    cluster = in_cluster(environment, clock, service_account(tmp_path))

    assert cluster is not None
    assert (cluster.server, cluster.namespace) == (url, "lastcall")
    assert cluster.ca == Pem(tmp_path / "ca.crt")
    assert await cluster.credentials.current() == Credential("t-1")


async def test_a_pod_without_a_namespace_file_is_understood(tmp_path):
    (service_account(tmp_path) / "namespace").unlink()
    cluster = in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, clock, tmp_path)

    assert cluster is not None
    assert (cluster.server, cluster.namespace) == ("https://10.0.0.1:443", "")


@pytest.mark.parametrize("environment", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_elsewhere_there_is_no_own_cluster(tmp_path, environment):
    assert in_cluster(environment, clock, tmp_path) is None


def test_a_kubeconfig_that_is_named_goes_before_the_pods_own_cluster(tmp_path):
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    cluster = find_cluster(str(kubeconfig(tmp_path, SERVER)), clock, clock, environment)

    assert cluster is not None
    assert cluster.server == SERVER
    assert find_cluster("", clock, clock, {}) is None
