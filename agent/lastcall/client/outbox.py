"""What must reach the agent: reports until it has acknowledged them, the rest while it listens."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection

from lastcall.client.bell import Bell
from lastcall.wire.messages import Checkpoint, Failed, Flushed, Message, Ok, Resumed

QUEUE_LIMIT = 128
"""Messages that wait for a slow agent; telemetry beyond it is dropped."""

REPORTS_LIMIT = 64
"""Reports kept until they are acknowledged; the oldest gives way."""

Report = Flushed | Failed


class Outbox:
    """Messages on their way to the agent, put in by any thread, taken out by the reader.

    A report (``flushed``, ``failed``) is kept until the agent's ``ok`` and sent again on each new
    connection. The newest ``checkpoint`` and ``resumed`` wait for a connection. All else is for
    the present connection alone.
    """

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._changed = threading.Condition()
        self._closed = False
        self._connected = False
        self._queue: deque[Message] = deque()
        self._reports: dict[str, Report] = {}
        self._unclaimed: dict[str, Report] = {}
        self._newest: dict[str, Message] = {}

    def put(self, message: Message) -> None:
        """Send a message as soon as may be; never waits."""
        with self._changed:
            if self._closed:
                return
            if isinstance(message, Report):
                self._keep(message)
            elif self._connected:
                if len(self._queue) >= QUEUE_LIMIT:
                    return
                self._queue.append(message)
            elif isinstance(message, Checkpoint | Resumed):
                self._newest[message.type] = message
                return
            else:
                return
        self._bell.ring()

    def take(self) -> list[Message]:
        """Return what is to be sent now, oldest first."""
        with self._changed:
            messages = list(self._queue)
            self._queue.clear()
            return messages

    @property
    def waiting(self) -> bool:
        """Whether a report has not been acknowledged yet."""
        with self._changed:
            return bool(self._reports)

    def connected(self) -> None:
        """A connection is there: what was kept is sent again."""
        with self._changed:
            self._connected = True
            self._queue.clear()
            self._queue.extend((*self._newest.values(), *self._reports.values()))
            self._newest.clear()

    def disconnected(self) -> None:
        """The connection is gone, and with it what was only meant for it."""
        with self._changed:
            self._connected = False
            for message in self._queue:
                if isinstance(message, Checkpoint | Resumed):
                    self._newest[message.type] = message
            self._queue.clear()

    def acknowledged(self, ok: Ok) -> None:
        """The agent has recorded a message."""
        with self._changed:
            for report in list(self._reports.values()):
                if report.type == ok.re and ok.id in (report.id, None):
                    del self._reports[report.id]
                    break
            self._changed.notify_all()

    def unknown(self, known: Collection[str]) -> None:
        """The agent knows no notice by some report's id: not one of those it lists, then.

        An agent that was killed before its record was on disk sees the notice anew, under the same
        id, a moment after it is back: the report is set aside until then.
        """
        with self._changed:
            for key in self._reports.keys() - set(known):
                self._unclaimed[key] = self._reports.pop(key)
            while len(self._unclaimed) > REPORTS_LIMIT:
                del self._unclaimed[next(iter(self._unclaimed))]
            self._changed.notify_all()

    def claim(self, key: str) -> None:
        """The agent knows a notice after all: what was set aside for it is sent."""
        with self._changed:
            report = self._unclaimed.pop(key, None)
        if report is not None:
            self.put(report)

    @property
    def unrecorded(self) -> frozenset[str]:
        """Ids whose reports the agent has not acknowledged."""
        with self._changed:
            return frozenset(self._reports) | frozenset(self._unclaimed)

    def wait(self, ids: Collection[str] | None, timeout_seconds: float) -> bool:
        """Wait until the reports for some notices, or all of them, are acknowledged.

        Returns:
            Whether they are.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._owed(ids), timeout_seconds)
            set_aside = self._unclaimed if ids is None else self._unclaimed.keys() & set(ids)
            return not self._closed and not self._owed(ids) and not set_aside

    def close(self) -> None:
        """Take nothing more, and let nobody wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Forget everything, in a child after a fork, where the lock may be held for ever."""
        self._changed = threading.Condition()
        self._closed = True
        self._queue = deque()
        self._reports = {}
        self._unclaimed = {}
        self._newest = {}

    def _keep(self, report: Report) -> None:
        self._reports.pop(report.id, None)
        self._reports[report.id] = report
        if len(self._reports) > REPORTS_LIMIT:
            del self._reports[next(iter(self._reports))]
        if self._connected:
            self._queue.append(report)

    def _owed(self, ids: Collection[str] | None) -> bool:
        return bool(self._reports) if ids is None else any(key in self._reports for key in ids)
