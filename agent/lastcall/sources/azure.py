"""Microsoft Azure: Scheduled Events, from the instance metadata service.

(Microsoft documentation, Azure Virtual Machines: Scheduled Events for Linux, and Azure Instance
Metadata Service.)
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from lastcall.core.events import IdentityLearned, SourcePolled, SourceReported
from lastcall.core.model import Sighting
from lastcall.sources.azure_document import Document, ScheduledEvent, read_document, read_machine
from lastcall.sources.base import Clock, Post
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require
from lastcall.sources.pacing import Pace

FIRST_SECONDS = 140.0
"""How long the first answer may take: it turns the service on, which takes up to two minutes."""

LATER_SECONDS = 4.0
"""How long every other answer may take."""

REQUESTS = 2
"""How many requests go out within a second, or within one period where that is shorter.

The service answers five a second to all who ask on this machine.
"""

INSTANCE_VERSION = "2021-02-01"

_EVENTS_PATH = "/metadata/scheduledevents"
_COMPUTE_PATH = "/metadata/instance/compute"
_EVENTS = "events"
_IDENTITY = "identity"
_ABSENCES_NEVER_COUNT = sys.maxsize
_SHOWN_LIMIT = 200

_T = TypeVar("_T")


class AzureSource:
    """Watches one virtual machine's Scheduled Events.

    Args:
        endpoint: the base URL, such as ``http://169.254.169.254``.
        poll_seconds: time between two looks; Microsoft recommends one second.
        api_version: the version of Scheduled Events that is asked for.
        resource_name: the machine's name among an event's resources; empty to ask for it.
        post: takes the events.
        clock: the node's clocks.
    """

    name = "azure"

    def __init__(
        self,
        *,
        endpoint: str,
        poll_seconds: float,
        api_version: str,
        resource_name: str,
        post: Post,
        clock: Clock,
    ) -> None:
        self._client = MetadataClient(endpoint, clock)
        self._poll_seconds = poll_seconds
        self._api_version = api_version
        self._machine = resource_name
        self._named = asyncio.Event()
        self._post = post
        self._clock = clock
        self._sent = deque([-math.inf] * REQUESTS, maxlen=REQUESTS)
        self._standing: dict[str, ScheduledEvent] = {}
        self._dated: set[str] = set()
        self._foreign: set[str] = set()
        self._approved: set[str] = set()

    async def run(self) -> None:
        """Watch for ever; the machine's name is asked for while the service is being turned on."""
        async with self._client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._identify())

    async def acknowledge(self, key: str) -> tuple[bool, str]:
        """Approve an event, so that it may start at once.

        An approval holds for every machine of the event, so one that befalls others as well is
        never approved from here.

        Args:
            key: the event's id.
        """
        event = self._standing.get(key)
        if event is None:
            return False, "no such event stands for this machine"
        if event.shared:
            return False, f"it would be approved for {len(event.resources)} machines at once"
        if key in self._approved:
            return True, "it was approved before"
        try:
            answer = await self._request(
                "POST", _EVENTS_PATH, json={"StartRequests": [{"EventId": key}]}
            )
        except MetadataError as error:
            return False, str(error)
        if answer.status >= 300:
            why = answer.body[:_SHOWN_LIMIT].decode(errors="replace")
            return False, f"status {answer.status}: {why}"
        self._approved.add(key)
        return True, ""

    async def _watch(self) -> None:
        pace = Pace(self._poll_seconds)
        timeout_seconds = FIRST_SECONDS
        while True:
            asked_at = self._clock.monotonic()
            try:
                answer = await self._request("GET", _EVENTS_PATH, timeout_seconds=timeout_seconds)
                require(answer)
                timeout_seconds = LATER_SECONDS
                await self._take_in(answer)
            except MetadataError as error:
                if error.result == "timeout" and error.connected:
                    timeout_seconds = LATER_SECONDS
                self._polled(error.result, _EVENTS, error.detail)
                await asyncio.sleep(pace.after_failure(error.retry_after_seconds))
                continue
            next_at = asked_at + pace.after_success()
            await asyncio.sleep(next_at - self._clock.monotonic())

    async def _take_in(self, answer: Answer) -> None:
        """Report what an answer says stands.

        Raises:
            MetadataError: it says nothing that can be relied on.
        """
        if not answer.body.strip():
            # Seen while the service is being turned on; it takes nothing back.
            self._polled("ok", _EVENTS, "an empty body: no events")
            return
        document = _read(answer, read_document)
        if document.events and not self._machine:
            await self._await_name()
            if not self._machine:
                ids = ", ".join(event.id for event in document.events)[:_SHOWN_LIMIT]
                raise MetadataError(
                    "error", f"whose events these are is unknown without this machine's name: {ids}"
                )
        self._report(document)

    def _report(self, document: Document) -> None:
        ours = [event for event in document.events if event.befalls(self._machine)]
        foreign = {event.id for event in document.events} - {event.id for event in ours}
        first_seen = len(foreign - self._foreign)
        self._foreign = foreign
        self._standing = {event.id: event for event in ours}
        sightings = tuple(self._sighting(event) for event in ours)
        if document.whole:
            self._dated.intersection_update(self._standing)
        self._dated.update(one.key for one in sightings if one.deadline is not None)
        # An entry that cannot be read may be the very one that seems to be absent.
        absences = 1 if document.whole else _ABSENCES_NEVER_COUNT
        self._post(SourceReported(self.name, _EVENTS, sightings, absences))
        result = "notice" if sightings else "ok"
        if document.troubles:
            result = "malformed"
        self._polled(result, _EVENTS, "; ".join(document.troubles)[:_SHOWN_LIMIT], first_seen)

    def _sighting(self, event: ScheduledEvent) -> Sighting:
        return Sighting(
            source=self.name,
            scope=_EVENTS,
            key=event.id,
            kind=event.kind,
            action=event.action,
            code=event.type,
            identity=event.id,
            deadline=self._deadline(event),
            deadline_unix=event.not_before_unix,
            reason=event.reason,
            cancellable=not event.started,
            started=event.started,
            acknowledgeable=event.ends_work and not event.shared,
        )

    def _deadline(self, event: ScheduledEvent) -> float | None:
        """Return when an event happens.

        One that has started names no time any more. Where an earlier look had one, that stands; a
        failed host shows its event first when it has started, and then the time is now.
        """
        if event.not_before_unix is not None:
            return self._client.deadline(event.not_before_unix)
        if event.started and event.ends_work and event.id not in self._dated:
            return self._clock.monotonic()
        return None

    async def _await_name(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_seconds):
                await self._named.wait()

    async def _identify(self) -> None:
        """Learn once what this machine is and what it is called."""
        pace = Pace(self._poll_seconds)
        while True:
            try:
                answer = await self._request("GET", _COMPUTE_PATH, version=INSTANCE_VERSION)
                facts = _read(require(answer), read_machine)
            except MetadataError as error:
                self._polled(error.result, _IDENTITY, error.detail)
                await asyncio.sleep(pace.after_failure(error.retry_after_seconds))
                continue
            self._machine = self._machine or facts["instance_name"]
            self._named.set()
            self._post(IdentityLearned(self.name, tuple(facts.items())))
            self._polled("ok", _IDENTITY)
            return

    async def _request(
        self,
        method: str,
        path: str,
        *,
        version: str = "",
        json: object = None,
        timeout_seconds: float = LATER_SECONDS,
    ) -> Answer:
        await self._take_turn()
        params: Mapping[str, str] = {"api-version": version or self._api_version}
        return await self._client.request(
            method,
            path,
            headers={"Metadata": "true"},
            params=params,
            json=json,
            timeout_seconds=timeout_seconds,
        )

    async def _take_turn(self) -> None:
        """Wait until another request may go out."""
        now = self._clock.monotonic()
        turn_at = max(now, self._sent[0] + min(1.0, self._poll_seconds))
        self._sent.append(turn_at)
        await asyncio.sleep(turn_at - now)

    def _polled(self, result: str, scope: str, detail: str = "", foreign: int = 0) -> None:
        skew_seconds = self._client.skew_seconds
        self._post(SourcePolled(self.name, result, scope, detail, skew_seconds, foreign))


def _read(answer: Answer, read: Callable[[object], _T]) -> _T:
    """Return what an answer's content means.

    Raises:
        MetadataError: it means nothing.
    """
    try:
        return read(answer.json())
    except ValueError as error:
        raise MetadataError("malformed", f"{answer.asked}: {error}") from None
