"""The dozen calls to the Kubernetes API server that a drain needs, each bounded in time.

Every call returns a :class:`~lastcall.drain.kubernetes.reply.Reply`; none raises anything foreign.
After an ``UNKNOWN`` the caller looks again: the server may have done what was asked. That holds too
where a connection closed while idle was replaced and the call sent once more, so whatever must not
happen twice carries a guard: a UID, a resource version, a test, a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from lastcall.drain.kubernetes.config import Cluster
from lastcall.drain.kubernetes.events import EventText, ObjectRef, event_body, event_namespace
from lastcall.drain.kubernetes.reply import Outcome, Reply
from lastcall.drain.kubernetes.reviews import (
    ACCESS_PATH,
    IDENTITY_PATH,
    Right,
    access_review_body,
    identity_review_body,
)
from lastcall.drain.kubernetes.transport import Request, Transport
from lastcall.drain.kubernetes.watch import Watch

CALL_SECONDS = 3.0
"""How long a call may take unless its caller knows better."""

PAGE_SIZE = 500
"""Pods a page of a list; what kubectl asks for, too."""

WATCH_SECONDS = 240
"""A watch is asked to end after this long; another one takes over."""

WATCH_SILENCE_SECONDS = 150.0
"""A watch with bookmarks says something about every minute (Kubernetes docs, API concepts)."""


class PatchType(StrEnum):
    """How a patch is meant; the values are its content types.

    Strategic and merge patches replace ``spec.taints`` as a whole (seen on Kubernetes 1.36): write
    taints with a resource version in the body, or by a JSON patch that tests first.
    """

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


Patch = Mapping[str, object] | Sequence[Mapping[str, object]]
"""The body of a patch: an object, or the operations of a JSON patch."""


@dataclass(frozen=True, slots=True)
class PodList:
    """What came of a list.

    Attributes:
        reply: the last page's; ``items`` holds something only where it is ``OK``.
        items: the pods of all pages.
        resource_version: where a watch may start.
        pages: how many calls it took.
    """

    reply: Reply
    items: tuple[Mapping[str, Any], ...] = ()
    resource_version: str = ""
    pages: int = 0


class KubeApi:
    """Asks one API server.

    Args:
        cluster: the server, and who the agent is to it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._transport = Transport(cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connections."""
        await self._transport.close()

    async def version(self, *, timeout_seconds: float = CALL_SECONDS) -> Reply:
        """Ask for the server's version; needs no right, and warms the connection up."""
        return await self._get("/version", {}, timeout_seconds)

    async def get_node(self, name: str, *, timeout_seconds: float = CALL_SECONDS) -> Reply:
        """Read a node."""
        return await self._get(_node(name), {}, timeout_seconds)

    async def patch_node(
        self,
        name: str,
        patch: Patch,
        patch_type: PatchType,
        *,
        dry_run: bool = False,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Reply:
        """Change a node's metadata or spec.

        A test of a JSON patch that fails is ``INVALID``; a resource version in the body that is no
        longer the node's is ``CONFLICT``.
        """
        return await self._patch(_node(name), patch, patch_type, dry_run, timeout_seconds)

    async def patch_node_status(
        self,
        name: str,
        status: Mapping[str, object],
        *,
        dry_run: bool = False,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Reply:
        """Change a node's status by a strategic merge patch; conditions are merged by their type.

        Args:
            name: the node.
            status: what goes below ``status``.
            dry_run: change nothing.
            timeout_seconds: for the call.
        """
        return await self._patch(
            _node(name) + "/status",
            {"status": status},
            PatchType.STRATEGIC,
            dry_run,
            timeout_seconds,
        )

    def watch_node(
        self, name: str, resource_version: str, *, watch_seconds: int = WATCH_SECONDS
    ) -> Watch:
        """Return the stream of a node's changes; needs the right to watch nodes.

        Args:
            name: the node.
            resource_version: where to start.
            watch_seconds: how long the server goes on, whole seconds.
        """
        return self._watch(
            "/api/v1/nodes", f"metadata.name={name}", resource_version, watch_seconds
        )

    async def list_pods(
        self,
        node_name: str,
        *,
        from_cache: bool = False,
        page_size: int = PAGE_SIZE,
        timeout_seconds: float = CALL_SECONDS,
    ) -> PodList:
        """List the pods of a node, page by page.

        Args:
            node_name: the node.
            from_cache: take what the server has in memory, which it can give even while its store
                is stuck; may be a little old, and comes in one page.
            page_size: pods a page.
            timeout_seconds: for all pages.
        """
        loop = asyncio.get_running_loop()
        over_at = loop.time() + timeout_seconds
        query = {"fieldSelector": f"spec.nodeName={node_name}"}
        query |= {"resourceVersion": "0"} if from_cache else {"limit": str(page_size)}
        items: list[Mapping[str, Any]] = []
        pages = 0
        while True:
            left_seconds = over_at - loop.time()
            if left_seconds <= 0:
                late = Reply(Outcome.UNKNOWN, message=f"no list within {timeout_seconds:g} s")
                return PodList(late, pages=pages)
            reply = await self._get("/api/v1/pods", query, left_seconds)
            pages += 1
            if not reply.ok:
                return PodList(reply, pages=pages)
            items += _objects(reply.body.get("items"))
            metadata = _object(reply.body.get("metadata"))
            token = metadata.get("continue")
            if not isinstance(token, str) or not token:
                version = str(metadata.get("resourceVersion", ""))
                return PodList(reply, tuple(items), version, pages)
            query["continue"] = token

    def watch_pods(
        self, node_name: str, resource_version: str, *, watch_seconds: int = WATCH_SECONDS
    ) -> Watch:
        """Return the stream of changes of a node's pods.

        Args:
            node_name: the node.
            resource_version: where to start; a list's.
            watch_seconds: how long the server goes on, whole seconds.
        """
        selector = f"spec.nodeName={node_name}"
        return self._watch("/api/v1/pods", selector, resource_version, watch_seconds)

    async def get_pod(
        self, namespace: str, name: str, *, timeout_seconds: float = CALL_SECONDS
    ) -> Reply:
        """Read a pod."""
        return await self._get(_pod(namespace, name), {}, timeout_seconds)

    async def evict_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Reply:
        """Ask for a pod's eviction, which heeds disruption budgets.

        ``CONFLICT``: the name now belongs to another pod, so the one meant is gone. ``OK`` is
        the beginning of its end, not the end.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: the pod meant.
            grace_seconds: its time to end; ``None`` for its own. At least 1: with 0 the name is
                given away while the processes may still run.
            dry_run: only ask whether it could be done.
            timeout_seconds: for the call.
        """
        options = _delete_options(uid, grace_seconds, dry_run=False)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        request = Request(
            "POST",
            _pod(namespace, name) + "/eviction",
            _dry_run(dry_run),
            msgspec.json.encode(body),
            is_eviction=True,
        )
        return await self._transport.call(request, timeout_seconds)

    async def delete_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Reply:
        """Delete a pod, which asks no disruption budget; see :meth:`evict_pod` for the rest.

        It sets no ``DisruptionTarget``: a Job counts the pod as failed unless
        :meth:`patch_pod_status` has set it before.
        """
        body = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body |= _delete_options(uid, grace_seconds, dry_run=dry_run)
        request = Request("DELETE", _pod(namespace, name), None, msgspec.json.encode(body))
        return await self._transport.call(request, timeout_seconds)

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        status: Mapping[str, object],
        *,
        dry_run: bool = False,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Reply:
        """Change a pod's status by a strategic merge patch; conditions are merged by their type.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: the pod meant; ``CONFLICT`` where the name belongs to another one.
            status: what goes below ``status``.
            dry_run: change nothing.
            timeout_seconds: for the call.
        """
        patch = {"metadata": {"uid": uid}, "status": status}
        path = _pod(namespace, name) + "/status"
        return await self._patch(path, patch, PatchType.STRATEGIC, dry_run, timeout_seconds)

    async def create_event(
        self, about: ObjectRef, text: EventText, *, timeout_seconds: float = CALL_SECONDS
    ) -> Reply:
        """Write an event about a node or a pod.

        One about a node must stand in ``default``: the server refuses it elsewhere (seen on
        Kubernetes 1.36).
        """
        namespace = quote(event_namespace(about), safe="")
        path = f"/api/v1/namespaces/{namespace}/events"
        return await self._post(path, event_body(about, text), timeout_seconds)

    async def review_access(self, right: Right, *, timeout_seconds: float = CALL_SECONDS) -> Reply:
        """Ask whether a right is granted.

        :func:`~lastcall.drain.kubernetes.reviews.is_allowed` reads the answer. Admission
        policies are not asked; a dry run asks them.
        """
        return await self._post(ACCESS_PATH, access_review_body(right), timeout_seconds)

    async def who_am_i(self, *, timeout_seconds: float = CALL_SECONDS) -> Reply:
        """Ask who the server takes the agent for.

        :func:`~lastcall.drain.kubernetes.reviews.node_name_of` reads the node from it.
        """
        return await self._post(IDENTITY_PATH, identity_review_body(), timeout_seconds)

    async def _get(self, path: str, query: Mapping[str, str], timeout_seconds: float) -> Reply:
        return await self._transport.call(Request("GET", path, query), timeout_seconds)

    async def _post(self, path: str, body: object, timeout_seconds: float) -> Reply:
        request = Request("POST", path, None, msgspec.json.encode(body))
        return await self._transport.call(request, timeout_seconds)

    async def _patch(
        self, path: str, patch: Patch, patch_type: PatchType, dry_run: bool, timeout_seconds: float
    ) -> Reply:
        body = msgspec.json.encode(patch)
        request = Request("PATCH", path, _dry_run(dry_run), body, patch_type.value)
        return await self._transport.call(request, timeout_seconds)

    def _watch(self, path: str, selector: str, resource_version: str, watch_seconds: int) -> Watch:
        query = {
            "fieldSelector": selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(watch_seconds),
        }
        return Watch(
            self._transport,
            Request("GET", path, query),
            resource_version=resource_version,
            open_timeout_seconds=CALL_SECONDS,
            total_seconds=watch_seconds + 10.0,
            silence_seconds=WATCH_SILENCE_SECONDS,
        )


def _node(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def _dry_run(dry_run: bool) -> dict[str, str] | None:
    return {"dryRun": "All"} if dry_run else None


def _delete_options(uid: str, grace_seconds: int | None, *, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = max(1, grace_seconds)
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
