"""Says which programs are run when, and keeps them within their bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lastcall.core.events import Event, HookEnded
from lastcall.core.facts import (
    Fact,
    FlushesOver,
    NodeDrained,
    NoticeCleared,
    NoticeEnded,
    NoticeTold,
)
from lastcall.core.model import Outcome, Phase
from lastcall.core.views import NoticeView
from lastcall.hooks import message
from lastcall.hooks.message import Fields
from lastcall.hooks.program import KILL_SECONDS, TERM_SECONDS, run

ON_NOTICE = "on_notice"
ON_FLUSHED = "on_flushed"
ON_DRAINED = "on_drained"
ON_WITHDRAWN = "on_withdrawn"

AT_ONE_TIME = 16
"""Programs that run at one time; the others wait for a place."""

LEAST_SECONDS = 1.0
"""What a program has even where the deadline is here."""

CLOSE_SECONDS = TERM_SECONDS + KILL_SECONDS + 1.0
"""How long the end of what still runs is waited for."""

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
"""What programs get of the agent's own environment; all else may hold secrets."""

_STAYS = ("withdrawn", "completed", "expired", "rehearsed", "rebooted")
"""Endings after which the machine goes on."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One program that is to be run.

    Attributes:
        after: what must have ended before.
    """

    hook: str
    index: int
    argv: Sequence[str]
    notice: NoticeView
    more: Fields
    after: Sequence[asyncio.Task[None]]


class Hooks:
    """Runs the site's programs for what becomes known. Belongs to the running loop.

    A program is run once for each notice. What was known before a restart of the agent runs none
    after it.

    Args:
        commands: by hook, each a program and its arguments.
        every_notice: whether they are run for notices that the node is not drained for as well.
        timeout_seconds: how long one may run; before a deadline no longer than until then.
        environment: the agent's own.
        monotonic: the clock of deadlines, seconds.
        wall: Unix seconds.
        node_name: the node's.
        post: takes what came of each.
    """

    def __init__(
        self,
        *,
        commands: Mapping[str, Sequence[Sequence[str]]],
        every_notice: bool,
        timeout_seconds: float,
        environment: Mapping[str, str],
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        node_name: str,
        post: Callable[[Event], None],
    ) -> None:
        self._commands = commands
        self._every_notice = every_notice
        self._timeout_seconds = timeout_seconds
        self._environment = {name: environment[name] for name in PASSED_ON if name in environment}
        self._monotonic = monotonic
        self._wall = wall
        self._node_name = node_name
        self._post = post
        self._places = asyncio.Semaphore(AT_ONE_TIME)
        self._running: dict[asyncio.Task[None], str] = {}

    def note(self, fact: Fact) -> None:
        """Have the programs run that a fact is a reason for; never blocks, never raises."""
        match fact:
            case NoticeTold():
                self._start(ON_NOTICE, fact.notice, {})
            case FlushesOver():
                self._start(ON_FLUSHED, fact.notice, {"flushes": _counts(fact)})
                if fact.drained is not None:
                    self._start(ON_DRAINED, fact.notice, {"outcome": fact.drained, "detail": ""})
            case NodeDrained(notice=NoticeView() as notice) if _is_leaving(notice):
                detail = message.plain(fact.detail)
                self._start(ON_DRAINED, notice, {"outcome": fact.outcome, "detail": detail})
            case NoticeCleared():
                self._start(ON_WITHDRAWN, fact.notice, {"ending": "cleared"})
            case NoticeEnded() if _stays(fact):
                self._start(ON_WITHDRAWN, fact.notice, {"ending": fact.ending})

    @property
    def working(self) -> bool:
        """Whether a program runs."""
        return bool(self._running)

    async def idle(self) -> None:
        """Return once no program runs; each ends by its own time-out, and by the deadline."""
        while self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Run nothing more, and end what still runs, within some seconds."""
        self._commands = {}
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_SECONDS)

    def _start(self, hook: str, notice: NoticeView, more: Fields) -> None:
        if not (notice.drains or self._every_notice):
            return
        before = [task for task, notice_id in self._running.items() if notice_id == notice.id]
        # What is taken back must have been done, or it would be done after that.
        after = before if hook == ON_WITHDRAWN else []
        for index, argv in enumerate(self._commands.get(hook, ())):
            call = _Call(hook, index, argv, notice, more, after)
            task = asyncio.create_task(self._run(call), name=f"{hook}[{index}]")
            self._running[task] = notice.id
            task.add_done_callback(self._running.pop)

    async def _run(self, call: _Call) -> None:
        if call.after:
            await asyncio.wait(call.after)
        async with self._places:
            fields = {**self._fields(call), **call.more}
            result = await run(
                call.argv,
                environment={**self._environment, **message.as_variables(fields)},
                content=message.as_json(fields),
                timeout_seconds=self._limit_seconds(call),
            )
        self._post(
            HookEnded(
                id=call.notice.id,
                hook=call.hook,
                index=call.index,
                program=call.argv[0],
                outcome=result.outcome,
                code=result.code,
                seconds=result.seconds,
                output=result.output,
            )
        )

    def _fields(self, call: _Call) -> Fields:
        return message.fields_of(
            call.hook,
            call.notice,
            node_name=self._node_name,
            now=self._monotonic(),
            wall=self._wall(),
        )

    def _limit_seconds(self, call: _Call) -> float:
        deadline = call.notice.deadline
        if call.hook == ON_WITHDRAWN or deadline is None:
            return self._timeout_seconds
        return min(self._timeout_seconds, max(LEAST_SECONDS, deadline - self._monotonic()))


def _is_leaving(notice: NoticeView) -> bool:
    """Whether the end of its drain is the end of all that is done for a notice.

    Before that phase flushes go on, and :class:`FlushesOver` is still to come.
    """
    if notice.phase is Phase.DONE:
        return not notice.drill
    return notice.phase is Phase.DRAINING


def _counts(fact: FlushesOver) -> dict[str, int]:
    counts = {outcome.value: fact.outcomes.get(outcome, 0) for outcome in Outcome}
    return {**counts, "unfinished": fact.unfinished}


def _stays(fact: NoticeEnded) -> bool:
    """Whether the machine goes on after a notice that programs were run for."""
    if not fact.notice.told:
        return False
    return fact.ending in _STAYS or (fact.notice.drill and fact.ending == "passed")
