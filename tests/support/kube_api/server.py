"""The fake API server itself: it takes a request, finds who asks and what, and has it answered."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from aiohttp import web

from support.kube_api import documents, pods
from support.kube_api.asking import Asking
from support.kube_api.cluster import Cluster
from support.kube_api.faults import Fault, Trouble, close, suffer
from support.kube_api.identities import (
    ADMIN,
    ANONYMOUS,
    Identity,
    kubelet,
    refusal,
    right_of,
)
from support.kube_api.statuses import ApiError, not_found, unauthorized
from support.kube_api.store import Object
from support.kube_api.targets import Target, target_of
from support.kube_api.watches import watch_lines

ADMIN_TOKEN = "admin-token"


@dataclass(frozen=True)
class Logged:
    """One request as it came.

    Attributes:
        method: its verb.
        path: without the query.
        query: its parameters.
        body: the JSON of its body; ``None`` for none.
        token: the bearer token; empty for none.
        at: when, on the loop's clock.
        connection: which connection it came by; two of the same number came by the same.
        headers: by name.
    """

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str
    at: float
    connection: int
    headers: dict[str, str]


class FakeKubeApi:
    """An API server on a free port of this machine; to be used as ``async with``.

    Args:
        tls: serve by TLS with this context.
        host: the address to listen at.
        keepalive_seconds: idle connections are closed after this long.
        ends_after_seconds: how long the kubelet's pods take to end; see
            :class:`~support.kube_api.controllers.Kubelet`.
        with_controllers: nodes' controllers act on what is written.

    Attributes:
        store: the cluster.
        tokens: who has which token.
        denied: rights that nobody has, such as ``create pods/eviction``; may be changed any time,
            as may the next two.
        policies: the admission policies in force.
        terminating: namespaces that are being deleted.
        troubles: what goes wrong.
        log: all requests so far.
        bookmark_seconds: how often a watch says how far it is.
        old_watch_status: 410 to refuse a watch that starts too long ago, 200 to tell it in the
            stream; real servers do both.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        keepalive_seconds: float = 75.0,
        ends_after_seconds: float | None = 0.0,
        with_controllers: bool = False,
    ) -> None:
        self.cluster = Cluster(ends_after_seconds, with_controllers=with_controllers)
        self.store = self.cluster.store
        self.kubelet = self.cluster.kubelet
        self.tokens: dict[str, Identity] = {ADMIN_TOKEN: ADMIN}
        self.denied = self.cluster.denied
        self.policies = self.cluster.policies
        self.terminating = self.cluster.terminating
        self.troubles: list[Trouble] = []
        self.log: list[Logged] = []
        self.bookmark_seconds = 60.0
        self.old_watch_status = 200
        self.url = ""
        self._tls = tls
        self._host = host
        self._keepalive_seconds = keepalive_seconds
        self._runner: web.AppRunner | None = None
        self._connections: WeakKeyDictionary[asyncio.BaseTransport, int] = WeakKeyDictionary()
        self._logged = asyncio.Event()
        self._watching: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, keepalive_timeout=self._keepalive_seconds, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{'https' if self._tls else 'http'}://{shown}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kubelet.close()
        for task in self._watching:
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    def add(self, resource: str, *contents: Object) -> None:
        """Put objects into the cluster."""
        for content in contents:
            self.store.put(resource, content)

    def break_(
        self, fault: Fault, method: str = "", path_part: str = "", times: int | None = None
    ) -> Trouble:
        """Let calls go wrong from now on; see :class:`Trouble`."""
        trouble = Trouble(fault, method, path_part, times)
        self.troubles.append(trouble)
        return trouble

    def asked(self, method: str, path_part: str = "") -> list[Logged]:
        """Return the requests so far of a verb, whose path has a part."""
        return [one for one in self.log if one.method == method and path_part in one.path]

    async def has_been_asked(self, method: str, path_part: str = "", times: int = 1) -> None:
        """Return when so many such requests have come."""
        while len(self.asked(method, path_part)) < times:
            self._logged.clear()
            await self._logged.wait()

    def end_watches(self) -> None:
        """Break off all watches."""
        for task in self._watching:
            task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        used_before = self._log(request, raw)
        try:
            for trouble in self.troubles:
                if trouble.befalls(request.method, request.path):
                    answer = await suffer(trouble.fault, request, used_before=used_before)
                    if answer is not None:
                        return answer
                    if trouble.fault is Fault.CLOSED_AFTER_DOING:
                        await self._answer(request, raw)
                        close(request)
            return await self._answer(request, raw)
        except ApiError as error:
            return _json(error.body, error.code, error.headers)

    def _log(self, request: web.Request, raw: bytes) -> bool:
        """Write a request down, and say whether its connection has served another before."""
        transport = request.transport
        used_before = transport in self._connections if transport else False
        if transport is not None and not used_before:
            self._connections[transport] = 1 + max(self._connections.values(), default=0)
        self.log.append(
            Logged(
                request.method,
                request.path,
                dict(request.query),
                json.loads(raw) if raw else None,
                _token(request),
                asyncio.get_running_loop().time(),
                self._connections[transport] if transport else 0,
                dict(request.headers),
            )
        )
        self._logged.set()
        return used_before

    async def _answer(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        if request.path in {"/readyz", "/livez"}:
            return web.Response(text="ok")
        identity = self._identity(request)
        if request.path == "/version":
            return _json(documents.VERSION)
        if request.path == "/api/v1":
            return _json(documents.discovery())
        target = target_of(request.path)
        if target is None:
            raise not_found("path", request.path)
        query = dict(request.query)
        asking = Asking(
            _verb(request.method, target, query),
            target,
            identity,
            query,
            json.loads(raw) if raw else {},
            request.content_type,
        )
        self._authorize(asking)
        _negotiate(request.headers.get("Accept", ""))
        if asking.verb == "watch":
            return await self._watch(request, asking)
        body = self.cluster.answer(asking)
        return _json(body, 201 if request.method == "POST" else 200)

    def _identity(self, request: web.Request) -> Identity:
        token = _token(request)
        if token:
            if token not in self.tokens:
                raise unauthorized()
            return self.tokens[token]
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        for part in (certificate or {}).get("subject", ()):
            for name, value in part:
                if name == "commonName" and value.startswith("system:node:"):
                    return kubelet(value.removeprefix("system:node:"))
        return ANONYMOUS

    def _authorize(self, asking: Asking) -> None:
        identity, target = asking.identity, asking.target
        right = right_of(asking.verb, target)
        if right in self.denied or not (identity.may_all or right in identity.rights):
            raise refusal(identity, asking.verb, target)
        is_list = asking.verb in {"list", "watch"} and target.resource == "pods"
        if identity.is_kubelet and is_list and asking.selected_node != identity.node:
            note = ": can only list/watch pods with spec.nodeName field selector"
            raise refusal(identity, asking.verb, target, note)

    async def _watch(self, request: web.Request, asking: Asking) -> web.StreamResponse:
        query, resource = asking.query, asking.target.resource
        since = query.get("resourceVersion", "")
        is_too_old = since not in {"", "0"} and int(since) < self.store.compacted_version
        if is_too_old and self.old_watch_status == 410:
            raise ApiError(410, f"too old resource version: {since}", "Expired")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._watching.add(task)
        try:
            async for text in watch_lines(
                self.store,
                resource,
                lambda content: _is_watched(content, asking),
                since=since,
                bookmarks=query.get("allowWatchBookmarks") == "true",
                over_seconds=float(query.get("timeoutSeconds", "1800")),
                bookmark_seconds=self.bookmark_seconds,
            ):
                await response.write(text)
        except ConnectionError:
            pass
        finally:
            self._watching.discard(task)
        return response


@asynccontextmanager
async def fake_kube_api(**settings: Any) -> AsyncIterator[FakeKubeApi]:
    """Serve an empty cluster while the block runs; settings are those of :class:`FakeKubeApi`."""
    async with FakeKubeApi(**settings) as server:
        yield server


def _is_watched(content: Object, asking: Asking) -> bool:
    if asking.target.resource == "pods":
        return pods.is_selected(content, asking)
    name = asking.query.get("fieldSelector", "").removeprefix("metadata.name=")
    return not name or bool(content["metadata"]["name"] == name)


def _token(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _verb(method: str, target: Target, query: dict[str, str]) -> str:
    if method == "GET":
        if query.get("watch") in {"true", "1"}:
            return "watch"
        return "get" if target.name else "list"
    return {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method]


def _negotiate(accept: str) -> None:
    if "g=meta.k8s.io" in accept and "json" in accept and "," not in accept:
        raise ApiError(
            406,
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf",
            "NotAcceptable",
        )


def _json(body: Object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    merged = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=json.dumps(body).encode(), status=status, headers=merged)
