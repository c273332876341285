"""Google's metadata server: values, directories, and the wait for a change.

Sources: Google Cloud documentation, "View and query VM metadata", "Preemptible VM instances", "Get
live migration notices"; AI Hypercomputer documentation, "Manage host events across VMs".
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar

from aiohttp import web

from lastcall.simulate.base import Metadata, Reply, iso, listing
from lastcall.simulate.faults import FaultKind

ROOT = "/computeMetadata/v1"
PREEMPTED = "instance/preempted"
MAINTENANCE_EVENT = "instance/maintenance-event"
UPCOMING = "instance/upcoming-maintenance"

Value = str | int | dict[str, Any] | Reply
"""A value of the tree: a text, a number, an object (always JSON), or an answer given as it is."""

UPCOMING_IDLE: Mapping[str, Value | None] = {
    "missing": None,
    "error": Reply(
        503,
        b'{"error":"no notifications have been received yet, try again later"}',
        "application/json",
    ),
    "none": Reply(200, b"NONE", "application/text"),
    "quoted-none": Reply(200, b'"NONE"', "application/json"),
    "empty": {},
}
"""How ``upcoming-maintenance`` says that nothing is planned; machine types differ."""

_LISTS = {"/": b"computeMetadata/\n", "/computeMetadata/": b"v1/\n"}
_WINDOW_SECONDS = 4 * 3600
_SHOWN_BY_GKE = ("instance/attributes/", "instance/hostname", "instance/id", "instance/zone")
_JSON = "application/json"
_TEXT = "application/text"


@dataclass(frozen=True, slots=True)
class _Query:
    """What is read, and how: ``tagged`` with an ETag, ``all_shown`` with nothing hidden by GKE."""

    path: str
    recursive: bool
    alt: str
    tagged: bool
    all_shown: bool


class GcpMetadata(Metadata):
    """Compute Engine's metadata server.

    Attributes:
        upcoming_idle: how it says that no maintenance is planned, a key of :data:`UPCOMING_IDLE`.
        upcoming_form: how it writes a planned one: ``snake``, ``camel`` or ``wrapped``.
        waiting: how many requests wait for a change now.
    """

    provider: ClassVar[str] = "gcp"
    default_port: ClassVar[int] = 1339
    default_lead_seconds: ClassVar[float] = 30.0
    kinds: ClassVar[Mapping[str, str]] = {
        "preemption": "preempted TRUE",
        "maintenance": "maintenance-event TERMINATE_ON_HOST_MAINTENANCE",
        "preempted": "preempted TRUE",
        "migrate": "maintenance-event MIGRATE_ON_HOST_MAINTENANCE",
        "upcoming": "upcoming-maintenance with a window that begins after the lead",
    }
    own_faults: ClassVar[Mapping[str, FaultKind]] = {
        "no-etag": FaultKind("sends no ETag"),
        "no-wait": FaultKind("ignores wait_for_change"),
        "gke-proxy": FaultKind("hides the notices, as GKE's own metadata server does from pods"),
    }

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock=clock)
        self.upcoming_idle = "missing"
        self.upcoming_form = "snake"
        self._tree: dict[str, Value] = dict(_TREE)
        self._watchers: dict[asyncio.Future[None], str] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait for a change now."""
        return len(self._watchers)

    def get(self, path: str) -> Value | None:
        """Return the value at a path such as ``instance/preempted``; ``None`` if there is none."""
        return self._tree.get(path)

    def set(self, path: str, value: Value | None) -> None:
        """Change a value and wake all who wait for it; ``None`` takes it away."""
        if value == self._tree.get(path):
            return
        if value is None:
            del self._tree[path]
        else:
            self._tree[path] = value
        for watcher, watched in self._watchers.items():
            concerned = watched in {"", path} or path.startswith(f"{watched}/")
            if concerned and not watcher.done():
                watcher.set_result(None)

    def _show(self, kind: str, lead_seconds: float) -> tuple[str, float | None]:
        if kind == "upcoming":
            begin = self.now() + lead_seconds
            self.set(UPCOMING, self._upcoming(begin))
            return f"upcoming-maintenance, window from {iso(begin)}", begin
        path, value = {
            "maintenance": (MAINTENANCE_EVENT, "TERMINATE_ON_HOST_MAINTENANCE"),
            "migrate": (MAINTENANCE_EVENT, "MIGRATE_ON_HOST_MAINTENANCE"),
        }.get(kind, (PREEMPTED, "TRUE"))
        self.set(path, value)
        return f"{path} {value}", None

    def withdraw(self) -> None:
        """Put the notices back; the real ``preempted`` stays ``TRUE`` until the machine is gone."""
        self.set(PREEMPTED, "FALSE")
        self.set(MAINTENANCE_EVENT, "NONE")
        self.set(UPCOMING, None)

    def usual_headers(self) -> dict[str, str]:
        """Return the headers that stand on every answer of the metadata server."""
        return {
            "Metadata-Flavor": "Google",
            "Server": "Metadata Server for VM",
            "X-XSS-Protection": "0",
            "X-Frame-Options": "SAMEORIGIN",
        }

    async def answer(self, request: web.BaseRequest) -> Reply:
        """Return the service's own answer to a request."""
        path = request.path
        if fixed := _refusal(request) or self.overrides.get(path):
            return fixed
        if path in _LISTS:
            return Reply(body=_LISTS[path], content_type=_TEXT)
        if not path.startswith(f"{ROOT}/"):
            return _error(404)
        query = _Query(
            path=path.removeprefix(f"{ROOT}/"),
            recursive=_true(request.query.get("recursive")),
            alt=request.query.get("alt", ""),
            tagged=not self.faults.take("no-etag", path),
            all_shown=not self.faults.take("gke-proxy", path),
        )
        if _true(request.query.get("wait_for_change")):
            return await self._watch(query, request)
        return self._read(query)

    async def _watch(self, query: _Query, request: web.BaseRequest) -> Reply:
        reply = self._read(query)
        if reply.status != 200 or self.faults.take("no-wait", request.path):
            return reply
        if query.path not in self._visible(all_shown=query.all_shown) and not query.recursive:
            return _error(400)
        if request.query.get("last_etag") in {None, reply.headers.get("ETag")}:
            await self._wait(query.path.rstrip("/"), _seconds(request.query.get("timeout_sec")))
        return self._read(query)

    async def _wait(self, path: str, timeout_seconds: float | None) -> None:
        changed = asyncio.get_running_loop().create_future()
        self._watchers[changed] = path
        try:
            # The end of the wait is no error: the value is sent again as it stands.
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await changed
        finally:
            del self._watchers[changed]

    def _read(self, query: _Query) -> Reply:
        tree = self._visible(all_shown=query.all_shown)
        if query.path in tree:
            reply = _leaf(tree[query.path], query)
        else:
            directory = f"{query.path.rstrip('/')}/" if query.path else ""
            if not listing(tree, directory):
                return _error(404)
            reply = _directory(tree, directory, query)
        if reply.status == 200 and query.tagged:
            reply.headers["ETag"] = _etag(reply.body, recursive=query.recursive)
        return reply

    def _visible(self, *, all_shown: bool) -> dict[str, Value]:
        if not all_shown:
            return {k: v for k, v in self._tree.items() if k.startswith(_SHOWN_BY_GKE)}
        idle = UPCOMING_IDLE[self.upcoming_idle]
        return self._tree if idle is None else {UPCOMING: idle} | self._tree

    def _upcoming(self, begin: float) -> dict[str, Any]:
        content: dict[str, Any] = {
            "type": "SCHEDULED",
            "can_reschedule": "true",
            "maintenance_status": "PENDING",
            "window_start_time": iso(begin),
            "window_end_time": iso(begin + _WINDOW_SECONDS),
            "latest_window_start_time": iso(begin + _WINDOW_SECONDS),
            "maintenance_reasons": ["PLANNED_UPDATE"],
        }
        if self.upcoming_form == "camel":
            return {_camel(key): value for key, value in content.items()}
        return {"Upcoming maintenance": content} if self.upcoming_form == "wrapped" else content


