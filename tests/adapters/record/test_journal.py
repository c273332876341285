"""The journal as the agent uses it: it never stops the agent, and says when it lost something."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lastcall.core.events import CheckpointReported, Event, ProcessDied, Restored, Started, Tick
from lastcall.core.model import Node
from lastcall.record.journal import Journal
from lastcall.record.journal_backlog import LIMIT_BYTES
from lastcall.record.journal_file import JournalFile

MakeJournal = Callable[..., Journal]
Warnings = list[tuple[str, str]]


@pytest.fixture
def warnings() -> list[tuple[str, str]]:
    """What the journals of a test warned of, in order."""
    return []


@pytest.fixture
def make_journal(tmp_path: Path, warnings: list[tuple[str, str]]) -> Iterator[MakeJournal]:
    """Journals that are closed with the test; retries do not pause for long."""
    with ExitStack() as stack:

        def make(
            state_dir: Path = tmp_path,
            *,
            boot_id: str = "boot-1",
            file: JournalFile | None = None,
            retry_seconds: tuple[float, float] = (0.01, 0.05),
            stuck_seconds: float = 2.0,
        ) -> Journal:
            journal = Journal(
                state_dir,
                boot_id,
                wall=lambda: 1700000000.0,
                warn=lambda name, detail: warnings.append((name, detail)),
                retry_seconds=retry_seconds,
                stuck_seconds=stuck_seconds,
                file=file,
            )
            stack.callback(journal.close)
            return journal

        yield make


class FaultyFile(JournalFile):
    """A disk that writes so many bytes and then fails, hangs, or both, until it is mended."""

    def __init__(self, state_dir: Path, *, room_bytes: int = 0, error: int = errno.ENOSPC) -> None:
        super().__init__(state_dir)
        self.room_bytes: int | None = room_bytes
        self.error = error
        self.answers = threading.Event()
        self.answers.set()

    def _write(self, file: int, content: memoryview) -> int:
        if self.room_bytes is None:
            return super()._write(file, content)
        if not self.room_bytes:
            raise OSError(self.error, os.strerror(self.error))
        written = super()._write(file, content[: self.room_bytes])
        self.room_bytes -= written
        return written

    def _sync(self, file: int) -> None:
        self.answers.wait(10)
        super()._sync(file)


def died(number: int) -> ProcessDied:
    return ProcessDied(f"{number}@1")


def events(journal: Journal) -> list[Event]:
    return [event for _, event in journal.replay().events]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


async def test_what_was_appended_is_replayed_in_order_with_its_times(
    make_journal: MakeJournal,
) -> None:
    journal = make_journal()
    journal.start()
    for number in range(3):
        journal.append(died(number), 10.0 + number)
    assert await journal.durable(5)
    journal.close()

    replay = make_journal().replay()

    assert replay.events == [(10.0, died(0)), (11.0, died(1)), (12.0, died(2))]
    assert replay.same_boot
    assert replay.skipped == 0


def test_no_journal_remembers_nothing(make_journal: MakeJournal, warnings: Warnings) -> None:
    replay = make_journal().replay()

    assert (replay.events, replay.same_boot, replay.skipped) == ([], True, 0)
    assert warnings == []


async def test_the_journal_of_an_earlier_boot_is_told_apart(make_journal: MakeJournal) -> None:
    earlier = make_journal(boot_id="boot-0")
    earlier.start()
    earlier.append(Started(), 500.0)
    earlier.close()

    assert not make_journal(boot_id="boot-1").replay().same_boot


async def test_broken_lines_are_warned_of_once(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b"one\ntwo\n")

    assert make_journal().replay().skipped == 2

    assert [name for name, _ in warnings] == ["journal_lines_skipped"]
    assert "2 of 2 lines" in warnings[0][1]


def test_a_journal_that_cannot_be_read_is_trouble_and_remembers_nothing(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    journal = make_journal()

    assert journal.replay().events == []
    assert not journal.healthy
    assert [name for name, _ in warnings] == ["journal_unavailable"]


async def test_nothing_appended_is_durable_at_once(make_journal: MakeJournal) -> None:
    assert await make_journal().durable(0)


async def test_closing_writes_what_is_left(make_journal: MakeJournal) -> None:
    journal = make_journal()
    journal.start()
    journal.append(died(1), 1.0)
    journal.close()

    assert events(make_journal()) == [died(1)]


async def test_trouble_is_found_before_the_first_event(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    journal = make_journal(tmp_path / "state")

    journal.start()
    await until(lambda: bool(warnings))

    assert warnings[0][0] == "journal_unavailable"
    assert not journal.healthy


async def test_a_full_disk_is_warned_of_once_and_so_is_its_recovery(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    file = FaultyFile(tmp_path)
    journal = make_journal(file=file)
    journal.start()
    for number in range(3):
        journal.append(died(number), float(number))
        assert not await journal.durable(5)
    assert "No space left" in journal.trouble
    assert journal.errors >= 3

    file.room_bytes = None

    assert await journal.durable(5)
    await until(lambda: journal.healthy)
    await asyncio.sleep(0)
    assert [name for name, _ in warnings] == ["journal_unavailable", "journal_recovered"]
    journal.close()
    assert events(make_journal()) == [died(0), died(1), died(2)]


@pytest.mark.parametrize("room_bytes", [1, 60, 150, 300])
async def test_a_line_that_was_cut_off_by_a_full_disk_is_written_again_whole(
    make_journal: MakeJournal, tmp_path: Path, room_bytes: int
) -> None:
    file = FaultyFile(tmp_path, room_bytes=room_bytes)
    journal = make_journal(file=file)
    for number in range(3):
        journal.append(died(number), float(number))
    journal.start()
    assert not await journal.durable(5)

    file.room_bytes = None
    assert await journal.durable(5)
    journal.close()

    replay = make_journal().replay()
    assert [event for _, event in replay.events] == [died(0), died(1), died(2)]
    assert replay.skipped == 0


async def test_without_anyone_waiting_the_disk_is_tried_again_by_itself(
    make_journal: MakeJournal, tmp_path: Path
) -> None:
    file = FaultyFile(tmp_path, error=errno.EROFS)
    journal = make_journal(file=file)
    journal.start()
    journal.append(died(1), 1.0)
    await until(lambda: not journal.healthy)

    file.room_bytes = None

    await until(lambda: journal.healthy)
    assert died(1).identity.encode() in file.path.read_bytes()


async def test_a_change_of_trouble_is_news(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    file = FaultyFile(tmp_path)
    journal = make_journal(file=file)
    journal.start()
    journal.append(died(1), 1.0)
    assert not await journal.durable(5)

    file.error = errno.EIO
    assert not await journal.durable(5)

    await until(lambda: len(warnings) == 2)
    assert "No space left" in warnings[0][1]
    assert "Input/output error" in warnings[1][1]


async def test_a_disk_that_hangs_holds_up_nobody_for_longer_than_they_wait(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    file = FaultyFile(tmp_path)
    file.room_bytes = None
    file.answers.clear()
    journal = make_journal(file=file, stuck_seconds=0.01)
    journal.start()
    journal.append(died(1), 1.0)

    assert not await journal.durable(0.2)
    assert "does not answer" in journal.trouble

    file.answers.set()
    assert await journal.durable(5)
    await until(lambda: len(warnings) == 2)
    assert [name for name, _ in warnings] == ["journal_unavailable", "journal_recovered"]


async def test_a_disk_that_is_merely_slow_is_no_trouble(
    make_journal: MakeJournal, tmp_path: Path
) -> None:
    file = FaultyFile(tmp_path)
    file.room_bytes = None
    file.answers.clear()
    journal = make_journal(file=file, stuck_seconds=60.0)
    journal.start()
    journal.append(died(1), 1.0)

    assert not await journal.durable(0.01)
    assert journal.healthy

    file.answers.set()
    assert await journal.durable(5)
    assert journal.errors == 0


async def test_while_the_disk_hangs_memory_is_bounded_and_the_loss_is_told(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    file = FaultyFile(tmp_path)
    file.room_bytes = None
    file.answers.clear()
    journal = make_journal(file=file)
    journal.start()
    large = "x" * (LIMIT_BYTES // 8)
    for number in range(12):
        journal.append(ProcessDied(f"{number}{large}"), float(number))
    waiting = asyncio.create_task(journal.durable(5))
    await asyncio.sleep(0)

    file.answers.set()

    assert not await waiting
    assert journal.errors >= 4
    await until(lambda: any("events are let go" in detail for _, detail in warnings))
    assert await journal.durable(5)
    journal.close()
    kept = [int(event.identity.partition("x")[0]) for event in events(make_journal())]
    assert kept[-1] == 11


async def test_an_event_that_cannot_be_written_costs_only_itself(
    make_journal: MakeJournal, warnings: Warnings
) -> None:
    journal = make_journal()
    journal.start()
    journal.append(CheckpointReported(session="s", step=1, path="\udc80"), 1.0)
    journal.append(died(1), 2.0)

    assert not await journal.durable(5)
    assert await journal.durable(5)

    assert [name for name, _ in warnings] == ["journal_event_unwritable"]
    assert journal.errors == 1
    journal.close()
    assert events(make_journal()) == [died(1)]


async def test_a_second_agent_runs_without_a_journal_until_the_first_is_gone(
    make_journal: MakeJournal, warnings: Warnings
) -> None:
    first = make_journal()
    first.start()
    first.append(died(1), 1.0)
    assert await first.durable(5)

    second = make_journal()
    assert second.replay().events == []
    second.start()
    second.append(died(2), 2.0)
    assert not await second.durable(5)
    assert [name for name, _ in warnings] == ["journal_unavailable"]
    assert "another agent" in warnings[0][1]

    first.close()
    assert await second.durable(5)
    second.close()
    assert events(make_journal()) == [died(2)]


async def test_a_large_journal_is_rotated_and_the_new_one_begins_with_all_that_is_known(
    make_journal: MakeJournal, tmp_path: Path
) -> None:
    known = Restored(Node(interruptions=3))
    journal = make_journal()
    journal._rotate_above_bytes = 1000
    journal.start()
    for number in range(20):
        journal.append(died(number), float(number))
    assert await journal.durable(5)

    journal.rotate_if_large(lambda: known, 20.0)
    journal.append(died(99), 21.0)
    assert await journal.durable(5)
    journal.close()

    assert make_journal().replay().events == [(20.0, known), (21.0, died(99))]
    assert (tmp_path / "journal.1.jsonl").read_bytes().count(b"\n") == 20


async def test_a_small_journal_is_not_rotated(make_journal: MakeJournal) -> None:
    journal = make_journal()
    journal.start()
    journal.append(died(1), 1.0)
    assert await journal.durable(5)

    journal.rotate_if_large(lambda: pytest.fail("not asked for"), 2.0)
    journal.close()

    assert events(make_journal()) == [died(1)]


async def test_a_rotation_that_fails_loses_nothing_and_is_not_tried_at_every_event(
    make_journal: MakeJournal, tmp_path: Path, warnings: Warnings
) -> None:
    attempts = itertools.count()

    class Unmovable(JournalFile):
        def rotate(self, first_line: bytes = b"") -> None:
            next(attempts)
            raise OSError(errno.EACCES, "Permission denied")

    journal = make_journal(file=Unmovable(tmp_path))
    journal._rotate_above_bytes = 10
    journal.start()
    for number in range(3):
        journal.append(died(number), float(number))
        assert await journal.durable(5)
        journal.rotate_if_large(lambda: Restored(Node()), 3.0)
    await until(lambda: bool(warnings))
    journal.close()

    assert next(attempts) == 1
    assert events(make_journal()) == [died(0), died(1), died(2)]


WRITER = """
import asyncio, itertools, sys
from pathlib import Path
from lastcall.core.events import ProcessDied
from lastcall.record.journal import Journal

async def main():
    journal = Journal(Path(sys.argv[1]), "boot-1", wall=lambda: 0.0, warn=print)
    journal.start()
    for number in itertools.count():
        journal.append(ProcessDied(str(number)), float(number))
        if number % 10 == 0:
            assert await journal.durable(5)
            print(number, flush=True)

asyncio.run(main())
"""


def test_a_journal_whose_writer_was_killed_holds_all_that_was_confirmed(
    make_journal: MakeJournal, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        confirmed = [int(writer.stdout.readline()) for _ in range(20)][-1]
        writer.send_signal(signal.SIGKILL)

    replayed = [int(event.identity) for event in events(make_journal())]

    assert len(replayed) > confirmed
    assert replayed == list(range(len(replayed)))


async def test_appending_is_quick_while_the_disk_hangs(
    make_journal: MakeJournal, tmp_path: Path
) -> None:
    file = FaultyFile(tmp_path)
    file.room_bytes = None
    file.answers.clear()
    journal = make_journal(file=file)
    journal.start()
    loop = asyncio.get_running_loop()

    began_at = loop.time()
    for number in range(1000):
        journal.append(Tick(), float(number))
    took_seconds = loop.time() - began_at

    file.answers.set()
    assert took_seconds < 1.0
