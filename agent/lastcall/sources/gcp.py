"""Google Compute Engine: preemption and host maintenance, from the metadata server.

A key is watched by a question that the server leaves open until the value changes. (Google Cloud
documentation, Compute Engine: about VM metadata, waiting for a change.)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from lastcall.core.events import IdentityLearned, SourcePolled, SourceReported
from lastcall.sources import gcp_values
from lastcall.sources.base import Clock, Post
from lastcall.sources.gcp_values import MAINTENANCE_EVENT, PREEMPTED, UPCOMING_MAINTENANCE, Reading
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require
from lastcall.sources.pacing import Pace

READ_SECONDS = 4.0
"""How long a value that is asked for without waiting may take."""

SPARE_SECONDS = 5.0
"""How much longer than the server we wait.

A server whose clients leave first keeps their questions open until it takes no more (public issue
googleapis/google-cloud-go 11035).
"""

PLAIN_POLL_SECONDS = 1.0
"""Time between two looks at a server that does not wait, or cannot tell a change by an ETag."""

HIDDEN_RETRY_SECONDS = 30.0
"""Time between two looks at a server that hides the notices."""

SELDOM = 10
"""How many times slower a machine type is asked for maintenance windows that has none."""

_ROOT = "/computeMetadata/v1/"
_FLAVOR = "Metadata-Flavor"
_IDENTITY = "identity"

_FACTS = (
    "instance/name",
    "instance/id",
    "instance/machine-type",
    "instance/zone",
    "instance/scheduling/preemptible",
)

_T = TypeVar("_T")


class HiddenError(MetadataError):
    """The server has no such key, which every virtual machine's own server has.

    GKE's metadata server hides the keys from pods where workload identity is on (public issue
    GoogleCloudPlatform/k8s-node-termination-handler 23).
    """

    def __init__(self, key: str) -> None:
        super().__init__(
            "unauthorized",
            f"{key}: status 404, so whether this machine is going cannot be seen from here; "
            "under GKE workload identity the pod needs hostNetwork: true",
        )


class GcpSource:
    """Watches one virtual machine's metadata server.

    Args:
        endpoint: the base URL, such as ``http://169.254.169.254``.
        wait_seconds: how long a question is left open; the server counts whole seconds.
        maintenance_poll_seconds: time between looks for maintenance windows.
        post: takes the events.
        clock: the node's clocks.
    """

    name = gcp_values.SOURCE

    def __init__(
        self,
        *,
        endpoint: str,
        wait_seconds: float,
        maintenance_poll_seconds: float,
        post: Post,
        clock: Clock,
    ) -> None:
        self._client = MetadataClient(endpoint, clock)
        self._wait_seconds = math.ceil(wait_seconds)
        self._maintenance_poll_seconds = maintenance_poll_seconds
        self._post = post
        self._clock = clock
        self._window_stands = False

    async def run(self) -> None:
        """Watch for ever: each key by a task of its own, so that none waits for another."""
        async with self._client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(PREEMPTED, gcp_values.read_preempted))
            tasks.create_task(self._watch(MAINTENANCE_EVENT, gcp_values.read_maintenance_event))
            tasks.create_task(self._look_ahead())
            tasks.create_task(self._identify())

    async def _watch(self, key: str, read: Callable[[str], Reading]) -> None:
        """Report a key's value, and each change of it.

        The first question, and the first after trouble, asks for the value as it stands. Every
        other names the ETag of the last answer, so that a change between two questions is not lost.
        """
        pace = Pace(PLAIN_POLL_SECONDS)
        etag = ""
        while True:
            asked_at = self._clock.monotonic()
            try:
                answer = await self._ask(key, etag)
                reading = _interpret(key, answer, read)
            except MetadataError as error:
                self._polled(error.result, key, error.detail)
                etag = ""
                pause = pace.after_failure(error.retry_after_seconds)
                await asyncio.sleep(
                    HIDDEN_RETRY_SECONDS if isinstance(error, HiddenError) else pause
                )
                continue
            self._report(key, reading)
            waited, etag = bool(etag), answer.headers.get("ETag", "")
            next_at = asked_at + pace.after_success()
            if waited or not etag:
                await asyncio.sleep(next_at - self._clock.monotonic())

    async def _ask(self, key: str, etag: str) -> Answer:
        if etag:
            answer = await self._get(
                key,
                {
                    "wait_for_change": "true",
                    "timeout_sec": str(self._wait_seconds),
                    "last_etag": etag,
                },
                self._wait_seconds + SPARE_SECONDS,
            )
        else:
            answer = await self._get(key)
        if answer.status == 404:
            raise HiddenError(key)
        return require(answer)

    async def _look_ahead(self) -> None:
        """Report the next maintenance window; it is days ahead, so looks are enough.

        Once a window was seen, only a readable answer can take it back.
        """
        key, pace = UPCOMING_MAINTENANCE, Pace(self._maintenance_poll_seconds)
        while True:
            try:
                answer = await self._get(key, {"alt": "json"})
                silent = not self._window_stands and _says_nothing(answer)
                if silent:
                    self._polled("ok", key, "no maintenance was ever announced here")
                else:
                    reading = _interpret(key, require(answer), self._read_window)
                    self._window_stands = bool(reading.sightings)
                    self._report(key, reading)
            except MetadataError as error:
                self._polled(error.result, key, error.detail)
                await asyncio.sleep(pace.after_failure(error.retry_after_seconds))
                continue
            unsupported = silent and answer.status == 404
            await asyncio.sleep(pace.after_success() * (SELDOM if unsupported else 1))

    def _read_window(self, text: str) -> Reading:
        return gcp_values.read_upcoming_maintenance(text, self._client.deadline)

    async def _identify(self) -> None:
        """Tell what this machine is, key by key, until all that the server has are known."""
        pace = Pace(PLAIN_POLL_SECONDS)
        unknown = list(_FACTS)
        while unknown:
            try:
                while unknown:
                    await self._learn(unknown[0])
                    del unknown[0]
            except MetadataError as error:
                self._polled(error.result, _IDENTITY, error.detail)
                await asyncio.sleep(pace.after_failure(error.retry_after_seconds))
        self._polled("ok", _IDENTITY)

    async def _learn(self, key: str) -> None:
        answer = require(await self._get(key), 200, 404)
        if answer.status == 200:
            value = _interpret(key, answer, gcp_values.read_value)
            self._post(IdentityLearned(self.name, gcp_values.facts(key, value)))
        elif key == "instance/name":
            # GKE's metadata server has no such key (public pull request
            # GoogleCloudPlatform/k8s-stackdriver 400).
            await self._learn("instance/hostname")

    async def _get(
        self,
        key: str,
        params: Mapping[str, str] | None = None,
        timeout_seconds: float = READ_SECONDS,
    ) -> Answer:
        answer = await self._client.request(
            "GET",
            _ROOT + key,
            headers={_FLAVOR: "Google"},
            params=params,
            timeout_seconds=timeout_seconds,
        )
        if answer.status == 200 and answer.headers.get(_FLAVOR) != "Google":
            raise MetadataError("malformed", f"{key}: the answer is not Google's: no {_FLAVOR}")
        return answer

    def _report(self, key: str, reading: Reading) -> None:
        self._post(SourceReported(self.name, key, reading.sightings))
        result = "notice" if reading.sightings else "ok"
        self._polled("malformed" if reading.trouble else result, key, reading.trouble)

    def _polled(self, result: str, scope: str, detail: str = "") -> None:
        self._post(SourcePolled(self.name, result, scope, detail, self._client.skew_seconds))


def _says_nothing(answer: Answer) -> bool:
    """Whether this is how a server answers that never had a maintenance window to show."""
    if answer.status in (200, 503):
        return gcp_values.says_nothing_yet(answer.text())
    return answer.status == 404


def _interpret(key: str, answer: Answer, read: Callable[[str], _T]) -> _T:
    """Return what an answer's body means.

    Raises:
        MetadataError: it means nothing.
    """
    try:
        return read(answer.text())
    except ValueError as error:
        raise MetadataError("malformed", f"{key}: {error}") from None
