"""What is known of the sources themselves: who is watched, who answers, what the machine is."""

from __future__ import annotations

from dataclasses import replace

from lastcall.core.events import IdentityLearned, ProvidersFound, SourcePolled
from lastcall.core.facts import ClockWrong, ProviderSettled, SourceAnswered
from lastcall.core.model import SourceHealth
from lastcall.core.turn import Turn, with_item, without

GOOD = ("ok", "notice")

WRONG_CLOCK_SECONDS = 5.0
"""A node's clock that is off by more than this is worth a word; it is right again at half of it."""


def settle_providers(turn: Turn, event: ProvidersFound) -> None:
    """Take in which providers are watched."""
    turn.change(providers=event.providers, provider_detail=event.detail)
    turn.publish(ProviderSettled(event.providers, event.detail))


def identify(turn: Turn, event: IdentityLearned) -> None:
    """Take in what this machine is."""
    turn.change(identity={**turn.node.identity, **dict(event.facts)})


def poll(turn: Turn, event: SourcePolled) -> None:
    """Take in how a source answered; its trouble is news only when it comes, changes or goes."""
    before = turn.node.sources.get(event.source)
    health = before or SourceHealth()
    good = event.result in GOOD
    troubles = health.troubles
    if good and event.scope in troubles:
        troubles = without(troubles, event.scope)
    elif not good:
        troubles = with_item(troubles, event.scope, event.result)
    skew_seconds = health.skew_seconds if event.skew_seconds is None else event.skew_seconds
    health = _watch_clock(turn, event.source, health, skew_seconds)
    health = replace(
        health,
        troubles=troubles,
        result=event.result,
        last_success=turn.now if good else health.last_success,
        skew_seconds=skew_seconds,
    )
    turn.change(sources=with_item(turn.node.sources, event.source, health))
    turn.publish(
        SourceAnswered(
            source=event.source,
            scope=event.scope,
            result=event.result,
            up=health.up,
            changed=before is None or troubles != before.troubles,
            detail=event.detail,
            skew_seconds=skew_seconds,
            foreign=event.foreign,
        )
    )


def _watch_clock(
    turn: Turn, source: str, health: SourceHealth, skew_seconds: float | None
) -> SourceHealth:
    off_seconds = abs(skew_seconds or 0.0)
    if off_seconds > WRONG_CLOCK_SECONDS and not health.clock_wrong:
        turn.publish(ClockWrong(source, skew_seconds or 0.0))
        return replace(health, clock_wrong=True)
    if off_seconds < WRONG_CLOCK_SECONDS / 2 and health.clock_wrong:
        return replace(health, clock_wrong=False)
    return health
