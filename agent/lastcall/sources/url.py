"""Clouds whose address answers 404 until a time stands there."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from lastcall.core.events import SourcePolled, SourceReported
from lastcall.core.model import Action, Kind, Sighting
from lastcall.sources.announcement import Announcement
from lastcall.sources.base import Clock, Post
from lastcall.sources.http import Answer, MetadataClient, MetadataError, require
from lastcall.sources.pacing import Pace
from lastcall.sources.stated_time import doubt
from lastcall.sources.url_answer import read_answer
from lastcall.sources.url_presets import Address
from lastcall.sources.url_token import TokenAsker

SCOPE = "url"

ABSENCES_TO_WITHDRAW = 3
"""A notice about to be carried out is not dropped for one answer that lost it."""

NOTHING = (204, 404)
"""How an address says that nothing is announced."""

_SHOWN_LIMIT = 300


class UrlSource:
    """Asks one address.

    Args:
        address: what is asked, and how the answer is to be read.
        kind: what an answer announces, unless it says so itself.
        poll_seconds: time between questions.
        post: takes the events.
        clock: the node's clocks.
    """

    name: ClassVar[str] = "url"

    def __init__(
        self, *, address: Address, kind: Kind, poll_seconds: float, post: Post, clock: Clock
    ) -> None:
        self._address = address
        self._kind = kind
        self._poll_seconds = poll_seconds
        self._post = post
        self._clock = clock
        self._client = MetadataClient(address.endpoint, clock)
        self._asker = TokenAsker(self._client, clock, address.token_mode)

    async def run(self) -> None:
        """Watch until cancelled."""
        pace = Pace(self._poll_seconds)
        async with self._client:
            await asyncio.sleep(pace.first())
            while True:
                began_at = self._clock.monotonic()
                failure = await self._look()
                if failure is not None:
                    await asyncio.sleep(pace.after_failure(failure.retry_after_seconds))
                    continue
                took_seconds = self._clock.monotonic() - began_at
                await asyncio.sleep(max(0.0, pace.after_success() - took_seconds))

    async def _look(self) -> MetadataError | None:
        """Ask once and post what stands there; return what kept it from being read."""
        try:
            answer = require(await self._asker.get(self._address.path), 200, *NOTHING)
            said = None if answer.status in NOTHING else self._read(answer)
        except MetadataError as failure:
            self._polled(failure.result, failure.detail)
            return failure
        if said is None:
            self._report(())
            self._polled("ok")
        else:
            sighting, trouble = self._sighting(said, answer.received_at)
            self._report((sighting,))
            self._polled("malformed" if trouble else "notice", trouble)
        return None

    def _read(self, answer: Answer) -> Announcement:
        try:
            return read_answer(answer.text(), self._address.zone)
        except ValueError as error:
            raise MetadataError("malformed", f"{answer.asked}: {error}") from None

    def _sighting(self, said: Announcement, received_at: float) -> tuple[Sighting, str]:
        """Return the notice that an answer is, and what of it could not be read."""
        ends_unix, ends_at, unbelieved = said.ends_unix, None, ""
        if ends_unix is not None:
            ends_at = self._client.deadline(ends_unix)
            unbelieved = doubt(ends_at - received_at)
            if unbelieved:
                ends_unix = ends_at = None
        elif said.lead_seconds is not None:
            ends_at = received_at + said.lead_seconds
        sighting = Sighting(
            source=self.name,
            scope=SCOPE,
            key=self._address.scope,
            kind=said.kind or self._kind,
            action=self._address.action if said.action is Action.UNKNOWN else said.action,
            code=said.code or self._address.code,
            identity=said.identity,
            deadline=ends_at,
            deadline_unix=ends_unix,
            reason=said.reason or self._address.reason,
            cancellable=True,
        )
        return sighting, "; ".join(filter(None, (said.trouble, unbelieved)))

    def _report(self, sightings: tuple[Sighting, ...]) -> None:
        self._post(SourceReported(self.name, SCOPE, sightings, ABSENCES_TO_WITHDRAW))

    def _polled(self, result: str, detail: str = "") -> None:
        query = self._address.path.partition("?")[2]
        if query:
            # It may hold a secret.
            detail = detail.replace(query, "…")
        shown = detail[:_SHOWN_LIMIT]
        self._post(SourcePolled(self.name, result, SCOPE, shown, self._client.skew_seconds))
