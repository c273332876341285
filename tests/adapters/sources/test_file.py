"""A notice file on a real file system: whole, half written, unreadable, in the way, and gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lastcall.core.model import Action, Kind
from lastcall.sources import file as file_source
from lastcall.sources.base import SystemClock
from lastcall.sources.file import SCOPE, FileSource
from lastcall.sources.file_look import CONTENT_LIMIT_BYTES, Absent, Found, Unclear, look
from support.needs import without_privileges
from support.watched_source import Recorder, watching

POLL_SECONDS = 0.02


@pytest.fixture
def seen() -> Recorder:
    return Recorder()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "signal.yml"


@pytest.fixture(autouse=True)
def settled_soon(monkeypatch):
    monkeypatch.setattr(file_source, "SETTLE_SECONDS", 0.02)


def source_at(path: Path, seen: Recorder, kind: Kind = Kind.PREEMPTION) -> FileSource:
    return FileSource(
        path=str(path), kind=kind, poll_seconds=POLL_SECONDS, post=seen, clock=SystemClock()
    )


async def appeared(seen: Recorder):
    await seen.until(lambda: seen.standing(SCOPE))
    await seen.polled(SCOPE, 1)
    (sighting,) = seen.standing(SCOPE)
    return sighting


async def removed(seen: Recorder) -> None:
    await seen.until(lambda: not seen.standing(SCOPE))


def replaced(path: Path, content: bytes) -> None:
    beside = path.with_name("beside")
    beside.write_bytes(content)
    beside.rename(path)


def in_seconds(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


async def test_nothing_at_the_path_is_no_notice_and_no_trouble(path, seen):
    async with watching(source_at(path, seen)):
        await seen.polled(SCOPE, 3)

    assert set(seen.results(SCOPE)) == {"ok"}
    assert all(report.sightings == () for report in seen.reports(SCOPE))


async def test_a_directory_that_is_missing_is_no_trouble_and_may_come_later(tmp_path, seen):
    path = tmp_path / "not" / "yet" / "signal"
    async with watching(source_at(path, seen)):
        await seen.polled(SCOPE, 2)
        assert set(seen.results(SCOPE)) == {"ok"}

        path.parent.mkdir(parents=True)
        path.touch()

        assert (await appeared(seen)).key == str(path)


async def test_an_empty_file_is_a_notice_and_its_removal_withdraws_it(path, seen):
    async with watching(source_at(path, seen, Kind.TERMINATION)):
        path.touch()
        sighting = await appeared(seen)
        assert (sighting.kind, sighting.action) == (Kind.TERMINATION, Action.UNKNOWN)
        assert (sighting.deadline, sighting.cancellable) == (None, True)
        assert seen.results(SCOPE)[-1] == "notice"

        path.unlink()
        await removed(seen)
        assert seen.reports(SCOPE)[-1].absences_to_withdraw == 1


async def test_mithrils_file_is_known(path, seen):
    path.write_text(
        f"instance_status: STATUS_PREEMPTING\nbid_status: Preempting\nend_time: {in_seconds(300)}\n"
    )
    async with watching(source_at(path, seen)):
        sighting = await appeared(seen)

    assert (sighting.kind, sighting.action, sighting.code) == (
        Kind.PREEMPTION,
        Action.STOP,
        "STATUS_PREEMPTING",
    )
    left_seconds = sighting.deadline - asyncio.get_running_loop().time()
    assert left_seconds == pytest.approx(300, abs=2)


async def test_a_file_says_itself_what_it_announces(path, seen):
    path.write_text(f'{{"deadline": "{in_seconds(900)}", "kind": "maintenance", "id": "a-1"}}')
    async with watching(source_at(path, seen)):
        sighting = await appeared(seen)

    assert (sighting.kind, sighting.identity) == (Kind.MAINTENANCE, "a-1")
    assert seen.results(SCOPE)[-1] == "notice"


async def test_a_lead_time_counts_from_the_appearance(path, seen):
    path.write_text('{"lead_seconds": 300}')
    appeared_unix = path.stat().st_ctime
    async with watching(source_at(path, seen)):
        first = await appeared(seen)
        # A file that says the same does not begin anew.
        replaced(path, b'{"lead_seconds": 300}')
        await seen.polled(SCOPE, 3)
        assert seen.standing(SCOPE) == (first,)

    assert first.deadline_unix == pytest.approx(appeared_unix + 300)


async def test_a_rewritten_deadline_moves(path, seen):
    path.write_text(f"deadline: {time.time() + 300:.0f}")
    async with watching(source_at(path, seen)):
        first = await appeared(seen)
        path.write_text(f"deadline: {time.time() + 60:.0f}")
        await seen.until(lambda: seen.standing(SCOPE) and seen.standing(SCOPE)[0] != first)
        (second,) = seen.standing(SCOPE)

    assert second.deadline_unix == pytest.approx(first.deadline_unix - 240, abs=2)
    assert (second.key, second.identity) == (first.key, first.identity)
    assert all(report.sightings for report in seen.reports(SCOPE))


async def test_a_file_that_is_still_being_written_is_read_when_it_is_whole(path, seen, monkeypatch):
    monkeypatch.setattr(file_source, "SETTLE_SECONDS", 0.1)
    async with watching(source_at(path, seen)):
        await seen.polled(SCOPE, 1)
        with path.open("w", buffering=1) as writer:
            writer.write("kind: maintenance\n")
            await asyncio.sleep(0.03)
            writer.write(f"end_time: {time.time() + 300:.0f}\n")
        sighting = await appeared(seen)

    assert seen.reports(SCOPE)[-1].sightings[0] == sighting
    first = next(report for report in seen.reports(SCOPE) if report.sightings)
    assert first.sightings[0].deadline is not None


async def test_a_file_that_is_written_without_an_end_is_taken_as_it_is(path, seen):
    async def write_on() -> None:
        while True:
            with path.open("a") as writer:
                writer.write("#\n")
            await asyncio.sleep(0.005)

    writing = asyncio.create_task(write_on())
    async with watching(source_at(path, seen)):
        assert (await appeared(seen)).key == str(path)
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"\xff\xfe", "the content is no UTF-8 text"),
        (b'{"deadline"', "begins as JSON and is none"),
        (b"deadline: soon", "deadline 'soon' is no time"),
        (b"deadline: 1000000000", "past and not believed"),
        (b"x" * (CONTENT_LIMIT_BYTES + 1), "more than 65536 bytes"),
    ],
)
async def test_a_file_that_cannot_be_read_is_a_notice_all_the_same(path, seen, content, detail):
    path.write_bytes(content)
    async with watching(source_at(path, seen)):
        sighting = await appeared(seen)

    assert sighting.deadline is None
    assert seen.polls(SCOPE)[-1].result == "malformed"
    assert detail in seen.polls(SCOPE)[-1].detail
    assert str(path) in seen.polls(SCOPE)[-1].detail


async def test_a_notice_keeps_what_it_said_when_it_cannot_be_read_any_more(path, seen):
    path.write_text(f"deadline: {time.time() + 300:.0f}")
    async with watching(source_at(path, seen)):
        first = await appeared(seen)
        replaced(path, b"x" * (CONTENT_LIMIT_BYTES + 1))
        await seen.until(lambda: seen.results(SCOPE)[-1] == "malformed")
        assert seen.standing(SCOPE) == (first,)


@pytest.mark.parametrize("in_the_way", ["directory", "pipe", "socket", "loop", "file above"])
async def test_what_is_no_file_neither_announces_nor_withdraws(tmp_path, seen, in_the_way):
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "signal").touch()
    turn(tmp_path / "now", "before")
    async with watching(source_at(tmp_path / "now" / "signal", seen)):
        await appeared(seen)

        put_in_the_way(tmp_path / "after", in_the_way)
        turn(tmp_path / "now", "after")
        await seen.until(lambda: seen.results(SCOPE)[-1] in ("malformed", "error"))
        reports = len(seen.reports(SCOPE))
        await seen.polled(SCOPE, 2)

        assert seen.standing(SCOPE) != ()
        assert len(seen.reports(SCOPE)) == reports


def turn(link: Path, target: str) -> None:
    """Have a link lead to a target, in one instant."""
    beside = link.with_name("beside")
    beside.symlink_to(target)
    beside.rename(link)


def put_in_the_way(folder: Path, what: str) -> None:
    if what == "file above":
        folder.touch()
        return
    folder.mkdir()
    path = folder / "signal"
    if what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.symlink_to(path)


async def test_a_link_counts_for_what_it_leads_to(path, seen, tmp_path):
    path.symlink_to(tmp_path / "target")
    async with watching(source_at(path, seen)):
        await seen.polled(SCOPE, 2)
        assert set(seen.results(SCOPE)) == {"ok"}

        (tmp_path / "target").touch()
        await appeared(seen)

        (tmp_path / "target").unlink()
        await removed(seen)


async def test_a_file_system_that_hangs_says_nothing_and_is_asked_again(path, seen, monkeypatch):
    monkeypatch.setattr(file_source, "LOOK_SECONDS", 0.05)
    path.touch()
    # A pipe without a writer stands in for a disk that does not answer.
    dead, life = os.pipe()

    def look_at_dead_disk(path: str):
        os.read(dead, 1)
        return look(path)

    monkeypatch.setattr(file_source, "look", look_at_dead_disk)
    async with watching(source_at(path, seen)):
        os.write(life, b"11")
        await appeared(seen)
        await seen.until(lambda: seen.results(SCOPE)[-1] == "timeout")
        assert seen.standing(SCOPE) != ()

        os.write(life, b"1" * 1000)
        await seen.until(lambda: seen.results(SCOPE)[-1] == "notice")
    os.close(life)
    os.close(dead)


def test_a_look_sees_a_file_with_its_content(path):
    path.write_bytes(b"a")

    assert look(str(path)) == Found(b"a", path.stat().st_ctime)
    assert look(str(path.with_name("other"))) == Absent()


def test_a_path_that_is_none_is_said(tmp_path):
    assert look("/a\0b") == Unclear("malformed", "no path: embedded null byte")
    assert look(f"{tmp_path}/{'a' * 300}") == Unclear("error", "File name too long")
    assert look("/dev/null") == Unclear("malformed", "there is a device, no file")


LOOK_AT = "import sys; from lastcall.sources.file_look import look; print(look(sys.argv[1]))"


async def looked_at_without_privileges(path: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(*without_privileges(), sys.executable, "-c", LOOK_AT, str(path)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return out.decode()


async def test_a_file_that_may_not_be_read_is_there_all_the_same(path):
    path.touch(0o000)

    said = await looked_at_without_privileges(path)

    assert said.startswith("Found(content=None")
    assert "'unauthorized'" in said


async def test_a_path_that_may_not_be_searched_says_nothing(path):
    path.touch()
    path.parent.chmod(0o000)
    try:
        said = await looked_at_without_privileges(path)
    finally:
        path.parent.chmod(0o700)

    assert said.startswith("Unclear(result='unauthorized'")
