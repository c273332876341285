"""Finds the scheduler that the node is drained through, and keeps its backend running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from lastcall.config.schema import Config
from lastcall.drain.base import DrainBackend, NoDrain, Post
from lastcall.drain.kube_config import Cluster, find_cluster
from lastcall.drain.kube_files import KubeConfigError
from lastcall.sources.base import Clock
from lastcall.sources.node import NodeSource

RESTART_SECONDS = 1.0
"""How soon a backend that ended by a fault of ours is started again."""


class SchedulerError(Exception):
    """The configured scheduler cannot be used; the text is one clear line."""


def choose(
    config: Config,
    *,
    boot_id: str,
    post: Post,
    clock: Clock,
    environment: Mapping[str, str] = os.environ,
) -> DrainBackend:
    """Return the backend that is configured or found.

    Raises:
        SchedulerError: what is configured cannot be used.
    """
    if config.drain.backend == "none":
        return NoDrain(post)
    cluster = _cluster(config, clock, environment)
    if cluster is None:
        return NoDrain(post)
    # Its parts are loaded only where there is a cluster.
    from lastcall.drain.kube_drain import DrainSettings  # noqa: PLC0415 - see above
    from lastcall.drain.kubernetes import KubernetesDrain  # noqa: PLC0415 - see above

    settings = config.drain.kubernetes
    seen, unseen = _watchers(config, post, clock)
    return KubernetesDrain(
        cluster,
        node_name=config.node_name,
        boot_id=boot_id,
        own_pod_uid=environment.get("POD_UID", ""),
        instance=environment.get("POD_NAME", "") or config.node_name,
        taint=settings.taint,
        settings=DrainSettings(
            method=settings.method,
            force=settings.force,
            calls_in_flight=settings.calls_in_flight,
        ),
        post=post,
        monotonic=clock.monotonic,
        wall=clock.wall,
        seen=seen,
        unseen=unseen,
    )


async def keep(backend: DrainBackend) -> None:
    """Run a backend until cancelled, whatever happens to it."""
    while True:
        try:
            await backend.run()
        except Exception:  # noqa: BLE001 - a backend's fault must never end the agent
            structlog.get_logger().exception("backend_restarted", backend=backend.name)
        await asyncio.sleep(RESTART_SECONDS)


def _cluster(config: Config, clock: Clock, environment: Mapping[str, str]) -> Cluster | None:
    kubeconfig = config.drain.kubernetes.kubeconfig
    try:
        cluster = find_cluster(kubeconfig, clock.monotonic, clock.wall, environment)
    except KubeConfigError as error:
        raise SchedulerError(f"drain.kubernetes.kubeconfig: {error}") from error
    if cluster is None and config.drain.backend == "kubernetes":
        raise SchedulerError(
            'drain.backend is "kubernetes", but this is no pod with a service account, and '
            "drain.kubernetes.kubeconfig names no file"
        )
    return cluster


def _watchers(
    config: Config, post: Post, clock: Clock
) -> tuple[Callable[[Mapping[str, Any]], None], Callable[[str], None]]:
    """Return who takes the node object: the source, unless it is turned off."""
    if config.notices.node.enabled is False:
        return lambda _node: None, lambda _detail: None
    source = NodeSource(post, clock)
    return source.see, source.unseen
