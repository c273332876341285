"""Which programs are run for what becomes known, in which order, and for how long at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from lastcall.core.events import Event, HookEnded
from lastcall.core.facts import (
    Fact,
    FlushesOver,
    HookRan,
    NodeDrained,
    NoticeChanged,
    NoticeCleared,
    NoticeEnded,
    NoticeSeen,
    NoticeTold,
)
from lastcall.core.model import Phase, Urgency
from lastcall.core.views import NoticeView
from lastcall.hooks import dispatch
from lastcall.hooks.dispatch import AT_ONE_TIME, Hooks
from lastcall.hooks.program import Result
from lastcall.record.metric_labels import HOOKS
from support.agent_socket import view
from support.happenings import UNIX_AT_ZERO

ALL = {hook: [[f"/site/{hook}"]] for hook in HOOKS}


def notice(key: str = "n-1", **changes: Any) -> NoticeView:
    """Return a notice that the node is drained for, told, with two minutes left at the start."""
    return view(key, **{"deadline": 120.0, "told": True, "drains": True, **changes})


ADVICE = notice(urgency=Urgency.SOON, drains=False)
DRILL = notice(drill=True, drains=False)
DRILL_WITH_DRAIN = notice(drill=True)


@dataclass
class Program:
    """One run of a program, as it was asked for."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    content: bytes
    timeout_seconds: float
    began_at: float


@dataclass
class Site:
    """Hooks whose programs only take time, on the loop's clock."""

    commands: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=lambda: ALL)
    every_notice: bool = False
    run_seconds: float = 5.0
    result: str = "ok"

    def __post_init__(self) -> None:
        self.ran: list[Program] = []
        self.posted: list[Event] = []
        self.began_at = asyncio.get_running_loop().time()
        self.hooks = Hooks(
            commands=self.commands,
            every_notice=self.every_notice,
            timeout_seconds=30.0,
            environment={"PATH": "/bin", "LASTCALL_STATE_DIR": "/x", "AWS_SECRET_ACCESS_KEY": "s"},
            monotonic=self.now,
            wall=lambda: UNIX_AT_ZERO + self.now(),
            node_name="gpu-7",
            post=self.posted.append,
        )

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self.began_at

    async def run(self, argv: Sequence[str], **asked: Any) -> Result:
        self.ran.append(Program(argv, began_at=self.now(), **asked))
        try:
            await asyncio.sleep(self.run_seconds)
        except asyncio.CancelledError:
            return Result("stopped", -15, 0.0, "")
        return Result(self.result, 0, self.run_seconds, "said")

    @property
    def names(self) -> list[str]:
        return [program.argv[0].removeprefix("/site/") for program in self.ran]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch):
    """Return a maker of sites."""

    def make(**changes: Any) -> Site:
        made = Site(**changes)
        monkeypatch.setattr(dispatch, "run", made.run)
        return made

    return make


def flushes_over(shown: NoticeView, drained: str | None = None, **counts: int) -> FlushesOver:
    unfinished = counts.pop("unfinished", 0)
    return FlushesOver(shown, counts, unfinished, drained)


def drained(shown: NoticeView | None, outcome: str = "drained") -> NodeDrained:
    return NodeDrained("n-1", outcome, 20.0, "all\0gone", shown)


pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("fact", "hook"),
    [
        (NoticeTold(notice(), 8), "on_notice"),
        (flushes_over(notice()), "on_flushed"),
        (drained(notice(phase=Phase.DRAINING)), "on_drained"),
        (drained(notice(phase=Phase.DONE)), "on_drained"),
        (NoticeEnded(notice(), "withdrawn", {}), "on_withdrawn"),
        (NoticeEnded(notice(), "completed", {}), "on_withdrawn"),
        (NoticeEnded(notice(), "rebooted", {}), "on_withdrawn"),
        (NoticeCleared(notice()), "on_withdrawn"),
        (NoticeTold(DRILL_WITH_DRAIN, 8), "on_notice"),
        (NoticeEnded(DRILL_WITH_DRAIN, "rehearsed", {}), "on_withdrawn"),
        (NoticeEnded(DRILL_WITH_DRAIN, "passed", {}), "on_withdrawn"),
    ],
)
async def test_a_program_is_run_for_what_has_become_known(site, fact: Fact, hook: str) -> None:
    made = site()

    made.hooks.note(fact)
    await asyncio.sleep(10)

    assert made.names == [hook]
    (program,) = made.ran
    assert program.environment["LASTCALL_EVENT"] == hook
    assert program.environment["LASTCALL_NOTICE_ID"] == "n-1"
    assert json.loads(program.content)["event"] == hook


