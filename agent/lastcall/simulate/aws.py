"""Amazon's instance metadata service: tokens, paths and events of EC2.

Sources: AWS EC2 user guide, "Use IMDS" and "Spot Instance interruption notices", "Scheduled events
for your instances", EC2 Auto Scaling user guide, "Retrieve the target lifecycle state".
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar

from aiohttp import web

from lastcall.simulate.base import Metadata, Reply, iso, listing
from lastcall.simulate.faults import FaultKind

TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - a header's name
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
LONGEST_TTL_SECONDS = 21_600

EVENT_CODES = (
    "system-reboot",
    "system-maintenance",
    "instance-reboot",
    "instance-stop",
    "instance-retirement",
)
"""The codes of scheduled events (EC2 API reference, InstanceStatusEvent)."""

_OPEN_ENDED = ("instance-stop", "instance-retirement")
_DURATION_SECONDS = 1_000
_ENDINGS = {"canceled": "[Canceled] ", "completed": "[Completed] "}
_VERSION = re.compile(r"latest|\d{4}-\d{2}-\d{2}")

_ERROR_PAGE = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" \
"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>{title}</title>
 </head>
 <body>
  <h1>{title}</h1>
 </body>
</html>
"""


@dataclass(frozen=True, slots=True)
class SpotInterruption:
    """A Spot interruption: ``terminate``, ``stop`` or ``hibernate``, and its Unix time."""

    action: str
    time: float


@dataclass(slots=True)
class ScheduledEvent:
    """One entry of ``events/maintenance/scheduled``; times are Unix seconds.

    ``not_after`` is ``None`` where the real service leaves it out, as it does for a stop or a
    retirement (issue 147 of aws/aws-node-termination-handler).
    """

    event_id: str
    code: str
    not_before: float
    not_after: float | None
    description: str
    state: str = "active"

    def content(self) -> dict[str, str]:
        """Return the entry as the service writes it."""
        content = {"NotBefore": _event_time(self.not_before)}
        if self.not_after is not None:
            content["NotAfter"] = _event_time(self.not_after)
        return content | {
            "Code": self.code,
            "Description": self.description,
            "EventId": self.event_id,
            "State": self.state,
        }


