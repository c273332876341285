"""Checks the provider: which it is, whether each of its paths answers, and whose clock is wrong."""

from __future__ import annotations

import asyncio

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.looks import Look, look
from lastcall.core.events import SourcePolled
from lastcall.sources.base import Clock, SystemClock
from lastcall.sources.detect import find_providers

CHECK = "provider"
CLOCK = "clock"

DETECT_SECONDS = 4.5
"""Longer than the slowest look for a provider takes."""

LOOK_SECONDS = 5.0
"""Longer than any answer may take but one: Azure's first."""

SKEW_SECONDS = 2.0
"""What the alert LastcallClockSkew bears, too."""

WRONG_CLOCK_SECONDS = 60.0
"""From here on certificates and cloud credentials begin to fail."""

REACH = (
    "let this machine, or this pod, reach it: routes, firewalls and network policies; on AWS a "
    "container needs the host's network or a metadata hop limit of 2"
)

REMEDIES = {
    "timeout": REACH,
    "error": REACH,
    "throttled": "find what else on this machine asks the metadata service, and how often",
    "unauthorized": "let this machine read its metadata: on AWS the instance's metadata options, "
    "on GKE hostNetwork: true",
    "malformed": "find out what answers there: a proxy, a captive portal, another service",
}

NO_PROVIDER = (
    'set notices.provider = "none" if this machine has no provider that announces its end; else '
    "set the provider and let the machine reach its metadata service"
)


async def check_provider(subject: Subject, found: Findings) -> None:
    """Add which providers there are, how they answer, and how the clocks differ."""
    notices, clock = subject.loaded.config.notices, SystemClock()
    providers: tuple[str, ...] = notices.provider
    if not providers:
        found.ok(CHECK, 'none is watched: notices.provider is "none"')
        return
    if "auto" in providers:
        providers = await _find(subject, found, clock)
    looks = (look(name, notices, clock, LOOK_SECONDS) for name in providers)
    for seen in await asyncio.gather(*looks):
        _say(seen, found)
        say_skew(seen.provider, seen.skew_seconds, found)


async def _find(subject: Subject, found: Findings, clock: Clock) -> tuple[str, ...]:
    notices = subject.loaded.config.notices
    endpoints = {name: getattr(notices, name).endpoint for name in ("aws", "gcp", "azure")}
    try:
        async with asyncio.timeout(DETECT_SECONDS):
            seen = await find_providers(endpoints, clock)
    except TimeoutError:
        found.warning(CHECK, f"no provider found within {DETECT_SECONDS:g} s", NO_PROVIDER)
        return ()
    if not seen.providers:
        found.warning(CHECK, seen.detail, NO_PROVIDER)
    else:
        found.ok(CHECK, seen.detail)
    return seen.providers


def _say(seen: Look, found: Findings) -> None:
    name = seen.provider
    troubles: dict[str, list[SourcePolled]] = {}
    for poll in seen.polls.values():
        if poll.result not in {"ok", "notice"}:
            troubles.setdefault(poll.result, []).append(poll)
    for result, polls in troubles.items():
        scopes = ", ".join(poll.scope for poll in polls)
        what = f"{name} at {seen.endpoint}: {result} for {scopes}: {polls[0].detail}"
        say = found.warning if result == "throttled" else found.problem
        say(CHECK, what, REMEDIES.get(result, REACH))
    if seen.fault:
        found.problem(CHECK, f"{name}: {seen.fault}", "report this as a fault of lastcall")
    elif seen.unheard:
        _say_unheard(seen, found)
    elif not troubles:
        machine = ", ".join(seen.identity.values()) or "says nothing of this machine"
        found.ok(CHECK, f"{name} at {seen.endpoint} answers all that is asked: {machine}")
    for sighting in (one for sightings in seen.sightings.values() for one in sightings):
        found.note(CHECK, f"{name} announces now: {sighting.kind}, {sighting.code or sighting.key}")


def _say_unheard(seen: Look, found: Findings) -> None:
    what = (
        f"{seen.provider} at {seen.endpoint}: no answer within {LOOK_SECONDS:g} s for "
        f"{', '.join(sorted(seen.unheard))}"
    )
    identity = seen.polls.get("identity")
    if seen.provider == "azure" and identity is not None and identity.result == "ok":
        # Microsoft documentation, Azure Virtual Machines: Scheduled Events for Linux.
        found.warning(
            CHECK,
            what,
            "check again in two minutes: the first answer turns Scheduled Events on, and takes so "
            "long",
        )
    else:
        found.problem(CHECK, what, REACH)


def say_skew(provider: str, skew_seconds: float | None, found: Findings) -> None:
    """Add how far this clock is from a provider's, where an answer has shown it."""
    if skew_seconds is None:
        return
    way = "ahead of" if skew_seconds > 0 else "behind"
    what = f"this clock is {abs(skew_seconds):.1f} s {way} that of {provider}"
    remedy = (
        "start a time service: chronyc tracking, timedatectl; see the runbook LastcallClockSkew"
    )
    if abs(skew_seconds) >= WRONG_CLOCK_SECONDS:
        found.problem(CLOCK, what, remedy)
    elif abs(skew_seconds) > SKEW_SECONDS:
        found.warning(CLOCK, what, remedy)
    else:
        found.ok(CLOCK, what)
