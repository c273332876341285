"""Random but possible courses of events, for what must hold in all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from lastcall.core.commands import Command, Cordon, Drain, Tell, Uncordon
from lastcall.core.events import (
    Acked,
    AllTold,
    Beat,
    CheckpointReported,
    ClientLeft,
    CordonEnded,
    CordonFound,
    CordonLifted,
    CordonMissing,
    DrainEnded,
    Event,
    FlushFailed,
    Intended,
    ProcessDied,
    Progressed,
    Rebooted,
    ResumeReported,
    SourcePolled,
    Started,
    UncordonEnded,
)
from lastcall.core.model import Action, Sighting
from support.happenings import (
    EVENTS,
    FILE,
    LOGIND,
    MAINTENANCE,
    PREEMPTED,
    REBALANCE,
    SCHEDULED,
    SCOPES,
    SPOT,
    TARGET_STATE,
    Scope,
    announced_by_file,
    azure,
    drill,
    flushed,
    host_maintenance,
    joined,
    preempted,
    rebalance,
    scheduled,
    shutdown,
    spot,
    terminated,
)
from support.story import Story

PROCESSES = 4
PAUSES_SECONDS = (0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 7.0, 12.0, 25.0, 70.0, 400.0, 2000.0)

VARIANTS: dict[Scope, tuple[Callable[[float], Sighting], ...]] = {
    SPOT: (
        lambda now: spot(now + 120),
        lambda now: spot(now + 240),
        lambda now: spot(now + 15, Action.STOP),
        lambda now: spot(now - 5),
        lambda _: spot(None),
    ),
    TARGET_STATE: (lambda _: terminated(),),
    REBALANCE: (lambda now: rebalance(f"made at {now // 1000}"),),
    SCHEDULED: (
        lambda now: scheduled(now + 1500, "near"),
        lambda now: scheduled(now + 86400, "far"),
        lambda _: scheduled(None, "undated"),
    ),
    PREEMPTED: (lambda _: preempted(),),
    MAINTENANCE: (
        lambda _: host_maintenance("MIGRATE_ON_HOST_MAINTENANCE"),
        lambda _: host_maintenance("TERMINATE_ON_HOST_MAINTENANCE"),
    ),
    EVENTS: (
        lambda now: azure("Preempt", now + 30, "p", acknowledgeable=True),
        lambda now: azure("Reboot", now + 800, "r", acknowledgeable=True),
        lambda now: azure("Freeze", now + 60, "f"),
        lambda now: azure("Reboot", None, "failed", deadline=now),
    ),
    LOGIND: (lambda _: shutdown(),),
    FILE: (lambda _: announced_by_file(),),
}
"""What may come to stand in each scope at a moment."""


@dataclass(frozen=True)
class Step:
    """One thing that happens after a pause; the numbers pick among what is there then."""

    pause_seconds: float
    what: str
    which: int
    how: int


class Course:
    """Turns steps into events that can follow each other, and has a story told by them.

    Attributes:
        story: the story so far.
    """

    def __init__(self, story: Story) -> None:
        """Begin with no process and with sources that show nothing."""
        self.story = story
        self._shown: dict[Scope, tuple[Sighting, ...]] = {}
        self._sessions: dict[int, str] = {}
        self._handled: dict[int, set[str]] = {}
        self._unanswered: list[Command] = []
        self._connections = 0
        self._read = 0

    def take(self, step: Step) -> None:
        """Let the pause pass and the event happen, where it can."""
        self.story.at(self.story.now + step.pause_seconds)
        event = _HAPPENINGS[step.what](self, step)
        if event is not None:
            self.story.at(self.story.now, event)
        decided = self.story.decided[self._read :]
        self._read = len(self.story.decided)
        self._unanswered += [c for c in decided if isinstance(c, (Tell, Cordon, Uncordon, Drain))]

    def show(self, step: Step) -> Event:
        """Have a source show one more thing, or the same thing with another time."""
        scope, variants = list(VARIANTS.items())[step.which % len(VARIANTS)]
        new = variants[step.how % len(variants)](self.story.now)
        others = [one for one in self._shown.get(scope, ()) if one.key != new.key]
        self._shown[scope] = (*others, new) if scope in (SCHEDULED, EVENTS) else (new,)
        return scope.shows(*self._shown[scope])

    def look(self, step: Step) -> Event:
        """Have a source look again."""
        scope = SCOPES[step.which % len(SCOPES)]
        return scope.shows(*self._shown.get(scope, ()))

    def clear(self, step: Step) -> Event:
        """Have a source show nothing any more."""
        standing = [scope for scope in SCOPES if self._shown.get(scope)] or SCOPES
        scope = standing[step.which % len(standing)]
        self._shown[scope] = ()
        return scope.shows()

    def poll(self, step: Step) -> Event:
        """Have a source answer, or not."""
        return SourcePolled("aws", ("ok", "timeout", "error")[step.how % 3])

    def join(self, step: Step) -> Event | None:
        """Have a process come, or come back."""
        process = step.which % PROCESSES
        if process in self._sessions:
            return None
        self._connections += 1
        session = self._sessions[process] = f"c{self._connections}"
        handled = tuple(sorted(self._handled.get(process, ())))
        name = f"process {process // 2}"
        return joined(
            session, process=name, job=f"job {process % 2}", rank=process, handled=handled
        )

    def lose(self, step: Step) -> Event | None:
        """Have a connection end without a farewell."""
        process = self._connected(step)
        if process is None:
            return None
        return ClientLeft(self._sessions.pop(process), said_bye=False, reason="reset")

    def leave(self, step: Step) -> Event | None:
        """Have a process say farewell."""
        process = self._connected(step)
        if process is None:
            return None
        self._handled.pop(process, None)
        return ClientLeft(self._sessions.pop(process), said_bye=True, reason="done")

    def die(self, step: Step) -> Event:
        """Have a process die, with all the clients that it is."""
        name = step.which % (PROCESSES // 2)
        for process in (2 * name, 2 * name + 1):
            self._sessions.pop(process, None)
            self._handled.pop(process, None)
        return ProcessDied(f"process {name}")

    def speak(self, step: Step) -> Event | None:
        """Have a client speak of a notice, most often of one that there is."""
        process = self._connected(step)
        if process is None:
            return None
        session, known = self._sessions[process], self.story.notices()
        told = [notice.id for notice in known if notice.told] or [notice.id for notice in known]
        name = told[-1 - step.how % min(len(told), 2)] if told else "no-such-id"
        said = (step.which + step.how) % 9
        if said in (2, 3, 4, 5, 6):
            self._handled.setdefault(process, set()).add(name)
        return (
            Acked(session, name, 7),
            Intended(session, name, "save", 8),
            Intended(session, name, "ignore"),
            FlushFailed(session, name, "disk full"),
            flushed(session, name, durable_seconds=4.0),
            flushed(session, name),
            flushed(session, name, durable=False),
            Progressed(session, name, "writing", 1, 2),
            Intended(session, "no-such-id", "save"),
        )[said]

    def train(self, step: Step) -> Event | None:
        """Have a client do what it does all day."""
        process = self._connected(step)
        if process is None:
            return None
        session = self._sessions[process]
        return (
            CheckpointReported(session=session, step=5, stall_seconds=1.0, durable_seconds=9.0),
            ResumeReported(session=session, step=5),
            Beat(session, 6),
        )[step.how % 3]

    def drill(self, step: Step) -> Event:
        """Have an operator ask for a drill."""
        return drill((30.0, 5.0, 300.0)[step.how % 3], drain=bool(step.which % 2))

    def answer(self, step: Step) -> Event | None:
        """Have a command end, well or not."""
        if not self._unanswered:
            return None
        command = self._unanswered.pop(step.which % len(self._unanswered))
        well = bool(step.how % 4)
        if isinstance(command, Tell):
            return AllTold(command.notice.id, len(command.sessions))
        if isinstance(command, Cordon):
            foreign = step.how % 8 == 4
            return CordonEnded(command.notice.id, well, foreign=foreign and not well)
        if isinstance(command, Drain):
            return DrainEnded(command.id, "drained" if well else "incomplete")
        assert isinstance(command, Uncordon)
        return UncordonEnded(command.id, well)

    def meddle(self, step: Step) -> Event:
        """Have somebody else act on the node, or an old cordon of ours come to light."""
        name = self.story.node.cordoned_for or "of-a-lost-journal"
        choices = (CordonLifted(name, "kubectl"), CordonFound(name), CordonMissing("made anew"))
        return choices[step.how % 3]

    def restart(self, _: Step) -> Event:
        """Have the agent come up again; what it was doing is forgotten."""
        self._sessions, self._unanswered = {}, []
        return Started()

    def reboot(self, _: Step) -> Event:
        """Have the machine come up again."""
        self._sessions, self._handled, self._unanswered = {}, {}, []
        return Rebooted()

    def close(self) -> None:
        """Have all sources let go, and enough time pass for everything to end."""
        for _ in range(3):
            now = self.story.now + 1
            self.story.at(now, *(scope.shows() for scope in SCOPES))
        self.story.at(self.story.now + 86400)

    def _connected(self, step: Step) -> int | None:
        here = sorted(self._sessions)
        return here[step.which % len(here)] if here else None


_HAPPENINGS: dict[str, Callable[[Course, Step], Event | None]] = {
    "show": Course.show,
    "look": Course.look,
    "clear": Course.clear,
    "poll": Course.poll,
    "join": Course.join,
    "lose": Course.lose,
    "leave": Course.leave,
    "die": Course.die,
    "speak": Course.speak,
    "train": Course.train,
    "drill": Course.drill,
    "answer": Course.answer,
    "meddle": Course.meddle,
    "restart": Course.restart,
    "reboot": Course.reboot,
}

_OFTEN = ["speak"] * 10 + ["show"] * 5 + ["join"] * 5 + ["answer"] * 4 + ["clear"] * 2
_WITHOUT_RESTART = (*_OFTEN, *(name for name in _HAPPENINGS if name != "restart"))


def courses(*, restarts: bool, longest: int = 60) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for courses; without restarts where the test brings its own.

    A course is drawn at random and then cut to a length, so that what fails is shown as the
    shortest beginning of it that fails. It starts with three processes.
    """
    happenings = (*_OFTEN, *_HAPPENINGS) if restarts else _WITHOUT_RESTART

    def course(seed: int, length: int) -> list[Step]:
        draw = random.Random(seed)
        begin = [Step(0.0, "join", process, 0) for process in range(3)]
        return begin + [
            Step(
                draw.choice(PAUSES_SECONDS),
                draw.choice(happenings),
                draw.randrange(1000),
                draw.randrange(1000),
            )
            for _ in range(length)
        ]

    return st.builds(course, st.integers(0, 2**32), st.integers(longest // 3, longest))