class AwsMetadata(Metadata):
    """EC2's metadata service.

    Args:
        clock: gives Unix seconds.
        monotonic: gives the seconds by which tokens age.

    Attributes:
        tokens_required: a GET without a token is refused, as on instances that allow version 2
            alone.
        token_ttl_cap_seconds: tokens are granted for no longer than this.
        spot: the Spot interruption that is announced.
        rebalance_unix: when the rebalance recommendation was given.
        scheduled: the entries of ``events/maintenance/scheduled``, as they stand.
        history: the entries of ``events/maintenance/history``.
        canceled_stay_listed: a canceled event stays in ``scheduled`` too, as the real service keeps
            some for a while.
        lifecycle_state: what the Auto Scaling group wants of the instance; ``None`` outside a
            group.
        tags: the instance's tags, where they are allowed in its metadata.
        values: the plain values under ``meta-data/``, by path.
        tokens_granted: how many tokens were handed out.
    """

    provider: ClassVar[str] = "aws"
    default_port: ClassVar[int] = 1338
    default_lead_seconds: ClassVar[float] = 120.0
    closes_connections: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = {
        "preemption": "Spot interruption, action terminate",
        "termination": "scale-in by an Auto Scaling group",
        "maintenance": "scheduled event system-reboot",
        "rebalance": "rebalance recommendation",
        "terminate": "Spot interruption, action terminate",
        "stop": "Spot interruption, action stop",
        "hibernate": "Spot interruption, action hibernate",
        "asg": "scale-in by an Auto Scaling group",
    } | {code: f"scheduled event {code}" for code in EVENT_CODES}
    own_faults: ClassVar[Mapping[str, FaultKind]] = {
        "expired-token": FaultKind("forgets all its tokens at each GET that brings one"),
        "short-token": FaultKind("lets tokens end S seconds after their grant", "S", 10.0),
        "v1-allowed": FaultKind("answers a GET without a token too"),
        "hop-limit": FaultKind("never answers the PUT for a token, as from behind a second hop"),
        "disabled": FaultKind("answers 403, as where the metadata service is turned off"),
    }

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock=clock)
        self.tokens_required = True
        self.token_ttl_cap_seconds = LONGEST_TTL_SECONDS
        self.spot: SpotInterruption | None = None
        self.rebalance_unix: float | None = None
        self.scheduled: list[ScheduledEvent] = []
        self.history: list[ScheduledEvent] = []
        self.canceled_stay_listed = False
        self.lifecycle_state: str | None = "InService"
        self.tags: dict[str, str] | None = None
        self.values = dict(_IDENTITY)
        self.tokens_granted = 0
        self._monotonic = monotonic
        self._token_ends: dict[str, float] = {}
        self._started = self.now()

    def _show(self, kind: str, lead_seconds: float) -> tuple[str, float | None]:
        end = float(math.ceil(self.now() + lead_seconds))
        if kind == "rebalance":
            self.rebalance_unix = self.now()
            return f"rebalance recommendation, noticeTime {iso(self.now())}", None
        if kind in {"termination", "asg"}:
            self.lifecycle_state = "Terminated"
            return "target-lifecycle-state Terminated", None
        if kind == "maintenance" or kind in EVENT_CODES:
            code = "system-reboot" if kind == "maintenance" else kind
            event = self.schedule(code, end)
            return f"scheduled event {code} {event.event_id}, NotBefore {_event_time(end)}", end
        action = "terminate" if kind == "preemption" else kind
        self.spot = SpotInterruption(action, end)
        return f"instance-action {action}, time {iso(end)}", end

    def schedule(self, code: str, not_before: float) -> ScheduledEvent:
        """Schedule an event; ``not_before`` is Unix seconds by the service's own clock."""
        event = ScheduledEvent(
            event_id=f"instance-event-0{secrets.token_hex(8)}",
            code=code,
            not_before=not_before,
            not_after=None if code in _OPEN_ENDED else not_before + _DURATION_SECONDS,
            description=f"rehearsal of {code}",
        )
        self.scheduled.append(event)
        return event

    def end_event(self, event: ScheduledEvent, state: str = "canceled") -> None:
        """Move an event to the history, as ``canceled`` or ``completed``."""
        event.state = state
        event.description = _ENDINGS[state] + event.description
        self.history.append(event)
        if not (state == "canceled" and self.canceled_stay_listed):
            self.scheduled.remove(event)

    def withdraw(self) -> None:
        """Clear the Spot and group notices; cancel the scheduled events that are active."""
        self.spot = None
        self.rebalance_unix = None
        self.lifecycle_state = self.lifecycle_state and "InService"
        for event in [one for one in self.scheduled if one.state == "active"]:
            self.end_event(event)

    def forget_tokens(self) -> None:
        """Make every token that was granted so far worthless."""
        self._token_ends.clear()

    def usual_headers(self) -> dict[str, str]:
        """Return the headers that stand on every answer of EC2."""
        return {
            "Server": "EC2ws",
            "Accept-Ranges": "none",
            "Last-Modified": formatdate(self._started, usegmt=True),
        }

    async def answer(self, request: web.BaseRequest) -> Reply:
        """Return the service's own answer to a request."""
        path = request.path
        if self.faults.take("disabled", path):
            return _error(403)
        version, _, rest = path.removeprefix("/").partition("/")
        if rest == "api/token" and (version == "latest" or request.method == "PUT"):
            return await self._token(request, version)
        if request.method not in {"GET", "HEAD"}:
            return Reply(405, headers={"Allow": "OPTIONS, GET, HEAD"})
        # A request that brings a token is held to it even where none is needed.
        headers: dict[str, str] = {}
        token = request.headers.get(TOKEN_HEADER)
        if token is not None:
            left = self._seconds_left(token, path)
            if left <= 0:
                return _error(401)
            headers[TTL_HEADER] = str(math.floor(left))
        elif self.tokens_required and not self.faults.take("v1-allowed", path):
            return _error(401)
        reply = self.overrides.get(path) or self._document(version, rest)
        return Reply(reply.status, reply.body, reply.content_type, reply.headers | headers)

    async def _token(self, request: web.BaseRequest, version: str) -> Reply:
        if request.method != "PUT":
            return Reply(
                200 if request.method == "OPTIONS" else 405, headers={"Allow": "OPTIONS, PUT"}
            )
        if self.faults.take("hop-limit", request.path):
            await asyncio.Event().wait()
        if version != "latest" or "X-Forwarded-For" in request.headers:
            return _error(403)
        asked = request.headers.get(TTL_HEADER, "")
        if not re.fullmatch("[0-9]{1,5}", asked) or not 1 <= int(asked) <= LONGEST_TTL_SECONDS:
            return _error(400)
        granted = min(int(asked), self.token_ttl_cap_seconds)
        lasts: float = granted
        if short := self.faults.take("short-token", request.path):
            lasts = min(lasts, short.number)
        token = secrets.token_urlsafe(40)
        self._token_ends[token] = self._monotonic() + lasts
        self.tokens_granted += 1
        return Reply(body=token.encode(), headers={TTL_HEADER: str(granted)})

    def _seconds_left(self, token: str, path: str) -> float:
        if self.faults.take("expired-token", path):
            self.forget_tokens()
        now = self._monotonic()
        self._token_ends = {text: end for text, end in self._token_ends.items() if end > now}
        return self._token_ends.get(token, now) - now

    def _document(self, version: str, rest: str) -> Reply:
        if not version and not rest:
            return Reply(body=b"latest")
        if not _VERSION.fullmatch(version):
            return _error(404)
        documents = self._documents()
        if rest in documents:
            return Reply(body=documents[rest].encode())
        directory = f"{rest.removesuffix('/')}/" if rest else ""
        names = listing(documents, directory)
        if not names:
            return _error(404)
        # The topmost list alone names its directories without a slash.
        return Reply(body="\n".join(n if directory else n.rstrip("/") for n in names).encode())

    def _documents(self) -> dict[str, str]:
        values = dict(self.values)
        if self.lifecycle_state is not None:
            values["autoscaling/target-lifecycle-state"] = self.lifecycle_state
        values["events/maintenance/history"] = _events(self.history)
        values["events/maintenance/scheduled"] = _events(self.scheduled)
        if self.rebalance_unix is not None:
            values["events/recommendations/rebalance"] = json.dumps(
                {"noticeTime": iso(self.rebalance_unix)}
            )
        if self.spot is not None:
            end = iso(self.spot.time)
            values["spot/instance-action"] = json.dumps({"action": self.spot.action, "time": end})
            if self.spot.action == "terminate":
                values["spot/termination-time"] = end
        for key, value in (self.tags or {}).items():
            values[f"tags/instance/{key}"] = value
        documents = {f"meta-data/{path}": value for path, value in values.items()}
        documents["dynamic/instance-identity/document"] = self._identity()
        return documents

    def _identity(self) -> str:
        zone = self.values["placement/availability-zone"]
        content = {
            "accountId": "000000000000",
            "architecture": "x86_64",
            "availabilityZone": zone,
            "billingProducts": None,
            "devpayProductCodes": None,
            "marketplaceProductCodes": None,
            "imageId": self.values["ami-id"],
            "instanceId": self.values["instance-id"],
            "instanceType": self.values["instance-type"],
            "kernelId": None,
            "pendingTime": iso(self._started),
            "privateIp": self.values["local-ipv4"],
            "ramdiskId": None,
            "region": self.values["placement/region"],
            "version": "2017-09-30",
        }
        return json.dumps(content, indent=2)


_IDENTITY = {
    "ami-id": "ami-0rehearsal0000000",
    "hostname": "ip-192-0-2-10.xx-rehearsal-1.compute.internal",
    "instance-action": "none",
    "instance-id": "i-0rehearsal00000000",
    "instance-life-cycle": "spot",
    "instance-type": "p5.48xlarge",
    "local-hostname": "ip-192-0-2-10.xx-rehearsal-1.compute.internal",
    "local-ipv4": "192.0.2.10",
    "placement/availability-zone": "xx-rehearsal-1a",
    "placement/availability-zone-id": "xxr1-az1",
    "placement/region": "xx-rehearsal-1",
}


def _event_time(unix: float) -> str:
    """Return a time as scheduled events write it: ``21 Mar 2031 09:00:43 GMT``."""
    _, _, date = formatdate(unix, usegmt=True).partition(", ")
    return date


def _events(events: Iterable[ScheduledEvent]) -> str:
    return json.dumps([event.content() for event in events])


def _error(status: int) -> Reply:
    title = f"{status} - {HTTPStatus(status).phrase}"
    return Reply(status, _ERROR_PAGE.format(title=title).encode(), "text/html")


METADATA = AwsMetadata
