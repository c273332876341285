"""An agent for the command line: the real decision core behind a real socket, on a clock of hand.

Each time it is asked for its status some seconds pass and what the test has planned happens.
"""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lastcall.core.commands import Confirm, Refuse
from lastcall.core.events import (
    DrillRequested,
    Event,
    GpuWatchRequested,
    ProvidersFound,
    SourcePolled,
)
from lastcall.core.model import Kind
from lastcall.record.status import status as status_of
from lastcall.wire.codec import decode, encode, encode_object
from lastcall.wire.messages import (
    CLIENT_MESSAGES,
    DrillRequest,
    Error,
    GpuRequest,
    Ok,
    StatusRequest,
)
from support.gpus import FixedReadings
from support.happenings import UNIX_AT_ZERO, drill
from support.story import Story

Plan = Callable[[Story], None]


class OperatorAgent:
    """What an operator's commands talk to.

    Attributes:
        story: all that has happened.
        seconds_per_look: how much time passes with each look at the status.
        plan: what happens at each look, after the time has passed.
        facts: what is said of the agent itself.
        asked: how often the status was asked for.
        refusals: the words with which the next messages are refused.
        left_out: what the status says is not in it.
        readings: the figures of its GPUs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.story = Story()
        self.seconds_per_look = 0.0
        self.plan: Plan = lambda _: None
        self.asked = 0
        self.refusals: list[str] = []
        self.left_out: dict[str, int] = {}
        self.readings = FixedReadings()
        self.facts: dict[str, Any] = {
            "version": "0.1.0",
            "node_name": "node-1",
            "mode": "act",
            "uptime_seconds": 3725.0,
            "drain_backend": "none",
            "journal": "ok",
        }
        self.story.at(
            100.0,
            ProvidersFound(("aws",), "configured"),
            SourcePolled("aws", "ok", "spot", skew_seconds=0.25),
        )

    def view(self) -> dict[str, Any]:
        """Return the status as it is now."""
        story = self.story
        content = status_of(
            story.node,
            now=story.now,
            wall=UNIX_AT_ZERO + story.now,
            agent=self.facts,
            advice=lambda node, job: story.machine.advice(node, job, story.now),
            reserve_seconds=10.0,
            gpus=self.readings,
        )
        return content | ({"left_out": self.left_out} if self.left_out else {})

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line."""
        if self.refusals:
            return encode(Error("unauthorized", self.refusals.pop(0)))
        message = decode(line, CLIENT_MESSAGES)
        if isinstance(message, StatusRequest):
            self.asked += 1
            self.story.at(self.story.now + self.seconds_per_look)
            self.plan(self.story)
            return encode_object({"type": "status", **self.view()})
        decided = self.story.at(self.story.now, self._event(message))
        if refusals := decided.commands(Refuse):
            return encode(Error(refusals[0].code, refusals[0].message))
        confirmed = decided.command(Confirm)
        return encode(Ok(confirmed.re, confirmed.id))

    def _event(self, message: object) -> Event:
        if isinstance(message, GpuRequest):
            return GpuWatchRequested("cli", message.watched)
        assert isinstance(message, DrillRequest)
        asked: DrillRequested = drill(message.lead_seconds, drain=message.drain)
        return replace(asked, kind=Kind(message.kind))

    def __enter__(self) -> Self:
        """Listen."""
        agent = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # A command that was interrupted no longer reads its answer.
                with contextlib.suppress(ConnectionError):
                    for line in self.rfile:
                        self.wfile.write(agent.answer(line))

        self._server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
