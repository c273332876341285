"""The story: a job that is preempted, once with nobody to tell it and once with the agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import lastcall
from lastcall.cli.demo import job, model, outcome, table
from lastcall.cli.demo.node import Node
from lastcall.cli.demo.outcome import Flushes, Outcome
from lastcall.cli.demo.scenario import DemoError, Scenario
from lastcall.cli.demo.timeline import Timeline
from lastcall.cli.terminal import Style

LOG_LINES = 60
"""Lines of a log that are shown after a failure."""

_ASKED = "The provider is asked once a second"
_HOW_SEEN = {"gcp": "Google's server answers at the moment of the change"}

_SOCKET_PATH_BYTES = 107
_LONGEST_NAME = "/lastcall-demo-12345678/without/collective.sock"


def play(scenario: Scenario, stream: TextIO) -> int:
    """Play the story; return 0 only if it went as it should."""
    with workplace() as place:
        try:
            return asyncio.run(_until_signalled(Story(scenario, place, stream)))
        except BrokenPipeError:
            raise
        except (DemoError, OSError) as error:
            print(f"\nerror: {error}", file=sys.stderr)
            _show_logs(place)
            return 1


class Story:
    """One playing of it, in a directory of its own."""

    def __init__(self, scenario: Scenario, place: Path, stream: TextIO) -> None:
        self._scenario = scenario
        self._stream = stream
        self._place = place
        self._expected_state = model.expected_state(scenario.steps, scenario.ranks)
        node_place = self._folder("node")
        self._node = Node(scenario.provider, node_place)
        self._no_agent = place / "no-agent.sock"

    async def tell(self) -> int:
        """Play both runs and compare them.

        Raises:
            DemoError: something did not go as it should.
        """
        self._print(*self._introduction())
        async with self._node.running():
            without = await self._without()
            await self._node.ready()
            with_agent, shown_unix = await self._with()
            flushes = outcome.flushes(
                await self._node.status(), await self._node.metrics(), shown_unix
            )
        style = Style(self._stream)
        how_seen = _HOW_SEEN.get(self._scenario.provider, _ASKED)
        signal_ms = 1000 * flushes.signal_seconds
        self._print("", *table.render(without, with_agent, flushes, style), "")
        self._print(
            style.dim(
                f"{how_seen}. From first sight to the last process told: {signal_ms:.1f} ms."
            ),
            style.dim("From the agent's /metrics:"),
            *(f"  {line}" for line in flushes.metrics),
        )
        self._check(without, with_agent, flushes)
        self._print("", style.good("every flush was durable in time, and nothing was lost"))
        return 0

    async def _without(self) -> Outcome:
        scenario, place = self._scenario, self._folder("without")
        timeline = Timeline(self._stream, "without lastcall")
        async with self._job(place, self._no_agent) as first:
            await first.wait_for("started", scenario.ranks)
            timeline.tell(self._opening())
            reached = await first.wait_for("step", step=scenario.notice_at, rank=0)
            timeline.notice(reached["at_unix"], self._notice_line(" a notice; nobody hears it"))
            first.terminate()
            timeline.tell("the platform drains the node: SIGTERM to every process")
            codes = await first.wait()
        if set(codes) != {-signal.SIGTERM}:
            raise DemoError(f"SIGTERM did not end the processes: they ended with {codes}")
        timeline.tell("the processes have died; the job starts again on another node")
        async with self._job(place, self._no_agent) as second:
            await self._finish(second, timeline, first.heard.all("step", rank=0)[-1]["step"])
        return outcome.outcome(first.heard, second.heard, self._expected_state)

    async def _with(self) -> tuple[Outcome, float]:
        scenario, place = self._scenario, self._folder("with")
        timeline = Timeline(self._stream, "with lastcall")
        async with self._job(place, self._node.socket) as first:
            await first.wait_for("started", scenario.ranks)
            timeline.tell(self._opening())
            await first.wait_for("step", step=scenario.notice_at, rank=0)
            shown_unix = time.time()
            shown = self._node.show_notice().shown
            timeline.notice(shown_unix, self._notice_line(f": {shown}"))
            agreed = await first.wait_for("agreed", scenario.ranks)
            await self._tell_of_signal(timeline)
            timeline.tell(f"all ranks agree to save step {agreed['step']}", agreed["at_unix"])
            flushed = await first.wait_for("flushed", scenario.ranks)
            on_record = len(first.heard.all("flushed", recorded=True))
            timeline.tell(
                f"the checkpoint of step {flushed['step']} is durable; the agent has it on record "
                f"for {on_record} of {scenario.ranks}",
                flushed["at_unix"],
            )
            codes = await first.wait()
        if set(codes) != {lastcall.EXIT_PREEMPTED}:
            raise DemoError(f"the processes ended with {codes}, not {lastcall.EXIT_PREEMPTED}")
        timeline.tell(
            f"the processes have ended with exit code {lastcall.EXIT_PREEMPTED}; the job starts "
            "again on another node"
        )
        async with self._job(place, self._no_agent) as second:
            await self._finish(second, timeline, first.heard.all("step", rank=0)[-1]["step"])
        return outcome.outcome(first.heard, second.heard, self._expected_state), shown_unix

    async def _tell_of_signal(self, timeline: Timeline) -> None:
        for notice in (await self._node.status())["notices"]:
            timeline.tell(
                f"the agent has seen it and told {len(notice['flushes'])} processes",
                notice["told_unix"],
            )

    async def _finish(self, second: job.Job, timeline: Timeline, reached: int) -> None:
        """Follow the second start to its end."""
        began = await second.wait_for("started", self._scenario.ranks)
        step = began["step"]
        again = f"; steps {step + 1} to {reached} are done again" if reached > step else ""
        timeline.tell(f"resumed from step {step}{again}", began["at_unix"])
        finished = await second.wait_for("finished", self._scenario.ranks)
        timeline.tell(f"step {finished['step']} is done", finished["at_unix"])
        codes = await second.wait()
        if set(codes) != {0}:
            raise DemoError(f"the second start ended with {codes}")

    def _check(self, without: Outcome, with_agent: Outcome, flushes: Flushes) -> None:
        if not (without.verified and with_agent.verified):
            raise DemoError("a final state is not that of an uninterrupted run")
        if flushes.in_time != self._scenario.ranks:
            raise DemoError(f"{flushes.in_time} of {self._scenario.ranks} flushes were in time")
        if with_agent.steps_redone or flushes.margin_seconds < 0:
            raise DemoError("work was lost although it was flushed")

    def _introduction(self) -> Iterator[str]:
        scenario = self._scenario
        yield (
            f"A training job of {scenario.steps} steps in {scenario.ranks} processes, a checkpoint "
            f"every {scenario.checkpoint_every}, is preempted at step {scenario.notice_at}."
        )
        yield (
            f"Simulated: the metadata service of {scenario.provider}, the platform's drain, the "
            "other node, the work"
        )
        yield (
            f"of a step ({1000 * scenario.step_seconds:.0f} ms), the storage's pace. Real: the "
            "agent, the processes, the socket,"
        )
        yield "the checkpoints, the figures."

    def _opening(self) -> str:
        return f"{self._scenario.ranks} processes train"

    def _notice_line(self, more: str) -> str:
        return f"step {self._scenario.notice_at} is done, and the provider shows{more}"

    def _job(self, place: Path, socket: Path) -> contextlib.AbstractAsyncContextManager[job.Job]:
        return job.started(self._scenario, place, socket, self._place / "processes.log")

    def _folder(self, name: str) -> Path:
        folder = self._place / name
        folder.mkdir()
        return folder

    def _print(self, *lines: str) -> None:
        print("\n".join(lines), file=self._stream, flush=True)


async def _until_signalled(story: Story) -> int:
    """Tell the story; SIGTERM and SIGHUP end it as cleanly as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        return await story.tell()
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Make a directory whose sockets have short enough paths, and remove it with all in it."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) + len(_LONGEST_NAME) > _SOCKET_PATH_BYTES:
        parent = "/tmp"  # noqa: S108 - the directory made in it has a name that nobody can guess
    with tempfile.TemporaryDirectory(
        prefix="lastcall-demo-", dir=parent, ignore_cleanup_errors=True
    ) as place:
        yield Path(place)


def _show_logs(place: Path) -> None:
    for name, path in (
        ("the agent's log", place / "node" / "agent.log"),
        ("what the processes said", place / "processes.log"),
    ):
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        if lines:
            print(f"\n{name}:", *lines[-LOG_LINES:], sep="\n  ", file=sys.stderr)
