"""Finds the scheduler that the node is drained through, and keeps its backend running.

The parts of a backend are loaded only where it is used.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from lastcall.bus.system_bus import SystemBus
from lastcall.config.schema import Config
from lastcall.drain.base import DrainBackend, NoDrain, Post
from lastcall.drain.kubernetes.config import Cluster, find_cluster
from lastcall.drain.kubernetes.files import KubeConfigError
from lastcall.drain.slurm import presence
from lastcall.serve.peers import control_group
from lastcall.sources.base import Clock
from lastcall.sources.node import NodeSource

RESTART_SECONDS = 1.0
"""How soon a backend that ended by a fault of ours is started again."""


class SchedulerError(Exception):
    """The configured scheduler cannot be used; the text is one clear line."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a backend is given of the agent and of the machine.

    Attributes:
        post: takes its events.
        clock: the node's clocks.
        bus: the system bus.
        boot_id: names this boot of the machine.
        environment: the agent's own.
    """

    post: Post
    clock: Clock
    bus: SystemBus
    boot_id: str
    environment: Mapping[str, str]


def choose(config: Config, around: Surroundings) -> DrainBackend:
    """Return the backend that is configured or found.

    Raises:
        SchedulerError: what is configured cannot be used.
    """
    wanted = config.drain.backend
    if wanted == "kubernetes":
        return _kubernetes(config, around) or _refuse(
            'drain.backend is "kubernetes", but this is no pod with a service account, and '
            "drain.kubernetes.kubeconfig names no file"
        )
    if wanted == "slurm":
        return _slurm(config, around)
    if wanted == "systemd":
        return _systemd(config, around) or _refuse(
            'drain.backend is "systemd", but drain.systemd.units names no unit'
        )
    if wanted == "none":
        return NoDrain(around.post)
    found = _kubernetes(config, around)
    if found is None and presence.found(around.environment):
        found = _slurm(config, around)
    return found or _systemd(config, around) or NoDrain(around.post)


async def keep(backend: DrainBackend) -> None:
    """Run a backend until cancelled, whatever happens to it; one that has nothing to do ends."""
    while True:
        try:
            await backend.run()
        except Exception:  # noqa: BLE001 - a backend's fault must never end the agent
            structlog.get_logger().exception("backend_restarted", backend=backend.name)
            await asyncio.sleep(RESTART_SECONDS)
        else:
            return


def _refuse(why: str) -> DrainBackend:
    raise SchedulerError(why)


def _kubernetes(config: Config, around: Surroundings) -> DrainBackend | None:
    cluster = _cluster(config, around)
    if cluster is None:
        return None
    from lastcall.drain.kubernetes.backend import KubernetesDrain  # noqa: PLC0415 - see the top
    from lastcall.drain.kubernetes.drain import DrainSettings  # noqa: PLC0415 - see the top

    settings = config.drain.kubernetes
    seen, unseen = _watchers(config, around)
    return KubernetesDrain(
        cluster,
        node_name=config.node_name,
        boot_id=around.boot_id,
        own_pod_uid=around.environment.get("POD_UID", ""),
        instance=around.environment.get("POD_NAME", "") or config.node_name,
        taint=settings.taint,
        settings=DrainSettings(
            method=settings.method,
            force=settings.force,
            calls_in_flight=settings.calls_in_flight,
        ),
        post=around.post,
        monotonic=around.clock.monotonic,
        wall=around.clock.wall,
        seen=seen,
        unseen=unseen,
    )


def _cluster(config: Config, around: Surroundings) -> Cluster | None:
    kubeconfig = config.drain.kubernetes.kubeconfig
    clock = around.clock
    try:
        return find_cluster(kubeconfig, clock.monotonic, clock.wall, around.environment)
    except KubeConfigError as error:
        raise SchedulerError(f"drain.kubernetes.kubeconfig: {error}") from error


def _watchers(
    config: Config, around: Surroundings
) -> tuple[Callable[[Mapping[str, Any]], None], Callable[[str], None]]:
    """Return who takes the node object: the source, unless it is turned off."""
    if config.notices.node.enabled is False:
        return lambda _node: None, lambda _detail: None
    source = NodeSource(around.post, around.clock)
    return source.see, source.unseen


def _slurm(config: Config, around: Surroundings) -> DrainBackend:
    from lastcall.drain.slurm.backend import SlurmDrain, SlurmSettings  # noqa: PLC0415 - see the top
    from lastcall.drain.slurm.plan import Means  # noqa: PLC0415 - see the top

    settings = config.drain.slurm
    return SlurmDrain(
        SlurmSettings(
            node_name=settings.node_name,
            means=Means(requeue=settings.requeue, signal=settings.signal),
            call_seconds=settings.call_seconds,
        ),
        post=around.post,
        monotonic=around.clock.monotonic,
        wall=around.clock.wall,
        environment=around.environment,
    )


def _systemd(config: Config, around: Surroundings) -> DrainBackend | None:
    units = config.drain.systemd.units
    if not units:
        return None
    from lastcall.drain.systemd.backend import SystemdDrain  # noqa: PLC0415 - see the top

    return SystemdDrain(
        around.bus,
        units=units,
        own_group=control_group(os.getpid()),
        post=around.post,
        monotonic=around.clock.monotonic,
    )