_TREE: dict[str, Value] = {
    "instance/attributes/cluster-name": "rehearsal",
    "instance/hostname": "rehearsal-1.c.rehearsal-project.internal",
    "instance/id": 1000000000000000001,
    "instance/machine-type": "projects/100000000001/machineTypes/a3-highgpu-8g",
    MAINTENANCE_EVENT: "NONE",
    "instance/name": "rehearsal-1",
    PREEMPTED: "FALSE",
    "instance/scheduling/automatic-restart": "FALSE",
    "instance/scheduling/on-host-maintenance": "TERMINATE",
    "instance/scheduling/preemptible": "TRUE",
    "instance/zone": "projects/100000000001/zones/xx-rehearsal1-a",
    "project/numeric-project-id": 100000000001,
    "project/project-id": "rehearsal-project",
}


def _refusal(request: web.BaseRequest) -> Reply | None:
    """Return the answer to a request that is not let through; ``None`` for the others."""
    if "X-Forwarded-For" in request.headers:
        return _error(403)
    if request.path != "/" and request.headers.get("Metadata-Flavor") != "Google":
        return _error(403, "Missing Metadata-Flavor:Google header.")
    if request.method not in {"GET", "HEAD"}:
        return _error(405)
    return None


def _leaf(value: Value, query: _Query) -> Reply:
    if isinstance(value, Reply):
        return replace(value, headers=dict(value.headers))
    if isinstance(value, dict) or query.alt == "json":
        return Reply(body=json.dumps(value).encode(), content_type=_JSON)
    return Reply(body=str(value).encode(), content_type=_TEXT)


def _directory(tree: Mapping[str, Value], directory: str, query: _Query) -> Reply:
    if not query.recursive:
        if query.alt:
            return _error(400)
        names = listing(tree, directory)
        return Reply(body="".join(f"{name}\n" for name in names).encode(), content_type=_TEXT)
    below = {
        path.removeprefix(directory): value
        for path, value in tree.items()
        if path.startswith(directory) and not isinstance(value, Reply)
    }
    if query.alt == "text":
        lines = "".join(f"{path} {value}\n" for path, value in below.items())
        return Reply(body=lines.encode(), content_type=_TEXT)
    return Reply(body=json.dumps(_nested(below)).encode(), content_type=_JSON)


def _nested(values: Mapping[str, Value]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split("/")
        node = root
        for parent in parents:
            node = node.setdefault(_camel(parent), {})
        # Attributes are the user's own names and keep their spelling.
        node[name if parents[-1:] == ["attributes"] else _camel(name)] = value
    return root


def _camel(name: str) -> str:
    first, *others = name.replace("-", "_").split("_")
    return first + "".join(part.capitalize() for part in others)


def _etag(content: bytes, *, recursive: bool) -> str:
    """Return a tag made of the content, so that an old value has its old tag again."""
    return hashlib.blake2b(content, digest_size=8, key=b"recursive" * recursive).hexdigest()


def _true(text: str | None) -> bool:
    return (text or "").lower() in {"true", "on", "yes", "1"}


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def _error(status: int, reason: str = "") -> Reply:
    title = f"Error {status} ({HTTPStatus(status).phrase})"
    page = f"<!DOCTYPE html>\n<html lang=en><title>{title}</title>\n<p>{title} {reason}</html>\n"
    return Reply(status, page.encode(), "text/html; charset=UTF-8")


METADATA = GcpMetadata
