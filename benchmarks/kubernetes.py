"""From a notice to the cordon and to a full node's evictions, and what watching its pods costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from benchmarks.common import Row, cpu_seconds, quantile, spread
from benchmarks.node import TimedLog, service

from lastcall.simulate.base import Metadata
from support.kube_api.clients import kubeconfig
from support.kube_api.objects import node, pod
from support.kube_api.server import ADMIN_TOKEN, FakeKubeApi, Logged
from support.running_agent import RunningAgent

NODE = "test-node"
PODS = 110
"""The most that a kubelet takes unless told otherwise."""

WATCHED_PODS = 250
CORDON_AIM_SECONDS = 0.05
EVICTED_AIM_SECONDS = 1.0
CALLS_AIM = 2.0
PREEMPTED = "/computeMetadata/v1/instance/preempted"


@dataclass(frozen=True, slots=True)
class Bench:
    """A cluster, a metadata service and the agent between them."""

    api: FakeKubeApi
    metadata: Metadata
    log: TimedLog
    agent: RunningAgent

    def node_writes(self, since: int) -> list[Logged]:
        """Return the changes of the node among the requests since the so-manieth."""
        return [
            one for one in self.api.log[since:] if one.method == "PATCH" and "/nodes/" in one.path
        ]


def measure(*, quick: bool) -> list[Row]:
    """Cordon and uncordon some times, drain a full node some times, and then do nothing."""
    return asyncio.run(_measure(quick=quick))


async def _measure(*, quick: bool) -> list[Row]:
    async with _bench() as bench:
        cordons = [await _cordon(bench) for _ in range(3 if quick else 20)]
        drains = [await _drain(bench, 20 if quick else PODS) for _ in range(1 if quick else 5)]
    evicted = [seconds for seconds, _, _ in drains]
    calls = max(count for _, count, _ in drains)
    own = max(count for _, _, count in drains)
    return [
        Row(
            "a notice appears → the cordon is on the wire",
            spread(cordons),
            aim=f"p99 ≤ {1e3 * CORDON_AIM_SECONDS:.0f} ms",
            met=quantile(cordons, 0.99) <= CORDON_AIM_SECONDS,
        ),
        Row(
            f"a notice appears → the last of {PODS} evictions accepted",
            spread(evicted),
            aim=f"≤ {EVICTED_AIM_SECONDS:g} s",
            met=max(evicted) <= EVICTED_AIM_SECONDS,
        ),
        Row(
            f"calls to the API about each of {PODS} pods",
            f"{calls:.2f}",
            f"the eviction and an event; besides them {own} calls about the node, and the watches",
            f"≤ {CALLS_AIM:g}",
            calls <= CALLS_AIM,
        ),
        *[await _idle(count, 3.0 if quick else 60.0) for count in (0, WATCHED_PODS)],
    ]


async def _cordon(bench: Bench) -> float:
    """Return the seconds from a notice until its cordon reached the API server."""
    before, began_at = len(bench.api.log), time.monotonic()
    bench.metadata.raise_notice()
    await bench.agent.wait(lambda: bench.node_writes(before))
    seconds = bench.node_writes(before)[0].at - began_at
    await _calm(bench)
    return seconds


async def _drain(bench: Bench, pods: int) -> tuple[float, float, int]:
    """Return the seconds until the last eviction was accepted, the calls a pod, and the others."""
    names = {f"web-{number}" for number in range(pods)}
    bench.api.add("pods", *(pod(name, node_name=NODE) for name in names))
    await asyncio.sleep(0.5)
    before, began_at = len(bench.api.log), time.monotonic()
    bench.metadata.raise_notice()
    await bench.agent.wait(lambda: not any(bench.api.store.all("pods")), 30)
    await asyncio.sleep(1.0)
    asked = [one for one in bench.api.log[before:] if "watch" not in one.query]
    last = max(one.at for one in asked if one.path.endswith("/eviction"))
    await _calm(bench)
    about_pods = [one for one in asked if _is_about_pod(one)]
    return last - began_at, len(about_pods) / pods, len(asked) - len(about_pods)


def _is_about_pod(one: Logged) -> bool:
    if one.path.endswith("/events"):
        return bool(one.body["involvedObject"]["kind"] == "Pod")
    return "/pods/" in one.path


async def _calm(bench: Bench) -> None:
    """Withdraw the notice and wait until the node is given back."""
    bench.metadata.withdraw()

    def given_back() -> bool:
        found = bench.api.store.get("nodes", "", NODE)
        return found is not None and not found["spec"].get("unschedulable")

    await bench.agent.wait(given_back, 15)
    await asyncio.sleep(1.2)


async def _idle(pods: int, seconds: float) -> Row:
    async with _bench() as bench:
        bench.api.add("pods", *(pod(f"web-{number}", node_name=NODE) for number in range(pods)))
        await asyncio.sleep(3.0)
        used = cpu_seconds(bench.agent.pid)
        await asyncio.sleep(seconds)
        hourly = 3600 / seconds * (cpu_seconds(bench.agent.pid) - used)
        rss_mib = psutil.Process(bench.agent.pid).memory_info().rss / 2**20
    return Row(
        f"idle with a watch on {pods} pods, from {seconds:.0f} s",
        f"{hourly:.1f} CPU-s/h, {rss_mib:.1f} MiB RSS",
        "Google's metadata service beside it, whose questions stay open",
    )


@asynccontextmanager
async def _bench() -> AsyncIterator[Bench]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with FakeKubeApi() as api, service("gcp") as provided:
            api.add("nodes", node(NODE, ready=True))
            path = kubeconfig(folder, api.url, {"token": ADMIN_TOKEN})
            agent = provided.agent(folder, f"drain.kubernetes.kubeconfig={path}")
            async with agent:
                await agent.wait(lambda: api.asked("GET", "/api/v1/pods"))
                await asyncio.sleep(1.0)
                yield Bench(api, provided.metadata, provided.log, agent)
