"""The account of notices: which are open, which are being flushed, which are dealt with.

The reader thread enters what the agent says, training threads what they do about it. What the
agent must hear of either goes to the outbox in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lastcall.client import values
from lastcall.client.notice import Notice, precedence, received
from lastcall.client.outbox import Outbox, Report
from lastcall.wire import messages
from lastcall.wire.messages import Ack, Advice, Intent

OPEN_LIMIT = 256
"""Open notices kept; no node has as many, but a faulty agent could."""

HANDLED_LIMIT = 512
"""Ids remembered as dealt with; more than can be open, so that no open one is forgotten."""


@dataclass(slots=True, eq=False)
class Undertaking:
    """One flush, the notices it serves, and what came of it.

    Attributes:
        ids: the notice it was begun for, and those that took its place meanwhile.
        report: what came of it; ``None`` until it is settled.
    """

    will: str
    at_step: int | None
    ids: list[str]
    report: Report | None = None


class Ledger:
    """Everything that is known of notices in this process.

    Attributes:
        step: the step that was polled last, as the caller gave it.
        section: what the training loop says it is doing.
        pending: False only where :meth:`choose` would find nothing; read without a lock.
        local: a notice of this process's own, set by the signal fallback without a lock.
        advice: what the agent said last about checkpoints.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.step: object = None
        self.section: str | None = None
        self.pending = False
        self.local: Notice | None = None
        self.advice: Advice | None = None
        self._outbox = outbox
        # Reentrant, since a signal handler of the program may call the guard too.
        self._lock = threading.RLock()
        self._closed = False
        self._open: dict[str, Notice] = {}
        self._handled: dict[str, None] = {}
        self._under_way: list[Undertaking] = []

    # --- what the agent says -----------------------------------------------------------------

    def list_anew(self, notices: Iterable[messages.Notice], now: float) -> list[Notice]:
        """Enter all that is open according to the agent; return the notices that are news."""
        notices = tuple(notices)
        listed = {notice.id for notice in notices}
        with self._lock:
            for key in self._open.keys() - listed:
                del self._open[key]
            self._look_again()
            for undertaking in self._under_way:
                if undertaking.report is None:
                    self._intend(undertaking, (key for key in undertaking.ids if key in listed))
            return [fresh for notice in notices if (fresh := self.receive(notice, now))]

    def receive(self, message: messages.Notice, now: float) -> Notice | None:
        """Enter a notice, new or changed, that arrived at ``now``; return it if it is news."""
        notice = received(message, now)
        with self._lock:
            known = notice.id in self._open
            if not known and len(self._open) >= OPEN_LIMIT:
                return None
            for superseded in notice.supersedes:
                self._open.pop(superseded, None)
            self._open[notice.id] = notice
            if notice.id in self._handled:
                self._outbox.claim(notice.id)
                return None
            self._outbox.put(Ack(notice.id, values.whole(self.step)))
            if not self._is_under_way(notice.id):
                self._join(notice)
            self.pending = True
        return None if known else notice

    def withdraw(self, key: str) -> None:
        """Strike out a notice that no longer stands."""
        with self._lock:
            self._open.pop(key, None)
            self._look_again()

    # --- what training does about it ---------------------------------------------------------

    def choose(self) -> Notice | None:
        """Return the most urgent notice that nobody has dealt with yet."""
        # Cleared first: whatever sets it from here on, without the lock, is found by the next call.
        self.pending = False
        if self._closed:
            return None
        with self._lock:
            left = [notice for notice in self._standing() if not self._is_seen_to(notice)]
            # The signal only repeats what an agent's notice has said.
            if any(
                notice.ends_training and self._is_seen_to(notice) for notice in self._open.values()
            ):
                left = [notice for notice in left if not self._is_own(notice.id)]
            notice = min(left, key=precedence, default=None)
            if notice is not None:
                self.pending = True
            return notice

    def begin(self, notice: Notice, will: str, step: object) -> Undertaking:
        """Note that a flush for a notice is under way."""
        undertaking = Undertaking(will, values.whole(step), [notice.id])
        with self._lock:
            self._under_way.append(undertaking)
            self._intend(undertaking, undertaking.ids)
            for other in list(self._open.values()):
                if not self._is_seen_to(other):
                    self._join(other)
        return undertaking

    def settle(self, undertaking: Undertaking, report: Report) -> list[str] | None:
        """Note what came of a flush and tell the agent, for every notice that it serves.

        Returns:
            The ids that the agent was told about; ``None`` where it had been settled before.
        """
        with self._lock:
            if undertaking.report is not None:
                return None
            undertaking.report = report
            for key in undertaking.ids:
                self._handle(key)
            told = [key for key in undertaking.ids if not self._is_own(key)]
            for key in told:
                self._outbox.put(replace(report, id=key))
            return told

    def end(self, undertaking: Undertaking) -> None:
        """Note that training goes on: no later notice is served by this flush."""
        with self._lock:
            if undertaking in self._under_way:
                self._under_way.remove(undertaking)
            self._look_again()

    def ignore(self, notice: Notice, step: object) -> None:
        """Note that training will do nothing about a notice."""
        with self._lock:
            self._handle(notice.id)
            if not self._is_own(notice.id):
                self._outbox.put(Intent(notice.id, "ignore", values.whole(step)))

    # --- what can be asked -------------------------------------------------------------------

    def served(self, undertaking: Undertaking) -> list[Notice]:
        """Return the notices that a flush serves and that still stand, as they are now."""
        with self._lock:
            return [notice for notice in self._standing() if notice.id in undertaking.ids]

    def most_urgent(self) -> Notice | None:
        """Return the most urgent notice that stands, dealt with or not."""
        with self._lock:
            return min(self._standing(), key=precedence, default=None)

    @property
    def handled(self) -> tuple[str, ...]:
        """Ids that have been dealt with, the oldest first."""
        with self._lock:
            return tuple(key for key in self._handled if not self._is_own(key))

    @property
    def open_ids(self) -> frozenset[str]:
        """Ids of the agent's notices that stand."""
        with self._lock:
            return frozenset(self._open)

    def close(self) -> None:
        """Let no more notices be chosen; what stands can still be asked."""
        self._closed = True

    def abandon(self) -> None:
        """Forget everything, in a child after a fork, where the lock may be held for ever."""
        self._lock = threading.RLock()
        self._closed = True
        self._open = {}
        self.local = None

    # --- inside ------------------------------------------------------------------------------

    def _join(self, notice: Notice) -> None:
        """Have a flush under way serve a notice too that took the place of one of its own."""
        for undertaking in self._under_way:
            if not self._takes_over(notice, undertaking.ids):
                continue
            undertaking.ids.append(notice.id)
            if undertaking.report is None:
                self._intend(undertaking, (notice.id,))
            else:
                self._handle(notice.id)
                self._outbox.put(replace(undertaking.report, id=notice.id))
            return

    def _takes_over(self, notice: Notice, ids: list[str]) -> bool:
        own = any(self._is_own(key) for key in ids)
        return not set(ids).isdisjoint(notice.supersedes) or (own and notice.ends_training)

    def _standing(self) -> list[Notice]:
        return [*self._open.values(), *([self.local] if self.local else [])]

    def _look_again(self) -> None:
        """Have the next poll choose anew: what stood in the way of a notice may be gone."""
        if self._standing():
            self.pending = True

    def _intend(self, undertaking: Undertaking, ids: Iterable[str]) -> None:
        for key in ids:
            if not self._is_own(key):
                self._outbox.put(Intent(key, undertaking.will, undertaking.at_step))

    def _handle(self, key: str) -> None:
        self._handled[key] = None
        while len(self._handled) > HANDLED_LIMIT:
            closed = (key for key in self._handled if key not in self._open)
            del self._handled[next(closed)]

    def _is_own(self, key: str) -> bool:
        return self.local is not None and key == self.local.id

    def _is_under_way(self, key: str) -> bool:
        return any(key in undertaking.ids for undertaking in self._under_way)

    def _is_seen_to(self, notice: Notice) -> bool:
        return notice.id in self._handled or self._is_under_way(notice.id)
