"""Runs all checks at once, each bounded in time; none of them hides another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from lastcall.cli.check.findings import Finding, Findings
from lastcall.cli.check.seen_agent import SeenAgent
from lastcall.config.load import Loaded

LONGEST_SECONDS = 10.0
"""How long a check may take; what it has found by then is kept."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined.

    Attributes:
        loaded: the configuration in effect.
        agent: the agent that runs with it, or why there is none.
    """

    loaded: Loaded
    agent: SeenAgent

    @property
    def state_dir(self) -> str:
        """Where the journal is: as the running agent says, else as configured."""
        return str(self.agent.about.get("state_dir", self.loaded.config.state_dir))

    @property
    def listen(self) -> str:
        """Where the pages are: as the running agent says, else as configured."""
        return str(self.agent.about.get("http_listen", self.loaded.config.http.listen))


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: what it is about, one word.
        look: examines the subject and adds what it finds.
    """

    name: str
    look: Callable[[Subject, Findings], Awaitable[None]]


async def examine(
    subject: Subject,
    checks: Iterable[Check],
    tell: Callable[[Finding], None],
    longest_seconds: float = LONGEST_SECONDS,
) -> None:
    """Run the checks, and tell what each found, in their order.

    Args:
        subject: what is examined.
        checks: all of them run at the same time.
        tell: takes each finding.
        longest_seconds: how long each may take.
    """
    running = [asyncio.create_task(_run(check, subject, longest_seconds)) for check in checks]
    try:
        for one in running:
            for finding in await one:
                tell(finding)
    finally:
        # Whoever is told may have left, and there may be no more time: then the rest stops too.
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _run(check: Check, subject: Subject, longest_seconds: float) -> Findings:
    found = Findings()
    try:
        async with asyncio.timeout(longest_seconds):
            await check.look(subject, found)
    except TimeoutError:
        found.problem(
            check.name,
            f"the check did not end within {longest_seconds:g} s",
            "find out what hangs: a disk, a name server, a firewall that drops packets",
        )
    except Exception as error:  # noqa: BLE001 - a check's own fault must not hide the others
        found.problem(
            check.name, f"the check itself failed: {error!r}", "report this as a fault of lastcall"
        )
    return found