@pytest.mark.parametrize(
    "fact",
    [
        NoticeSeen(notice(told=False), 120.0),
        NoticeChanged(notice()),
        NoticeTold(ADVICE, 8),
        NoticeTold(DRILL, 8),
        flushes_over(DRILL),
        NoticeEnded(ADVICE, "expired", {}),
        NoticeEnded(notice(), "passed", {}),
        NoticeEnded(notice(), "superseded", {}),
        NoticeEnded(DRILL_WITH_DRAIN, "superseded", {}),
        NoticeEnded(notice(told=False), "withdrawn", {}),
        drained(notice(phase=Phase.FLUSHING)),
        drained(notice(phase=Phase.WITHDRAWN)),
        drained(notice(phase=Phase.DONE, drill=True)),
        HookRan("n-1", "on_notice", 0, "x", "ok", 0, 0.1, ""),
    ],
)
async def test_no_program_is_run_for_what_is_no_reason_for_one(site, fact: Fact) -> None:
    made = site()

    made.hooks.note(fact)
    await asyncio.sleep(10)

    assert made.ran == []


@pytest.mark.parametrize("shown", [ADVICE, DRILL])
async def test_a_site_may_have_them_run_for_every_notice(site, shown: NoticeView) -> None:
    made = site(every_notice=True)

    made.hooks.note(NoticeTold(shown, 8))
    await asyncio.sleep(10)
    made.hooks.note(NoticeEnded(shown, "expired", {}))
    await asyncio.sleep(10)

    assert made.names == ["on_notice", "on_withdrawn"]
    assert made.ran[0].environment["LASTCALL_DRAIN"] == "0"
    assert made.ran[0].environment["LASTCALL_URGENCY"] == shown.urgency


async def test_a_drain_that_was_over_before_the_flushes_counts_when_they_are(site) -> None:
    made = site()

    made.hooks.note(drained(notice(phase=Phase.TOLD), outcome="none"))
    await asyncio.sleep(10)
    assert made.ran == []
    made.hooks.note(flushes_over(notice(), drained="none", in_time=8))
    await asyncio.sleep(10)

    assert made.names == ["on_flushed", "on_drained"]
    assert made.ran[1].environment["LASTCALL_OUTCOME"] == "none"


async def test_each_hook_tells_what_is_its_own(site) -> None:
    made = site()

    made.hooks.note(flushes_over(notice(), in_time=7, late=1, unfinished=2))
    made.hooks.note(drained(notice(phase=Phase.DRAINING), "incomplete"))
    made.hooks.note(NoticeCleared(notice("n-2")))
    await asyncio.sleep(10)

    flushed, emptied, over = (program.environment for program in made.ran)
    counts = {name: flushed[f"LASTCALL_FLUSHES_{name}"] for name in ("IN_TIME", "LATE", "MISSED")}
    assert counts == {"IN_TIME": "7", "LATE": "1", "MISSED": "0"}
    assert flushed["LASTCALL_FLUSHES_UNFINISHED"] == "2"
    assert (emptied["LASTCALL_OUTCOME"], emptied["LASTCALL_DETAIL"]) == ("incomplete", "all gone")
    assert over["LASTCALL_ENDING"] == "cleared"


async def test_of_the_agent_s_environment_programs_get_what_is_no_secret(site) -> None:
    made = site()

    made.hooks.note(NoticeTold(notice(), 8))
    await asyncio.sleep(10)

    environment = made.ran[0].environment
    assert environment["PATH"] == "/bin"
    assert environment["LASTCALL_NODE"] == "gpu-7"
    assert not {"AWS_SECRET_ACCESS_KEY", "LASTCALL_STATE_DIR"} & environment.keys()


