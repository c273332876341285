"""The agent's client, pointed at the fake API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.credentials import (
    Credential,
    Credentials,
    FixedCredential,
    TokenFile,
)
from lastcall.drain.kubernetes.files import Pem
from support.kube_api.server import ADMIN_TOKEN, FakeKubeApi
from support.kube_api.tls import CA_1


def with_token(token: str = ADMIN_TOKEN) -> FixedCredential:
    """Return credentials that are one token."""
    return FixedCredential(Credential(token))


def with_token_file(path: Path) -> TokenFile:
    """Return credentials that stand in a file."""
    return TokenFile(path, asyncio.get_running_loop().time)


def cluster_of(server: FakeKubeApi, credentials: Credentials | None = None, **more: Any) -> Cluster:
    """Return how to reach a server; by TLS its CA is the first one unless another is named."""
    cluster = Cluster(server.url, credentials or with_token(), ca=Pem(CA_1))
    return replace(cluster, **more)


@asynccontextmanager
async def client_of(
    server: FakeKubeApi, credentials: Credentials | None = None, **more: Any
) -> AsyncIterator[KubeApi]:
    """Return a client while the block runs."""
    async with KubeApi(cluster_of(server, credentials, **more)) as api:
        yield api


def kubeconfig(
    directory: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any
) -> Path:
    """Write a kubeconfig, as JSON, and return its path."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(content), "utf-8")
    return path
