"""Checks Kubernetes: whether it is there and answers, and whether this node is the one it means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lastcall.cli.check.credentials import check_credentials
from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.rights import check_rights
from lastcall.config.schema import Config
from lastcall.drain.kubernetes.api import KubeApi
from lastcall.drain.kubernetes.config import Cluster, find_cluster
from lastcall.drain.kubernetes.files import KubeConfigError
from lastcall.drain.kubernetes.node_marks import marks_of
from lastcall.drain.kubernetes.reply import Outcome, Reply
from lastcall.drain.kubernetes.reviews import node_name_of
from lastcall.sources.base import SystemClock

CHECK = "kubernetes"
NODE_NAME = "node_name"

VERSION_SECONDS = 4.0
CALL_SECONDS = 5.0

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_NODE_USER = "system:node:"

_SET_NODE_NAME = (
    "set node_name, or in a pod NODE_NAME from the field spec.nodeName (the downward API)"
)

_REMEDIES = {
    Outcome.UNAUTHORIZED: "renew the credentials: in a pod the service account's token, else those "
    "that the kubeconfig names",
    Outcome.FORBIDDEN: "check who the agent is to the server: a missing token counts as anonymous",
    Outcome.THROTTLED: "check again: the server is busy",
}
_REACH = "let this machine reach the API server: its address, its certificate, the network"


async def check_kubernetes(subject: Subject, found: Findings) -> None:
    """Add whether a cluster is there, answers, knows this node, and lets the agent drain it."""
    config = subject.loaded.config
    if config.drain.backend == "none":
        found.ok(CHECK, 'not asked: drain.backend is "none"')
        return
    cluster = await _find(config, found)
    if cluster is not None:
        async with KubeApi(cluster) as api:
            await _look(api, config, found)


async def _find(config: Config, found: Findings) -> Cluster | None:
    clock = SystemClock()
    try:
        cluster = await asyncio.to_thread(
            find_cluster,
            config.drain.kubernetes.kubeconfig,
            asyncio.get_running_loop().time,
            clock.wall,
        )
    except KubeConfigError as error:
        found.problem(CHECK, str(error), "mend drain.kubernetes.kubeconfig")
        return None
    if cluster is None and config.drain.backend == "kubernetes":
        found.problem(
            CHECK,
            "not on Kubernetes: no service account, and no kubeconfig is named",
            "run in a pod with its token mounted, or set drain.kubernetes.kubeconfig, or set "
            'drain.backend = "none"',
        )
    elif cluster is None:
        found.ok(CHECK, "not on Kubernetes")
    return cluster


async def _look(api: KubeApi, config: Config, found: Findings) -> None:
    loop = asyncio.get_running_loop()
    asked_at = loop.time()
    version = await api.version(timeout_seconds=VERSION_SECONDS)
    took_seconds = loop.time() - asked_at
    server = api.cluster.server
    if not version.ok:
        remedy = _REMEDIES.get(version.outcome, _REACH)
        heard = "refuses" if version.status else "does not answer"
        found.problem(CHECK, f"{server} {heard}: {version.cause_text}", remedy)
        await check_credentials(api.cluster, found)
        return
    found.ok(
        CHECK,
        f"{server} answers in {took_seconds * 1000:.0f} ms: {version.body.get('gitVersion')}",
    )
    rights = Findings()
    who, node, _ = await asyncio.gather(
        api.who_am_i(timeout_seconds=CALL_SECONDS),
        api.get_node(config.node_name, timeout_seconds=CALL_SECONDS),
        check_rights(api, config, rights, CALL_SECONDS),
    )
    _say_identity(who, config.node_name, found)
    _say_node(node, config.node_name, found)
    await check_credentials(api.cluster, found)
    found += rights


def _say_identity(who: Reply, node_name: str, found: Findings) -> None:
    if not who.ok:
        found.note(
            NODE_NAME, f"the server does not say which node the agent is on: {who.cause_text}"
        )
        return
    user = _object(_object(who.body.get("status")).get("userInfo")).get("username")
    bound = node_name_of(who)
    if not bound and isinstance(user, str) and user.startswith(_NODE_USER):
        bound = user.removeprefix(_NODE_USER)
    if not bound:
        found.note(
            NODE_NAME, f"{user} is bound to no node, so nothing but node_name says which is ours"
        )
    elif bound == node_name:
        found.ok(NODE_NAME, f"{user} is bound to the same node")
    else:
        found.problem(
            NODE_NAME, f"{user} is on node {bound}, and node_name is {node_name}", _SET_NODE_NAME
        )


def _say_node(reply: Reply, node_name: str, found: Findings) -> None:
    if reply.outcome is Outcome.GONE:
        found.problem(CHECK, f"the cluster has no node {node_name}", _SET_NODE_NAME)
        return
    if not reply.ok:
        found.warning(
            CHECK,
            f"node {node_name} cannot be read: {reply.cause_text}",
            _REMEDIES.get(reply.outcome, _REACH)
            if reply.outcome is not Outcome.FORBIDDEN
            else "see the findings about rights",
        )
        return
    boot_id = _object(_object(reply.body.get("status")).get("nodeInfo")).get("bootID")
    ours = _boot_id()
    if boot_id and ours and boot_id != ours:
        found.warning(
            CHECK,
            f"node {node_name} has boot id {boot_id}, this machine {ours}: it is another machine, "
            "or has just been booted",
            f"check again in a minute; if it stays so, {_SET_NODE_NAME}",
        )
    else:
        found.ok(CHECK, f"node {node_name} exists")
    _say_cordon(reply.body, node_name, found)


def _say_cordon(node: Mapping[str, Any], node_name: str, found: Findings) -> None:
    marks = marks_of(node)
    if marks.is_our_cordon:
        found.note(
            CHECK,
            f"node {node_name} is cordoned by lastcall for notice {marks.notice_id}",
            "if no notice is open, see the runbook LastcallNodeLeftCordoned",
        )
    elif marks.is_unschedulable:
        found.note(
            CHECK, f"node {node_name} is cordoned by somebody else: lastcall leaves it as it is"
        )


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text("utf-8").strip()
    except OSError:
        return ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
