"""The journal's file against real file systems: modes, torn lines, locks, rotation, full disks."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastcall.record.journal_file import KEPT, JournalFile
from support.needs import need_root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    need_root()
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True, timeout=10
    )
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True, timeout=10)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[JournalFile]:
    journal = JournalFile(tmp_path)
    yield journal
    journal.close()


def content(file: JournalFile) -> bytes:
    return file.path.read_bytes()


def test_a_missing_directory_reads_as_nothing_and_is_made_by_the_first_write(
    tmp_path: Path,
) -> None:
    file = JournalFile(tmp_path / "a" / "b")

    assert file.read() == b""
    file.append(b"1\n")

    assert content(file) == b"1\n"
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    file.close()


def test_the_file_is_for_the_agent_alone(file: JournalFile) -> None:
    file.append(b"1\n")

    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_an_append_without_lines_opens_the_file(file: JournalFile) -> None:
    file.append(b"")

    assert content(file) == b""


def test_what_is_there_stays_and_is_counted(file: JournalFile) -> None:
    file.path.write_bytes(b"1\n2\n")

    assert file.read() == b"1\n2\n"
    file.append(b"3\n")

    assert content(file) == b"1\n2\n3\n"
    assert file.size_bytes == 6


def test_a_torn_last_line_is_ended_before_the_next_one(file: JournalFile) -> None:
    file.path.write_bytes(b"1\n2 is to")

    file.append(b"3\n")

    assert content(file) == b"1\n2 is to\n3\n"


def test_a_file_that_was_taken_away_is_made_anew(file: JournalFile) -> None:
    file.append(b"1\n")
    file.path.unlink()

    file.append(b"2\n")

    assert content(file) == b"2\n"


def test_a_directory_that_was_taken_away_is_made_anew(tmp_path: Path) -> None:
    file = JournalFile(tmp_path / "state")
    file.append(b"1\n")
    (tmp_path / "state").rename(tmp_path / "away")

    file.append(b"2\n")

    assert content(file) == b"2\n"
    file.close()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_at_once(file: JournalFile, make: object) -> None:
    assert callable(make)
    make(file.path)

    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        file.read()
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        file.append(b"1\n")


def test_a_second_agent_gets_neither_the_past_nor_the_pen(
    file: JournalFile, tmp_path: Path
) -> None:
    file.append(b"1\n")
    second = JournalFile(tmp_path)

    with pytest.raises(BlockingIOError, match="another agent"):
        second.read()
    with pytest.raises(BlockingIOError, match="another agent"):
        second.append(b"2\n")

    assert content(file) == b"1\n"


def test_once_the_first_agent_is_gone_the_second_begins_a_journal_of_its_own(
    file: JournalFile, tmp_path: Path
) -> None:
    file.append(b"1\n")
    second = JournalFile(tmp_path)
    with pytest.raises(BlockingIOError):
        second.read()
    file.close()

    second.append(b"2\n")

    assert content(second) == b"2\n"
    assert (tmp_path / "journal.1.jsonl").read_bytes() == b"1\n"
    second.close()


def test_a_rotation_puts_the_old_file_aside_and_begins_with_what_is_known(
    file: JournalFile, tmp_path: Path
) -> None:
    file.append(b"1\n")

    file.rotate(b"all\n")
    file.append(b"2\n")

    assert content(file) == b"all\n2\n"
    assert file.size_bytes == 6
    assert (tmp_path / "journal.1.jsonl").read_bytes() == b"1\n"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert not (tmp_path / "journal.new").exists()


def test_only_so_many_old_files_are_kept(file: JournalFile, tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        file.append(b"%d\n" % number)
        file.rotate()

    kept = {path.name: path.read_bytes() for path in tmp_path.glob("journal.*.jsonl")}
    newest = KEPT + 2
    assert kept == {f"journal.{n}.jsonl": b"%d\n" % (newest + 1 - n) for n in range(1, KEPT + 1)}


def test_without_hard_links_a_rotation_moves_the_file(
    file: JournalFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    file.append(b"1\n")

    file.rotate(b"all\n")

    assert content(file) == b"all\n"
    assert (tmp_path / "journal.1.jsonl").read_bytes() == b"1\n"


@pytest.mark.root
def test_a_full_disk_takes_a_line_whole_or_not_at_all(small_disk: Path) -> None:
    file = JournalFile(small_disk)
    file.append(b"1\n")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 56 * 1024)

    with pytest.raises(OSError, match="No space left") as raised:
        file.append(b"y" * 16 * 1024 + b"\n")

    assert raised.value.errno == errno.ENOSPC
    assert content(file) == b"1\n"
    ballast.unlink()
    file.append(b"2\n")
    assert content(file) == b"1\n2\n"
    file.close()


@pytest.mark.root
def test_a_disk_too_full_to_rotate_keeps_the_old_file_going(small_disk: Path) -> None:
    file = JournalFile(small_disk)
    file.append(b"1\n")
    (small_disk / "ballast").write_bytes(b"x" * 56 * 1024)

    with pytest.raises(OSError, match="No space left"):
        file.rotate(b"y" * 16 * 1024)
    file.append(b"2\n")

    assert content(file) == b"1\n2\n"
    assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "journal.jsonl"]
    file.close()


@pytest.mark.root
def test_a_disk_turned_read_only_can_still_be_read(small_disk: Path) -> None:
    first = JournalFile(small_disk)
    first.append(b"1\n")
    first.close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=10)
    file = JournalFile(small_disk)

    assert file.read() == b"1\n"
    with pytest.raises(OSError, match="Read-only") as raised:
        file.append(b"2\n")

    assert raised.value.errno == errno.EROFS
    file.close()
