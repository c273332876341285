"""Checks the provider beside a running agent: what its own sources are answered counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastcall.cli.check.examine import Subject
from lastcall.cli.check.findings import Findings
from lastcall.cli.check.provider import (
    CHECK,
    NO_PROVIDER,
    REACH,
    REMEDIES,
    check_provider,
    say_skew,
)

CONFIGURED = "configured"
"""How the agent's word on its providers begins where nothing had to be found."""


async def check_watched(subject: Subject, found: Findings) -> None:
    """Add what the agent says of its providers; without one that knows, look here.

    A look with what was read here would be one with other settings than the agent's, where they
    differ.
    """
    view = subject.agent.view
    detail = view.get("provider_detail")
    if not detail:
        await check_provider(subject, found)
    elif view["providers"]:
        found.ok(CHECK, f"the running agent watches {', '.join(view['providers'])} ({detail})")
        for name in view["providers"]:
            _say(name, view, found)
    elif detail.startswith(CONFIGURED):
        found.ok(CHECK, "the running agent watches none, as it is configured")
    else:
        found.warning(CHECK, f"the running agent has found none: {detail}", NO_PROVIDER)


def _say(name: str, view: Mapping[str, Any], found: Findings) -> None:
    source = next((one for one in view["sources"] if one["source"] == name), None)
    if source is None:
        found.warning(
            CHECK, f"{name} has not answered the running agent yet", "check again in two minutes"
        )
        return
    by_result: dict[str, list[str]] = {}
    for scope, result in source["troubles"].items():
        by_result.setdefault(result, []).append(scope)
    for result, scopes in by_result.items():
        say = found.warning if result == "throttled" else found.problem
        what = f"{name}, asked by the running agent: {result} for {', '.join(scopes)}"
        say(CHECK, what, REMEDIES.get(result, REACH))
    if not by_result:
        machine = ", ".join(map(str, view["identity"].values()))
        found.ok(CHECK, f"{name} answers it: {machine or 'says nothing of this machine'}")
    for notice in view["notices"]:
        if notice["open"] and name in notice["sources"]:
            found.note(CHECK, f"{name} announces now: {notice['kind']}, {notice['reason']}")
    say_skew(name, source["clock_skew_seconds"], found)
