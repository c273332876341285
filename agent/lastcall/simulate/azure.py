"""Azure's instance metadata service: scheduled events and the instance's own data.

Sources: Azure documentation, "Azure Metadata Service: Scheduled Events for Linux VMs" and "Azure
Instance Metadata Service for virtual machines".
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, ClassVar

from aiohttp import web

from lastcall.simulate.base import Metadata, Reply, iso
from lastcall.simulate.faults import FaultKind

EVENT_VERSIONS = (
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
)
INSTANCE_VERSIONS = (
    "2017-04-02",
    "2017-08-01",
    "2017-12-01",
    "2018-02-01",
    "2018-10-01",
    "2019-06-01",
    "2019-11-01",
    "2020-06-01",
    "2020-09-01",
    "2020-12-01",
    "2021-02-01",
    "2021-12-13",
    "2023-07-01",
    "2025-04-07",
)
_EVENTS_PATH = "/metadata/scheduledevents"
_INSTANCE_PATH = "/metadata/instance"
_TYPES = {
    "preemption": "Preempt",
    "termination": "Terminate",
    "maintenance": "Redeploy",
    "preempt": "Preempt",
    "terminate": "Terminate",
    "reboot": "Reboot",
    "redeploy": "Redeploy",
    "freeze": "Freeze",
    "hardware-failure": "Reboot",
    "unknown": "SomethingNew",
}
_TYPE_SINCE = {"Preempt": "2017-11-01", "Terminate": "2019-01-01"}
_FREEZE_SECONDS = 5


@dataclass(slots=True)
class ScheduledEvent:
    """One entry of the document; times are Unix seconds, ``duration_seconds`` -1 if unknown."""

    event_id: str
    event_type: str
    resources: Sequence[str]
    not_before: float
    started: float | None = None
    description: str = ""
    source: str = "Platform"
    duration_seconds: int = -1


class AzureMetadata(Metadata):
    """Azure's instance metadata service.

    Attributes:
        events: the events in the document, in order; change them through the methods.
        incarnation: the document's number; it grows with each change.
        impact_seconds: how long an event stays in the document once it has started.
        iso_times: ``NotBefore`` is written as RFC 3339, as by Microsoft's mock server, where the
            real service writes RFC 1123.
        start_on_acknowledge: an acknowledged event starts at once; the real one may still wait for
            other tenants.
        acknowledged: the ids that were acknowledged, one for each time.
        vm_name: the instance's name, as ``Resources`` writes it.
    """

    provider: ClassVar[str] = "azure"
    default_port: ClassVar[int] = 1340
    default_lead_seconds: ClassVar[float] = 30.0
    kinds: ClassVar[Mapping[str, str]] = {
        kind: f"event of type {event_type}" for kind, event_type in _TYPES.items()
    } | {"hardware-failure": "event of type Reboot that has started at first sight"}
    own_faults: ClassVar[Mapping[str, FaultKind]] = {
        "slow-first": FaultKind("answers the first request for events S seconds late", "S", 110.0),
        "rate-limit": FaultKind("answers 429 above N requests a second", "N", 5.0),
    }

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock=clock)
        self.events: list[ScheduledEvent] = []
        self.incarnation = 1
        self.impact_seconds = 600.0
        self.iso_times = False
        self.start_on_acknowledge = True
        self.acknowledged: list[str] = []
        self.vm_name = "rehearsal_3"
        self._monotonic = monotonic
        self._arrivals: deque[float] = deque()
        self._asked_for_events = False

    def _show(self, kind: str, lead_seconds: float) -> tuple[str, float | None]:
        event = self.add_event(_TYPES[kind], lead_seconds)
        if kind == "hardware-failure":
            self.start_event(event)
        end = self.now() if event.started is not None else event.not_before
        return f"{event.event_type} {event.event_id}, NotBefore {self._not_before(event)!r}", end

    def add_event(
        self,
        event_type: str,
        lead_seconds: float,
        *,
        resources: Sequence[str] | None = None,
        source: str = "Platform",
    ) -> ScheduledEvent:
        """Put an event in the document and return it.

        Args:
            event_type: such as ``Preempt``.
            lead_seconds: from now until it may start.
            resources: the machines it concerns; this one alone where left out.
            source: ``Platform`` or ``User``.
        """
        event = ScheduledEvent(
            event_id=str(uuid.uuid4()),
            event_type=event_type,
            resources=(self.vm_name,) if resources is None else tuple(resources),
            not_before=float(math.ceil(self.now() + lead_seconds)),
            source=source,
            duration_seconds=_FREEZE_SECONDS if event_type == "Freeze" else -1,
        )
        self.events.append(event)
        self.incarnation += 1
        return event

    def start_event(self, event: ScheduledEvent) -> None:
        """Turn an event from ``Scheduled`` to ``Started``."""
        if event.started is None:
            event.started = self.now()
            self.incarnation += 1

    def remove_event(self, event: ScheduledEvent) -> None:
        """Take an event out of the document: it is over, or was cancelled; neither is said."""
        self.events.remove(event)
        self.incarnation += 1

    def withdraw(self) -> None:
        """Take all events out of the document."""
        for event in list(self.events):
            self.remove_event(event)

    def usual_headers(self) -> dict[str, str]:
        """Return the headers that stand on every answer of the service."""
        return {"Server": "Microsoft-IIS/10.0"}

    async def answer(self, request: web.BaseRequest) -> Reply:
        """Return the service's own answer to a request."""
        if self._too_fast(request.path):
            return _error(429, "Too many requests")
        if "X-Forwarded-For" in request.headers:
            return _error(400, "Bad request. X-Forwarded-For is not allowed")
        path = request.path.rstrip("/").lower()
        if path == _EVENTS_PATH:
            return await self._scheduled_events(request)
        if path == _INSTANCE_PATH or path.startswith(f"{_INSTANCE_PATH}/"):
            return self._instance(request, path.removeprefix(_INSTANCE_PATH))
        return _error(404, "Not found")

    def _too_fast(self, path: str) -> bool:
        limit = self.faults.take("rate-limit", path)
        if limit is None:
            return False
        now = self._monotonic()
        while self._arrivals and self._arrivals[0] <= now - 1:
            self._arrivals.popleft()
        if len(self._arrivals) >= limit.number:
            return True
        self._arrivals.append(now)
        return False

    async def _scheduled_events(self, request: web.BaseRequest) -> Reply:
        if request.method not in {"GET", "POST"}:
            return _error(405, "Method not allowed", Allow="GET, POST")
        version = _version(request, EVENT_VERSIONS)
        if isinstance(version, Reply):
            return version
        if override := self.overrides.get(request.path):
            return override
        if request.method == "POST":
            return self._acknowledge(await request.read())
        first, self._asked_for_events = not self._asked_for_events, True
        if first and (slow := self.faults.take("slow-first", request.path)):
            await asyncio.sleep(slow.number)
        self._advance()
        events = [
            self._content(event, version)
            for event in self.events
            if version >= _TYPE_SINCE.get(event.event_type, "")
        ]
        return _json(200, {"DocumentIncarnation": self.incarnation, "Events": events})

    def _advance(self) -> None:
        """Start the events whose time has come, and end those that are over."""
        now = self.now()
        for event in list(self.events):
            if event.started is None and now >= event.not_before:
                self.start_event(event)
                event.started = event.not_before
            if event.started is not None and now >= event.started + self.impact_seconds:
                self.remove_event(event)

    def _not_before(self, event: ScheduledEvent) -> str:
        if event.started is not None:
            return ""
        if self.iso_times:
            return iso(event.not_before)
        return formatdate(event.not_before, usegmt=True)

    def _content(self, event: ScheduledEvent, version: str) -> dict[str, Any]:
        underscore = "_" if version == "2017-03-01" else ""
        content: dict[str, Any] = {
            "EventId": event.event_id,
            "EventStatus": "Scheduled" if event.started is None else "Started",
            "EventType": event.event_type,
            "ResourceType": "VirtualMachine",
            "Resources": [underscore + name for name in event.resources],
            "NotBefore": self._not_before(event),
        }
        if version >= "2019-04-01":
            content["Description"] = event.description
        if version >= "2019-08-01":
            content["EventSource"] = event.source
        if version >= "2020-07-01":
            content["DurationInSeconds"] = event.duration_seconds
        return content

    def _acknowledge(self, body: bytes) -> Reply:
        known = {event.event_id.lower(): event for event in self.events}
        try:
            asked = [known[one["EventId"].lower()] for one in json.loads(body)["StartRequests"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            return _error(400, "Bad request. StartRequests names no event of this document")
        for event in asked:
            self.acknowledged.append(event.event_id)
            if self.start_on_acknowledge:
                self.start_event(event)
        return Reply(200 if asked else 400)

    def _instance(self, request: web.BaseRequest, path: str) -> Reply:
        if request.method != "GET":
            return _error(405, "Method not allowed", Allow="GET")
        version = _version(request, INSTANCE_VERSIONS)
        if isinstance(version, Reply):
            return version
        if override := self.overrides.get(request.path):
            return override
        node: Any = self.instance(version)
        for name in path.split("/")[1:]:
            if isinstance(node, list):
                node = dict(enumerate(node)).get(int(name) if name.isdecimal() else -1)
            elif isinstance(node, dict):
                node = {key.lower(): value for key, value in node.items()}.get(name)
            else:
                node = None
        if node is None:
            return _error(404, "Not found")
        as_text = request.query.get("format") == "text"
        if isinstance(node, str) != as_text:
            return _error(400, "Bad request. A value needs format=text, and nothing else takes it")
        return Reply(body=node.encode()) if as_text else _json(200, node)

    def instance(self, version: str) -> dict[str, Any]:
        """Return the instance's own data in a version; every plain value in it is a text."""
        name, _, number = self.vm_name.rpartition("_")
        compute: dict[str, Any] = {
            "azEnvironment": "AzurePublicCloud",
            "location": "rehearsal",
            "name": self.vm_name,
            "osType": "Linux",
            "placementGroupId": "00000000-0000-4000-8000-00000000000a",
            "platformFaultDomain": "0",
            "platformUpdateDomain": "0",
            "provider": "Microsoft.Compute",
            "resourceGroupName": "rehearsal",
            "resourceId": (
                "/subscriptions/00000000-0000-4000-8000-000000000000/resourceGroups/rehearsal"
                "/providers/Microsoft.Compute/virtualMachineScaleSets"
                f"/{name}/virtualMachines/{number}"
            ),
            "subscriptionId": "00000000-0000-4000-8000-000000000000",
            "tags": "",
            "tagsList": [],
            "vmId": "00000000-0000-4000-8000-000000000003",
            "vmScaleSetName": name,
            "vmSize": "Standard_ND96isr_H100_v5",
            "zone": "",
        }
        if version >= "2020-09-01":
            # The host's name counts in base 36 and is no name of the machine's.
            compute["osProfile"] = {
                "adminUsername": "azureuser",
                "computerName": f"{name}00000{number}",
                "disablePasswordAuthentication": "true",
            }
        if version >= "2020-12-01":
            compute |= {"evictionPolicy": "Delete", "priority": "Spot"}
        address = {"privateIpAddress": "192.0.2.13", "publicIpAddress": ""}
        interface = {
            "ipv4": {
                "ipAddress": [address],
                "subnet": [{"address": "192.0.2.0", "prefix": "24"}],
            },
            "ipv6": {"ipAddress": []},
            "macAddress": "020000000003",
        }
        return {"compute": compute, "network": {"interface": [interface]}}


def _version(request: web.BaseRequest, versions: Sequence[str]) -> str | Reply:
    """Return the version that is asked for, or the answer where its header or version is amiss."""
    version = request.query.get("api-version")
    # The first version came before the header was asked for.
    if version != "2017-03-01" and request.headers.get("Metadata", "").lower() != "true":
        return _error(400, "Bad request. Required metadata header not specified")
    if version is not None and version in versions:
        return version
    what = "was not specified in the request" if version is None else "is invalid"
    content = {
        "error": f"Bad request. api-version {what}",
        "newest-versions": sorted(versions, reverse=True)[:3],
    }
    return _json(400, content)


def _json(status: int, content: Any) -> Reply:
    return Reply(status, json.dumps(content).encode(), "application/json; charset=utf-8")


def _error(status: int, error: str, **headers: str) -> Reply:
    reply = _json(status, {"error": error})
    reply.headers.update(headers)
    return reply


METADATA = AzureMetadata
