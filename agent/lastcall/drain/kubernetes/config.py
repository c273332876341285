"""How to reach the API server: from inside a pod, or by a kubeconfig file."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from lastcall.drain.kubernetes.credentials import (
    Credential,
    Credentials,
    FixedCredential,
    TokenFile,
)
from lastcall.drain.kubernetes.exec import ExecPlugin
from lastcall.drain.kubernetes.files import KubeConfigError, Pem
from lastcall.drain.kubernetes.kubeconfig import (
    ClusterEntry,
    UserEntry,
    exec_command,
    read_kubeconfig,
)

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the CA (Kubernetes docs, accessing the API from a pod)."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server, how it proves itself, and who the agent is to it.

    Attributes:
        server: the base URL, without a slash at the end.
        credentials: where the token comes from.
        ca: what the server's certificate is checked against; ``None`` for the system's own list.
        certificate: the client certificate, or ``None``.
        key: its key; the same file where both stand in one.
        server_name: the name the server's certificate must have; empty for the URL's host.
        namespace: the pod's own namespace, where it is known.
    """

    server: str
    credentials: Credentials = field(default_factory=FixedCredential)
    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    server_name: str = ""
    namespace: str = ""


def in_cluster(
    environment: Mapping[str, str],
    monotonic: Callable[[], float],
    directory: Path = SERVICE_ACCOUNT_DIR,
) -> Cluster | None:
    """Return the API server of the cluster this process runs in; ``None`` outside of one.

    Args:
        environment: the process's environment.
        monotonic: the monotonic clock, seconds.
        directory: where the service account is mounted.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (directory / "token").exists():
        return None
    namespace = ""
    with suppress(OSError, UnicodeDecodeError):
        namespace = (directory / "namespace").read_text("utf-8").strip()
    return Cluster(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(directory / "token", monotonic),
        ca=Pem(directory / "ca.crt"),
        namespace=namespace,
    )


def from_kubeconfig(
    path: Path, monotonic: Callable[[], float], wall: Callable[[], float]
) -> Cluster:
    """Return the API server that a kubeconfig's current context names.

    Args:
        path: the file; YAML or JSON.
        monotonic: the monotonic clock, seconds.
        wall: the wall clock, Unix seconds.

    Raises:
        KubeConfigError: the file cannot be read, or says what is not supported; one clear line.
    """
    cluster, user = read_kubeconfig(path)
    name = f"{path}: "
    certificate = _pem(path, user.client_certificate, user.client_certificate_data, "client cert")
    key = _pem(path, user.client_key, user.client_key_data, "client key")
    if key is not None and certificate is None:
        raise KubeConfigError(f"{name}a client key without its certificate")
    if certificate is not None and key is None:
        raise KubeConfigError(f"{name}a client certificate without its key")
    return Cluster(
        server=_server(path, cluster),
        credentials=_credentials(path, cluster, user, monotonic, wall),
        ca=_pem(path, cluster.certificate_authority, cluster.certificate_authority_data, "CA"),
        certificate=certificate,
        key=key,
        server_name=cluster.tls_server_name,
    )


def find_cluster(
    kubeconfig: str,
    monotonic: Callable[[], float],
    wall: Callable[[], float],
    environment: Mapping[str, str] = os.environ,
) -> Cluster | None:
    """Return the API server to speak to: the kubeconfig's, else that of the pod's own cluster.

    Args:
        kubeconfig: the file's path; empty for the pod's own cluster.
        monotonic: the monotonic clock, seconds.
        wall: the wall clock, Unix seconds.
        environment: the process's environment.

    Returns:
        ``None`` where no kubeconfig is named and this is no pod.

    Raises:
        KubeConfigError: the kubeconfig cannot be used.
    """
    if kubeconfig:
        return from_kubeconfig(Path(kubeconfig), monotonic, wall)
    return in_cluster(environment, monotonic)


def _server(path: Path, cluster: ClusterEntry) -> str:
    try:
        url = URL(cluster.server)
        is_usable = url.scheme in {"http", "https"} and bool(url.host)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise KubeConfigError(f"{path}: server is {cluster.server!r}, not a http or https URL")
    return cluster.server.rstrip("/")


def _credentials(
    path: Path,
    cluster: ClusterEntry,
    user: UserEntry,
    monotonic: Callable[[], float],
    wall: Callable[[], float],
) -> Credentials:
    if user.exec is not None:
        return ExecPlugin(exec_command(path, user.exec, cluster), wall)
    if user.token_file:
        return TokenFile(path.parent / user.token_file, monotonic)
    return FixedCredential(Credential(user.token))


def _pem(path: Path, file: str, data: str, what: str) -> Pem | None:
    """Return a certificate or key; the data stands before the file, as with kubectl."""
    if data:
        try:
            return Pem(data=base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError):
            raise KubeConfigError(f"{path}: the {what}'s data is no base64") from None
    return Pem(path.parent / file) if file else None
