"""The part of a kubeconfig file that is understood, and the parts that are refused.

The format is the one of the Kubernetes docs, "kubeconfig (v1)".
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lastcall.drain.kubernetes.exec import ExecCommand
from lastcall.drain.kubernetes.files import KubeConfigError, why

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""The versions of the exec protocol that are spoken."""


class ClusterEntry(msgspec.Struct, rename="kebab", kw_only=True):
    """A cluster of the file."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""
    proxy_url: str = ""
    insecure_skip_tls_verify: bool = False


class EnvironmentEntry(msgspec.Struct):
    """One variable for an exec plugin."""

    name: str
    value: str


class ExecEntry(msgspec.Struct, rename="camel", kw_only=True):
    """An exec plugin of the file."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[EnvironmentEntry] | None = None
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class UserEntry(msgspec.Struct, rename="kebab", kw_only=True):
    """A user of the file."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecEntry | None = None
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    auth_provider: object = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def read_kubeconfig(path: Path) -> tuple[ClusterEntry, UserEntry]:
    """Return the cluster and the user of the file's current context.

    Raises:
        KubeConfigError: the file cannot be read, names what it does not hold, or asks for what is
            not supported.
    """
    content = _decoded(path)
    if not content.current_context:
        raise KubeConfigError(f"{path}: no current-context")
    context = next(
        (c.context for c in content.contexts or () if c.name == content.current_context), None
    )
    if context is None:
        raise KubeConfigError(f"{path}: no context named {content.current_context!r}")
    cluster = next((c.cluster for c in content.clusters or () if c.name == context.cluster), None)
    if cluster is None:
        raise KubeConfigError(f"{path}: no cluster named {context.cluster!r}")
    user: UserEntry | None = UserEntry()
    if context.user:
        user = next(
            (u.user or UserEntry() for u in content.users or () if u.name == context.user), None
        )
    if user is None:
        raise KubeConfigError(f"{path}: no user named {context.user!r}")
    _refuse(path, cluster, user)
    return cluster, user


def exec_command(path: Path, entry: ExecEntry, cluster: ClusterEntry) -> ExecCommand:
    """Return the program that an exec entry names.

    Raises:
        KubeConfigError: it speaks another version of the protocol, or to a person.
    """
    if entry.api_version not in EXEC_VERSIONS:
        raise KubeConfigError(
            f"{path}: exec apiVersion is {entry.api_version!r}; understood are "
            + " and ".join(EXEC_VERSIONS)
        )
    if entry.interactive_mode == "Always":
        raise KubeConfigError(f"{path}: the exec plugin {entry.command} wants to ask a person")
    # A path is relative to the file; a bare name is looked up in PATH.
    command = str(path.parent / entry.command) if "/" in entry.command else entry.command
    info: dict[str, object] = {
        "server": cluster.server,
        "certificate-authority-data": cluster.certificate_authority_data,
        "tls-server-name": cluster.tls_server_name,
    }
    return ExecCommand(
        argv=(command, *(entry.args or ())),
        api_version=entry.api_version,
        environment={variable.name: variable.value for variable in entry.env or ()},
        cluster={key: value for key, value in info.items() if value}
        if entry.provide_cluster_info
        else None,
    )


def _refuse(path: Path, cluster: ClusterEntry, user: UserEntry) -> None:
    """Refuse what would be wrong to leave out in silence."""
    refused = {
        "insecure-skip-tls-verify: the server must prove who it is; name its CA instead": (
            cluster.insecure_skip_tls_verify
        ),
        "proxy-url: a drain does not go through a proxy; name the server's own address": (
            bool(cluster.proxy_url)
        ),
        "username and password: API servers no longer take them": (
            bool(user.username or user.password)
        ),
        "auth-provider: replaced by exec plugins": user.auth_provider is not None,
        "as: the agent acts as itself": bool(user.impersonate),
    }
    for text, is_there in refused.items():
        if is_there:
            raise KubeConfigError(f"{path}: not supported: {text}")


def _decoded(path: Path) -> _Kubeconfig:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KubeConfigError(f"cannot read {path}: {why(error)}") from None
    try:
        if content.lstrip().startswith(b"{"):
            return msgspec.json.decode(content, type=_Kubeconfig)
        return msgspec.yaml.decode(content, type=_Kubeconfig)
    except ImportError:
        raise KubeConfigError(
            f"{path}: reading YAML needs PyYAML: pip install 'lastcall[kubernetes]', "
            "or write the file as JSON (kubectl config view --raw --flatten -o json)"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        line = " ".join(str(error).split())
        raise KubeConfigError(f"{path}: no kubeconfig: {line}") from None