async def test_what_came_of_a_program_is_posted_without_its_arguments(site) -> None:
    made = site(commands={"on_notice": [["/site/a", "--token", "secret"], ["/site/b"]]})

    made.hooks.note(NoticeTold(notice(), 8))
    assert (made.ran, made.posted) == ([], [])
    await asyncio.sleep(10)

    assert made.posted == [
        HookEnded("n-1", "on_notice", 0, "/site/a", "ok", 0, 5.0, "said"),
        HookEnded("n-1", "on_notice", 1, "/site/b", "ok", 0, 5.0, "said"),
    ]


# --- how many, and for how long ----------------------------------------------------------------


async def test_programs_run_side_by_side_up_to_a_number(site) -> None:
    made = site(commands={"on_notice": [[f"/site/{n}"] for n in range(AT_ONE_TIME + 2)]})

    made.hooks.note(NoticeTold(notice(), 8))
    await asyncio.sleep(12)

    assert [program.began_at for program in made.ran] == [0.0] * AT_ONE_TIME + [5.0] * 2


@pytest.mark.parametrize(
    ("deadline", "limit_seconds"), [(None, 30.0), (120.0, 30.0), (12.0, 12.0), (0.5, 1.0), (-5, 1)]
)
async def test_a_program_has_no_longer_than_until_the_deadline(
    site, deadline: float | None, limit_seconds: float
) -> None:
    made = site()

    made.hooks.note(NoticeTold(notice(deadline=deadline), 8))
    await asyncio.sleep(10)

    assert made.ran[0].timeout_seconds == limit_seconds


async def test_who_waited_for_a_place_has_what_is_left_then(site) -> None:
    made = site(commands={"on_notice": [[f"/site/{n}"] for n in range(AT_ONE_TIME + 1)]})

    made.hooks.note(NoticeTold(notice(deadline=12.0), 8))
    await asyncio.sleep(12)

    assert (made.ran[0].timeout_seconds, made.ran[-1].timeout_seconds) == (12.0, 7.0)
    assert made.ran[-1].environment["LASTCALL_REMAINING_SECONDS"] == "7.0"


async def test_to_go_on_takes_its_time_whatever_the_deadline_was(site) -> None:
    made = site()

    made.hooks.note(NoticeCleared(notice(deadline=-5.0)))
    await asyncio.sleep(10)

    assert made.ran[0].timeout_seconds == 30.0


async def test_what_is_taken_back_has_been_done_before(site) -> None:
    made = site()
    made.hooks.note(NoticeTold(notice(), 8))
    await asyncio.sleep(2)

    made.hooks.note(NoticeEnded(notice(), "withdrawn", {}))
    made.hooks.note(NoticeTold(notice("n-2"), 8))
    await asyncio.sleep(10)

    began = {(p.argv[0], p.environment["LASTCALL_NOTICE_ID"]): p.began_at for p in made.ran}
    assert began == {
        ("/site/on_notice", "n-1"): 0.0,
        ("/site/on_notice", "n-2"): 2.0,
        ("/site/on_withdrawn", "n-1"): 5.0,
    }


async def test_one_hook_does_not_wait_for_another(site) -> None:
    made = site(run_seconds=25.0)

    made.hooks.note(NoticeTold(notice(), 8))
    made.hooks.note(flushes_over(notice()))
    await asyncio.sleep(1)

    assert made.names == ["on_notice", "on_flushed"]


# --- the end of the agent ----------------------------------------------------------------------


async def test_at_the_end_what_runs_is_stopped_and_nothing_more_is_run(site) -> None:
    made = site(commands={"on_notice": [[f"/site/{n}"] for n in range(AT_ONE_TIME + 3)]})
    made.hooks.note(NoticeTold(notice(), 8))
    await asyncio.sleep(1)

    await made.hooks.close()
    made.hooks.note(NoticeTold(notice("n-2"), 8))
    await asyncio.sleep(10)

    assert made.now() == 11.0
    assert len(made.ran) == AT_ONE_TIME
    assert {event.outcome for event in made.posted} == {"stopped"}


async def test_where_nothing_is_to_be_run_nothing_is(site) -> None:
    made = site(commands={})

    made.hooks.note(NoticeTold(notice(), 8))
    await made.hooks.close()

    assert made.ran == []
