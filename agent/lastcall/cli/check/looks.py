"""One look at everything that a provider's source asks for, by the source itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from lastcall.config.notices import Notices
from lastcall.core.events import Event, IdentityLearned, SourcePolled, SourceReported
from lastcall.core.model import Sighting
from lastcall.sources import aws_documents, gcp_values
from lastcall.sources.base import Clock
from lastcall.sources.build import cloud_source

SCOPES = {
    "aws": frozenset(
        {
            aws_documents.INSTANCE_ACTION,
            aws_documents.TARGET_STATE,
            aws_documents.REBALANCE,
            aws_documents.SCHEDULED,
        }
    ),
    "gcp": frozenset(
        {
            gcp_values.PREEMPTED,
            gcp_values.MAINTENANCE_EVENT,
            gcp_values.UPCOMING_MAINTENANCE,
            "identity",
        }
    ),
    "azure": frozenset({"events", "identity"}),
}
"""What each provider's source reports on; a look is over when it has heard of all."""

_SOON_SECONDS = 0.25
"""A source spreads its first looks over its period, so a short one begins at once."""


@dataclass(slots=True)
class Look:
    """What came of it.

    Attributes:
        provider: whose source looked.
        endpoint: where.
        polls: the latest answer by scope.
        sightings: the notices that stand.
        identity: what the machine is.
        skew_seconds: this clock minus the provider's, where an answer showed it.
        fault: what ended the source itself, which should not happen.
    """

    provider: str
    endpoint: str
    polls: dict[str, SourcePolled] = field(default_factory=dict)
    sightings: dict[str, tuple[Sighting, ...]] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)
    skew_seconds: float | None = None
    fault: str = ""

    @property
    def unheard(self) -> frozenset[str]:
        """The scopes that have not been heard of."""
        return SCOPES[self.provider] - self.polls.keys()

    def take(self, event: Event) -> None:
        """Take in what the source says."""
        match event:
            case SourcePolled():
                self.polls[event.scope] = event
                if event.skew_seconds is not None:
                    self.skew_seconds = event.skew_seconds
            case SourceReported():
                self.sightings[event.scope] = event.sightings
            case IdentityLearned():
                self.identity |= dict(event.facts)
            case _:
                pass


async def look(provider: str, notices: Notices, clock: Clock, timeout_seconds: float) -> Look:
    """Have a provider's source look at each thing once.

    Args:
        provider: ``aws``, ``gcp`` or ``azure``.
        notices: how the sources are configured.
        clock: the node's clocks.
        timeout_seconds: for all of it; what has not been heard of by then is left out.
    """
    endpoint: str = getattr(notices, provider).endpoint
    seen = Look(provider, endpoint)
    all_heard = asyncio.Event()

    def post(event: Event) -> None:
        seen.take(event)
        if not seen.unheard:
            all_heard.set()

    running = asyncio.create_task(cloud_source(provider, _hasty(notices), post, clock).run())
    waiting = asyncio.create_task(all_heard.wait())
    try:
        await asyncio.wait(
            {running, waiting}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if running.done() and (error := running.exception()) is not None:
            seen.fault = repr(error)
    finally:
        for task in (running, waiting):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    return seen


def _hasty(notices: Notices) -> Notices:
    """Return the same settings with periods at which a source has soon looked at everything."""
    return replace(
        notices,
        aws=replace(
            notices.aws,
            poll_seconds=_SOON_SECONDS,
            lifecycle_poll_seconds=_SOON_SECONDS,
            rebalance_poll_seconds=_SOON_SECONDS,
            maintenance_poll_seconds=_SOON_SECONDS,
        ),
        gcp=replace(notices.gcp, wait_seconds=1.0),
        azure=replace(notices.azure, poll_seconds=1.0),
    )
