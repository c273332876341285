"""The journal: every event that matters, on disk, written off the loop; a restart replays it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lastcall.core.events import CheckpointReported, Event, Tick
from lastcall.record.journal_backlog import Backlog
from lastcall.record.journal_file import JournalFile
from lastcall.record.journal_lines import Entry, decode_lines, encode_line

ROTATE_BYTES = 1024 * 1024
"""Size above which the file is put aside, once nothing is open."""

_ROUTINE = (CheckpointReported, Tick)

Warn = Callable[[str, str], None]
"""Takes an event name for the log, and a detail for people."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What the journal remembers.

    Attributes:
        events: each with its time on the monotonic clock of its boot, in the order they happened.
        same_boot: whether the last of them is of this boot; true where there are none.
        skipped: lines that could not be read.
    """

    events: list[tuple[float, Event]]
    same_boot: bool
    skipped: int


@dataclass(frozen=True, slots=True)
class _Rotation:
    """A new file that is due: after which event, and the line that it begins with."""

    after: int
    first_line: bytes


@dataclass(frozen=True, slots=True)
class _Waiter:
    """One who waits for an event on the disk, or for an attempt that began later and failed."""

    last: int
    after_attempt: int
    answer: asyncio.Future[bool]


class Journal:
    """Keeps the events of one agent in ``state_dir/journal.jsonl``.

    A disk that is full, read-only, gone or hanging costs the record and nothing else: events wait
    in memory, up to a limit, while the writer tries again. Near the limit routine events
    (checkpoints, ticks) are let go, and at the limit the oldest of all.

    Attributes:
        errors: failed attempts and lost events since the start.
        trouble: what is wrong with the disk now; empty when nothing is.
    """

    def __init__(
        self,
        state_dir: Path,
        boot_id: str,
        *,
        wall: Callable[[], float],
        warn: Warn,
        retry_seconds: tuple[float, float] = (1.0, 30.0),
        stuck_seconds: float = 2.0,
        file: JournalFile | None = None,
    ) -> None:
        """Prepare the journal; nothing is touched yet.

        Args:
            state_dir: where it is kept; made when missing.
            boot_id: names the machine's present boot, as the kernel's ``random/boot_id`` does.
            wall: returns Unix seconds.
            warn: told once of each trouble, and of its end, on the loop.
            retry_seconds: the first pause after a failure, and the longest that it grows to.
            stuck_seconds: how long the disk may take for a write before that is trouble.
            file: the journal on the disk, where it is not to be the usual one.
        """
        self.errors = 0
        self.trouble = ""
        self._file = file if file is not None else JournalFile(state_dir)
        self._boot_id = boot_id
        self._wall = wall
        self._warn = warn
        self._retry_seconds = retry_seconds
        self._stuck_seconds = stuck_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._waiters: list[_Waiter] = []
        self._changed = threading.Condition()
        # All below is shared with the writer thread, under the condition's lock.
        self._backlog = Backlog()
        self._rotation: _Rotation | None = None
        self._rotate_above_bytes = ROTATE_BYTES
        self._attempts = 0
        self._writing_since: float | None = None
        self._urgent = True
        self._closing = False

    @property
    def healthy(self) -> bool:
        """Whether the disk takes what it is given."""
        return not self.trouble

    def replay(self) -> Replay:
        """Return what the journal remembers; it blocks and is meant for before the loop runs.

        A journal that is missing or cannot be read remembers nothing.
        """
        try:
            entries, skipped = decode_lines(self._file.read())
        except OSError as error:
            self._fail(self._describe(error))
            return Replay([], same_boot=True, skipped=0)
        if skipped:
            total = len(entries) + skipped
            detail = f"{skipped} of {total} lines in {self._file.path} could not be read"
            self._warn("journal_lines_skipped", detail)
        same_boot = not entries or entries[-1].boot == self._boot_id
        return Replay([(entry.at, entry.event) for entry in entries], same_boot, skipped)

    def start(self) -> None:
        """Start the writer thread; called on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_on, name="journal", daemon=True)
        self._thread.start()

    def append(self, event: Event, at: float) -> None:
        """Have an event written; never blocks, never raises.

        Args:
            event: what happened.
            at: when, on the monotonic clock.
        """
        line = self._line(event, at)
        with self._changed:
            if line is None:
                dropped = self._backlog.lose()
            else:
                dropped = self._backlog.put(line, routine=isinstance(event, _ROUTINE))
            self.errors += dropped
            self._changed.notify()
        if dropped and line is not None and self.healthy:
            self._fail(f"{self._file.path}: the disk does not keep up, events are let go")

    async def durable(self, timeout_seconds: float) -> bool:
        """Wait until everything appended so far is on the disk, and return whether it is.

        A disk that is in trouble is tried again at once, and the answer is no if it still is.
        """
        with self._changed:
            last, durable_before = self._backlog.last, self._backlog.durable
            if durable_before >= last:
                return True
            self._urgent = True
            self._changed.notify()
            answer = asyncio.get_running_loop().create_future()
            waiter = _Waiter(last, self._attempts, answer)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_seconds):
                written = await answer
        except TimeoutError:
            written = self._backlog.durable >= last
            self._look_at_the_disk()
        finally:
            self._waiters.remove(waiter)
        return written and self._backlog.lost <= durable_before

    def rotate_if_large(self, snapshot: Callable[[], Event], at: float) -> None:
        """Begin a new file where the old one has grown large; never blocks, never raises.

        What was appended before goes into the old file, what comes after into the new one. A
        restart replays the new one alone, so that one begins with all that is known.

        Args:
            snapshot: returns the event that holds all that is known.
            at: when that was so, on the monotonic clock.
        """
        with self._changed:
            if self._file.size_bytes <= self._rotate_above_bytes or self._rotation is not None:
                return
        line = self._line(snapshot(), at)
        with self._changed:
            # One that fails is not tried again until the file has grown as much once more.
            self._rotate_above_bytes = self._file.size_bytes + ROTATE_BYTES
            if line is not None:
                self._rotation = _Rotation(self._backlog.last, line)
                self._changed.notify()

    def close(self, timeout_seconds: float = 2.0) -> None:
        """Write what is left, as far as the disk lets it in that time, and stop the writer."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None:
            self._file.close()
        else:
            self._thread.join(timeout_seconds)

    # --- the writer thread ---------------------------------------------------------------------

    def _write_on(self) -> None:
        pause_seconds = 0.0
        first_seconds, longest_seconds = self._retry_seconds
        while True:
            with self._changed:
                due = self._called if pause_seconds else self._due
                self._changed.wait_for(due, pause_seconds or None)
                self._urgent = False
                closing = self._closing
            if self._attempt():
                pause_seconds = 0.0
                if closing and not self._backlog:
                    break
            else:
                pause_seconds = min(max(2 * pause_seconds, first_seconds), longest_seconds)
                if closing:
                    break
        self._file.close()

    def _called(self) -> bool:
        return self._urgent or self._closing

    def _due(self) -> bool:
        return self._called() or bool(self._backlog) or self._rotation is not None

    def _attempt(self) -> bool:
        """Write all that waits, or up to the point of a rotation; return whether it went."""
        with self._changed:
            rotation, self._rotation = self._rotation, None
            until = self._backlog.last if rotation is None else rotation.after
            lines = self._backlog.batch(until)
            self._attempts += 1
            attempt = self._attempts
            self._writing_since = time.monotonic()
        try:
            self._file.append(lines)
            with self._changed:
                self._backlog.confirm(until)
            if rotation is not None:
                self._file.rotate(rotation.first_line)
                self._rotate_above_bytes = self._file.size_bytes + ROTATE_BYTES
        except OSError as error:
            self._fail(self._describe(error))
        else:
            self._recover()
        self._writing_since = None
        self._on_loop(self._answer, attempt, until)
        return self.healthy

    # --- from either side ----------------------------------------------------------------------

    def _line(self, event: Event, at: float) -> bytes | None:
        try:
            return encode_line(Entry(self._boot_id, at, self._wall(), event))
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            self._tell("journal_event_unwritable", f"{type(event).__name__}: {error}")
            return None

    def _describe(self, error: OSError) -> str:
        return f"{error.filename or self._file.path}: {error.strerror or error}"

    def _fail(self, trouble: str) -> None:
        with self._changed:
            self.errors += 1
            news = trouble != self.trouble
            self.trouble = trouble
        if news:
            self._tell("journal_unavailable", trouble)

    def _recover(self) -> None:
        with self._changed:
            trouble, self.trouble = self.trouble, ""
        if trouble:
            self._tell("journal_recovered", f"{self._file.path}: events are recorded again")

    def _tell(self, name: str, detail: str) -> None:
        self._on_loop(self._warn, name, detail)

    def _on_loop(self, callback: Callable[..., None], *args: str | int) -> None:
        if self._loop is None:
            callback(*args)
        else:
            with contextlib.suppress(RuntimeError):  # the loop has closed before the disk answered
                self._loop.call_soon_threadsafe(callback, *args)

    def _look_at_the_disk(self) -> None:
        """Make it known where a write hangs; a slow one is no trouble."""
        since = self._writing_since
        if since is not None and time.monotonic() - since >= self._stuck_seconds:
            self._fail(f"{self._file.path}: the disk does not answer")

    def _answer(self, attempt: int, tried: int) -> None:
        """Answer those who wait, as an attempt went that tried to write up to an event."""
        with self._changed:
            durable = self._backlog.durable
        for waiter in self._waiters:
            written = durable >= waiter.last
            failed = attempt > waiter.after_attempt and tried >= waiter.last
            if (written or failed) and not waiter.answer.done():
                waiter.answer.set_result(written)
