"""Amazon EC2: what the instance metadata service announces, each path on a schedule of its own.

What can end the machine within minutes is asked for each second or two; the rest seldom. The whole
service is throttled for each instance, and each answer costs a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from lastcall.core.events import IdentityLearned, SourcePolled, SourceReported
from lastcall.sources.aws_documents import (
    INSTANCE_ACTION,
    REBALANCE,
    SCHEDULED,
    SOURCE,
    TARGET_STATE,
    Reading,
    read_instance_action,
    read_rebalance,
    read_scheduled,
    read_target_state,
)
from lastcall.sources.aws_identity import learn_identity
from lastcall.sources.base import Clock, Post
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require
from lastcall.sources.imds import Imds
from lastcall.sources.pacing import LONGEST_BACK_OFF_SECONDS, Pace

ROOT = "/latest/meta-data/"

NEVER = 2**31
"""An answer that was not read whole shows what stands, and says nothing of what is absent."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """One path: how often it is looked at, what it says, when its silence counts."""

    path: str
    period_seconds: float
    read: Callable[[Answer], Reading]
    absences_to_withdraw: int
    longest_back_off_seconds: float


class AwsSource:
    """Watches EC2's instance metadata service.

    Args:
        endpoint: the service's base URL.
        poll_seconds: between looks for a Spot interruption.
        lifecycle_poll_seconds: between looks for an Auto Scaling target state.
        rebalance_poll_seconds: between looks for a rebalance recommendation.
        maintenance_poll_seconds: between looks for scheduled events.
        token_ttl_seconds: the life asked for each session token, 1 to 21600.
        imds_v1: ask without a token where none can be had.
        post: takes the events.
        clock: the node's clocks.
    """

    name: ClassVar[str] = SOURCE

    def __init__(
        self,
        *,
        endpoint: str,
        poll_seconds: float,
        lifecycle_poll_seconds: float,
        rebalance_poll_seconds: float,
        maintenance_poll_seconds: float,
        token_ttl_seconds: int,
        imds_v1: bool,
        post: Post,
        clock: Clock,
    ) -> None:
        self._post = post
        self._clock = clock
        self._client = MetadataClient(endpoint, clock)
        self._imds = Imds(self._client, clock, ttl_seconds=token_ttl_seconds, version_1=imds_v1)
        soon = LONGEST_BACK_OFF_SECONDS
        # A notice about to be carried out is not dropped for one answer that lost it.
        self._scopes = (
            _Scope(INSTANCE_ACTION, poll_seconds, self._instance_action, 3, soon),
            _Scope(TARGET_STATE, lifecycle_poll_seconds, _target_state, 1, soon),
            _Scope(
                REBALANCE, rebalance_poll_seconds, _rebalance, 3, max(soon, rebalance_poll_seconds)
            ),
            _Scope(
                SCHEDULED,
                maintenance_poll_seconds,
                self._scheduled,
                1,
                max(soon, maintenance_poll_seconds),
            ),
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        async with self._client, asyncio.TaskGroup() as tasks:
            for scope in self._scopes:
                tasks.create_task(self._watch(scope), name=f"aws {scope.path}")
            tasks.create_task(self._identify(), name="aws identity")

    async def _watch(self, scope: _Scope) -> None:
        pace = Pace(scope.period_seconds, scope.longest_back_off_seconds)
        await asyncio.sleep(pace.first())
        while True:
            began_at = self._clock.monotonic()
            failure = await self._look(scope)
            if failure is not None:
                await asyncio.sleep(pace.after_failure(failure.retry_after_seconds))
            else:
                took_seconds = self._clock.monotonic() - began_at
                await asyncio.sleep(max(0.0, pace.after_success() - took_seconds))

    async def _look(self, scope: _Scope) -> MetadataError | None:
        """Read one path and post what it says; return what kept it from being read."""
        try:
            answer = require(await self._imds.get(ROOT + scope.path), 200, 404)
            # 404 is how the service says that there is nothing under a path.
            reading = Reading() if answer.status == 404 else _read(scope, answer)
        except MetadataError as failure:
            self._polled(scope, failure.result, failure.detail)
            return failure
        result = "notice" if reading.sightings else "ok"
        self._polled(scope, "malformed" if reading.trouble else result, reading.trouble)
        absences = scope.absences_to_withdraw if reading.whole else NEVER
        self._post(SourceReported(SOURCE, scope.path, reading.sightings, absences))
        return None

    def _polled(self, scope: _Scope, result: str, detail: str) -> None:
        if detail and scope.path not in detail:
            detail = f"{scope.path}: {detail}"
        self._post(SourcePolled(SOURCE, result, scope.path, detail, self._client.skew_seconds))

    def _instance_action(self, answer: Answer) -> Reading:
        return read_instance_action(answer.json(), self._client.deadline, answer.received_at)

    def _scheduled(self, answer: Answer) -> Reading:
        return read_scheduled(answer.json(), self._client.deadline)

    async def _identify(self) -> None:
        async for facts in learn_identity(self._imds):
            self._post(IdentityLearned(SOURCE, facts))


def _read(scope: _Scope, answer: Answer) -> Reading:
    try:
        return scope.read(answer)
    except ValueError as error:
        raise MetadataError("malformed", f"{answer.asked}: {error}") from None


def _target_state(answer: Answer) -> Reading:
    return read_target_state(answer.text())


def _rebalance(answer: Answer) -> Reading:
    return read_rebalance(answer.json())
